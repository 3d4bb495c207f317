"""The named statements of the hot path. Each file says what it guarantees."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def statement(name: str) -> str:
    """The text of a statement, without the comments: the driver keeps only short texts in the form it sends."""
    lines = (Path(__file__).parent / f"{name}.sql").read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))
