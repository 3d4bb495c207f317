"""A run told in a terminal: one line for each event as it is committed, and the whole timeline at the end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.management.terminal import plain
from runs.models import Event, JournalEntry, Run
from runs.templatetags import words

Line = Callable[["Told"], str]


@dataclass(frozen=True, slots=True)
class Told:
    """An event with what is needed to tell it."""

    kind: str
    node: str
    who: str
    at: datetime
    checkpoint: int | None
    facts: Mapping[str, Json]
    calls: tuple[JournalEntry, ...] = ()

    def line(self) -> str:
        say = LINES.get(self.kind)
        return say(self) if say else " ".join(filter(None, [self.node, self.kind.replace("_", " ")]))


class Listener:
    """Looks at a run again and again, and tells each event once."""

    def __init__(self, run_id: uuid.UUID) -> None:
        self._run_id = run_id
        self._seq = 0

    def look(self) -> tuple[Run, list[Told]]:
        """The run, then what is new; so what ended it is among the news of the look that shows it ended."""
        run = Run.objects.get(pk=self._run_id)
        news = list(since(run, self._seq))
        self._seq += len(news)
        return run, [told for _, told in news]


def since(run: Run, seq: int) -> Iterator[tuple[int, Told]]:
    """The events after `seq`, in order."""
    events = list(Event.objects.filter(run=run, seq__gt=seq).order_by("seq"))
    calls: dict[tuple[int, str], list[JournalEntry]] = {}
    if any(event.kind == "step_completed" for event in events):
        for entry in JournalEntry.objects.filter(run=run).order_by("ordinal"):
            calls.setdefault((entry.branch, entry.address), []).append(entry)
    for event in events:
        yield event.seq, _told(event, calls.get((event.branch, event.address), []))


def timeline(run: Run) -> Iterator[str]:
    """Every event with its number, its distance from the start, and its words."""
    start: datetime | None = None
    for seq, told in since(run, 0):
        start = start or told.at
        yield f"{seq:>4}  {words.span(told.at - start):>8}  {told.line()}"


def _told(event: Event, calls: list[JournalEntry]) -> Told:
    actor = canonical.loads(event.actor) if event.actor else None
    facts: dict[str, Any] = canonical.loads(event.payload) if event.payload else {}
    who = str(actor.get("name", "")) if isinstance(actor, dict) else ""
    mine = tuple(calls) if event.kind == "step_completed" else ()
    return Told(event.kind, event.node, plain(who), event.at, event.checkpoint, facts, mine)


# ---- the words for each kind of event


def _completed(told: Told) -> str:
    made = [f"{call.name} took {words.span(call.ended_at - call.started_at)}" for call in told.calls]
    return f"{told.node} committed as checkpoint {told.checkpoint}{': ' + ', '.join(made) if made else ''}"


def _retry(told: Told) -> str:
    wait = words.span(float(told.facts["delay"]))
    return f"{told.node} failed, attempt {told.facts['attempt']}; again in {wait}. {_error(told)}"


def _decided(told: Told) -> str:
    by = told.facts.get("by")
    name = plain(str(by.get("name", ""))) if isinstance(by, dict) else told.who
    edited = ", edited" if told.facts.get("edited") else ""
    comment = plain(str(told.facts.get("comment") or ""))
    return f"{told.node}: {told.facts['outcome']} by {name}{edited}{f' ({comment})' if comment else ''}"


def _error(told: Told) -> str:
    error = told.facts.get("error")
    return plain(str(error.get("message", ""))) if isinstance(error, dict) else ""


LINES: dict[str, Line] = {
    "run_submitted": lambda told: f"submitted by {told.who}",
    "step_completed": _completed,
    "step_retry_scheduled": _retry,
    "step_failed": lambda told: f"{told.node} failed for good. {_error(told)}",
    "step_taken_over": lambda told: f"{told.node} taken over: its worker is gone",
    "approval_opened": lambda told: f"{told.node} asks people: {plain(str(told.facts['title']))}",
    "approval_decided": _decided,
    "vote_recorded": lambda told: f"{told.node}: {told.facts['vote']} by {told.who}, more people must agree",
    "state_edited": lambda told: f"state edited by {told.who}: {plain(str(told.facts.get('reason', '')))}",
    "run_rewound": lambda told: f"rewound by {told.who}: {plain(str(told.facts.get('reason', '')))}",
    "run_completed": lambda _: "completed",
    "run_failed": lambda told: f"failed. {_error(told)}",
    "run_cancelled": lambda told: f"cancelled by {told.who}",
}
