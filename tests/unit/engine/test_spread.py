"""Lengths of time in classes: what comes out of them is near what went in."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runs.engine.spread import CLASSES_A_DOUBLING, SHORTEST, begins_at, quantile

LENGTHS = st.lists(st.floats(0.001, 10_000_000), min_size=1, max_size=200)
WIDTH = 2**0.25


def class_of(seconds: float) -> int:
    """As the database sorts (`test_lengths_are_sorted_into_classes`)."""
    return math.floor(CLASSES_A_DOUBLING * math.log2(seconds / SHORTEST))


@given(st.floats(0.001, 10_000_000))
def test_a_length_lies_in_its_class(seconds: float) -> None:
    number = class_of(seconds)
    assert begins_at(number) <= seconds * 1.000001
    assert seconds <= begins_at(number + 1) * 1.000001


@given(LENGTHS, st.sampled_from([0.5, 0.95]))
def test_a_quantile_is_right_to_within_the_width_of_a_class(lengths: list[float], share: float) -> None:
    found = quantile(Counter(map(class_of, lengths)), share)
    assert found is not None
    as_many = sum(length <= found * WIDTH * 1.000001 for length in lengths)
    more = sum(length > found / WIDTH * 0.999999 for length in lengths)
    assert as_many >= share * len(lengths)
    assert more >= (1 - share) * len(lengths)


@given(LENGTHS, LENGTHS)
def test_classes_of_two_hours_add_up(first: list[float], second: list[float]) -> None:
    apart = Counter(map(class_of, first)) + Counter(map(class_of, second))
    assert quantile(apart, 0.5) == quantile(Counter(map(class_of, first + second)), 0.5)


def test_nothing_has_no_median() -> None:
    assert quantile({}, 0.5) is None
