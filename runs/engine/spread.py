"""How long things take, counted in classes: so an hour, a day and a month of them are kept in a few numbers and add up.

A class is a quarter of a doubling: class 0 begins at a millisecond, class 4 at two, class 80 at some seventeen minutes.
`sql/count_slice.sql` sorts into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CLASSES_A_DOUBLING: Final = 4
SHORTEST: Final = 0.001  # seconds; what is shorter is in class 0 all the same


def begins_at(number: float) -> float:
    """Seconds at which a class begins; of a fraction, so far into it."""
    return float(SHORTEST * 2 ** (number / CLASSES_A_DOUBLING))


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """The seconds that this share of all took at most, to within the width of a class (19 %); None of nothing.

    counts: how many there are of each class. share: 0.5 for the median.
    """
    whole = sum(counts.values())
    if whole <= 0:
        return None
    wanted, seen = share * whole, 0
    for number in sorted(counts):
        here = counts[number]
        if here and seen + here >= wanted:
            return begins_at(number + (wanted - seen) / here)
        seen += here
    return begins_at(max(counts) + 1)
