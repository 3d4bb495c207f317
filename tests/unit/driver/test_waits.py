"""What a body waits for: left by an outcome, found again in the journal, the same every time it starts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.driver import Completed, Context, Failed, Outcome, Suspended, secrets
from runs.engine import Action, Ask, Child, Question, Signal, Timer, canonical
from runs.engine.waits import Wanted
from runs.errors import ChildFailed, InvalidCall, JournalMismatch, LateResult
from tests.unit.driver.journal import Journal, run

PAID = {"received": True, "id": "e1", "no": 1, "payload": {"n": 1}}


def the_one(outcome: Outcome) -> Wanted:
    (one,) = wanted(outcome)
    return one


def wanted(outcome: Outcome) -> list[Wanted]:
    assert isinstance(outcome, Suspended), outcome
    return list(outcome.wanted)


def error_of(outcome: Outcome) -> Any:
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def decided(journal: Journal, *, outcome: str = "approve", **args: Any) -> dict[str, Any]:
    """The decision of a question about one payment, its vote recorded."""
    return dict(journal.approve(**args)["confirm"], outcome=outcome)


def test_a_body_is_left_until_the_answer_is_there() -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> Any:
        ctx.call(lambda: 1, name="before")
        got = ctx.wait_signal("paid", timeout="1h")
        return [got.received, got.payload, bool(got)]

    (first,) = wanted(run(body, journal))
    assert wanted(run(body, journal)) == [first]
    assert (first.kind, first.name, first.occurrence, first.delay) == ("signal", "paid", "0", 3600.0)
    journal.answer(first, PAID)
    assert run(body, journal) == Completed([True, {"n": 1}, True])
    assert len(journal.committed) == 1


def test_nothing_that_an_author_catches_holds_a_wait_up() -> None:
    def body(state: Any, ctx: Context) -> Any:
        try:
            ctx.sleep(5)
        except Exception:  # noqa: BLE001  # as broad as authors write it
            return "hidden"
        return "awake"

    journal = Journal()
    (timer,) = wanted(run(body, journal))
    journal.answer(timer, {})
    assert run(body, journal) == Completed("awake")


def test_received_null_is_not_nothing_received() -> None:
    """C09."""

    def body(state: Any, ctx: Context) -> Any:
        one, two = ctx.wait_signal("a"), ctx.wait_signal("a", timeout=1)
        return [(one.received, one.payload), (two.received, two.payload)]

    journal = Journal()
    journal.answer(the_one(run(body, journal)), {**PAID, "payload": None})
    journal.answer(the_one(run(body, journal)), {"received": False})
    assert run(body, journal) == Completed([(True, None), (False, None)])


LENGTHS = [(5, 5.0), (0, 0.0), ("90s", 90.0), ("1.5h", 5400.0), (timedelta(minutes=2), 120.0)]


@pytest.mark.parametrize(("length", "seconds"), LENGTHS)
def test_how_long(length: Any, seconds: float) -> None:
    (timer,) = wanted(run(lambda state, ctx: ctx.sleep(length), Journal()))
    assert (timer.delay, timer.until) == (seconds, None)


def test_until_is_an_instant() -> None:
    until = datetime(2036, 1, 1, 1, tzinfo=UTC)
    (timer,) = wanted(run(lambda state, ctx: ctx.sleep(until=until), Journal()))
    assert (timer.delay, timer.until) == (None, until)


def in_own_thread(ctx: Context) -> None:
    """What leaves the body cannot leave it from there, with a key or without."""
    with ThreadPoolExecutor() as pool:
        pool.submit(ctx.sleep, 1, key="k").result()


BAD: list[Callable[[Context], Any]] = [
    lambda ctx: ctx.sleep(),
    lambda ctx: ctx.sleep(5, until=datetime(2036, 1, 1, tzinfo=UTC)),
    lambda ctx: ctx.sleep(until=datetime.fromisoformat("2036-01-01")),
    lambda ctx: ctx.sleep(until="2036-01-01"),  # type: ignore[arg-type]
    lambda ctx: ctx.sleep(-1),
    lambda ctx: ctx.sleep(float("nan")),
    lambda ctx: ctx.sleep(float("inf")),
    lambda ctx: ctx.sleep("soon"),
    lambda ctx: ctx.sleep(True),
    lambda ctx: ctx.sleep(1e12),
    lambda ctx: ctx.sleep(1, key=""),
    lambda ctx: ctx.sleep(1, key="a~1"),
    lambda ctx: ctx.sleep(1, key="k" * 200),
    lambda ctx: ctx.wait_signal(""),
    lambda ctx: ctx.wait_signal("a\0b"),
    lambda ctx: ctx.wait_signal("a", timeout="never"),
    lambda ctx: ctx.ask(Action("a"), quorum=0),
    lambda ctx: ctx.ask(Action("a"), on_timeout="perhaps"),  # type: ignore[arg-type]
    lambda ctx: ctx.ask(Action("a"), due="soon"),
    lambda ctx: ctx.ask_all([Action("a")], key="k"),
    lambda ctx: ctx.run_child("a", on_parent_cancel="perhaps"),  # type: ignore[arg-type]
    lambda ctx: ctx.first_of(),
    lambda ctx: ctx.first_of(a="nothing"),  # type: ignore[arg-type]
    lambda ctx: ctx.call(lambda: ctx.sleep(1), name="outer"),
    lambda ctx: ctx.gather(lambda: ctx.ask(Action("a")), lambda: ctx.ask(Action("b"))),
    lambda ctx: ctx.sleep(10**400),
    lambda ctx: ctx.sleep(until=datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
    lambda ctx: ctx.sleep(1, key=5),  # type: ignore[arg-type]
    lambda ctx: ctx.wait_signal(["a"]),  # type: ignore[arg-type]
    lambda ctx: ctx.ask(Action("a"), quorum="2"),  # type: ignore[arg-type]
    lambda ctx: ctx.ask(Action("a"), due=10**400),
    lambda ctx: ctx.run_child(5),  # type: ignore[arg-type]
    lambda ctx: ctx.first_of("a~1", late=Timer(1)),
    in_own_thread,
]


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_waited_for_is_refused_before_anything_waits(bad: Callable[[Context], Any]) -> None:
    assert isinstance(error_of(run(lambda state, ctx: bad(ctx), Journal())), InvalidCall)


def test_neither_a_bare_except_nor_a_finally_goes_on_without_the_answer() -> None:
    """What code does on its way out is done when it has its answer, and not before."""
    journal, made = Journal(), []

    def body(state: Any, ctx: Context) -> Any:
        try:
            answer = ctx.ask(Action("pay"))
            return [answer.outcome]  # noqa: TRY300
        except:  # noqa: E722
            return ctx.call(lambda: made.append("not approved"), name="refuse")
        finally:
            ctx.call(lambda: made.append("cleaned up"), name="clean")

    def past(state: Any, ctx: Context) -> Any:
        with contextlib.suppress(BaseException):
            ctx.ask(Action("pay"))
        return ["went on"]

    def raises(state: Any, ctx: Context) -> Any:
        try:
            ctx.ask(Action("pay"))
        finally:
            raise ValueError

    asked = the_one(run(body, journal))
    assert the_one(run(past, journal)) == asked == the_one(run(raises, journal))
    assert made == []
    journal.answer(asked, decided(journal))
    assert run(body, journal) == Completed(["approve"])
    assert made == ["cleaned up"]


@pytest.mark.parametrize("first", ["call", "wait"])
def test_a_call_and_a_wait_at_one_place_are_not_taken_for_each_other(first: str) -> None:
    journal = Journal()
    run(lambda state, ctx: ctx.call(lambda: 1, name="paid", key="k"), journal)
    if first == "wait":
        journal = Journal()
        journal.answer(the_one(run(lambda state, ctx: ctx.wait_signal("paid", key="k"), journal)), PAID)
        error = error_of(run(lambda state, ctx: ctx.call(lambda: 1, name="paid", key="k"), journal))
    else:
        error = error_of(run(lambda state, ctx: ctx.wait_signal("paid", key="k"), journal))
    assert isinstance(error, JournalMismatch)
    assert {error.facts["recorded"]["kind"], error.facts["asked"]["kind"]} == {"call", "signal"}


def test_what_ends_a_task_group_is_told_as_what_it_is() -> None:
    """A task of its own is no place to wait; and a retry policy goes by the class of an error, not by that of its group."""

    async def body(state: Any, ctx: Context) -> None:
        async def paid() -> None:
            ctx.wait_signal("paid", key="k")

        async with asyncio.TaskGroup() as group:
            group.create_task(paid())

    assert isinstance(error_of(run(body, Journal())), InvalidCall)


def test_an_async_body_that_is_taken_over_in_a_task_group_lets_go() -> None:
    async def body(state: Any, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.acall(lambda: 1, name="one"))

    with pytest.raises(LateResult):
        run(body, Journal(lost=True))


def test_a_body_that_cancels_itself_has_failed() -> None:
    async def body(state: Any, ctx: Context) -> None:
        raise asyncio.CancelledError

    assert isinstance(error_of(run(body, Journal())), asyncio.CancelledError)


def test_no_secret_is_asked_or_handed_to_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a replay compares is what was written down: a secret that was exchanged is no other question."""
    monkeypatch.setenv("HITL_SECRET_SHOP", "s3cret-of-the-shop")

    def question(state: Any, ctx: Context) -> Any:
        return ctx.ask(Ask(Action("pay", {"with": ctx.secret("shop")}), title=ctx.secret("shop"))).outcome

    def child(state: Any, ctx: Context) -> Any:
        return ctx.run_child("other", {"with": ctx.secret("shop")})

    def race(state: Any, ctx: Context) -> Any:
        return ctx.first_of(a=Child("other", {"with": ctx.secret("shop")}), b=Timer(1)).winner

    try:
        for body in (question, child, race):
            asked = wanted(run(body, Journal()))[0]
            assert "s3cret" not in repr(asked)
            assert "[secret shop]" in repr(asked)
            monkeypatch.setenv("HITL_SECRET_SHOP", "another-of-the-shop")
            assert wanted(run(body, Journal()))[0].digest == asked.digest
            monkeypatch.setenv("HITL_SECRET_SHOP", "s3cret-of-the-shop")
    finally:
        secrets.forget()


