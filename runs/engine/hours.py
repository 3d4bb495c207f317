"""Working time: how long people take counts only while they work. Pure; time zones come from the standard library's zoneinfo.

A day's working time is given on the clock of the wall of a place, so it starts at nine before and after the clocks change.
Working hours are counted in real time: a night in which the clocks change is an hour shorter, or longer. A working day is
counted on the wall: the same time of day, so many days later on which somebody works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from itertools import groupby, islice
from typing import Final, Literal
from zoneinfo import ZoneInfo, available_timezones

from runs.engine.canonical import Json
from runs.errors import Problem, Told, Unprocessable

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
REGIONS: Final = frozenset(
    [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    ]
)
MOST_HOLIDAYS: Final = 500
MOST_DAYS: Final = 3_660  # ahead that anybody looks
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s+(business|working)\s+(hour|day)s?\Z")
_CLOCK = re.compile(r"([01]\d|2[0-4]):([0-5]\d)\Z")


@dataclass(frozen=True, slots=True)
class Business:
    """A length of working time: so many hours in which people work, or so many days on which they do."""

    amount: float
    unit: Literal["hours", "days"]

    def as_dict(self) -> dict[str, Json]:
        return {"amount": self.amount, "unit": self.unit}

    def __str__(self) -> str:
        return f"{self.amount:g} business {self.unit if self.amount != 1 else self.unit[:-1]}"


def business(text: str) -> Business | None:
    """`8 business hours` or `2 business days` as a length; None if the text is nothing of the kind."""
    match = _SPAN.match(text.strip().lower())
    if match is None:
        return None
    return Business(float(match[1]), "hours" if match[3] == "hour" else "days")


@dataclass(frozen=True, slots=True)
class Hours:
    """When people of a team work.

    zone: an IANA name. week: by weekday from Monday, the first and last minute of the day (1440 is midnight), or None.
    holidays: dates on which nobody works.
    """

    zone: str = "UTC"
    week: tuple[tuple[int, int] | None, ...] = (*[(9 * 60, 17 * 60)] * 5, None, None)
    holidays: frozenset[date] = field(default_factory=frozenset)

    def as_dict(self) -> dict[str, Json]:
        """As it is written down: `{"zone": "Europe/Berlin", "week": {"mon": ["09:00", "17:00"]}, "holidays": ["2026-12-25"]}`."""
        week: dict[str, Json] = {
            name: [_clock(window[0]), _clock(window[1])]
            for name, window in zip(DAYS, self.week, strict=True)
            if window
        }
        return {
            "zone": self.zone,
            "week": week,
            "holidays": [day.isoformat() for day in sorted(self.holidays)],
        }

    def __str__(self) -> str:
        """`Mon to Fri 09:00 to 17:00, Europe/Berlin, 2 holidays`."""
        free = len(self.holidays)
        told = [*self._said_week(), self.zone, f"{free} holiday{'' if free == 1 else 's'}" if free else ""]
        return ", ".join(part for part in told if part)

    def _said_week(self) -> Iterator[str]:
        for first, last, begin, end in self.stretches():
            both = first.capitalize() if first == last else f"{first.capitalize()} to {last.capitalize()}"
            yield f"{both} {begin} to {end}"

    def stretches(self) -> Iterator[tuple[str, str, str, str]]:
        """Days in a row with the same hours: the first, the last, from when, until when; as ("mon", "fri", "09:00", "17:00")."""
        for window, days in groupby(zip(DAYS, self.week, strict=True), key=lambda day: day[1]):
            names = [name for name, _ in days]
            if window:
                yield names[0], names[-1], _clock(window[0]), _clock(window[1])

    def after(self, moment: datetime, length: Business) -> datetime:
        """The instant at which so much working time has passed. moment: aware; the answer is in UTC."""
        if length.unit == "hours":
            return self._after_hours(moment, timedelta(hours=length.amount))
        return self._after_days(moment, int(length.amount))

    def _after_hours(self, moment: datetime, left: timedelta) -> datetime:
        for start, end in self._windows(moment):
            begin = max(start, moment)
            if end - begin >= left:
                return begin + left
            left -= max(end - begin, timedelta())
        raise _endless()

    def _after_days(self, moment: datetime, days: int) -> datetime:
        opening = next((max(start, moment) for start, end in self._windows(moment) if end > moment), None)
        if opening is None:
            raise _endless()
        local = opening.astimezone(zone_named(self.zone))
        minute = local.hour * 60 + local.minute
        later = list(islice(self._working_days(local.date() + timedelta(days=1)), days))
        if len(later) < days:
            raise _endless()
        day, (start, end) = later[-1]
        within = min(max(minute, start), end)
        exact = timedelta(seconds=local.second, microseconds=local.microsecond)
        return self._instant(day, within) + (exact if within == minute < end else timedelta())

    def _windows(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Working time as instants: every window that has not ended by a moment."""
        first = moment.astimezone(zone_named(self.zone)).date()
        for day, (start, end) in self._working_days(first):
            opens, closes = self._instant(day, start), self._instant(day, end, last=True)
            if closes > moment:
                yield opens, closes

    def _working_days(self, first: date) -> Iterator[tuple[date, tuple[int, int]]]:
        for ahead in range(MOST_DAYS):
            day = first + timedelta(days=ahead)
            window = self.week[day.weekday()]
            if window is not None and day not in self.holidays:
                yield day, window

    def _instant(self, day: date, minute: int, *, last: bool = False) -> datetime:
        """A time on the wall as an instant. One that comes twice means the first time, or the last at the end of work."""
        if minute == 24 * 60:
            day, minute = day + timedelta(days=1), 0
        wall = datetime.combine(day, time(minute // 60, minute % 60), zone_named(self.zone))
        return wall.replace(fold=int(last)).astimezone(UTC)


STANDARD: Final = Hours()  # where a team has said nothing


def hours_from(told: Json) -> Hours:
    """Working time as it was written down (see `Hours.as_dict`). Raises `Unprocessable` with a path for every fault."""
    problems: list[Problem] = []
    if not isinstance(told, Mapping) or set(told) - {"zone", "week", "holidays"}:
        raise Unprocessable("Working hours are an object with zone, week and holidays.")
    zone = str(told.get("zone", "UTC"))
    if not is_zone(zone):
        problems.append(
            Problem(
                "/zone",
                "unknown_zone",
                Told("{zone!r} is no time zone, such as Europe/Berlin", zone=zone[:60]),
            )
        )
    week = _week(told.get("week", {}), problems)
    holidays = _holidays(told.get("holidays", []), problems)
    if not problems and not any(week):
        problems.append(Problem("/week", "no_day", "somebody must work on some day"))
    if problems:
        raise Unprocessable("The working hours cannot be taken.", errors=problems)
    return Hours(zone, week, holidays)


def is_zone(name: str) -> bool:
    """Whether a text is a time zone's name that this machine knows."""
    try:
        zone_named(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


@lru_cache(maxsize=200)
def zone_named(name: str) -> ZoneInfo:
    """A time zone. Raises `ValueError`, `OSError` or `KeyError` for what is no name of one."""
    return ZoneInfo(name)


@cache
def known_zones() -> tuple[str, ...]:
    """The zones of places, UTC first: what somebody may pick. Other names that this machine knows are taken too."""
    places = (name for name in available_timezones() if name.partition("/")[0] in REGIONS)
    return ("UTC", *sorted(places))


def _week(told: Json, problems: list[Problem]) -> tuple[tuple[int, int] | None, ...]:
    if not isinstance(told, Mapping) or set(told) - set(DAYS):
        problems.append(
            Problem("/week", "invalid_week", Told("the days are {choices}", choices=", ".join(DAYS)))
        )
        return ()
    return tuple(_window(name, told.get(name), problems) for name in DAYS)


def _window(name: str, told: Json, problems: list[Problem]) -> tuple[int, int] | None:
    if told is None:
        return None
    both = [_minutes(clock) for clock in told] if isinstance(told, Sequence) and len(told) == 2 else []
    start, end = both or (None, None)
    if start is None or end is None or not start < end:
        problems.append(
            Problem(f"/week/{name}", "invalid_hours", 'from and until, such as ["09:00", "17:30"]')
        )
        return None
    return start, end


def _minutes(clock: Json) -> int | None:
    match = _CLOCK.match(clock) if isinstance(clock, str) else None
    minutes = int(match[1]) * 60 + int(match[2]) if match else None
    return minutes if minutes is not None and minutes <= 24 * 60 else None


def _holidays(told: Json, problems: list[Problem]) -> frozenset[date]:
    if not isinstance(told, list) or len(told) > MOST_HOLIDAYS:
        problems.append(
            Problem(
                "/holidays",
                "invalid_dates",
                Told("a list of at most {most_holidays} dates", most_holidays=MOST_HOLIDAYS),
            )
        )
        return frozenset()
    found = set()
    for index, text in enumerate(told):
        try:
            found.add(date.fromisoformat(str(text)))
        except ValueError:
            problems.append(Problem(f"/holidays/{index}", "invalid_date", "a date such as 2026-12-25"))
    return frozenset(found)


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _endless() -> Unprocessable:
    return Unprocessable("So much working time does not pass within ten years.")
