"""The waterfall of a run: one row a step, bars in percent of a scale on which long waits are drawn short. Pure.

Percentages are made here, once, and go into SVG attributes; the page needs no style and no script to be true to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from runs.models import JournalEntry, Step, Wait
from runs.queries import Place, Spent
from runs.templatetags import words
from runs.web import signs

LEAST = 0.7  # percent; a bar below this could not be seen
ROOM = 96.0  # percent of the width that the past takes; "now" stands there
MAX_ROWS = 400


@dataclass(frozen=True, slots=True)
class Bar:
    kind: str
    x: str
    width: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    note: str
    sign: signs.Sign | None
    bars: list[Bar]
    took: str
    kind: str  # "step", "call"
    here: bool = False
    void: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    x: str
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Timeline:
    rows: list[Row]
    marks: list[Mark]
    now: str | None
    kinds: list[str]
    steps: int
    calls: int
    worked: timedelta
    waited: timedelta
    left_out: int
    spent: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    kind: str
    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.start


class Scale:
    """Maps an instant to percent. Stretches in which something works keep their length; mere waiting is capped."""

    def __init__(self, spans: Sequence[Span], *, room: float = ROOM) -> None:
        edges = sorted({edge for span in spans for edge in (span.start, span.end)})
        busy = [span for span in spans if span.kind in ("work", "live", "failed")]
        worked = sum((span.length.total_seconds() for span in busy), 0.0)
        longest_wait = max(worked * 0.6, 0.001)
        self.edges = edges
        self.at = [0.0]
        self.short: list[tuple[datetime, datetime]] = []
        for start, end in pairwise(edges):
            length = (end - start).total_seconds()
            if not any(span.start < end and span.end > start for span in busy) and length > longest_wait:
                self.short.append((start, end))
                length = longest_wait
            self.at.append(self.at[-1] + length)
        self.unit = room / self.at[-1] if self.at[-1] else 0.0

    def percent(self, moment: datetime) -> float:
        if not self.edges or moment <= self.edges[0]:
            return 0.0
        if moment >= self.edges[-1]:
            return self.at[-1] * self.unit
        index = bisect_right(self.edges, moment) - 1
        start, end = self.edges[index], self.edges[index + 1]
        share = (moment - start) / (end - start)
        return (self.at[index] + share * (self.at[index + 1] - self.at[index])) * self.unit


def build(
    steps: Sequence[Step],
    waits: Sequence[Wait],
    journal: Sequence[JournalEntry],
    *,
    now: datetime,
    line: Mapping[int, int | None],
    running: bool,
    spent: Mapping[Place, Spent] | None = None,
) -> Timeline:
    """steps in order of their start; waits and journal of the same run. spent: what its calls used of paid models.

    line: the present branch first, then its ancestors, each with the checkpoint at which it was left (None for the first).
    """
    left_out = max(len(steps) - MAX_ROWS, 0)
    shown = list(steps)[left_out:]
    by_step: dict[tuple[int, str], list[Wait]] = {}
    for wait in waits:
        by_step.setdefault((wait.branch, wait.address), []).append(wait)
    calls: dict[tuple[int, str], list[JournalEntry]] = {}
    for entry in journal:
        calls.setdefault((entry.branch, entry.address), []).append(entry)
    spans = {_key(step): step_spans(step, by_step.get(_key(step), []), now=now) for step in shown}
    every = [span for found in spans.values() for span in found]
    scale = Scale(every)
    spent = spent or {}
    by_key: dict[tuple[int, str], Spent] = {}
    total = Spent()
    for place, amount in spent.items():
        by_key.setdefault(place[:2], Spent()).add(amount)
        total.add(amount)
    rows: list[Row] = []
    for step in shown:
        used = by_key.get(_key(step), Spent())
        rows.append(_step_row(step, spans[_key(step)], scale, line=line, spent=used))
        rows += [
            _call_row(entry, scale, spent=spent.get(_place(entry))) for entry in calls.get(_key(step), [])
        ]
    return Timeline(
        rows=rows,
        marks=_marks(scale, now=now, running=running),
        now=_percent(scale.percent(now)) if running and every else None,
        kinds=_kinds(rows),
        steps=len(steps),
        calls=len(journal),
        worked=_total(every, "work", "live", "failed"),
        waited=_total(every, "people"),
        left_out=left_out,
        spent=spent_text(total),
    )


def spent_text(spent: Spent) -> str:
    """ "1,200 tokens in, 300 out, 0.0042 USD", as far as there is any."""
    parts = []
    if spent.model_tokens_in or spent.model_tokens_out:
        parts.append(f"{spent.model_tokens_in:,} tokens in, {spent.model_tokens_out:,} out")
    parts += [f"{amount.normalize():,f} {currency}" for currency, amount in sorted(spent.cost.items())]
    return ", ".join(parts)


def step_spans(step: Step, waits: Sequence[Wait], *, now: datetime) -> list[Span]:
    """What a step's time was spent on: working before, between and after its waits."""
    start = step.started_at
    if start is None:
        return [Span("ready", step.created_at, max(step.ended_at or now, step.created_at))]
    end = step.ended_at or now
    spans: list[Span] = []
    at = start
    for wait in sorted(waits, key=lambda wait: wait.opened_at):
        until = wait.closed_at or end
        if wait.opened_at > at:
            spans.append(Span("failed" if wait.kind == "retry" else "work", at, wait.opened_at))
        spans.append(
            Span("people" if wait.kind == "approval" else "retry", max(wait.opened_at, at), max(until, at))
        )
        at = max(until, at)
    if end > at or not spans:
        spans.append(Span(_last_kind(step), at, max(end, at)))
    return spans


