"""What people do to a played run as a whole: edit its state, rewind it, retry it, cancel it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runs.engine import canonical, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.steering import lane_to_edit
from runs.errors import BadRequest
from runs.testing.waking import store
from runs.testing.writing import NewBranch, World, aggregate, read_position

PERSON: Final[dict[str, Json]] = {"type": "user", "id": None, "name": "operator"}


def edit_state(
    world: World, run_id: str, changes: Mapping[str, Any], *, reason: str, lane: str | None
) -> None:
    if not changes:
        raise BadRequest("Nothing is changed.")
    canonical.check(dict(changes))
    run = world.run(run_id)
    position = read_position(world.book, run_id, run.head)
    chosen = lane_to_edit(position, lane, status=run.status)
    facts = aggregate(world, run, position, lane=chosen)
    transition = machine.edit_state(facts, chosen, changes, reason=reason)
    store(world, run, transition, position=position, actor=PERSON, reason=reason)


def rewind(
    world: World,
    run_id: str,
    checkpoint: int,
    *,
    changes: Mapping[str, Any] | None,
    calls: str,
    reason: str,
    lane: str | None,
) -> None:
    if calls not in ("reuse", "again"):
        raise BadRequest(f"calls is reuse or again, not {calls!r}.")
    canonical.check(dict(changes or {}))
    run = world.run(run_id)
    position = read_position(world.book, run_id, checkpoint)
    chosen = lane_to_edit(position, lane, status=run.status) if changes else None
    target = aggregate(world, run, position, lane=chosen)
    facts: dict[str, Json] = {"checkpoint": checkpoint, "reason": reason, "calls": calls, "from": run.head}
    transition = machine.rewind(
        target, position, target.values, changes or {}, facts, lane=chosen or at.ROOT_LANE
    )
    branch = NewBranch(checkpoint, calls, reason)
    store(world, run, transition, position=position, actor=PERSON, reason=reason, branch=branch)


def retry(world: World, run_id: str, *, reason: str) -> None:
    run = world.run(run_id)
    facts = aggregate(world, run)
    transition = machine.retry(facts, reason=reason)
    store(world, run, transition, position=facts.position, actor=PERSON, reason=reason)


def cancel(world: World, run_id: str, *, reason: str) -> None:
    run = world.run(run_id)
    if run.status != "cancelled":
        transition = machine.cancel(run.status, reason=reason)
        store(world, run, transition, actor=PERSON, reason=reason)
