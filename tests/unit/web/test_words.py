"""Times, sizes and ids in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils import translation

from runs.templatetags import codes, words

NOW = datetime(2025, 6, 11, 14, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "one", "two"),
    [
        (0, "0 ms", "0 ms"),
        (0.012, "12 ms", "12 ms"),
        (0.4, "0.4 s", "0.4 s"),
        (9.1, "9.1 s", "9.1 s"),
        (37.9, "37 s", "37 s"),
        (60, "1 min", "1 min"),
        (1_025, "17 min", "17 min 5 s"),
        (11_820, "3 h", "3 h 17 min"),
        (10_800, "3 h", "3 h"),
        (75_600, "21 h", "21 h"),
        (100_000, "27 h", "27 h"),
        (172_800, "2 d", "2 d"),
        (-5, "0 ms", "0 ms"),
    ],
)
def test_a_span_is_said_in_one_unit_or_two(seconds: float, one: str, two: str) -> None:
    assert (words.span(seconds), words.span(timedelta(seconds=seconds), parts=2)) == (one, two)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (datetime(2025, 6, 11, 11, 20, tzinfo=UTC), "11:20"),
        (datetime(2025, 6, 10, 16, 40, tzinfo=UTC), "yesterday 16:40"),
        (datetime(2025, 6, 12, 11, 20, tzinfo=UTC), "tomorrow 11:20"),
        (datetime(2025, 5, 2, 9, 5, tzinfo=UTC), "2 May 09:05"),
        (datetime(2024, 12, 31, 23, 59, tzinfo=UTC), "31 Dec 2024 23:59"),
    ],
)
def test_a_moment_is_said_as_near_as_it_is(at: datetime, said: str) -> None:
    assert words.moment(at, NOW) == said


@pytest.mark.parametrize(
    ("zone", "said", "exact"),
    [
        ("UTC", "yesterday 23:30", "2025-06-10T23:30:00.000Z"),
        ("Europe/Berlin", "01:30", "2025-06-11 01:30:00.000+02:00 (Europe/Berlin), 2025-06-10T23:30:00.000Z"),
        ("Africa/Abidjan", "yesterday 23:30", "2025-06-10T23:30:00.000Z"),
    ],
)
def test_a_moment_is_said_on_the_clock_of_its_reader(zone: str, said: str, exact: str) -> None:
    at, clock = datetime(2025, 6, 10, 23, 30, tzinfo=UTC), ZoneInfo(zone)
    assert words.moment(at, NOW, clock) == said
    assert words.exact_there(at, clock) == exact


def test_an_age_below_a_second_is_now() -> None:
    assert words.age(NOW, NOW) == "now"
    assert words.age(NOW - timedelta(seconds=4.4), NOW) == "4 s"
    assert words.age(NOW - timedelta(hours=3), NOW) == "3 h"


def test_the_exact_instant_names_its_zone() -> None:
    assert words.exact(NOW) == "2025-06-11T14:20:00.000Z"


def test_a_short_id_is_the_first_eight_digits() -> None:
    assert words.short_id(UUID("81f3a2c4-1c00-4000-8000-00000000000a"), "R-") == "R-81f3a2c4"


def test_counts_and_sizes_read_as_sentences() -> None:
    assert words.some(1, "{count} step", "{count} steps") == "1 step"
    assert words.some(1284, "{count} row", "{count} rows") == "1,284 rows"
    assert (words.size(1), words.size(214), words.size(2_140)) == ("1 byte", "214 bytes", "2.1 kB")
    assert words.listing(["a"]) == "a"
    assert words.listing(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("code", "english", "german"),
    [
        ("none", "no effect", "keine Wirkung"),
        ("approve", "approve", "freigeben"),
        ("redirect_refused", "redirect refused", "Umleitung abgewiesen"),
        ("of_a_later_version", "of a later version", "of a later version"),
    ],
)
def test_a_code_is_said_in_the_readers_language_and_an_unknown_one_as_it_is(
    code: str, english: str, german: str
) -> None:
    assert codes.word(code) == english
    with translation.override("de"):
        assert codes.word(code) == german
