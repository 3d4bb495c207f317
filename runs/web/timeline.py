"""The waterfall of a run: one row a step, bars in percent of a scale on which long waits are drawn short. Pure.

Rows stand in the order of time, with three exceptions that keep together what belongs together: the steps of a lane stand
in one block, and items of a fan-out and steps of a nested workflow stand below the step that waits for them, indented.

Percentages are made here, once, and go into SVG attributes; the page needs no style and no script to be true to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import inf
from typing import Final

from django.utils import timezone
from django.utils.translation import gettext

from runs.engine.lineage import Line, is_left
from runs.models import JournalEntry, Step, Wait
from runs.queries import CallPlace, Spent
from runs.templatetags import words
from runs.tongue import Words, exact_number, number
from runs.web import signs

Key = tuple[int, str]  # of a step: branch and address
LEAST = 0.7  # percent; a bar below this could not be seen
ROOM = 96.0  # percent of the width that the past takes; "now" stands there
MOST_CALLS: Final = 25  # of one step; the others are one row
DEEPEST = 3  # what is inside more steps is indented no further
WAITED = {"approval": "people", "retry": "retry"}


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
    lane: int = 0  # which of several lanes that are active at once, from 1; 0 if it is alone
    depth: int = 0  # how many steps it is inside of
    url: str = ""  # of the checkpoint that it made


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
    lanes: int = 0  # the most that are marked beside each other
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

    def __init__(self, spans: Sequence[Span], *, room: float = ROOM, true: bool = False) -> None:
        """true: no wait is drawn short."""
        edges = sorted({edge for span in spans for edge in (span.start, span.end)})
        busy = [span for span in spans if span.kind in ("work", "live", "failed")]
        worked = sum((span.length.total_seconds() for span in busy), 0.0)
        longest_wait = inf if true else max(worked * 0.6, 0.001)
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
    line: Line,
    running: bool,
    order: Mapping[str, int] | None = None,
    spent: Mapping[CallPlace, Spent] | None = None,
    url: Callable[[int], str] | None = None,
    true_to_time: bool = False,
) -> Timeline:
    """steps in order of their start; waits and journal of the same run. spent: what its calls used of paid models.

    url: the address of a checkpoint. true_to_time: long waits are not drawn short.

    order: the place of each node in its workflow, for lanes that began in one moment.
    line: the present branch first, then its ancestors, each with the checkpoint at which it was left (None for the first).
    """
    by_step: dict[tuple[int, str], list[Wait]] = {}
    for wait in waits:
        by_step.setdefault((wait.branch, wait.address), []).append(wait)
    calls: dict[tuple[int, str], list[JournalEntry]] = {}
    for entry in journal:
        calls.setdefault((entry.branch, entry.address), []).append(entry)
    placed = arrange(steps, order or {})
    spans = {_key(place.step): _spans(place, by_step.get(_key(place.step), []), now=now) for place in placed}
    every = [span for found in spans.values() for span in found]
    scale = Scale(every, true=true_to_time)
    spent = spent or {}
    by_key: dict[tuple[int, str], Spent] = {}
    total = Spent()
    for called, amount in spent.items():
        by_key.setdefault(called[:2], Spent()).add(amount)
        total.add(amount)
    rows: list[Row] = []
    for place in placed:
        step = place.step
        used = by_key.get(_key(step), Spent())
        rows.append(_step_row(place, spans[_key(step)], scale, line=line, spent=used, url=url))
        made = calls.get(_key(step), [])
        rows += [
            _call_row(entry, scale, depth=place.depth, spent=spent.get(_call_place(entry)))
            for entry in made[:MOST_CALLS]
        ]
        if len(made) > MOST_CALLS:
            rows.append(_more_calls(made[MOST_CALLS:], scale, depth=place.depth))
    return Timeline(
        rows=rows,
        marks=_marks(scale, now=now, running=running),
        now=_percent(scale.percent(now)) if running and every else None,
        kinds=_kinds(rows),
        steps=len(steps),
        calls=len(journal),
        worked=_total(every, "work", "live", "failed"),
        waited=_total(every, "people"),
        lanes=max((place.lane for place in placed), default=0),
        spent=spent_text(total),
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step is drawn. opened: whether it waits, or waited, for items or a nested workflow."""

    step: Step
    lane: int
    depth: int
    opened: bool


def arrange(steps: Sequence[Step], order: Mapping[str, int]) -> list[Place]:
    """Lane by lane, what is inside a step below it."""
    visits: dict[tuple[int, str, str], list[Step]] = {}
    for step in steps:
        visits.setdefault((step.branch, step.lane, step.node), []).append(step)
    inside: dict[Key | None, list[Step]] = {}
    for step in steps:
        outer = _outer(step, visits)
        inside.setdefault(_key(outer) if outer else None, []).append(step)
    return list(_placed(inside, None, 0, order))


