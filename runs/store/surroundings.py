"""What lies around a run: of what most runs have none, asked once, so that it need not be asked for one by one."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import NamedTuple

from runs.store.prepared import ask


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


def surroundings(run_id: uuid.UUID) -> Surroundings:
    return Surroundings(*ask("surroundings", {"run": run_id})[0])


def relations_of(run_id: uuid.UUID) -> Relations:
    return Relations(*ask("relations", {"run": run_id})[0])


def past_of(run_id: uuid.UUID) -> Past:
    return Past(*ask("past", {"run": run_id})[0])
