"""Which steps of a long run its timeline draws, the strip of all of them, and the ways from one window to the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.utils.translation import gettext

from runs.templatetags import words
from runs.tongue import number
from runs.tracing import Stretch


@dataclass(frozen=True, slots=True)
class Column:
    """A stretch of all steps as a column of the strip. tone: the worst in it."""

    x: str
    width: str
    tone: str  # "failed", "live", "done"
    here: bool
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Window:
    """Which steps of how many are drawn, and the ways to the others; no columns where all are drawn."""

    first: int
    last: int
    every: int
    columns: list[Column]
    earlier: str
    later: str
    newest: str
    scales: list[tuple[str, str, bool]]  # word, address, whether it is this one


def window(
    strip: Sequence[Stretch], *, first: int, shown: int, size: int, url: str, true_to_time: bool
) -> Window:
    """strip: all steps; first: the number of the first that is drawn."""
    every = strip[-1].last if strip else 0
    last = first + shown - 1
    newest = max(every - size + 1, 1)

    def to(start: int | None, *, true: bool = true_to_time) -> str:
        told = {"from": "" if start in (None, newest) else start, "scale": "true" if true else ""}
        said = urlencode({key: value for key, value in told.items() if value})
        return f"{url}?{said}" if said else url

    width = 100 / len(strip) if strip else 0.0
    columns = [
        Column(
            percent(place * width),
            percent(width),
            "failed" if one.failed else "live" if one.live else "done",
            one.first <= last and first <= one.last,
            _told(one),
            to(one.first),
        )
        for place, one in enumerate(strip)
    ]
    return Window(
        first=min(first, every),
        last=last,
        every=every,
        columns=columns if every > shown else [],
        earlier=to(max(first - size, 1)) if first > 1 else "",
        later=to(min(first + size, newest)) if last < every else "",
        newest=to(None) if last < every else "",
        scales=[
            (gettext("Waits drawn short"), to(first, true=False), not true_to_time),
            (gettext("True to time"), to(first, true=True), true_to_time),
        ],
    )


def _told(one: Stretch) -> str:
    parts = [
        gettext("steps {first} to {last}").format(first=number(one.first), last=number(one.last)),
        words.span(one.ended_at - one.begun_at, parts=2),
    ]
    parts += [gettext("{failed} failed").format(failed=number(one.failed))] if one.failed else []
    parts += [gettext("{live} going on").format(live=number(one.live))] if one.live else []
    return ", ".join(parts)


def percent(value: float) -> str:
    return f"{value:.2f}%"
