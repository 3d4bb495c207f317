"""What a body has besides calls: time and chance that stay the same, usage counted once, a log, progress, secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.driver import Asked, Completed, Context, Failed, Outcome, clock, notes, secrets
from runs.engine import Action, canonical
from runs.errors import (
    ConcurrentCallNeedsKey,
    InvalidCall,
    InvalidSecret,
    InvalidUsage,
    LateResult,
    MissingSecret,
)
from tests.unit.driver.journal import Journal, context, run

SECRET = 'sk-live-51Hx"qq\\wz9Ü0aabbccddeeffgghh'


def update(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.update


def error(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


# ---- time and chance


def test_now_is_the_moment_of_the_first_time_at_every_replay() -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> list[datetime]:
        return [ctx.now(), ctx.now(), ctx.now(key="x"), ctx.now(key="x")]

    first, again = update(run(body, journal)), update(run(body, journal))
    assert first == again
    assert first[0] == datetime(2026, 1, 1, tzinfo=UTC)
    assert len({*first}) == 3
    assert [call.name for call in journal.committed] == ["ctx.now"] * 3, "one write each"


def test_chance_is_the_same_at_every_replay_and_costs_no_write() -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> list[Any]:
        return [ctx.random(), ctx.random(), ctx.uuid(), ctx.uuid(), ctx.random(key="x")]

    first = update(run(body, journal))
    assert first == update(run(body, journal))
    assert len({*first}) == 5
    assert first[2].version == 4
    assert (journal.committed, journal.asked) == ([], 0)


def test_another_step_and_calls_made_again_have_other_chances() -> None:
    def body(state: Any, ctx: Context) -> Any:
        return ctx.random(), ctx.uuid()

    drawn = {update(run(body, Journal(), **how)) for how in ({}, {"address": "b"}, {"generation": 2})}
    assert len(drawn) == 3


@given(st.text())
def test_a_number_is_from_0_up_to_1(key: str) -> None:
    assert 0 <= clock.number(key) < 1


@pytest.mark.parametrize("asked", ["now", "random", "uuid"])
def test_inside_a_call_neither_time_nor_chance_can_be_asked_for(asked: str) -> None:
    """At a replay the call is not made, and all that follows would be miscounted."""
    outcome = error(run(lambda state, ctx: ctx.call(getattr(ctx, asked), name="c"), Journal()))
    assert isinstance(outcome.error, InvalidCall)


# ---- usage


def test_usage_inside_a_call_is_committed_with_it_and_only_then() -> None:
    journal = Journal()

    def ask(ctx: Context) -> str:
        ctx.usage(model_tokens_in=10, model_tokens_out=3, cost=Decimal("0.000120"), model="m1")
        ctx.usage(model_tokens_in=1, cost="1E-3", currency="EUR")
        return "answer"

    def body(state: Any, ctx: Context) -> Any:
        return ctx.call(lambda: ask(ctx), name="ask")

    run(body, journal)
    run(body, journal)
    (call,) = journal.committed
    assert [amount.as_dict() for amount in call.used] == [
        {"model": "m1", "model_tokens_in": 10, "model_tokens_out": 3, "cost": "0.000120", "currency": "USD"},
        {"model": "", "model_tokens_in": 1, "model_tokens_out": 0, "cost": "0.001", "currency": "EUR"},
    ]


def test_usage_outside_a_call_is_recorded_once_whatever_a_replay_says() -> None:
    journal = Journal()
    for tokens in (5, 7):
        run(partial(_use, tokens), journal)
    assert [amount.model_tokens_in for call in journal.committed for amount in call.used] == [5]


def _use(tokens: int, state: Any, ctx: Context) -> None:
    ctx.usage(model_tokens_in=tokens)


def test_what_a_failed_call_used_was_paid_for_too() -> None:
    journal = Journal()

    def ask(ctx: Context) -> None:
        ctx.usage(model_tokens_in=10)
        raise ConnectionError("half an answer")

    error(run(lambda state, ctx: ctx.call(lambda: ask(ctx), name="ask"), journal))
    assert [(name, used[0].model_tokens_in) for name, used in journal.failed_use] == [("ask", 10)]


def test_a_reused_call_is_not_paid_again() -> None:
    journal = Journal()

    def ask(ctx: Context) -> int:
        ctx.usage(model_tokens_in=10)
        return 1

    def body(state: Any, ctx: Context) -> None:
        ctx.call(lambda: ask(ctx), name="ask")
        ctx.usage(model_tokens_in=5)

    run(body, journal)
    journal.rewound()
    run(body, journal)
    assert [call.used for call in journal.committed] == [(), ()]


@pytest.mark.parametrize(
    "odd",
    [
        {"cost": 0.1},
        {"cost": "dear"},
        {"cost": "-1"},
        {"cost": "NaN"},
        {"cost": "1e13"},
        {"cost": "0.0000000000001"},
        {"cost": "1", "currency": "dollars"},
        {"model_tokens_in": -1},
        {"model_tokens_in": True},
        {"model_tokens_out": 1.5},
        {"model_tokens_out": 10**16},
        {"model": "a\x00b"},
    ],
)
def test_what_is_no_amount_is_refused(odd: dict[str, Any]) -> None:
    outcome = error(run(lambda state, ctx: ctx.usage(**odd), Journal()))
    assert isinstance(outcome.error, InvalidUsage)


# ---- log


def test_a_line_goes_to_the_log_of_the_process_and_to_the_page(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    with caplog.at_level(logging.INFO, logger="runs.node"):
        run(lambda state, ctx: ctx.log("found\x00 it", pages=3, odd={1, 2}), journal)
    (record,) = caplog.records
    said = {name: record.__dict__[name] for name in ("message", "run", "step", "node")}
    assert said == {"message": "found\\u0000 it", "run": "run", "step": "a", "node": "only"}
    (line,) = journal.lines
    assert (line.no, line.attempt, line.message) == (1, 1, "found\\u0000 it")
    assert json.loads(line.facts) == {"odd": "{1, 2}", "pages": 3}


def test_a_log_is_bounded_in_lines_and_in_size() -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> None:
        for number in range(notes.MAX_LINES + 50):
            ctx.log("x" * 10_000, number=number, much="y" * 10_000)

    run(body, journal)
    assert len(journal.lines) == notes.MAX_LINES
    assert {len(line.message) for line in journal.lines} == {notes.MAX_MESSAGE}
    assert max(len(line.facts) for line in journal.lines) < notes.MAX_FACTS


# ---- progress


def test_progress_is_written_seldom_and_the_last_one_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps in no time: the first, and the one that reaches the total."""
    journal = Journal()
    monkeypatch.setattr("runs.driver.context.time.monotonic", lambda: 1.0)

    def body(state: Any, ctx: Context) -> None:
        for number in range(1, 1_001):
            ctx.progress(number, 1_000, note="pages")

    run(body, journal)
    assert journal.progress == [{"done": n, "total": 1_000, "note": "pages"} for n in (1, 1_000)]


