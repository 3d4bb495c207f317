"""Working time, also over the changes of the clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.hours import Business, Hours, business, hours_from, is_zone, known_zones
from runs.engine.workflow import due_of
from runs.errors import Unprocessable, WorkflowError

BERLIN = Hours("Europe/Berlin")
NIGHT = Hours("Europe/Berlin", week=((0, 480),) * 7)  # midnight to eight, every day


def at(text: str, zone: str = "Europe/Berlin") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("hours", "asked", "length", "due"),
    [
        (BERLIN, "2026-11-30T10:00", Business(8, "hours"), "2026-12-01T10:00"),  # Monday
        (BERLIN, "2026-11-30T10:00", Business(7, "hours"), "2026-11-30T17:00"),  # to the minute at which work ends
        (BERLIN, "2026-12-04T16:00", Business(2, "hours"), "2026-12-07T10:00"),  # Friday to Monday
        (BERLIN, "2026-12-05T03:00", Business(1, "hours"), "2026-12-07T10:00"),  # nobody works on Saturday
        (BERLIN, "2026-11-30T10:30", Business(2, "days"), "2026-12-02T10:30"),
        (BERLIN, "2026-11-30T20:00", Business(1, "days"), "2026-12-02T09:00"),  # as if it came when work begins
        (BERLIN, "2026-12-04T10:30", Business(1, "days"), "2026-12-07T10:30"),
        # The clocks change in the night to Sunday: nine in the morning stays nine in the morning.
        (BERLIN, "2026-03-27T16:00", Business(2, "hours"), "2026-03-30T10:00"),
        (BERLIN, "2026-03-27T16:00", Business(1, "days"), "2026-03-30T16:00"),
        (BERLIN, "2026-10-23T16:00", Business(2, "hours"), "2026-10-26T10:00"),
        # Whoever works in that night works an hour less, or one more.
        (NIGHT, "2026-03-29T00:00", Business(7, "hours"), "2026-03-29T08:00"),
        (NIGHT, "2026-10-25T00:00", Business(9, "hours"), "2026-10-25T08:00"),
    ],
)  # fmt: skip
def test_working_time_passes_while_people_work(hours: Hours, asked: str, length: Business, due: str) -> None:
    assert hours.after(at(asked), length) == at(due).astimezone(UTC)


def test_nobody_works_on_a_holiday() -> None:
    hours = Hours("Europe/Berlin", holidays=frozenset({date(2026, 12, 25)}))
    assert hours.after(at("2026-12-24T16:00"), Business(2, "hours")) == at("2026-12-28T10:00")


def test_a_day_can_end_at_midnight() -> None:
    late = hours_from({"zone": "Asia/Tokyo", "week": {"mon": ["18:00", "24:00"], "tue": ["18:00", "24:00"]}})
    asked = at("2026-11-30T22:00", "Asia/Tokyo")
    assert late.after(asked, Business(3, "hours")) == at("2026-12-01T19:00", "Asia/Tokyo")


@given(
    minutes=st.integers(0, 2 * 365 * 24 * 60),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
    ),
    first=st.integers(1, 40),
    more=st.integers(1, 40),
)
def test_two_lengths_one_after_the_other_are_their_sum(
    minutes: int, zone: str, first: int, more: int
) -> None:
    hours, moment = Hours(zone), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    in_two = hours.after(hours.after(moment, Business(first, "hours")), Business(more, "hours"))
    assert in_two == hours.after(moment, Business(first + more, "hours"))
    wall = in_two.astimezone(ZoneInfo(zone))
    assert wall.weekday() < 5
    assert 9 * 60 < wall.hour * 60 + wall.minute + wall.second / 60 <= 17 * 60 or wall.microsecond
    assert in_two - moment >= timedelta(hours=first + more)


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ({"zone": "Mars/Olympus", "week": {"mon": ["09:00", "17:00"]}}, "/zone"),
        ({"zone": "../../etc/passwd", "week": {"mon": ["09:00", "17:00"]}}, "/zone"),
        ({"zone": "UTC", "week": {"mon": ["17:00", "09:00"]}}, "/week/mon"),
        ({"zone": "UTC", "week": {"mon": ["9", "17:00"]}}, "/week/mon"),
        ({"zone": "UTC", "week": {"mon": ["09:00", "24:30"]}}, "/week/mon"),
        ({"zone": "UTC", "week": {"monday": ["09:00", "17:00"]}}, "/week"),
        ({"zone": "UTC", "week": {}}, "/week"),
        ({"zone": "UTC", "week": {"mon": ["09:00", "17:00"]}, "holidays": ["25.12."]}, "/holidays/0"),
    ],
)
def test_hours_that_are_none_are_refused_with_the_place(told: dict[str, object], path: str) -> None:
    with pytest.raises(Unprocessable) as refused:
        hours_from(told)
    assert path in [problem.path for problem in refused.value.errors]


def test_hours_are_read_as_they_were_written() -> None:
    assert hours_from(BERLIN.as_dict()) == BERLIN


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("8 business hours", Business(8, "hours")),
        ("1 business hour", Business(1, "hours")),
        ("2 working days", Business(2, "days")),
        ("8h", None),
        ("business hours", None),
    ],
)
def test_a_length_of_working_time_is_a_text(text: str, length: Business | None) -> None:
    assert business(text) == length


@pytest.mark.parametrize("due", ["0 business hours", "1.5 business days", "9999 business hours", "soon"])
def test_a_due_time_that_is_none_is_refused(due: str) -> None:
    with pytest.raises(WorkflowError):
        due_of(due, where="ask")


def test_hours_are_said_in_words() -> None:
    """Days of the same hours together, free ones left out."""
    told = {"mon": ["09:00", "17:00"], "tue": ["09:00", "17:00"], "thu": ["10:00", "24:00"]}
    hours = hours_from({"zone": "Europe/Berlin", "week": told, "holidays": ["2026-12-25"]})
    assert str(hours) == "Mon to Tue 09:00 to 17:00, Thu 10:00 to 24:00, Europe/Berlin, 1 holiday"
    assert str(Hours()) == "Mon to Fri 09:00 to 17:00, UTC"


def test_zones_to_pick_from_are_those_of_places() -> None:
    known = known_zones()
    assert known[0] == "UTC"
    assert {"Europe/Berlin", "Asia/Kathmandu", "America/Argentina/Ushuaia"} <= set(known)
    assert not {"EST", "Etc/GMT+1", "posix/UTC", "Factory"} & set(known)
    assert all(is_zone(name) for name in known)
