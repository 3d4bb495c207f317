"""Checkpoints without their documents: plain rows, since a model's instance costs more to make than such a row to read."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import NamedTuple

from runs.engine.canonical import Json
from runs.store.prepared import ask


class Header(NamedTuple):
    """What a checkpoint says of itself. parent: the one before it, None for the first. author: who edited or answered."""

    no: int
    branch: int
    parent: int | None
    kind: str
    node: str
    address: str
    epoch: int
    author: Json
    reason: str
    created_at: datetime


def headers(run_id: uuid.UUID, *, branch: int | None, after: int, limit: int) -> list[Header]:
    """In the order of their numbers, of all branches or one. One query."""
    told = {"run": run_id, "branch": branch, "after": after, "limit": limit}
    return [Header(*row) for row in ask("headers", told)]


def newest_headers(run_id: uuid.UUID, *, before: int | None, limit: int) -> list[Header]:
    """Of all branches, the newest first. One query."""
    told = {"run": run_id, "before": before, "limit": limit}
    return [Header(*row) for row in ask("newest_headers", told)]