def test_a_wait_at_the_place_of_something_else_shows_both_sides() -> None:
    journal = Journal()
    journal.answer(the_one(run(lambda state, ctx: ctx.wait_signal("a"), journal)), PAID)
    error = error_of(run(lambda state, ctx: ctx.run_child("a"), journal))
    assert isinstance(error, JournalMismatch)
    assert error.facts["recorded"]["kind"] == "signal"
    assert error.facts["asked"]["kind"] == "child"


def test_how_long_a_sleep_takes_may_change_with_a_deploy() -> None:
    """The instant was recorded when it was first asked for."""
    journal = Journal()
    journal.answer(the_one(run(lambda state, ctx: ctx.sleep(5), journal)), {})
    assert run(lambda state, ctx: ctx.sleep(50), journal) == Completed(None)


# ---- questions


def asks(amount: int) -> Callable[[Any, Context], Any]:
    def body(state: Any, ctx: Context) -> Any:
        answer = ctx.ask(Action("pay", {"amount": amount}))
        return [answer.outcome, bool(answer), answer.args if answer else None]

    return body


def test_an_answer_counts_for_what_was_asked() -> None:
    """C62: asked for something else, people are asked anew, and asked the old thing again, once more."""
    journal = Journal()
    (first,) = wanted(run(asks(100), journal))
    answer = decided(journal, amount=100)
    journal.answer(first, answer)
    assert run(asks(100), journal) == Completed(["approve", True, {"amount": 100}])
    (second,) = wanted(run(asks(900), journal))
    assert (second.occurrence, second.supersedes) == ("0~1", answer["approval"])
    journal.answer(second, decided(journal, amount=900))
    assert run(asks(900), journal) == Completed(["approve", True, {"amount": 900}])
    (third,) = wanted(run(asks(100), journal))
    assert third.occurrence == "0~2"


