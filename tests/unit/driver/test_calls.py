"""`ctx.call`: a committed call is never made again; what a replay asks for must be what the journal holds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from runs.driver import Completed, Context, Failed
from runs.driver.port import Halted
from runs.engine import Retry, canonical
from runs.engine.canonical import Json
from runs.errors import InvalidCall, JournalMismatch, LateResult, StateNotStorable
from tests.unit.driver.journal import Journal, context, run
from tests.unit.engine.documents import DOCUMENTS, nested


class Ledger:
    """A service that counts what really happened."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def charge(self, *args: Any, **kwargs: Any) -> int:
        self.made.append((*args, *kwargs.items()))
        return len(self.made)

    def note(self, text: str) -> str:
        self.made.append((text,))
        return text


class Order(BaseModel):
    id: str
    amount: int = 1


class Crash(Halted):
    """The worker dies here."""


def failure(outcome: Any) -> Failed:
    assert isinstance(outcome, Failed)
    return outcome


# ---- a committed call is never made again


@pytest.mark.parametrize("dies_after", range(5))
def test_a_step_that_dies_anywhere_makes_each_committed_call_once(dies_after: int) -> None:
    """C32, K4."""
    ledger, journal = Ledger(), Journal()
    left = dies_after

    def dying() -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1

    def body(state: Any, ctx: Context) -> Any:
        total = 0
        for item in ("a", "b"):
            dying()
            total += ctx.call(ledger.charge, item)
            dying()
        return {"n": total}

    with contextlib.suppress(Crash):
        run(body, journal)
    left = 10
    assert run(body, journal) == Completed({"n": 3})
    assert ledger.made == [("a",), ("b",)]
    assert [call.occurrence for call in journal.committed] == ["0", "1"]


def test_a_call_that_returned_but_was_not_committed_is_made_again_with_the_same_key() -> None:
    """C32: the other side can tell that it is the same call."""
    journal, keys = Journal(), []

    def charge(idempotency_key: str) -> int:
        keys.append(idempotency_key)
        if len(keys) == 1:
            journal.lost = True
        return len(keys)

    def body(state: Any, ctx: Context) -> Any:
        return {"n": ctx.call(charge, idempotency_key=True)}

    with pytest.raises(LateResult):
        run(body, journal)
    journal.lost = False
    assert run(body, journal, attempt=2) == Completed({"n": 2})
    assert len(keys) == 2
    assert keys[0] == keys[1] == journal.committed[0].key


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.none() | st.sampled_from(["x", "y"]), st.integers(0, 3))
    ),
    st.data(),
)
def test_whatever_a_body_asks_for_a_replay_answers_it_from_the_journal(
    asked: list[tuple[str, str | None, int]], data: st.DataObject
) -> None:
    """K4: with any cut between two attempts."""
    journal, made = Journal(), []
    cut = data.draw(st.integers(0, len(asked)))
    stop = True

    def work(argument: int) -> list[int]:
        made.append(argument)
        return [argument, len(made)]

    def body(state: Any, ctx: Context) -> list[Any]:
        results = []
        for number, (name, key, argument) in enumerate(asked):
            if stop and number == cut:
                raise Crash
            # One key has one argument: what differs between calls of a key would be a mismatch.
            told = argument if key is None else len(name + key)
            results.append(ctx.call(work, told, name=name, key=None if key is None else f"k{key}"))
        return results

    try:
        run(body, journal)
    except Crash:
        stop = False
    first = run(body, journal)
    count = len(made)
    assert run(body, journal) == first
    assert len(made) == count == len(journal.committed)
    places = {(name, key) if key else (name, number) for number, (name, key, _) in enumerate(asked)}
    assert count == len(places)


def test_the_journal_is_read_once_an_attempt_and_only_if_it_is_needed() -> None:
    journal = Journal()
    run(lambda state, ctx: None, journal)
    assert journal.asked == 0
    run(lambda state, ctx: [ctx.call(len, "ab"), ctx.call(len, "abc")], journal)
    assert journal.asked == 1


def test_the_first_time_and_a_replay_give_the_same_values() -> None:
    """K2: a tuple is a list at once, not only after a crash."""
    journal, seen = Journal(), []

    def answer() -> Any:
        return (1, 1.0, {"z": -0.0, "a": None}, Order(id="x"))

    def body(state: Any, ctx: Context) -> None:
        seen.append(ctx.call(answer))

    run(body, journal)
    run(body, journal)
    assert canonical.same(seen[0], seen[1])
    assert canonical.same(seen[0], [1, 1.0, {"a": None, "z": -0.0}, {"id": "x", "amount": 1}])


