"""When something is tried again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.delivery import schedule

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@given(st.integers(1, 20), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1e9)))
def test_a_delay_is_at_least_the_planned_one_and_ends(attempt: int, draw: float, asked: float | None) -> None:
    delay = schedule.delay_after(attempt, draw=draw, retry_after=asked)
    if attempt >= schedule.ATTEMPTS:
        assert delay is None
        return
    assert delay is not None
    planned = schedule.DELAYS[attempt - 1]
    assert planned <= delay <= max(planned * (1 + schedule.JITTER), schedule.PATIENCE)
    assert asked is None or delay >= min(asked, schedule.PATIENCE)


def test_delays_grow() -> None:
    assert list(schedule.DELAYS) == sorted(schedule.DELAYS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 120 ", 120.0),
        ("Mon, 30 Nov 2026 12:01:00 GMT", 60.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
        ("9" * 400, 999_999_999.0),
    ],
)
def test_what_a_receiver_asks_for(text: str | None, seconds: float | None) -> None:
    assert schedule.retry_after(text, now=NOW) == seconds