def test_an_answer_that_is_not_what_was_recorded_is_asked_again() -> None:
    journal = Journal()
    (first,) = wanted(run(asks(100), journal))
    answer = decided(journal, amount=100)
    journal.votes[answer["approval"]] = "another digest"
    journal.answer(first, answer)
    assert wanted(run(asks(100), journal))[0].occurrence == "0~1"


def test_a_reject_has_no_arguments() -> None:
    journal = Journal()
    action = {"key": "pay", "tool": "pay", "args": {}, "effect": "none", "decision": "reject", "message": ""}
    journal.answer(the_one(run(asks(1), journal)), journal.decide(action, outcome="reject")["confirm"])
    assert run(asks(1), journal) == Completed(["reject", False, None])


def test_of_several_questions_those_that_are_answered_are_not_asked_again() -> None:
    def body(state: Any, ctx: Context) -> Any:
        return [
            one.outcome for one in ctx.ask_all([Action("a"), Question(Action("b"), quorum=2), Action("c")])
        ]

    journal = Journal()
    a, b, c = wanted(run(body, journal))
    assert [one.occurrence for one in (a, b, c)] == ["0", "1", "2"]
    assert b.options is not None
    assert b.options.quorum == 2
    journal.answer(b, decided(journal))
    assert wanted(run(body, journal)) == [a, c]
    journal.answer(c, decided(journal))
    journal.answer(a, decided(journal))
    assert run(body, journal) == Completed(["approve"] * 3)


