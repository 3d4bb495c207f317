"""Times that people type: a date with a time on the clock of somebody's wall; and the zones to pick from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from runs.engine.hours import known_zones
from runs.errors import Problem, Told, Unprocessable

YEARS: Final = range(2000, 2200)  # of a calendar that somebody works by


def zone_choices(chosen: str) -> Sequence[str]:
    """The zones of places; one that was chosen by another name is among them."""
    known = known_zones()
    return known if not chosen or chosen in known else [chosen, *known]


def instant(text: str, zone: tzinfo, *, path: str) -> datetime:
    """What a field for date and time sends, as an instant. A time that comes twice is the first. Raises `Unprocessable`."""
    try:
        wall = datetime.fromisoformat(text)
    except ValueError:
        wall = None
    if wall is None or wall.year not in YEARS:
        told = Told("a date and a time")
        raise Unprocessable(f"{path[1:]}: {told}.", errors=[Problem(path, "invalid_instant", told)])
    return wall.replace(tzinfo=wall.tzinfo or zone).astimezone(UTC)


def in_field(at: datetime, zone: tzinfo) -> str:
    """An instant as a field for date and time holds it."""
    return at.astimezone(zone).strftime("%Y-%m-%dT%H:%M")
