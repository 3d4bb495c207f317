"""Waits for something that other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
SOON = 15.0


def until(look: Callable[[], Value], *, seconds: float = SOON, what: str = "", every: float = 0.05) -> Value:
    """The first truthy answer; fails with what was seen last. every: seconds between two looks."""
    limit = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > limit:
            raise AssertionError(f"not within {seconds:g} s: {what or look}; last seen: {seen!r}")
        time.sleep(every)
