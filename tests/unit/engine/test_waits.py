"""Steps that wait for what their bodies asked for, as transitions; and who is the first of several."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import Action, Question, Signal, Timer, machine
from runs.engine import position as at
from runs.engine.status import RunStatus, StepStatus
from runs.engine.waits import Candidate, Satisfied, Wanted, first_satisfied, wanted
from runs.errors import AlreadyTerminal
from tests.unit.engine.tape import Tape
from tests.unit.engine.test_machine import gate
from tests.unit.engine.test_machine import line as line_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def answered(one: Wanted, **more: Any) -> Satisfied:
    kinds = {"timer": "sleep", "signal": "signal", "approval": "answer"}
    return Satisfied(
        kinds[one.kind], one.name, one.occurrence, one.digest, {}, **{"event": "timer_fired", **more}
    )


SLEEP = wanted(Timer(5), name="sleep", occurrence="0")
PAID = wanted(Signal("paid"), name="paid", occurrence="0")
SURE = wanted(Question(Action("pay")), name="ask", occurrence="0")


def suspended(*asked: Wanted) -> Tape:
    tape = Tape.submitted(line_of("a", "b"))
    tape.take(machine.suspend(tape.run, tape.claim(), asked), "suspend")
    return tape


def test_a_step_that_waits_holds_no_worker_and_writes_no_checkpoint() -> None:
    tape = suspended(SLEEP)
    assert (tape.status, tape.row.status, tape.head) == (RunStatus.WAITING, StepStatus.WAITING, 0)
    assert tape.events[-1] == "wait_opened"


def test_an_answer_makes_the_step_ready_and_is_journalled() -> None:
    tape = suspended(SLEEP)
    transition = tape.take(machine.satisfy(tape.run, tape.step, answered(SLEEP)), "satisfy")
    assert (tape.status, tape.row.status, tape.head) == (RunStatus.QUEUED, StepStatus.READY, 0)
    assert transition.ready == [tape.step.address]
    assert (tape.row.failures, tape.row.crashes) == (0, 0)
    assert [entry.kind for entry in tape.journal] == ["sleep"]
    assert tape.places == {}


def test_of_several_questions_the_step_waits_for_the_last() -> None:
    other = wanted(Question(Action("pay")), name="ask", occurrence="1")
    tape = suspended(SURE, other)
    first = answered(SURE, event="approval_decided", wakes=False, checkpoint="answer")
    tape.take(machine.satisfy(tape.run, tape.step, first), "satisfy")
    assert (tape.status, tape.row.status, tape.head) == (RunStatus.WAITING, StepStatus.WAITING, 1)
    assert list(tape.places[tape.step.address]) == [other.place]
    last = answered(other, event="approval_decided", checkpoint="answer")
    tape.take(machine.satisfy(tape.run, tape.step, last), "satisfy")
    assert (tape.status, tape.head) == (RunStatus.QUEUED, 2)


def test_which_signal_was_taken_is_part_of_the_position() -> None:
    """A checkpoint of its own; a rewind to before it gives the signal back."""
    tape = suspended(PAID)
    for number in (3, 5):
        found = answered(PAID, event="signal_taken", checkpoint="signal", taken=("paid", number))
        tape.take(machine.satisfy(tape.run, tape.step, found), "satisfy")
        if number == 3:
            tape.take(machine.suspend(tape.run, tape.claim(), [PAID]), "suspend")
    assert at.taken(tape.run.position, "paid") == [3, 5]
    assert at.taken(tape.run.position, "other") == []
    assert at.taken(tape.refolded(1), "paid") == [3]
    tape.rewind(0)
    assert at.taken(tape.run.position, "paid") == []


def test_a_waiting_step_can_be_edited_rewound_and_cancelled() -> None:
    tape = suspended(SLEEP)
    tape.take(machine.edit_state(tape.run, "0", {"n": 5}, reason="test"), "edit")
    assert (tape.row.status, tape.places) == (StepStatus.READY, {})
    tape = suspended(SLEEP)
    tape.rewind(0)
    assert (tape.row.status, tape.places) == (StepStatus.READY, {})
    tape = suspended(SLEEP)
    step = tape.step
    tape.take(machine.cancel(tape.run.status, reason="test"), "cancel")
    assert (tape.ended, tape.places) == (True, {})
    with pytest.raises(AlreadyTerminal):
        machine.satisfy(tape.run, step, answered(SLEEP))


def test_an_approval_function_may_wait_too() -> None:
    tape = Tape.submitted(gate())
    tape.take(machine.suspend(tape.run, tape.claim(), [SLEEP]), "suspend")
    tape.take(machine.satisfy(tape.run, tape.step, answered(SLEEP)), "satisfy")
    tape.park()
    assert tape.status is RunStatus.WAITING


# ---- who is first


MOMENTS = st.integers(0, 3).map(lambda seconds: START + timedelta(seconds=seconds))
CANDIDATES = st.lists(
    st.builds(Candidate, at=MOMENTS, order=st.integers(0, 3), late=st.booleans(), wait=st.none()), min_size=1
)


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_winner_does_not_depend_on_who_looks_or_when(candidates: list[Candidate], order: Any) -> None:
    """C73: by instant, then declaration; and what is satisfied later, or seen later, changes no winner."""
    winner = first_satisfied(candidates)
    assert winner is not None
    told = (winner.at, winner.order, winner.late)
    assert all(told <= (one.at, one.order, one.late) for one in candidates)
    shuffled = list(candidates)
    order.shuffle(shuffled)
    again = first_satisfied(shuffled)
    assert again is not None
    assert (again.at, again.order, again.late) == told
    seen_early = [one for one in candidates if one.at <= winner.at]
    assert first_satisfied(seen_early) in candidates


def test_nothing_satisfied_is_nobody() -> None:
    assert first_satisfied([]) is None
