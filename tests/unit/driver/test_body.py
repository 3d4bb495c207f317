"""One attempt of a body: whatever an author's code does comes back as an outcome, and what is lost is let go of."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.driver import Asked, Completed, Context, Failed
from runs.engine import Action, Ask, Retry, canonical
from runs.errors import LateResult, SchemaViolation, StateNotStorable, StepTimeout
from tests.unit.driver.journal import Journal, run


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class OfItsOwn(BaseException):
    """As some libraries have them: a cancellation, or a test's `fail`."""


class Nameless(Exception):
    __str__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("value", [None, {}, {"n": 1}, 5, "text", [1]])
def test_what_a_body_returns_is_its_update_whether_it_fits_or_not(value: Any) -> None:
    assert run(lambda state, ctx: value, Journal()) == Completed(value)


def test_an_approval_function_is_a_question() -> None:
    outcome = run(lambda state, ctx: Action("pay", {"amount": 1}), Journal(), approval=True)
    assert isinstance(outcome, Asked)
    assert outcome.document["actions"][0]["args"] == {"amount": 1}
    assert outcome.digest == canonical.digest(outcome.document)


def test_an_approval_function_may_make_calls_first() -> None:
    """C62: a journalled answer of a model is asked about the same every time."""
    journal, offers = Journal(), iter([100, 900])

    def body(state: Any, ctx: Context) -> Any:
        return Action("pay", {"amount": ctx.call(lambda: next(offers), name="model")})

    first = run(body, journal, approval=True)
    assert first == run(body, journal, approval=True)
    assert isinstance(first, Asked)
    assert first.document["actions"][0]["args"] == {"amount": 100}


@pytest.mark.parametrize(
    ("asked", "error"),
    [(None, SchemaViolation), ([], SchemaViolation), (Ask(Action("a"), title="\0"), StateNotStorable)],
)
def test_a_question_that_cannot_be_asked_is_a_failure(asked: Any, error: type[Exception]) -> None:
    outcome = run(lambda state, ctx: asked, Journal(), approval=True)
    assert isinstance(outcome, Failed)
    assert type(outcome.error) is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError("bad \0 byte \ud800"),
        Silent(),
        Nameless(),
        RecursionError(),
        StopIteration(),
        ExceptionGroup("many", [ValueError("one"), Silent()]),
        StepTimeout(),
        SystemExit(2),
        SystemExit("bye"),
        MemoryError(),
        OfItsOwn("out of here"),
        GeneratorExit(),
        BaseExceptionGroup("many", [ValueError("one"), OfItsOwn("two")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_body_raises_is_a_failure_that_can_be_stored(error: BaseException) -> None:
    """C01: nothing an author's code does ends the worker."""

    def body(state: Any, ctx: Context) -> None:
        raise error

    outcome = run(body, Journal())
    assert isinstance(outcome, Failed)
    assert outcome.error is error
    canonical.check(outcome.facts)
    assert outcome.facts["message"]
    assert "raise error" in outcome.facts["traceback"] or isinstance(error, BaseExceptionGroup)


def test_a_node_that_wants_to_exit_fails_at_once() -> None:
    outcome = run(lambda state, ctx: sys.exit("enough"), Journal(), retry=Retry(attempts=9))
    assert isinstance(outcome, Failed)
    assert (outcome.facts["type"], outcome.facts["message"]) == ("SystemExit", "enough")
    assert not outcome.policy.wants(outcome.error)


def test_an_interrupt_of_a_person_is_no_failure_of_the_step() -> None:
    def body(state: Any, ctx: Context) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(body, Journal())


def test_a_traceback_without_end_keeps_its_end() -> None:
    def deep(levels: int) -> None:
        if levels == 0:
            raise ValueError("x" * 20_000 + "the end")
        deep(levels - 1)

    outcome = run(lambda state, ctx: deep(50), Journal())
    assert isinstance(outcome, Failed)
    assert len(outcome.facts["traceback"]) <= 8_000
    assert outcome.facts["traceback"].rstrip().endswith("the end")
    assert len(outcome.facts["message"]) <= 4_000


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_message_can_be_stored(text: str) -> None:
    """C01."""

    def body(state: Any, ctx: Context) -> None:
        raise ValueError(text)

    outcome = run(body, Journal())
    assert isinstance(outcome, Failed)
    canonical.check(outcome.facts)


def test_a_body_changes_nothing_by_changing_what_it_sees() -> None:
    def body(state: Any, ctx: Context) -> Any:
        state.n = 5
        return None

    assert run(body, Journal()) == Completed(None)


# ---- a step that is somebody else's by now


def test_a_lost_step_is_let_go_of_at_its_next_call_which_is_not_made() -> None:
    """C33, C48."""
    journal, made = Journal(), []

    def body(state: Any, ctx: Context) -> None:
        ctx.call(lambda: made.append("first"), name="first")
        journal.lost = True
        ctx.call(lambda: made.append("second"), name="second")

    with pytest.raises(LateResult):
        run(body, journal)
    assert made == ["first"]


def test_no_except_of_an_author_keeps_a_lost_step_going() -> None:
    """C33: else a zombie would go on charging."""
    journal, made = Journal(), []

    def charge() -> None:
        made.append("charged")
        journal.lost = True

    def body(state: Any, ctx: Context) -> Any:
        for _ in range(3):
            try:
                ctx.call(charge)
            except Exception:  # noqa: BLE001
                made.append("caught")
        return {"n": 1}

    with pytest.raises(LateResult):
        run(body, journal)
    assert made == ["charged"]


def test_even_a_bare_except_lets_no_further_call_through() -> None:
    journal, made = Journal(), []
    journal.lost = True

    def body(state: Any, ctx: Context) -> Any:
        for _ in range(3):
            try:
                ctx.call(lambda: made.append("charged"), name="charge")
            except BaseException:  # noqa: BLE001
                continue
        return {"n": 1}

    assert run(body, journal) == Completed({"n": 1})
    assert (made, journal.committed) == ([], [])


class Away(Journal):
    """A journal whose database is away."""

    def entries(self) -> Any:
        raise ConnectionError("the database is away")


def test_a_database_that_is_away_is_no_failure_of_the_node() -> None:
    """C38."""

    def body(state: Any, ctx: Context) -> Any:
        try:
            return ctx.call(len, "x")
        except Exception:  # noqa: BLE001
            return {"said": "the call failed"}

    with pytest.raises(ConnectionError, match="away"):
        run(body, Away())