# ---- children


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_child_that_did_not_complete_is_an_error(status: str) -> None:
    def body(state: Any, ctx: Context) -> Any:
        try:
            return ctx.run_child("other", {"x": 1})
        except ChildFailed as error:
            return [error.facts["run"], error.facts["status"], error.detail]

    journal = Journal()
    (child,) = wanted(run(body, journal))
    assert child.child is not None
    assert (child.name, child.child.input) == ("other", {"x": 1})
    told = {"run": "r", "status": status, "output": None, "error": {"message": "no tea"}}
    journal.answer(child, told)
    outcome = run(body, journal)
    assert isinstance(outcome, Completed)
    assert outcome.update[:2] == ["r", status]
    assert "no tea" in outcome.update[2]


def test_a_child_with_another_input_is_another_child() -> None:
    journal = Journal()
    done = {"run": "r", "status": "completed", "output": 5, "error": None}
    journal.answer(the_one(run(lambda state, ctx: ctx.run_child("other", {"x": 1}), journal)), done)
    assert run(lambda state, ctx: ctx.run_child("other", {"x": 1}), journal) == Completed(5)
    assert isinstance(
        error_of(run(lambda state, ctx: ctx.run_child("other", {"x": 2}), journal)), JournalMismatch
    )


# ---- the first of several


def four(ctx: Context, amount: int = 1) -> Any:
    first = ctx.first_of(
        paid=Signal("paid"),
        late=Timer("1h"),
        sure=Question(Action("pay", {"amount": amount})),
        child=Child("other"),
    )
    return [first.winner, getattr(first.value, "payload", None)]