# ---- inside


def _key(step: Step) -> tuple[int, str]:
    return step.branch, step.address


def _last_kind(step: Step) -> str:
    if step.status == "failed":
        return "failed"
    return "live" if step.status == "executing" else "ready" if step.status == "ready" else "work"


def _place(entry: JournalEntry) -> Place:
    return entry.branch, entry.address, entry.name, entry.occurrence


WHY_FAILED = {
    "step_timeout": "took too long",
    "call_timeout": "a call took too long",
    "journal_mismatch": "asked for something else than recorded",
    "deadline_exceeded": "the run's time was over",
    "poisoned": "ended its workers",
}


def _progress(step: Step) -> str:
    """How far an executing step says it is."""
    said = step.progress or {}
    if step.status != "executing" or "done" not in said:
        return ""
    total = said.get("total")
    far = f"{said['done']:,} of {total:,}" if total is not None else f"{said['done']:,}"
    return f"{far} {said['note']}" if said.get("note") else far


def _step_row(
    step: Step, spans: Sequence[Span], scale: Scale, *, line: Mapping[int, int | None], spent: Spent
) -> Row:
    left = _is_left(step, line)
    notes = [f"#{step.visit}"] if step.visit > 1 else []
    notes += [f"attempt {step.attempt}"] if step.attempt > 1 else []
    notes += [f"left behind, branch {step.branch}"] if left else []
    why = (
        WHY_FAILED.get(str((step.error or {}).get("code"))) if step.status in ("failed", "waiting") else None
    )
    notes += [text for text in (why, _progress(step), spent_text(spent)) if text]
    waits = spans[-1].kind if step.status == "waiting" else ""
    sign = signs.RUN["retrying"] if waits == "retry" else signs.STEP[step.status]
    return Row(
        name=step.node,
        note=", ".join(notes),
        sign=sign,
        bars=[_bar(span, scale) for span in spans],
        took=words.span(spans[-1].end - spans[0].start, parts=2) if step.started_at else "",
        kind="step",
        here=waits == "people",
        void=left or step.status == "void",
    )


def _is_left(step: Step, line: Mapping[int, int | None]) -> bool:
    """Whether a step lies on a branch behind the checkpoint at which this was left."""
    if step.branch not in line:
        return True
    limit = line[step.branch]
    return limit is not None and (step.checkpoint is None or step.checkpoint > limit)


def _call_row(entry: JournalEntry, scale: Scale, *, spent: Spent | None) -> Row:
    reused = entry.reused_from is not None
    span = Span("reused" if reused else "call", entry.started_at, entry.ended_at)
    return Row(
        name=entry.name,
        note=f"from branch {entry.reused_from}" if reused else spent_text(spent) if spent else "",
        sign=None,
        bars=[_bar(span, scale)],
        took="from the journal" if reused else words.span(span.length, parts=2),
        kind="call",
    )


TITLES = {
    "work": "working",
    "live": "working now",
    "people": "waiting for people",
    "retry": "waiting to try again",
    "failed": "failed attempt",
    "ready": "ready, not taken yet",
    "call": "call",
    "reused": "from the journal",
    "time": "waiting for time",
}


def _bar(span: Span, scale: Scale) -> Bar:
    start, end = scale.percent(span.start), scale.percent(span.end)
    width = max(end - start, LEAST)
    title = f"{TITLES[span.kind]}, {words.span(span.length, parts=2)}"
    return Bar(span.kind, _percent(min(start, 100 - width)), _percent(width), title)


def _percent(value: float) -> str:
    return f"{value:.2f}%"


def _kinds(rows: Iterable[Row]) -> list[str]:
    found = {bar.kind for row in rows for bar in row.bars}
    return [kind for kind in TITLES if kind in found]


def _total(spans: Iterable[Span], *kinds: str) -> timedelta:
    return sum((span.length for span in spans if span.kind in kinds), timedelta())


def _marks(scale: Scale, *, now: datetime, running: bool) -> list[Mark]:
    """Start, the places where a wait is drawn short, and the end: as many as fit without touching."""
    if not scale.edges:
        return []
    marks = [Mark("0%", words.moment(scale.edges[0], now), "start")]
    taken = 12.0
    last = scale.percent(scale.edges[-1])
    for start, end in scale.short:
        middle = (scale.percent(start) + scale.percent(end)) / 2
        if taken + 5 <= middle <= last - 12:
            marks.append(Mark(_percent(middle), f"// {words.span(end - start)} //", "middle"))
            taken = middle + 5
    text = f"now {now:%H:%M}" if running else words.moment(scale.edges[-1], now)
    if last > 20:
        marks.append(Mark(_percent(last), text, "end"))
    return marks
