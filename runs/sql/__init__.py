"""The named statements of the hot path. Each file says what it guarantees."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def statement(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text()