def test_the_first_of_several() -> None:
    """C23."""
    journal = Journal()
    asked = wanted(run(lambda state, ctx: four(ctx), journal))
    assert [(one.label, one.kind, one.race) for one in asked] == [
        ("paid", "signal", "0"),
        ("late", "timer", "0"),
        ("sure", "approval", "0"),
        ("child", "child", "0"),
    ]
    journal.first(asked, asked[0], PAID)
    assert run(lambda state, ctx: four(ctx), journal) == Completed(["paid", {"n": 1}])


def test_another_set_of_contenders_is_a_mismatch() -> None:
    journal = Journal()
    asked = wanted(run(lambda state, ctx: ctx.first_of(a=Signal("a"), b=Timer(1)), journal))
    journal.first(asked, asked[1], {})
    assert isinstance(
        error_of(run(lambda state, ctx: ctx.first_of(a=Signal("a"), c=Timer(1)), journal)), JournalMismatch
    )


def test_a_question_that_won_and_is_another_now_runs_again() -> None:
    """C62, in a race."""
    journal = Journal()
    asked = wanted(run(lambda state, ctx: four(ctx), journal))
    answer = decided(journal, amount=1)
    journal.first(asked, asked[2], answer)
    assert run(lambda state, ctx: four(ctx), journal) == Completed(["sure", None])
    again = wanted(run(lambda state, ctx: four(ctx, 900), journal))
    assert [one.race for one in again] == ["0~1"] * 4
    assert again[2].supersedes == answer["approval"]
    assert {one.occurrence for one in again}.isdisjoint(one.occurrence for one in asked)


# ---- any program, any crashes


OPS = st.lists(st.sampled_from(["call", "sleep", "signal", "ask", "first", "all", "child"]), max_size=7)


@given(OPS, st.data())
def test_a_body_that_starts_again_and_again_comes_to_the_same(ops: list[str], data: st.DataObject) -> None:
    """Whatever it waits for, and however often it crashes: calls once, the same questions, the recorded answers."""
    journal = Journal()
    made: list[int] = []

    def body(state: Any, ctx: Context) -> Any:
        return [_step(ctx, op, made) for op in ops]

    for _ in range(3 * len(ops) + 1):
        outcome = run(body, journal)
        if isinstance(outcome, Completed):
            break
        asked = wanted(outcome)
        if data.draw(st.booleans(), label="crashes"):
            assert wanted(run(body, journal)) == asked
        _answer(journal, asked, data)
    assert isinstance(outcome, Completed)
    assert run(body, journal) == outcome
    assert len(made) == ops.count("call")
    keys = [(entry.name, entry.occurrence) for entry in journal.answers]
    assert len(keys) == len(set(keys))


def _step(ctx: Context, op: str, made: list[int]) -> Any:
    match op:
        case "call":
            return ctx.call(partial(_made, made), name="call")
        case "sleep":
            return ctx.sleep(1)
        case "signal":
            return ctx.wait_signal("s").payload
        case "ask":
            return ctx.ask(Action("pay")).outcome
        case "first":
            first = ctx.first_of(a=Signal("s"), b=Timer(1))
            return [first.winner, getattr(first.value, "payload", None)]
        case "all":
            return [one.outcome for one in ctx.ask_all([Action("pay"), Action("pay")])]
        case _:
            return ctx.run_child("other")


def _made(made: list[int]) -> int:
    made.append(len(made))
    return made[-1]


def _answer(journal: Journal, asked: list[Wanted], data: st.DataObject) -> None:
    """One answer, to one of those that are waited for, unlike all others."""
    one = data.draw(st.sampled_from(asked), label="answers")
    mark = len(journal.answers)
    result = {
        "signal": {**PAID, "payload": mark},
        "timer": {},
        "approval": decided(journal, mark=mark) if one.kind == "approval" else None,
        "child": {"run": "r", "status": "completed", "output": mark, "error": None},
    }[one.kind]
    if one.race:
        journal.first(asked, one, result)
    else:
        journal.answer(one, canonical.loads(canonical.dumps(result)))
