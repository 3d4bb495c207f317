"""When the mail of a day is due: by the clock of whoever hears of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runs.models import Preference, User


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("zone", "hour", "now", "before"),
    [
        ("", 7, "2026-12-01T07:00:00+00:00", "2026-12-01T07:00:00+00:00"),
        ("", 7, "2026-12-01T06:59:59+00:00", "2026-11-30T07:00:00+00:00"),
        ("Europe/Berlin", 8, "2026-12-01T07:30:00+00:00", "2026-12-01T08:00:00+01:00"),
        ("Pacific/Auckland", 8, "2026-12-01T18:59:00+00:00", "2026-12-01T08:00:00+13:00"),
        ("Europe/Berlin", 8, "2027-03-28T06:30:00+00:00", "2027-03-28T08:00:00+02:00"),  # an hour is left out
        ("America/New_York", 23, "2026-12-01T03:00:00+00:00", "2026-11-29T23:00:00-05:00"),
        ("No/Where", 7, "2026-12-01T08:00:00+00:00", "2026-12-01T07:00:00+00:00"),
    ],
)
def test_the_last_time_that_it_was_this_hour(zone: str, hour: int, now: str, before: str) -> None:
    told = Preference(user=User(username="frida", zone=zone), hour=hour)
    assert told.hour_before(at(now)) == at(before)


def test_of_the_project_it_is_the_clock_of_utc() -> None:
    assert Preference(hour=9).hour_before(at("2026-12-01T09:30:00+00:00")) == at("2026-12-01T09:00:00+00:00")