@given(DOCUMENTS)
def test_any_json_comes_back_from_the_journal_as_it_was(document: Json) -> None:
    """C05, C09: also null, which is a result."""
    journal, made = Journal(), []

    def answer() -> Json:
        made.append(1)
        return document

    first = context(journal).call(answer)
    assert canonical.same(first, document)
    assert canonical.same(context(journal).call(answer), document)
    assert made == [1]


def test_what_a_body_does_to_a_result_stays_with_it() -> None:
    journal = Journal()
    one, other = context(journal), context(journal)
    one.call(list, [1], name="make").append(2)
    assert other.call(list, [1], name="make") == [1]


# ---- a replay that asks for something else


def test_other_arguments_than_the_journals_are_a_mismatch_that_shows_both() -> None:
    ledger, journal = Ledger(), Journal()
    run(lambda state, ctx: ctx.call(ledger.charge, 100), journal)
    outcome = failure(run(lambda state, ctx: ctx.call(ledger.charge, 900), journal))
    assert isinstance(outcome.error, JournalMismatch)
    assert outcome.facts["code"] == "journal_mismatch"
    sides = outcome.facts["recorded"], outcome.facts["asked"]
    assert sides == ('{"args":[100],"kwargs":{}}', '{"args":[900],"kwargs":{}}')
    assert (outcome.facts["call"], outcome.facts["occurrence"]) == ("charge", "0")
    assert not outcome.policy.wants(outcome.error)
    assert ledger.made == [(100,)]


@pytest.mark.parametrize(
    ("recorded", "asked", "matches"),
    [
        (((1,), {}), ((1,), {}), True),
        (((1,), {}), ((1.0,), {}), False),
        (((1,), {}), ((True,), {}), False),
        (((), {"a": 1, "b": 2}), ((), {"b": 2, "a": 1}), True),
        (((), {"a": 1}), ((1,), {}), False),
        ((({"x": 1, "y": 2},), {}), (({"y": 2, "x": 1},), {}), True),
        (((Order(id="x"),), {}), ((Order(id="x"),), {}), True),
        (((Order(id="x"),), {}), ((Order(id="y"),), {}), False),
        (((None,), {}), ((), {}), False),
        ((("",), {}), ((None,), {}), False),
    ],
)
def test_arguments_match_if_they_are_the_same_json(recorded: Any, asked: Any, matches: bool) -> None:
    """C10, K2."""
    journal, ledger = Journal(), Ledger()
    for args, kwargs in (recorded, asked):
        outcome = run(lambda state, ctx, a=args, k=kwargs: ctx.call(ledger.charge, *a, kwargs=k), journal)  # type: ignore[misc]
    assert isinstance(outcome, Completed) == matches
    assert len(ledger.made) == 1


def test_effect_retry_and_idempotency_key_are_no_arguments() -> None:
    journal, ledger = Journal(), Ledger()
    run(lambda state, ctx: ctx.call(ledger.charge, 1), journal)
    options: dict[str, Any] = {"effect": "irreversible", "retry": Retry(), "idempotency_key": True}
    assert run(lambda state, ctx: ctx.call(ledger.charge, 1, **options), journal) == Completed(1)
    assert len(ledger.made) == 1


def test_a_mismatch_inside_an_authors_except_still_makes_no_call() -> None:
    journal, ledger = Journal(), Ledger()
    run(lambda state, ctx: ctx.call(ledger.charge, 1), journal)

    def body(state: Any, ctx: Context) -> Any:
        try:
            ctx.call(ledger.charge, 2)
        except Exception:  # noqa: BLE001
            return {"said": "caught"}

    assert run(body, journal) == Completed({"said": "caught"})
    assert ledger.made == [(1,)]


# ---- names, counts, keys


def test_calls_of_one_name_are_told_apart_by_their_order() -> None:
    journal, ledger = Journal(), Ledger()
    body: Callable[[Any, Context], Any] = lambda state, ctx: [ctx.call(ledger.charge) for _ in range(3)]  # noqa: E731
    assert run(body, journal) == run(body, journal) == Completed([1, 2, 3])


def test_calls_with_keys_may_come_in_any_order() -> None:
    journal, ledger = Journal(), Ledger()

    def body(items: list[str]) -> Callable[[Any, Context], Any]:
        return lambda state, ctx: {item: ctx.call(ledger.charge, item, key=item) for item in items}

    assert run(body(["a", "b"]), journal) == Completed({"a": 1, "b": 2})
    assert run(body(["b", "c", "a"]), journal) == Completed({"b": 2, "c": 3, "a": 1})