def _placed(
    inside: Mapping[Key | None, Sequence[Step]],
    outer: Key | None,
    depth: int,
    order: Mapping[str, int],
) -> Iterator[Place]:
    mine = inside.get(outer, ())
    blocks: dict[tuple[int, str], list[Step]] = {}
    for step in mine:
        blocks.setdefault((step.branch, step.lane.partition("#")[0]), []).append(step)
    numbers = _numbers(blocks, order)
    for name in sorted(blocks, key=lambda name: _begun(blocks[name], order)):
        for step in sorted(blocks[name], key=lambda step: (_item(step) or 0, step.created_at)):
            yield Place(step, numbers.get(name, 0), depth, _key(step) in inside)
            yield from _placed(inside, _key(step), depth + 1, order)


def _numbers(
    blocks: Mapping[tuple[int, str], Sequence[Step]], order: Mapping[str, int]
) -> dict[tuple[int, str], int]:
    """Lanes that began in one moment came out of one split: they are counted from 1."""
    splits: dict[tuple[int, datetime], list[tuple[int, str]]] = {}
    for name in sorted(blocks, key=lambda name: _begun(blocks[name], order)):
        splits.setdefault((name[0], blocks[name][0].created_at), []).append(name)
    return {
        name: number
        for names in splits.values()
        if len(names) > 1
        for number, name in enumerate(names, start=1)
    }


def _begun(block: Sequence[Step], order: Mapping[str, int]) -> tuple[datetime, int, str]:
    return block[0].created_at, order.get(block[0].node, len(order)), block[0].address


def _outer(step: Step, visits: Mapping[tuple[int, str, str], Sequence[Step]]) -> Step | None:
    """The step that waits for this one, if that is drawn too: of the visits of its node the last that began before."""
    lane, item, _ = step.lane.partition("#")
    node = step.node
    if not item:
        lane, node = lane.rpartition("/")[0], node.rpartition("/")[0]
    before = [one for one in visits.get((step.branch, lane, node), ()) if one.created_at <= step.created_at]
    return before[-1] if before else None


def _item(step: Step) -> int | None:
    index = step.lane.partition("#")[2]
    return int(index) if index else None


def spent_text(spent: Spent) -> str:
    """ "1,200 tokens in, 300 out, 0.0042 USD", as far as there is any."""
    parts = []
    if spent.model_tokens_in or spent.model_tokens_out:
        parts.append(
            gettext("{model_tokens_in} tokens in, {model_tokens_out} out").format(
                model_tokens_in=number(spent.model_tokens_in), model_tokens_out=number(spent.model_tokens_out)
            )
        )
    parts += [f"{exact_number(amount)} {currency}" for currency, amount in sorted(spent.cost.items())]
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
        spans.append(Span(WAITED.get(wait.kind, "time"), max(wait.opened_at, at), max(until, at)))
        at = max(until, at)
    if end > at or not spans:
        spans.append(Span(_last_kind(step), at, max(end, at)))
    return spans


# ---- inside


def _spans(place: Place, waits: Sequence[Wait], *, now: datetime) -> list[Span]:
    step = place.step
    if place.opened and step.started_at:
        return [Span("inside", step.started_at, max(step.ended_at or now, step.started_at))]
    return step_spans(step, waits, now=now)


def _key(step: Step) -> Key:
    return step.branch, step.address


def _last_kind(step: Step) -> str:
    if step.status == "failed":
        return "failed"
    return "live" if step.status == "executing" else "ready" if step.status == "ready" else "work"


def _call_place(entry: JournalEntry) -> CallPlace:
    return entry.branch, entry.address, entry.name, entry.occurrence


WHY_FAILED = Words(
    {
        "step_timeout": "took too long",
        "call_timeout": "a call took too long",
        "journal_mismatch": "asked for something else than recorded",
        "deadline_exceeded": "the run's time was over",
        "poisoned": "ended its workers",
    }
)


def _progress(step: Step) -> str:
    """How far an executing step says it is."""
    said = step.progress or {}
    if step.status != "executing" or "done" not in said:
        return ""
    total = said.get("total")
    far = (
        gettext("{done} of {total}").format(done=number(said["done"]), total=number(total))
        if total is not None
        else number(said["done"])
    )
    return f"{far} {said['note']}" if said.get("note") else far


