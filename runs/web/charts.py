"""Numbers as pictures: columns over time, lengths beside names, medians on a line. Pure.

Widths are shares of the drawing in %, so it fits any page without script or style; heights are pixels. Every picture stands above
the same numbers as a table: it says nothing by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext

from runs.stats import Bar, Range, Spread
from runs.templatetags import words
from runs.tongue import number

LEFT: Final = 9.0  # % that the numbers of the axis take
TOP: Final = 14.0
FOOT: Final = 152.0
THINNEST: Final = 2.0  # pixels: one failure beside ten thousand runs is seen
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Box:
    y: float
    height: float
    tone: str


@dataclass(frozen=True, slots=True)
class Column:
    """One bar of time: boxes on top of one another, a dash at what it is compared with."""

    x: float
    width: float
    boxes: list[Box]
    dash: float | None
    title: str

    @property
    def right(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Columns:
    """columns over time. lines: of the axis, at y; labels: of the time, at x in %; said: in words."""

    columns: list[Column]
    lines: list[Tick]
    labels: list[Tick]
    said: str


Stack = Sequence[tuple[int, str]]  # how much, in which tone; from the bottom up


def runs_over_time(bars: Sequence[Bar], wanted: Range) -> Columns:
    """What ended, by how; dashes: what began."""
    stacks: list[Stack] = [[(bar.completed, "a"), (bar.cancelled, "c"), (bar.failed, "f")] for bar in bars]
    titles = [
        gettext("{span}: {runs} begun, {completed} completed, {failed} failed, {cancelled} cancelled").format(
            span=_span(bar, wanted),
            runs=words.some(bar.begun, "{count} run", "{count} runs"),
            completed=number(bar.completed),
            failed=number(bar.failed),
            cancelled=number(bar.cancelled),
        )
        for bar in bars
    ]
    most = max((bar for bar in bars), key=lambda bar: bar.ended)
    said = (
        gettext("Runs that ended, at most {ended} ({span})").format(
            ended=number(most.ended), span=_span(most, wanted)
        )
        if most.ended
        else gettext("No run has ended")
    )
    return _columns(bars, wanted, stacks, titles, said, dashes=[bar.begun for bar in bars])


def steps_over_time(bars: Sequence[Bar], wanted: Range) -> Columns:
    titles = [
        f"{_span(bar, wanted)}: " + words.some(bar.steps, "{count} step", "{count} steps") for bar in bars
    ]
    most = max((bar for bar in bars), key=lambda bar: bar.steps)
    said = (
        gettext("Steps, at most {steps} ({span})").format(steps=number(most.steps), span=_span(most, wanted))
        if most.steps
        else gettext("No step was finished")
    )
    return _columns(bars, wanted, [[(bar.steps, "t")] for bar in bars], titles, said)


def _columns(
    bars: Sequence[Bar],
    wanted: Range,
    stacks: Sequence[Stack],
    titles: Sequence[str],
    said: str,
    *,
    dashes: Sequence[int] = (),
) -> Columns:
    highest = max([sum(much for much, _ in stack) for stack in stacks] + list(dashes))
    top = ceiling(highest)
    every = (100.0 - LEFT) / len(bars)
    columns = []
    for place, stack in enumerate(stacks):
        dash = _y(dashes[place], top) if dashes and dashes[place] else None
        x = LEFT + every * (place + 0.15)
        columns.append(Column(x, every * 0.7, _boxes(stack, top), dash, titles[place]))
    lines = [
        Tick(_y(top * part // 4, top), number(top * part // 4))
        for part in range(5)
        if top % 4 == 0 or part in (0, 4)
    ]
    labels = [
        Tick(LEFT + every * (place + 0.5), text)
        for place, bar in enumerate(bars[:-1])  # there is no room beside the last one
        if (text := _label(bar.at, wanted))
    ]
    return Columns(columns, lines, labels, said)


def ceiling(highest: int) -> int:
    """The end of the axis: a round number that can be halved twice, or a small one."""
    if highest <= 4:
        return 4
    size = 10 ** math.floor(math.log10(highest))
    return next(top for part in (1, 2, 4, 6, 8, 10) if (top := _in_quarters(part * size)) >= highest)


def _in_quarters(number: int) -> int:
    return math.ceil(number / 4) * 4


def _boxes(stack: Stack, top: int) -> list[Box]:
    boxes, y = [], FOOT
    for much, tone in stack:
        if much:
            height = max(THINNEST, (FOOT - TOP) * much / top)
            y -= height
            boxes.append(Box(y, height, tone))
    return boxes


def _y(much: int, top: int) -> float:
    return FOOT - (FOOT - TOP) * much / top


def _label(at: datetime, wanted: Range) -> str:
    """Some bars say when they are: few enough for a phone."""
    if wanted.length <= DAY:
        return f"{at:%H:%M}" if at.hour % 4 == 0 else ""
    if wanted.bar < DAY:
        return words.day(at) if at.hour == 0 and at.toordinal() % 2 else ""
    return words.day(at) if at.toordinal() % 6 == 0 else ""


def _span(bar: Bar, wanted: Range) -> str:
    """Which time a bar stands for, in words."""
    day = words.day(bar.at)
    return (
        day
        if wanted.bar >= DAY
        else gettext("{day} {start:%H:%M} to {end:%H:%M}").format(
            day=day, start=bar.at, end=bar.at + wanted.bar
        )
    )


def spans(bars: Sequence[Bar], wanted: Range) -> list[str]:
    """What the rows of the table are called."""
    return [_span(bar, wanted) for bar in bars]


# ---- beside names


@dataclass(frozen=True, slots=True)
class Length:
    """A name with a bar as long as its share of the longest, in %."""

    name: str
    count: int
    share: float
    tone: str = "t"
    note: str = ""
    url: str = ""


def share_of(count: int, most: int) -> float:
    return round(100.0 * count / most, 2) if most else 0.0


@dataclass(frozen=True, slots=True)
class Dots:
    """Where the median and the 95th percentile of something stand on the axis, in %."""

    name: str
    took: Spread
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Axis:
    rows: list[Dots]
    ticks: list[Tick]


ROUND: Final = (
    1,
    2,
    4,
    8,
    20,
    60,
    120,
    240,
    480,
    1_200,
    3_600,
    7_200,
    14_400,
    28_800,
    86_400,
    172_800,
    345_600,
    691_200,
)
INSIDE: Final = 96.0  # % of the width between the two ends of the axis


def latencies(rows: Mapping[str, Spread], *, nobody: str = "") -> Axis:
    """Medians and 95th percentiles on one axis from 0. nobody: what a row without a name is called."""
    longest = max((took.p95 or 0.0 for took in rows.values()), default=0.0)
    end = next((float(one) for one in ROUND if one >= longest), math.ceil(longest / 86_400) * 86_400.0)
    found = [
        Dots(name or nobody, took, _x(took.p50 or 0.0, end), _x(took.p95 or 0.0, end))
        for name, took in rows.items()
    ]
    marks = [end * part / 4 for part in range(5)]
    return Axis(
        found, [Tick(_x(mark, end), words.about(mark).replace(".0 ", " ") if mark else "0") for mark in marks]
    )


def _x(seconds: float, end: float) -> float:
    return round((100.0 - INSIDE) / 2 + INSIDE * min(1.0, seconds / end), 2)
