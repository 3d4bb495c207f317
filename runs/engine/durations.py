"""Lengths of time as authors write them."""

from __future__ import annotations

import math
import re
from typing import Final

from runs.errors import WorkflowError

LONGEST_DUE: Final = 10 * 365 * 86400.0
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)\Z")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds(due: str | float | None, *, where: str, what: str = "due") -> float | None:
    """A duration: seconds as a number, or a text such as 90s, 30m, 24h, 7d. Raises `WorkflowError`."""
    if due is None:
        return None
    if isinstance(due, str):
        match = _DURATION.match(due.strip())
        if not match:
            raise WorkflowError(
                f"{where}: {what}={due!r} is no duration; write seconds, or 90s, 30m, 24h, 7d, 2w."
            )
        length = float(match[1]) * _UNITS[match[2]]
    else:
        try:
            length = math.nan if isinstance(due, bool) else float(due)
        except (TypeError, ValueError, OverflowError):
            length = math.nan
    if not 0 < length < LONGEST_DUE:
        raise WorkflowError(f"{where}: {what}={due!r:.100} is not between 0 seconds and 10 years.")
    return length
