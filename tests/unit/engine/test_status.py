"""The tables of statuses: every pair of status and event is defined, and what has ended stays so."""

from __future__ import annotations

import itertools

import pytest

from runs.engine import status
from runs.engine.status import (
    APPROVAL,
    RUN,
    TERMINAL,
    ApprovalEvent,
    ApprovalStatus,
    RunEvent,
    RunStatus,
    after,
)
from runs.errors import AlreadyDecided, AlreadyTerminal, ApprovalClosed, EventNotAllowed, HitlError

PAIRS = list(itertools.product(RunStatus, RunEvent))
OPEN = [status for status in RunStatus if status not in TERMINAL]


def test_every_pair_of_a_run_is_defined_and_none_else() -> None:
    assert set(RUN) == set(PAIRS)


def test_every_pair_of_an_approval_is_defined_and_none_else() -> None:
    assert set(APPROVAL) == set(itertools.product(ApprovalStatus, ApprovalEvent))


@pytest.mark.parametrize(("before", "event"), PAIRS)
def test_an_event_leads_to_a_status_or_is_refused_as_a_conflict(before: RunStatus, event: RunEvent) -> None:
    expected = RUN[before, event]
    if isinstance(expected, RunStatus):
        assert after(before, event) is expected
        assert after(before.value, event) is expected
    else:
        with pytest.raises(HitlError) as caught:
            after(before, event)
        assert type(caught.value) is expected
        assert caught.value.http_status == 409
        assert caught.value.facts == {"status": before}
        assert before in caught.value.detail


@pytest.mark.parametrize("ended", sorted(TERMINAL))
@pytest.mark.parametrize("event", RunEvent)
def test_a_run_that_has_ended_takes_nothing_but_a_rewind_and_after_a_failure_a_retry(
    ended: RunStatus, event: RunEvent
) -> None:
    """I3, I7."""
    if event is RunEvent.REWOUND or (ended, event) == (RunStatus.FAILED, RunEvent.RETRIED):
        assert RUN[ended, event] is RunStatus.QUEUED
    elif (ended, event) == (RunStatus.FAILED, RunEvent.EDITED):
        assert RUN[ended, event] is RunStatus.FAILED
    else:
        assert RUN[ended, event] is AlreadyTerminal


@pytest.mark.parametrize("before", OPEN)
def test_a_run_can_be_cancelled_for_as_long_as_it_has_not_ended(before: RunStatus) -> None:
    assert after(before, RunEvent.CANCELLED) is RunStatus.CANCELLED
    assert after(before, RunEvent.FAILED) is RunStatus.FAILED


@pytest.mark.parametrize("before", [s for s in OPEN if s is not RunStatus.CANCELLING])
def test_a_rewind_lets_any_run_go_on(before: RunStatus) -> None:
    assert after(before, RunEvent.REWOUND) is RunStatus.QUEUED


def test_a_run_that_is_being_cancelled_goes_nowhere_else() -> None:
    ways = {RUN[RunStatus.CANCELLING, event] for event in RunEvent}
    assert ways == {RunStatus.CANCELLED, RunStatus.FAILED, EventNotAllowed}


def test_every_status_can_be_reached() -> None:
    assert set(RunStatus) == {target for target in RUN.values() if isinstance(target, RunStatus)}


def test_a_paused_run_does_not_start_by_itself() -> None:
    for event in (RunEvent.ADVANCED, RunEvent.PARKED, RunEvent.WOKEN, RunEvent.TAKEN_OVER, RunEvent.EDITED):
        assert after(RunStatus.PAUSED, event) is RunStatus.PAUSED
    assert RUN[RunStatus.PAUSED, RunEvent.CLAIMED] is EventNotAllowed


def test_an_unknown_status_is_an_error() -> None:
    with pytest.raises(ValueError, match="oops"):
        after("oops", RunEvent.CLAIMED)


@pytest.mark.parametrize("before", [s for s in ApprovalStatus if s is not ApprovalStatus.OPEN])
@pytest.mark.parametrize("event", ApprovalEvent)
def test_an_approval_that_is_not_open_takes_nothing(before: ApprovalStatus, event: ApprovalEvent) -> None:
    """I7, K6."""
    expected = AlreadyDecided if before is ApprovalStatus.DECIDED else ApprovalClosed
    assert APPROVAL[before, event] is expected
    assert expected.http_status == 409


@pytest.mark.parametrize("event", ApprovalEvent)
def test_an_open_approval_takes_everything(event: ApprovalEvent) -> None:
    stays = event in (ApprovalEvent.VOTED, ApprovalEvent.REVISED)
    expected = ApprovalStatus.OPEN if stays else ApprovalStatus(event.value)
    assert APPROVAL[ApprovalStatus.OPEN, event] is expected


def test_what_is_live_has_not_ended() -> None:
    ended = {"completed", "failed", "cancelled", "void"}
    assert {step.value for step in status.LIVE_STEPS} | ended == {step.value for step in status.StepStatus}
    assert not ended & status.LIVE_STEPS
