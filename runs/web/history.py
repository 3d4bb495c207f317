"""The history of a run as rows, and what it can be searched for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from runs.engine import canonical
from runs.models import Event, Run
from runs.templatetags import pretty, words
from runs.tongue import Words
from runs.tracing import ERRORS, EventFilter, Told

SHORT: Final = 60
AROUND: Final = 50  # events before one that is jumped to
WORDS: Final = Words(
    {
        "run_submitted": "submitted",
        "run_forked": "forked",
        "run_completed": "completed",
        "run_failed": "failed",
        "run_cancelled": "cancelled",
        "run_paused": "paused",
        "run_resumed": "goes on",
        "run_cancelling": "cancelled, once its calls are taken back",
        "run_failing": "fails, once its calls are taken back",
        "call_undone": "call taken back",
        "undo_failed": "call not taken back",
        "undo_retry_scheduled": "taking back will be tried again",
        "undo_given_up": "taking back ended by a person",
        "run_rewound": "rewound",
        "run_retried": "retried",
        "step_completed": "step done",
        "step_failed": "step failed",
        "step_retry_scheduled": "will be tried again",
        "step_taken_over": "taken over from a dead worker",
        "step_handed_over": "handed over by a worker that left",
        "approval_opened": "people asked",
        "approval_decided": "decided",
        "approval_revised": "arguments edited",
        "approval_superseded": "to be asked again",
        "vote_recorded": "vote recorded",
        "approval_assigned": "somebody works on it",
        "approval_unassigned": "released",
        "approval_snoozed": "snoozed",
        "approval_extended": "due later",
        "approval_reminded": "people reminded",
        "approval_escalated": "others asked too",
        "approval_passed_on": "next stage asked",
        "approval_unanswerable": "nobody can answer",
        "state_edited": "state edited",
        "priority_changed": "priority changed",
        "state_migrated": "migrated",
        "migration_needed": "waits for code",
        "code_is_back": "code is back",
        "wait_opened": "waits",
        "timer_fired": "time has passed",
        "wait_timed_out": "waited in vain",
        "signal_received": "signal came",
        "file_attached": "file came",
        "signal_taken": "signal taken",
        "child_ended": "child run ended",
    }
)


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. start: of a payload that is too long to be shown, how it begins; size: how long it is."""

    seq: int
    words: str
    node: str
    actor: str
    branch: int
    at: datetime
    brief: str
    payload: list[pretty.Line]
    bad: bool = False
    start: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """What a list can be narrowed to. count: how many rows it leaves, None if that is not known."""

    value: str
    word: str
    chosen: bool
    count: int | None = None


def event_row(event: Event, *, narrow: bool = False) -> EventRow:
    """narrow: something of the run is hidden from the reader; what is too long to be looked through is not begun then."""
    payload = canonical.loads(event.payload) if event.payload else None
    actor = canonical.loads(event.actor) if event.actor else None
    size = 0 if event.payload else int(getattr(event, "size", None) or 0)
    start = str(getattr(event, "start", "") or "")[:BEGINNING] if size and not narrow else ""
    return EventRow(
        seq=event.seq,
        words=word_of(event.kind),
        node=event.node,
        actor=str(actor.get("name", "")) if isinstance(actor, dict) else "",
        branch=event.branch,
        at=event.at,
        brief=words.size(size) if size else _brief(payload),
        payload=pretty.lines(payload) if payload else [],
        bad=event.kind in ERRORS,
        start=start,
        size=size,
    )


BEGINNING: Final = 2_000  # characters


def word_of(kind: str) -> str:
    return WORDS.get(kind, kind.replace("_", " "))


def kinds(told: Told, chosen: str) -> list[Choice]:
    found = [Choice(kind, word_of(kind), kind == chosen, count) for kind, count in told.kinds.items()]
    return sorted(found, key=lambda choice: choice.word)


def address(url: str, which: EventFilter, *, before: int | None = None) -> str:
    told = {"kind": which.kind, "node": which.node, "find": which.words, "before": before}
    said = urlencode({key: value for key, value in told.items() if value})
    return f"{url}?{said}" if said else url


def around(seq: int, run: Run) -> str:
    """The address at which an event stands among what came before and after."""
    url = reverse("run-history", args=[run.pk])
    return f"{url}?before={seq + AROUND}#event-{seq}"


def nodes(told: Told, chosen: str) -> list[Choice]:
    return [Choice(node, node, node == chosen) for node in told.nodes]


def _brief(payload: Any) -> str:
    if not isinstance(payload, dict):
        return ""
    for key in ("comment", "reason", "title", "outcome"):
        if isinstance(payload.get(key), str) and payload[key]:
            return words.cut(payload[key], 2 * SHORT)
    error = payload.get("error")
    if isinstance(error, dict) and error.get("message"):
        return words.cut(str(error["message"]), 2 * SHORT)
    return words.some(len(payload), "{count} detail", "{count} details") if payload else ""