def _step_row(
    place: Place,
    spans: Sequence[Span],
    scale: Scale,
    *,
    line: Line,
    spent: Spent,
    url: Callable[[int], str] | None,
) -> Row:
    step = place.step
    left = is_left(line, step.branch, step.checkpoint)
    notes = [gettext("takes back {name}").format(name=step.undoes[2])] if step.undoes else []
    notes += [f"#{step.visit}"] if step.visit > 1 else []
    attempt = step.attempt - (step.status == "failed")  # of what has failed there is no next one
    notes += [gettext("attempt {attempt}").format(attempt=attempt)] if attempt > 1 else []
    notes += [gettext("left behind, branch {branch}").format(branch=step.branch)] if left else []
    why = (
        WHY_FAILED.get(str((step.error or {}).get("code"))) if step.status in ("failed", "waiting") else None
    )
    notes += [text for text in (why, _progress(step), spent_text(spent)) if text]
    waits = spans[-1].kind if step.status == "waiting" else ""
    sign = {"retry": signs.RUN["retrying"], "time": signs.WAITING["timer"]}.get(
        waits, signs.STEP[step.status]
    )
    if place.opened and step.status == "waiting":
        sign = signs.INSIDE
    item = _item(step)
    return Row(
        name=_name(step, inside=place.depth > 0) if item is None else f"{_name(step)}[{item}]",
        note=", ".join(notes),
        sign=sign,
        bars=[_bar(span, scale) for span in spans],
        took=words.span(spans[-1].end - spans[0].start, parts=2) if step.started_at else "",
        kind="step",
        here=waits == "people",
        void=left or step.status == "void",
        lane=place.lane,
        depth=min(place.depth, DEEPEST),
        url=url(step.checkpoint) if url and step.checkpoint is not None else "",
    )


def _name(step: Step, *, inside: bool = True) -> str:
    """Below the step around it the node's own name will do."""
    return step.node.rpartition("/")[2] if inside else step.node


def _call_row(entry: JournalEntry, scale: Scale, *, depth: int = 0, spent: Spent | None) -> Row:
    reused = entry.reused_from is not None
    waited = entry.kind != "call"
    kind = "people" if entry.kind == "answer" else "time" if waited else "reused" if reused else "call"
    span = Span(kind, entry.started_at, entry.ended_at)
    return Row(
        name=entry.name,
        note=gettext("from branch {reused_from}").format(reused_from=entry.reused_from)
        if reused
        else spent_text(spent)
        if spent
        else "",
        sign=None,
        bars=[_bar(span, scale)],
        took=gettext("from the journal") if reused else words.span(span.length, parts=2),
        kind="call",
        depth=min(depth, DEEPEST),
    )


def _more_calls(entries: Sequence[JournalEntry], scale: Scale, *, depth: int) -> Row:
    span = Span("call", min(entry.started_at for entry in entries), max(entry.ended_at for entry in entries))
    return Row(
        name=words.some(len(entries), "{count} more call", "{count} more calls"),
        note="",
        sign=None,
        bars=[_bar(span, scale)],
        took=words.span(span.length, parts=2),
        kind="call",
        depth=min(depth, DEEPEST),
    )


WORDS: Final = Words(
    {  # of each kind of bar
        "work": "working",
        "live": "working now",
        "people": "waiting for people",
        "retry": "waiting to try again",
        "failed": "failed attempt",
        "ready": "ready",
        "call": "call",
        "reused": "from the journal",
        "time": "waiting for time, a signal or a child run",
        "inside": "from its first to its last part",
    }
)


def _bar(span: Span, scale: Scale) -> Bar:
    start, end = scale.percent(span.start), scale.percent(span.end)
    width = max(end - start, LEAST)
    title = f"{WORDS[span.kind]}, {words.span(span.length, parts=2)}"
    return Bar(span.kind, _percent(min(start, 100 - width)), _percent(width), title)


def _percent(value: float) -> str:
    return f"{value:.2f}%"


def _kinds(rows: Iterable[Row]) -> list[str]:
    found = {bar.kind for row in rows for bar in row.bars}
    return [kind for kind in WORDS if kind in found]


def _total(spans: Iterable[Span], *kinds: str) -> timedelta:
    return sum((span.length for span in spans if span.kind in kinds), timedelta())


def _marks(scale: Scale, *, now: datetime, running: bool) -> list[Mark]:
    """Start, the places where a wait is drawn short, and the end: as many as fit without touching."""
    if not scale.edges:
        return []
    zone = timezone.get_current_timezone()
    marks = [Mark("0%", words.moment(scale.edges[0], now, zone), "start")]
    taken = 12.0
    last = scale.percent(scale.edges[-1])
    for start, end in scale.short:
        middle = (scale.percent(start) + scale.percent(end)) / 2
        if taken + 5 <= middle <= last - 12:
            marks.append(Mark(_percent(middle), f"// {words.span(end - start)} //", "middle"))
            taken = middle + 5
    text = (
        gettext("now {clock:%H:%M}").format(clock=now.astimezone(zone))
        if running
        else words.moment(scale.edges[-1], now, zone)
    )
    if last > 20:
        marks.append(Mark(_percent(last), text, "end"))
    return marks
