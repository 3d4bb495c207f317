"""Numbers as pictures: nothing outside its drawing, nothing small out of sight."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.stats import RANGES, Bar, Spread
from runs.web import charts

NOW = datetime(2026, 11, 30, 16, 40, tzinfo=UTC)
COUNTS = st.integers(0, 10_000_000)


def bars_of(name: str, *counts: tuple[int, int, int]) -> list[Bar]:
    wanted = RANGES[name]
    found = [Bar(wanted.begins(NOW) + wanted.bar * place) for place in range(wanted.bars)]
    for bar, (begun, completed, failed) in zip(found, counts, strict=False):
        bar.begun, bar.completed, bar.failed = begun, completed, failed
    return found


@given(st.sampled_from(sorted(RANGES)), st.lists(st.tuples(COUNTS, COUNTS, COUNTS), max_size=24))
def test_columns_stay_in_their_drawing(name: str, counts: list[tuple[int, int, int]]) -> None:
    chart = charts.runs_over_time(bars_of(name, *counts), RANGES[name])
    assert len(chart.columns) == RANGES[name].bars
    for column in chart.columns:
        assert 0 <= column.x < column.right <= 100.01
        for box in column.boxes:
            assert box.y >= charts.TOP - 2 * charts.THINNEST
            assert box.height >= charts.THINNEST
        assert column.dash is None or charts.TOP - 0.01 <= column.dash <= charts.FOOT


@given(st.integers(0, 10**12))
def test_an_axis_ends_at_or_above_the_highest(highest: int) -> None:
    top = charts.ceiling(highest)
    assert highest <= top <= max(4, 2.5 * highest + 4)
    assert top % 4 == 0


def test_one_failure_beside_many_runs_is_seen() -> None:
    chart = charts.runs_over_time(bars_of("24h", (10_000, 10_000, 1)), RANGES["24h"])
    assert [box.tone for box in chart.columns[0].boxes] == ["a", "f"]
    assert chart.columns[0].boxes[1].height == charts.THINNEST
    assert "1 failed" in chart.columns[0].title


@pytest.mark.parametrize("name", RANGES)
def test_the_last_bar_is_the_present_one_and_few_are_labelled(name: str) -> None:
    wanted = RANGES[name]
    bars = bars_of(name)
    assert bars[-1].at <= NOW < bars[-1].at + wanted.bar
    assert 2 <= len(charts.steps_over_time(bars, wanted).labels) <= 7


def test_latencies_share_an_axis_that_holds_the_longest() -> None:
    axis = charts.latencies(
        {"finance": Spread(Counter({80: 10})), "": Spread(Counter({40: 1}))}, nobody="any"
    )
    assert [row.name for row in axis.rows] == ["finance", "any"]
    assert all(2 <= row.p50 <= row.p95 <= 98 for row in axis.rows)
    assert axis.ticks[0].text == "0"
    assert charts.latencies({}).rows == []
