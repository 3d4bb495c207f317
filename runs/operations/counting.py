"""The statistics: what has happened since the last time, counted into hours and days."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from django.db import transaction

from runs import store, watching

SECONDS: Final = 20.0  # after which the rest is left to the next time


def count(*, seconds: float = SECONDS) -> timedelta:
    """Count up to now, slice by slice, each in a transaction of its own; returns how much time was counted.

    Several may run at once: one counts, the others leave at once. What is not reached after `seconds` is, the next time.
    """
    counted, until = timedelta(), time.monotonic() + seconds
    while True:
        with transaction.atomic(durable=True):
            length = store.count_slice()
        counted += length or timedelta()
        if length is None or length < store.LONGEST_SLICE or time.monotonic() > until:
            break
    store.beat(watching.STATISTICS.beat, {"seconds": counted.total_seconds()})
    return counted
