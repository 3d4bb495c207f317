"""When something is tried again. Pure: time and chance are given."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

DELAYS: Final = (5.0, 30.0, 120.0, 600.0, 3_600.0, 21_600.0, 86_400.0)  # seconds after each failed attempt
JITTER: Final = 0.1  # of a delay, at most, is added
ATTEMPTS: Final = len(DELAYS) + 1
PATIENCE: Final = 86_400.0  # the longest that a receiver may ask us to wait


def delay_after(attempt: int, *, draw: float, retry_after: float | None = None) -> float | None:
    """Seconds until the next attempt after this one (1 is the first) has failed; None if it was the last.

    draw: from 0 to 1. retry_after: what the receiver has asked for; it may make the delay longer, never shorter.
    """
    if attempt >= ATTEMPTS:
        return None
    planned = DELAYS[attempt - 1] * (1 + JITTER * draw)
    return max(planned, min(retry_after or 0.0, PATIENCE))


def retry_after(text: str | None, *, now: datetime) -> float | None:
    """The header Retry-After in seconds: a number, or a date. None for anything else."""
    if not text:
        return None
    if text.isascii() and text.strip().isdigit():
        return float(text.strip()[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
