"""What a page says above itself when something was refused: what happened, and that nothing typed is lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.utils.timezone import localtime
from django.utils.translation import gettext

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
from runs.tongue import ANSWERS, Words

DONE: Final = Words(
    {
        "approve": "approved",
        "reject": "rejected",
        "respond": "answered",
        "mixed": "partly approved",
        "edit": "edited",
        "revise": "edited",
    }
)
NOTHING_SENT: Final = Words({"text": "Nothing of yours was sent; your text is below."})


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
        return Banner(
            "amber", "warn", error.detail, [gettext("What you typed is still here; send it again.")]
        )
    if isinstance(error, StaleVersion):
        return Banner(
            "amber",
            "warn",
            gettext("The run has moved on. Nothing was sent, nothing is lost."),
            [error.detail],
        )
    if isinstance(error, KeyReused):
        return Banner(
            "amber",
            "warn",
            gettext("This form was sent before, with something else in it."),
            [gettext("Nothing was sent this time; send it again to start another run.")],
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
        done = DONE.get(str(error.facts.get("action")), gettext("decided about"))
        when = (
            gettext(" at {at:%H:%M:%S}, {age} ago").format(
                at=localtime(approval.closed_at), age=words.age(approval.closed_at, now)
            )
            if approval.closed_at
            else ""
        )
        text = gettext("{winner} {done} version {version}{when}.").format(
            winner=error.facts.get("winner"), done=done, version=approval.version, when=when
        )
        return Banner("red", "octagon", gettext("Decided before you"), [text, NOTHING_SENT["text"]])
    if isinstance(error, TimedOut):
        return Banner(
            "red", "clock", gettext("The time to decide was over"), [error.detail, NOTHING_SENT["text"]]
        )
    if isinstance(error, ApprovalClosed):
        return Banner(
            "red", "octagon", gettext("This approval is closed"), [error.detail, NOTHING_SENT["text"]]
        )
    if isinstance(error, PayloadChanged):
        return Banner(
            "red",
            "octagon",
            gettext("What is stored is not what was shown"),
            [error.detail, NOTHING_SENT["text"]],
        )
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
        texts.append(
            gettext("{author} edited it at {at:%H:%M:%S}, {ago} ago.").format(
                author=made.author, at=localtime(made.created_at), ago=ago
            )
        )
    texts.append(
        gettext(
            "Your {wanted} was for version {seen}; the open one is version {version}. Your text is kept."
        ).format(wanted=ANSWERS.get(wanted or "answer", wanted), seen=seen, version=approval.version)
    )
    return Banner(
        "amber",
        "warn",
        gettext("This changed while you were writing. Nothing was sent, nothing is lost."),
        texts,
    )