def test_the_same_key_twice_in_one_attempt_is_one_call() -> None:
    journal, ledger = Journal(), Ledger()
    body: Callable[[Any, Context], Any] = lambda state, ctx: [  # noqa: E731
        ctx.call(ledger.charge, 1, key="x"),
        ctx.call(ledger.charge, 1, key="x"),
    ]
    assert run(body, journal) == Completed([1, 1])
    assert (
        failure(run(lambda state, ctx: [ctx.call(ledger.charge, n, key="y") for n in (1, 2)], journal)).facts[
            "code"
        ]
        == "journal_mismatch"
    )


@pytest.mark.parametrize("key_first", [True, False])
def test_a_key_is_not_taken_for_a_count(key_first: bool) -> None:
    """Else one of two charges would be answered by the other's result."""
    journal, ledger = Journal(), Ledger()

    def body(state: Any, ctx: Context) -> None:
        for key in ("0", None) if key_first else (None, "0"):
            ctx.call(ledger.charge, 5, key=key)

    outcome = failure(run(body, journal))
    assert isinstance(outcome.error, InvalidCall)
    assert "give every call of this name a key" in outcome.error.detail
    assert len(ledger.made) == 1


def test_a_call_inside_a_call_is_refused_since_a_replay_would_miscount() -> None:
    journal, ledger = Journal(), Ledger()

    def body(state: Any, ctx: Context) -> None:
        ctx.call(lambda: ctx.call(ledger.charge, 5), name="outer")

    assert isinstance(failure(run(body, journal)).error, InvalidCall)
    assert (ledger.made, journal.committed) == ([], [])


@pytest.mark.parametrize(
    "options",
    [
        {"effect": "irreversable"},
        {"name": "x" * 201},
        {"key": "x" * 101},
        {"key": ""},
        {"key": "a\0"},
        {"name": "\ud800"},
    ],
)
def test_a_call_that_the_journal_cannot_hold_is_refused_before_it_is_made(options: dict[str, Any]) -> None:
    journal, ledger = Journal(), Ledger()
    outcome = failure(run(lambda state, ctx: ctx.call(ledger.charge, 5, **options), journal))
    assert isinstance(outcome.error, InvalidCall)
    assert not outcome.policy.wants(outcome.error)
    assert ledger.made == []


@pytest.mark.parametrize(
    "argument", [{1}, float("nan"), "\0", object(), nested(200), threading.Lock()], ids=type
)
def test_an_argument_that_cannot_be_told_again_is_refused_before_the_call(argument: Any) -> None:
    """C01, C02, C07."""
    journal, ledger = Journal(), Ledger()
    outcome = failure(run(lambda state, ctx: ctx.call(ledger.charge, argument), journal))
    assert isinstance(outcome.error, StateNotStorable)
    assert outcome.facts["path"].startswith("/charge/args/0")
    assert ledger.made == []


@pytest.mark.parametrize("result", [{1}, float("inf"), "\0", object(), nested(200), b"x"], ids=type)
def test_a_result_that_cannot_be_stored_fails_the_step_for_good(result: Any) -> None:
    """C07: the call was made, so it is not tried again."""
    journal = Journal()
    outcome = failure(
        run(lambda state, ctx: ctx.call(lambda: result, name="ask"), journal, retry=Retry(attempts=9))
    )
    assert isinstance(outcome.error, StateNotStorable)
    assert "'ask' returned something that cannot be stored" in outcome.error.detail
    assert not outcome.policy.wants(outcome.error)
    assert journal.committed == []


# ---- branches


def test_a_call_of_a_left_branch_is_reused_and_becomes_this_branchs_own() -> None:
    """C48."""
    ledger, journal = Ledger(), Journal()
    body: Callable[[Any, Context], Any] = lambda state, ctx: ctx.call(ledger.charge, 5, effect="irreversible")  # noqa: E731
    run(body, journal)
    journal.rewound()
    assert run(body, journal) == Completed(1)
    (reused,) = journal.committed
    assert (reused.reused_from, reused.effect, reused.result) == (1, "irreversible", "1")
    assert run(body, journal) == Completed(1)
    assert (len(ledger.made), len(journal.committed)) == (1, 1)