def test_progress_that_was_held_back_is_written_before_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call may take long; the page would show what is old."""
    journal = Journal()
    monkeypatch.setattr("runs.driver.context.time.monotonic", lambda: 1.0)

    def body(state: Any, ctx: Context) -> None:
        ctx.progress(1)
        ctx.progress(2)
        ctx.call(lambda: len(journal.progress), name="long")

    run(body, journal)
    assert [said["done"] for said in journal.progress] == [1, 2]
    assert journal.committed[0].result == "2"


def test_progress_of_a_step_that_was_lost_ends_the_body() -> None:
    journal = Journal(lost=True)
    with pytest.raises(LateResult):
        run(lambda state, ctx: ctx.progress(1), journal)


@pytest.mark.parametrize(
    "odd", [(-1, None), (float("nan"), None), (1, float("inf")), (True, None), ("1", None)]
)
def test_odd_progress_is_refused(odd: tuple[Any, Any]) -> None:
    assert isinstance(error(run(lambda state, ctx: ctx.progress(*odd), Journal())).error, InvalidCall)


# ---- secrets


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HITL_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("HITL_SECRET_SHOP_TOKEN", SECRET)
    yield tmp_path
    secrets.forget()


def test_a_secret_comes_from_the_environment_or_from_a_file(vault: Path) -> None:
    (vault / "mail-pass").write_text("from a file\n")
    assert update(run(lambda state, ctx: len(ctx.secret("shop-token")), Journal())) == len(SECRET)
    assert secrets.find("shop_token") == SECRET
    assert secrets.find("mail-pass") == "from a file"


def test_a_missing_secret_names_both_places(vault: Path) -> None:
    outcome = error(run(lambda state, ctx: ctx.secret("nowhere"), Journal()))
    assert isinstance(outcome.error, MissingSecret)
    assert "HITL_SECRET_NOWHERE" in str(outcome.error)
    assert str(vault / "nowhere") in str(outcome.error)


@pytest.mark.parametrize("name", ["key", "KEY", "../passwd", "a/b", "", "1st", "x" * 65])
def test_what_cannot_name_a_secret_is_refused(vault: Path, name: str) -> None:
    """HITL_SECRET_KEY signs sessions; a path leads out of the folder."""
    with pytest.raises(InvalidSecret):
        secrets.find(name)


def test_a_secret_is_in_nothing_that_is_written(vault: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Arguments, results, updates, log lines, progress, errors with their tracebacks; also in what libraries cut short."""
    journal = Journal()

    def fetch(token: str, page: int) -> dict[str, str]:
        return {"sent": f"Bearer {token}", token: "key"}

    def body(state: Any, ctx: Context) -> dict[str, Any]:
        token = ctx.secret("shop_token")
        ctx.log(f"with {token}", header={"Authorization": token}, odd={token})
        ctx.progress(1, note=token)
        ctx.usage(model=token)
        got = ctx.call(fetch, token, kwargs={"page": 1})
        assert token not in repr(got)
        return {"said": f"{got} {token}"}

    with caplog.at_level(logging.INFO, logger="runs.node"):
        said = update(run(body, journal))
    broken = error(run(lambda state, ctx: int(ctx.secret("shop_token")), Journal()))
    cut = error(run(lambda state, ctx: ctx.call(int, ctx.secret("shop_token")[:20] + "..."), Journal()))
    written = repr(
        [said, journal.calls, journal.lines, journal.progress, broken.facts, cut.facts, caplog.text]
    )
    for piece in (SECRET, SECRET[:16], SECRET[-16:], json.dumps(SECRET)[1:-1]):
        assert piece not in written
    assert "[secret shop_token]" in said["said"]


