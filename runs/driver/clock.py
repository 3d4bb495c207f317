"""Chance that stays the same: numbers and ids drawn from a key instead of being written down."""

from __future__ import annotations

import hashlib
import uuid


def number(key: str) -> float:
    """A number from 0 up to 1, with the 53 bits that a float can hold."""
    return (int.from_bytes(_digest("random", key)[:8]) >> 11) / 2**53


def identifier(key: str) -> uuid.UUID:
    """An id in the form of version 4."""
    return uuid.UUID(bytes=_digest("uuid", key)[:16], version=4)


def _digest(what: str, key: str) -> bytes:
    return hashlib.sha256(f"{what}\n{key}".encode()).digest()
