"""Which status follows which event, as data. Every pair is defined; a pair that cannot happen names the error it raises.

The docs draw their diagrams from these tables, and a test walks all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from runs.errors import AlreadyDecided, AlreadyTerminal, ApprovalClosed, EventNotAllowed, HitlError


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class RunEvent(StrEnum):
    CLAIMED = "claimed"  # a worker took a step
    ADVANCED = "advanced"  # a step was committed and another is claimed
    PARKED = "parked"  # every live step waits
    WOKEN = "woken"  # a wait is over, a step is ready again
    TAKEN_OVER = "taken_over"  # a dead worker's step is ready again
    EDITED = "edited"  # a person changed the state
    REWOUND = "rewound"
    RETRIED = "retried"  # a failed run goes on with what failed or had not run
    ENDED = "ended"
    FAILED = "failed"
    CANCELLING = "cancelling"  # it takes back what it did before it is cancelled
    FAILING = "failing"  # it takes back what it did before it has failed
    CANCELLED = "cancelled"
    PAUSED = "paused"  # a person holds it: nothing new begins
    RESUMED = "resumed"


class StepStatus(StrEnum):
    READY = "ready"
    EXECUTING = "executing"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    VOID = "void"


class ApprovalStatus(StrEnum):
    OPEN = "open"
    DECIDED = "decided"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class ApprovalEvent(StrEnum):
    VOTED = "voted"
    REVISED = "revised"
    DECIDED = "decided"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


TERMINAL: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
LIVE_STEPS: Final = frozenset({StepStatus.READY, StepStatus.EXECUTING, StepStatus.WAITING})

Refusal = type[HitlError]
_Q, _R, _W, _P = RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED
_DONE, _FAILED, _CANCELLING, _CANCELLED = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.CANCELLING,
    RunStatus.CANCELLED,
)


def _row(**told: RunStatus | Refusal) -> dict[RunEvent, RunStatus | Refusal]:
    return {event: told.get(event.value, told["otherwise"]) for event in RunEvent}


_STOPPED: dict[str, RunStatus | Refusal] = {
    "cancelled": _CANCELLED,
    "cancelling": _CANCELLING,
    "failing": _R,
    "paused": _P,
}
_ENDED: dict[str, RunStatus | Refusal] = {"otherwise": AlreadyTerminal, "rewound": _Q}
_BY_STATUS: Final = {
    _Q: _row(
        claimed=_R,
        woken=_Q,
        edited=_Q,
        rewound=_Q,
        failed=_FAILED,
        **_STOPPED,
        otherwise=EventNotAllowed,
    ),
    _R: _row(
        claimed=_R,
        advanced=_R,
        parked=_W,
        woken=_R,
        taken_over=_Q,
        edited=_R,
        rewound=_Q,
        ended=_DONE,
        failed=_FAILED,
        **_STOPPED,
        otherwise=EventNotAllowed,
    ),
    _W: _row(
        woken=_Q,
        parked=_W,
        edited=_Q,
        rewound=_Q,
        ended=_DONE,
        failed=_FAILED,
        **_STOPPED,
        otherwise=EventNotAllowed,
    ),
    _P: _row(
        advanced=_P,
        parked=_P,
        woken=_P,
        taken_over=_P,
        edited=_P,
        rewound=_Q,
        ended=_DONE,
        failed=_FAILED,
        cancelled=_CANCELLED,
        cancelling=_CANCELLING,
        failing=_P,
        paused=_P,
        resumed=_Q,
        otherwise=EventNotAllowed,
    ),
    _DONE: _row(**_ENDED),
    _FAILED: _row(**_ENDED, edited=_FAILED, retried=_Q),
    _CANCELLING: _row(cancelled=_CANCELLED, failed=_FAILED, otherwise=EventNotAllowed),
    _CANCELLED: _row(**_ENDED),
}
RUN: Final[Mapping[tuple[RunStatus, RunEvent], RunStatus | Refusal]] = {
    (status, event): result for status, row in _BY_STATUS.items() for event, result in row.items()
}

_O = ApprovalStatus.OPEN
APPROVAL: Final[Mapping[tuple[ApprovalStatus, ApprovalEvent], ApprovalStatus | Refusal]] = {
    **{(status, event): ApprovalClosed for status in ApprovalStatus for event in ApprovalEvent},
    **{(ApprovalStatus.DECIDED, event): AlreadyDecided for event in ApprovalEvent},
    (_O, ApprovalEvent.VOTED): _O,
    (_O, ApprovalEvent.REVISED): _O,
    (_O, ApprovalEvent.DECIDED): ApprovalStatus.DECIDED,
    (_O, ApprovalEvent.EXPIRED): ApprovalStatus.EXPIRED,
    (_O, ApprovalEvent.CANCELLED): ApprovalStatus.CANCELLED,
    (_O, ApprovalEvent.SUPERSEDED): ApprovalStatus.SUPERSEDED,
}


def after(status: str, event: RunEvent) -> RunStatus:
    """The status of a run after an event. Raises what the table names if the event cannot happen."""
    result = RUN[RunStatus(status), event]
    if isinstance(result, RunStatus):
        return result
    raise result(f"A run that is {status} cannot be {event.value.replace('_', ' ')}.", status=status)