def test_an_approval_shows_no_secret(vault: Path) -> None:
    outcome = run(
        lambda state, ctx: Action("pay", {"token": ctx.secret("shop_token")}), Journal(), approval=True
    )
    assert isinstance(outcome, Asked)
    assert SECRET not in repr(outcome.document)


def test_an_exchanged_secret_is_no_other_call(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> Any:
        return ctx.call(len, ctx.secret("shop_token"))

    first = update(run(body, journal))
    monkeypatch.setenv("HITL_SECRET_SHOP_TOKEN", "another one, longer than before, and by a good deal")
    assert update(run(body, journal)) == first


@given(st.text(min_size=4, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_redaction_leaves_no_secret_and_ends(value: str, before: str, after: str) -> None:
    secrets.forget()
    secrets._remember("name", value)
    try:
        drawn = secrets.redact(f"{before}{value}{after}")
        assert value not in drawn.replace("[secret name]", "") or value in f"{before}{after}[secret name]"
    finally:
        secrets.forget()


def test_without_a_secret_nothing_is_looked_through() -> None:
    secrets.forget()
    document = {"a": ["b"]}
    assert secrets.redacted(document) is document


# ---- threads


def test_time_and_chance_in_a_thread_need_a_key() -> None:
    from threading import Thread

    found: list[object] = []

    def ask(ctx: Context) -> None:
        try:
            ctx.random()
        except ConcurrentCallNeedsKey as refusal:
            found.append(refusal.code)
        found.append(ctx.random(key="mine"))

    ctx = context(Journal())
    thread = Thread(target=ask, args=[ctx])
    thread.start()
    thread.join()
    assert found == ["concurrent_call_needs_key", ctx.random(key="mine")]


class Mute:
    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


def test_whatever_a_line_says_does_not_fail_its_node() -> None:
    """Any name of a fact, any object: what draws itself badly is drawn as its type."""
    journal = Journal()

    def body(state: Any, ctx: Context) -> None:
        ctx.log("said", message="m", no=1, self=2, odd=Mute(), nan=float("nan"), deep=[[set()]])
        ctx.log(Mute())
        ctx.progress(0, 0, note=Mute())  # type: ignore[arg-type]

    assert run(body, journal) == Completed(None)
    said = canonical.loads(journal.lines[0].facts)
    assert (said["message"], said["no"], said["self"], said["odd"], said["nan"]) == (
        "m",
        1,
        2,
        "<Mute>",
        "nan",
    )
    assert journal.lines[1].message == "<Mute>"
    assert journal.progress == [{"done": 0, "total": 0, "note": "<Mute>"}]


ODD: list[Callable[[Any], Any]] = [
    lambda ctx: ctx.call(lambda: 1, name="a", key=5),
    lambda ctx: ctx.call(lambda: 1, name=5),
    lambda ctx: ctx.call(lambda: 1, name="a", timeout=0),
    lambda ctx: ctx.call(lambda: 1, name="a", timeout="5s"),
    lambda ctx: ctx.call(lambda: 1, name="a", timeout=10**400),
    lambda ctx: ctx.call(lambda: 1, name="a", timeout=float("nan")),
    lambda ctx: ctx.call(lambda: 1, name="a", retry=5),
    lambda ctx: ctx.now(key=5),
    lambda ctx: ctx.random(key="k" * 200),
    lambda ctx: ctx.usage(model=None),
    lambda ctx: ctx.usage(cost="1", currency=None),
    lambda ctx: ctx.usage(cost=Decimal("1E-999999999")),
    lambda ctx: ctx.usage(cost="1E+999999999"),
    lambda ctx: ctx.usage(model_tokens_in=-1),
    lambda ctx: ctx.usage(model_tokens_in=1.0),
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_options_are_refused_before_anything_is_done(odd: Callable[[Any], Any]) -> None:
    journal = Journal()
    outcome = run(lambda state, ctx: odd(ctx), journal)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, InvalidCall | InvalidUsage)
    assert not journal.committed
