"""One sign, tone and word for each state: shape and word carry the meaning, colour repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext, gettext_noop

from runs.models import Approval
from runs.tongue import Words


@dataclass(frozen=True, slots=True)
class Sign:
    icon: str
    tone: str
    says: str

    @property
    def word(self) -> str:
        return gettext(self.says)


RUN: Final = {
    "queued": Sign("s-queued", "", "Queued"),
    "running": Sign("s-running", "blue", "Running"),
    "waiting": Sign("s-people", "amber", "Waiting"),
    "retrying": Sign("s-retry", "rust", "Retrying"),
    "stalled": Sign("s-stalled", "red", "Stalled"),
    "paused": Sign("s-paused", "slate", "Paused"),
    "completed": Sign("s-completed", "green", "Completed"),
    "failed": Sign("s-failed", "red", "Failed"),
    "cancelling": Sign("s-cancelled", "", "Cancelling"),
    "failing": Sign("s-failed", "rust", "Failing"),
    "cancelled": Sign("s-cancelled", "", "Cancelled"),
}
TAKEN_BACK: Final = {  # by the status of the step that does it
    "ready": Sign("s-queued", "", "to be taken back"),
    "executing": Sign("s-running", "blue", "is taken back"),
    "waiting": Sign("s-retry", "rust", "taking it back is tried again"),
    "completed": Sign("undo", "green", "taken back"),
    "failed": Sign("s-failed", "red", "not taken back: do it by hand"),
    "cancelled": Sign("warn", "amber", "not taken back: a person left it"),
}
BULK: Final = Words(
    {
        "retry": "Retry",
        "rewind": "Rewind",
        "pause": "Pause",
        "resume": "Resume",
        "cancel": "Cancel",
    }
)
DONE: Final = Sign("s-completed", "green", "done once")
TOO_LATE: Final = Sign("warn", "amber", "made while the run was stopped, not taken back: do it by hand")
WAITING: Final = {
    "timer": Sign("s-time", "slate", "Waiting"),
    "signal": Sign("inbox", "slate", "Waiting"),
    "child": Sign("flow", "slate", "Waiting"),
    "needs_migration": Sign("s-migration", "rust", "Needs migration"),
}
CODE: Final = {
    "works": Sign("s-completed", "green", "a worker has it"),
    "here": Sign("s-queued", "", "here, no worker has it"),
    "leads on": Sign("s-migration", "amber", "gone, a migration leads on"),
    "gone": Sign("s-failed", "red", "gone"),
    "past": Sign("none", "", "no longer here"),
}
STEP: Final = {
    "ready": Sign("s-queued", "", "ready"),
    "executing": Sign("s-running", "blue", "working"),
    "waiting": Sign("s-people", "amber", "waiting"),
    "completed": Sign("s-completed", "green", "done"),
    "failed": Sign("s-failed", "red", "failed"),
    "cancelled": Sign("s-cancelled", "", "cancelled"),
    "void": Sign("undo", "", "left behind by a rewind"),
}
INSIDE: Final = Sign("s-running", "", "waits for what is inside it")
CHECKPOINT: Final = {
    "input": Sign("arrow", "", "input"),
    "step": Sign("s-completed", "green", ""),
    "answer": Sign("s-people", "amber", "decided"),
    "edit": Sign("pencil", "blue", "state edited"),
    "signal": Sign("inbox", "slate", "signal taken"),
    "migration": Sign("s-migration", "rust", "migrated"),
}
ANSWERS: Final = {
    "approve": Sign("check", "green", "Approved"),
    "edit": Sign("pencil", "green", "Approved, edited"),
    "reject": Sign("cross", "red", "Rejected"),
    "respond": Sign("answer", "blue", "Answered"),
    "mixed": Sign("swap", "amber", "Partly approved"),
}
CLOSED: Final = {
    "rewound": gettext_noop("Closed by a rewind"),
    "cancelled": gettext_noop("Cancelled"),
}
EXPIRED: Final = {
    "": gettext_noop("Expired: closed by system"),
    "approve": gettext_noop("Expired: approved by system"),
    "reject": gettext_noop("Expired: rejected by system"),
}
ASKED_OF_PEOPLE: Final = Sign("s-people", "amber", "Open")


def of_approval(approval: Approval, *, edited: bool = False) -> Sign:
    """Open, decided (how), expired (what then), cancelled or superseded."""
    if approval.status == "open":
        return ASKED_OF_PEOPLE
    if approval.status == "decided":
        return ANSWERS["edit" if edited and approval.outcome == "approve" else approval.outcome]
    if approval.status == "expired":
        return Sign("clock", "slate", EXPIRED.get(approval.outcome, EXPIRED[""]))
    if approval.status == "superseded":
        return Sign("swap", "dashed", "Asked again since")
    return Sign("stop", "", CLOSED["rewound"] if approval.closed_reason == "rewound" else CLOSED["cancelled"])
