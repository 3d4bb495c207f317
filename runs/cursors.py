"""Opaque texts for "after this row": where a page of a list ended, as whoever reads on hands it back."""

from __future__ import annotations

import base64
from datetime import datetime


def packed(text: str) -> str:
    """A text for an address."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unpacked(cursor: str) -> str:
    """What was packed. Raises `ValueError`, also for U+0000, which nothing of ours has and Postgres would not take."""
    text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    if "\0" in text:
        raise ValueError(cursor)
    return text


def moment(text: str) -> datetime:
    """An instant. Raises `ValueError`, also for one that names no zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found
