"""Times, sizes and ids as a person says them, in the reader's language. Now is an argument, and so is whose clock is meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from uuid import UUID

from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from runs.tongue import number

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_DAY: Final = 86_400


def span(length: timedelta | float, *, parts: int = 1) -> str:
    """A length of time: "0.4 s", "37 s", "17 min", "3 h", "2 d"; with parts=2 "3 h 17 min" up to a day."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{number(seconds, 1)} s" if seconds >= 0.05 else f"{round(seconds * 1000)} ms"
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size)
    if parts == 1 or unit == "s" or seconds > _DAY:
        # Never rounded up past what is left; "1 d" would stand for anything from 24 to 48 hours.
        size, unit = (3_600, "h") if unit == "d" and seconds < 2 * _DAY else (size, unit)
        return f"{int(seconds // size)} {unit}"
    smaller, name = _UNITS[[s for s, _ in _UNITS].index(size) + 1]
    rest = int(seconds % size // smaller)
    return f"{int(seconds // size)} {unit}" + (f" {rest} {name}" if rest else "")


def about(seconds: float) -> str:
    """A length of time that is known to within a fifth, in one unit: "0.4 s", "37 s", "78 min", "5 h", "3 d"."""
    if seconds < 90:
        return span(seconds)
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size or unit == "min")
    return f"{round(seconds / size)} {unit}"


def cut(text: str, length: int) -> str:
    """A text that fits, with "…" where some of it is left out."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def age(at: datetime, now: datetime) -> str:
    """How long ago: "3 h"; "now" below a second."""
    seconds = (now - at).total_seconds()
    return gettext("now") if seconds < 1 else f"{round(seconds)} s" if seconds < 9.95 else span(seconds)


def moment(at: datetime, now: datetime, zone: tzinfo = UTC) -> str:
    """A point in time on the clock of a zone: "14:20", "yesterday 16:40", "12 Jun 11:20", "12 Jun 2025 11:20"."""
    at, now = at.astimezone(zone), now.astimezone(zone)
    days = (at.date() - now.date()).days
    clock = f"{at:%H:%M}"
    if days == 0:
        return clock
    if days in (-1, 1):
        near = gettext("yesterday {clock}") if days < 0 else gettext("tomorrow {clock}")
        return near.format(clock=clock)
    return date_format(at, gettext("j M H:i") if at.year == now.year else gettext("j M Y H:i"))


def day(at: datetime) -> str:
    """ "12 Jun"."""
    return date_format(at, gettext("j M"))


def percent(share: float) -> str:
    """ "12.5%"."""
    return gettext("{number}%").format(number=number(100 * share, 1))


def exact(at: datetime) -> str:
    """The instant in UTC, for machines and for titles."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact_there(at: datetime, zone: tzinfo) -> str:
    """The instant on the clock of a zone, then in UTC where that says something else."""
    there = at.astimezone(zone)
    if there.utcoffset() == timedelta(0):
        return exact(at)
    return f"{there.isoformat(sep=' ', timespec='milliseconds')} ({zone}), {exact(at)}"


def short_id(value: UUID | str, prefix: str = "") -> str:
    """The first eight hex digits of an id, as lists and headings show it."""
    return prefix + str(value).replace("-", "")[:8]


def size(count: int) -> str:
    """Bytes in the unit a person would take: "214 bytes", "2.1 kB", "1.0 MB"."""
    if count < 1_000:
        return some(count, "{count} byte", "{count} bytes")
    return f"{number(count / 1_000, 1)} kB" if count < 1_000_000 else f"{number(count / 1_000_000, 1)} MB"


def some(count: int, one: str, many: str) -> str:
    """ "1 step", "2 steps", "1,284 rows". one, many: with {count} in them."""
    return ngettext(one, many, count).format(count=number(count))


def listing(items: list[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"; last: "and" or "or"."""
    if len(items) < 2:
        return "".join(items)
    both = gettext("{first} or {last}") if last == "or" else gettext("{first} and {last}")
    return both.format(first=", ".join(items[:-1]), last=items[-1])
