"""What of a run's history the world is told: which events, to whom, and in which words. Pure, as all of the engine.

A message is thin: ids, names, statuses and a link, never arguments, state, comments or what the agent says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from runs.engine.canonical import Json

ASKED: Final = "asked"
DECIDED: Final = "decided"
ENDED: Final = "ended"
FAILED: Final = "failed"
TOPICS: Final = (ASKED, DECIDED, ENDED, FAILED)  # what a person may want to hear of

CANDIDATES: Final = "candidates"
REQUESTER: Final = "requester"
OPERATORS: Final = "operators"  # and the requester
NOBODY: Final = "nobody"  # of the end of a run that another one has started: people asked for that one


@dataclass(frozen=True, slots=True)
class Telling:
    """How one kind of event is told: the type of its message, the topic it belongs to, and which people hear of it."""

    type: str
    topic: str
    audience: str


TELLINGS: Final[Mapping[str, Telling]] = {
    "approval_opened": Telling("approval.opened", ASKED, CANDIDATES),
    "approval_reminded": Telling("approval.reminded", ASKED, CANDIDATES),
    "approval_escalated": Telling("approval.escalated", ASKED, CANDIDATES),
    "approval_passed_on": Telling("approval.opened", ASKED, CANDIDATES),  # to the next stage
    "approval_decided": Telling("approval.decided", DECIDED, REQUESTER),
    "approval_expired": Telling("approval.expired", DECIDED, REQUESTER),
    "run_completed": Telling("run.completed", ENDED, REQUESTER),
    "run_failed": Telling("run.failed", FAILED, OPERATORS),
    "run_cancelled": Telling("run.cancelled", ENDED, REQUESTER),
    "approval_unanswerable": Telling("run.needs_attention", FAILED, OPERATORS),
    "migration_needed": Telling("run.needs_attention", FAILED, OPERATORS),
}
TYPES: Final = tuple(
    dict.fromkeys(telling.type for telling in TELLINGS.values())
)  # what an endpoint may choose from
TEST: Final = "endpoint.test"
DIGEST: Final = "digest"
DISABLED: Final = "endpoint.disabled"

# After these a question may be open no longer: whoever was told of it need not look.
CLOSING: Final = frozenset(
    {
        "approval_decided",
        "approval_superseded",
        "run_completed",
        "run_failed",
        "run_cancelled",
        "run_rewound",
    }
)


def telling_of(kind: str, payload: Mapping[str, Json]) -> Telling:
    """How an event of a kind in `TELLINGS` is told. An answer of the clock is an expiry, not a decision."""
    if kind == "approval_decided" and payload.get("reason") == "timeout":
        kind = "approval_expired"
    return TELLINGS[kind]


def decision_told(payload: Mapping[str, Json]) -> dict[str, Json]:
    """What others learn of a decision: who, what, when and why it came to it; not the words, not the arguments."""
    return {name: payload.get(name) for name in ("outcome", "by", "reason", "at", "edited")}


def error_told(kind: str, payload: Mapping[str, Json]) -> dict[str, Json]:
    """What others learn of a failure, or of what needs somebody: its code and the step. The message may quote anything."""
    error = payload.get("error")
    if not isinstance(error, Mapping):
        return {"code": kind}
    return {name: error[name] for name in ("code", "step") if error.get(name)}


# One line for a person, as a bell and the subject of a mail show it.
HEADLINES: Final = {
    "approval.opened": "Asked of you: {title}",
    "approval.reminded": "Still asked of you: {title}",
    "approval.escalated": "Asked of you now: {title}",
    "approval.decided": "Decided: {title}",
    "approval.expired": "Nobody answered in time: {title}",
    "run.completed": "Completed: {workflow}",
    "run.failed": "Failed: {workflow}",
    "run.cancelled": "Cancelled: {workflow}",
    "run.needs_attention": "Needs attention: {workflow}",
}


def headline(type: str, *, title: str, workflow: str) -> str:
    """The line as it is stored."""
    return HEADLINES[type].format(title=title, workflow=workflow)
