"""What a page says above itself when something was refused: what happened, and that nothing typed is lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.utils.timezone import localtime

from runs.errors import (
    AlreadyDecided,
    AlreadyTerminal,
    ApprovalClosed,
    Busy,
    Conflict,
    Forbidden,
    HitlError,
    KeyReused,
    PayloadChanged,
    Problem,
    ReasonRequired,
    StaleVersion,
    TimedOut,
    Unavailable,
)
from runs.models import Approval, Revision
from runs.templatetags import words

DONE: Final = {
    "approve": "approved",
    "reject": "rejected",
    "respond": "answered",
    "mixed": "partly approved",
    "edit": "edited",
    "revise": "edited",
}
NOTHING_SENT: Final = "Nothing of yours was sent; your text is below."


@dataclass(frozen=True, slots=True)
class Banner:
    tone: str
    icon: str
    title: str
    texts: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def of_error(error: HitlError) -> Banner:
    """A refusal in general."""
    if isinstance(error, Forbidden):
        return Banner("red", "lock", error.detail)
    if isinstance(error, ReasonRequired):
        return Banner("red", "octagon", error.detail)
    if isinstance(error, (Busy, Unavailable)):
        return Banner("amber", "warn", error.detail, ["What you typed is still here; send it again."])
    if isinstance(error, StaleVersion):
        return Banner(
            "amber", "warn", "The run has moved on. Nothing was sent, nothing is lost.", [error.detail]
        )
    if isinstance(error, KeyReused):
        return Banner(
            "amber",
            "warn",
            "This form was sent before, with something else in it.",
            ["Nothing was sent this time; send it again to start another run."],
        )
    if isinstance(error, AlreadyTerminal):
        return Banner("amber", "info", error.detail)
    tone, icon = ("amber", "warn") if isinstance(error, Conflict) else ("red", "octagon")
    placed = [problem for problem in error.errors if problem.path]
    return Banner(tone, icon, error.detail, problems=placed)


def of_decision(
    error: HitlError,
    approval: Approval,
    *,
    wanted: str,
    seen: int | None,
    revisions: Sequence[Revision],
    now: datetime,
) -> Banner:
    """A refusal of an answer to an approval. wanted: the answer; seen: the version that was on the screen."""
    if isinstance(error, AlreadyDecided):
        done = DONE.get(str(error.facts.get("action")), "decided about")
        when = (
            f" at {localtime(approval.closed_at):%H:%M:%S}, {words.age(approval.closed_at, now)} ago"
            if approval.closed_at
            else ""
        )
        text = f"{error.facts.get('winner')} {done} version {approval.version}{when}."
        return Banner("red", "octagon", "Decided before you", [text, NOTHING_SENT])
    if isinstance(error, TimedOut):
        return Banner("red", "clock", "The time to decide was over", [error.detail, NOTHING_SENT])
    if isinstance(error, ApprovalClosed):
        return Banner("red", "octagon", "This approval is closed", [error.detail, NOTHING_SENT])
    if isinstance(error, PayloadChanged):
        return Banner("red", "octagon", "What is stored is not what was shown", [error.detail, NOTHING_SENT])
    if isinstance(error, StaleVersion):
        return _stale(approval, wanted=wanted, seen=seen, revisions=revisions, now=now)
    return of_error(error)


def _stale(
    approval: Approval, *, wanted: str, seen: int | None, revisions: Sequence[Revision], now: datetime
) -> Banner:
    made = next((revision for revision in revisions if revision.version == approval.version), None)
    texts = []
    if made is not None and made.author is not None:
        ago = words.age(made.created_at, now)
        texts.append(f"{made.author} edited it at {localtime(made.created_at):%H:%M:%S}, {ago} ago.")
    texts.append(
        f"Your {wanted or 'answer'} was for version {seen}; the open one is version {approval.version}. "
        "Your text is kept."
    )
    return Banner(
        "amber", "warn", "This changed while you were writing. Nothing was sent, nothing is lost.", texts
    )