def test_a_left_branchs_call_with_other_arguments_is_made_again_and_no_mismatch() -> None:
    ledger, journal = Ledger(), Journal()
    run(lambda state, ctx: ctx.call(ledger.charge, 5), journal)
    journal.rewound()
    assert run(lambda state, ctx: ctx.call(ledger.charge, 6), journal) == Completed(2)
    assert ledger.made == [(5,), (6,)]
    assert [call.reused_from for call in journal.committed] == [None]


def test_equal_arguments_alone_do_not_make_two_calls_the_same() -> None:
    """Two items with equal arguments must not swap their results."""
    ledger, journal = Ledger(), Journal()
    run(lambda state, ctx: ctx.call(ledger.charge, 5, name="first"), journal)
    journal.rewound()
    assert run(lambda state, ctx: ctx.call(ledger.charge, 5, name="second"), journal) == Completed(2)
    assert run(lambda state, ctx: ctx.call(ledger.charge, 5, name="first", key="x"), journal) == Completed(3)


def test_of_several_left_branches_the_newest_answers() -> None:
    journal = Journal()
    for branch in (1, 2, 3):
        journal.branch = branch
        run(lambda state, ctx, b=branch: ctx.call(lambda: b, name="ask"), journal)  # type: ignore[misc]
    journal.branch, journal.left = 4, {1, 2, 3}
    assert run(lambda state, ctx: ctx.call(lambda: 0, name="ask"), journal) == Completed(3)
    assert journal.committed[0].reused_from == 3


def test_again_makes_every_call_again_on_a_branch_of_its_own() -> None:
    ledger, journal = Ledger(), Journal()
    body: Callable[[Any, Context], Any] = lambda state, ctx: ctx.call(ledger.charge, 5)  # noqa: E731
    run(body, journal)
    journal.rewound(again=True)
    assert run(body, journal, generation=2) == Completed(2)
    assert journal.committed[0].reused_from is None


def test_a_call_before_the_branch_began_counts_as_its_own() -> None:
    journal, ledger = Journal(), Ledger()
    run(lambda state, ctx: ctx.call(ledger.charge, 5), journal)
    journal.branch, journal.seen = 2, {1}
    assert run(lambda state, ctx: ctx.call(ledger.charge, 5), journal) == Completed(1)
    assert journal.committed == []
    outcome = failure(run(lambda state, ctx: ctx.call(ledger.charge, 6), journal))
    assert isinstance(outcome.error, JournalMismatch)


# ---- keys


def keys_of(journal: Journal, **how: Any) -> list[str]:
    """The step's key, and that of three calls, as the body sees them."""
    keys: list[str] = []

    def body(state: Any, ctx: Context) -> None:
        keys.append(ctx.key)
        ctx.call(lambda: keys.append(ctx.key), name="a")
        ctx.call(lambda: keys.append(ctx.key), name="a")
        ctx.call(lambda: keys.append(ctx.key), name="b")
        keys.append(ctx.key)

    run(body, journal, **how)
    return keys


def test_every_call_has_a_key_of_its_own_and_the_step_has_one_outside() -> None:
    keys = keys_of(Journal())
    assert keys[0] == keys[4]
    assert len(set(keys)) == 4
    assert all(len(key) == 40 for key in keys)


def test_a_key_is_the_same_over_attempts_and_branches_that_reuse() -> None:
    first = keys_of(Journal())
    assert keys_of(Journal(), attempt=7) == first
    assert keys_of(Journal(branch=3)) == first


@pytest.mark.parametrize("change", [{"generation": 2}, {"address": "b"}, {"run_id": "other"}])
def test_a_key_is_new_after_again_and_for_another_step_or_run(change: dict[str, Any]) -> None:
    assert not set(keys_of(Journal(), **change)) & set(keys_of(Journal()))


def test_the_key_passed_to_the_function_is_the_one_in_the_journal() -> None:
    journal = Journal()
    run(
        lambda state, ctx: ctx.call(
            lambda idempotency_key: idempotency_key, name="pay", idempotency_key=True
        ),
        journal,
    )
    assert canonical.loads(journal.committed[0].result) == journal.committed[0].key


def test_the_steps_key_is_back_after_a_call_that_failed() -> None:
    keys: list[str] = []

    def body(state: Any, ctx: Context) -> None:
        keys.append(ctx.key)
        with pytest.raises(ZeroDivisionError):
            ctx.call(lambda: 1 / 0, name="fail")
        keys.append(ctx.key)

    run(body, Journal())
    assert keys[0] == keys[1]
