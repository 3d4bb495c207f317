"""What lies around a run: of what most runs have none, asked once, so that it need not be asked for one by one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from runs.store.prepared import ask, ask_all


class Surroundings(NamedTuple):
    """What there is to close, stop or settle around a locked run at this moment: how many open waits, whether open approvals,
    children that it ever started, notices that nobody has read."""

    moment: datetime
    waits: int
    approvals: bool
    children: bool
    notices: bool


class Past(NamedTuple):
    """Whether calls were taken back, or tried to be; whether the run was ever migrated."""

    taken_back: bool
    migrated: bool


class Relations(NamedTuple):
    """Whether a run asks anybody, has used paid models, has started runs, was forked."""

    approvals: bool
    usage: bool
    children: bool
    forks: bool


def surroundings(run_id: uuid.UUID, *more: tuple[str, Mapping[str, Any]]) -> list[Any]:
    """Those of a run, and the rows of what else is asked, in one round trip."""
    found, *others = ask_all(("surroundings", {"run": run_id}), *more)
    return [Surroundings(*found[0]), *others]


def relations_of(run_id: uuid.UUID) -> Relations:
    return Relations(*ask("relations", {"run": run_id})[0])


def past_of(run_id: uuid.UUID) -> Past:
    return Past(*ask("past", {"run": run_id})[0])
