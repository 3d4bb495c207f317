"""What people do to a played run as a whole: edit its state, rewind it, retry it, pause it, cancel it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runs.engine import Workflow, canonical, compensation, machine, migrating, pausing
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.status import LIVE_STEPS, TERMINAL
from runs.engine.steering import lane_to_edit
from runs.engine.versions import Migration, way
from runs.errors import AlreadyTerminal, BadRequest, Compensating, MigrationMissing, PausedAbove
from runs.testing import undoing
from runs.testing.book import RunRow, StepRow, WaitRow
from runs.testing.waking import store
from runs.testing.writing import SYSTEM, NewBranch, World, aggregate, read_position, version_at

PERSON: Final[dict[str, Json]] = {"type": "user", "id": None, "name": "operator"}


def edit_state(
    world: World, run_id: str, changes: Mapping[str, Any], *, reason: str, lane: str | None
) -> None:
    if not changes:
        raise BadRequest("Nothing is changed.")
    canonical.check(dict(changes))
    run = world.run(run_id)
    undoing.check_steady(run)
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
    undoing.check_steady(run)
    position, code, steps = standing(world, run, checkpoint)
    if at.live_steps(position):
        undoing.check_standing(world, run, checkpoint)
    at_once = {} if steps else changes or {}
    chosen = lane_to_edit(position, lane, status=run.status) if changes else None
    target = aggregate(world, run, position, lane=chosen, workflow=code)
    facts: dict[str, Json] = {"checkpoint": checkpoint, "reason": reason, "calls": calls, "from": run.head}
    transition = machine.rewind(target, position, target.values, at_once, facts, lane=chosen or at.ROOT_LANE)
    if steps:
        migrating.on_the_way(transition, code, steps, version=code.version)
    again = undoing.to_make_again(world, run, checkpoint) if calls == "reuse" else ()
    branch = NewBranch(checkpoint, calls, reason, sorted(again))
    store(world, run, transition, position=position, actor=PERSON, reason=reason, branch=branch)
    if changes and steps:
        edit_state(world, run_id, changes, reason=reason, lane=lane)


def standing(world: World, run: RunRow, checkpoint: int) -> tuple[dict[str, Any], Workflow, list[Migration]]:
    """A checkpoint as the code of the run has it, with the migrations that led there."""
    position = read_position(world.book, run.id, checkpoint)
    code, stored = world.workflow_of(run), version_at(world.book, run, checkpoint)
    steps = [] if stored == code.version else _way(code, stored)
    return migrating.carry(position, steps, code).position if steps else position, code, steps


def migrate(world: World, run_id: str, to: Workflow, *, reason: str) -> None:
    run = world.run(run_id)
    steps = _way(to, run.version)
    facts = aggregate(world, run, workflow=to)
    parked = world.book.find(WaitRow, run=run.id, branch=run.branch, kind="approval", name="", closed_at=None)
    carried = migrating.carry(facts.position, steps, to, asked=[wait.address for wait in parked])
    transition = migrating.migrate(facts, carried, steps, version=to.version, reason=reason)
    store(world, run, transition, position=carried.position, actor=PERSON, reason=reason)


def _way(to: Workflow, version: str) -> list[Migration]:
    """The migrations that `to` knows from a version to its own. Raises `MigrationMissing`."""
    steps = way(to.migrations, version, [to.version])
    if steps is None:
        raise MigrationMissing(f"No migration of {to.name} leads from version {version} to {to.version}.")
    return steps


def retry(world: World, run_id: str, *, reason: str) -> None:
    run = world.run(run_id)
    undoing.check_unbroken(world, run)
    facts = aggregate(world, run)
    transition = machine.retry(facts, reason=reason)
    store(world, run, transition, position=facts.position, actor=PERSON, reason=reason)


def cancel(world: World, run_id: str, *, reason: str, compensate: bool) -> None:
    run = world.run(run_id)
    if run.status == "cancelled" or (run.status == "cancelling" and compensate):
        return
    if run.ending is None:
        transition = machine.cancel(run.status, reason=reason)
    elif compensate:
        raise Compensating()
    else:
        transition = compensation.give_up(undoing.everything_left(world, run), reason=reason)
    store(world, run, transition, actor=PERSON, reason=reason, compensate=compensate)


def pause(world: World, run_id: str, *, reason: str, children: bool) -> None:
    run = world.run(run_id)
    _check_live(run)
    if run.status == "cancelling":
        raise Compensating()
    if run.paused is None or (children and not run.paused["children"]):
        transition = pausing.pause(run.status, reason=reason, children=children, by=PERSON["name"])
        store(world, run, transition, actor=PERSON, reason=reason)


def resume(world: World, run_id: str, *, reason: str) -> None:
    run = world.run(run_id)
    _check_live(run)
    above = _held_with(world, run)
    if above is not None:
        raise PausedAbove(run=above.id)
    if run.paused is not None:
        _let_go_on(world, run, reason=reason, actor=PERSON)


def hold_trees(world: World) -> bool:
    """Pause what goes on below a run that is paused with its children, and let go on what is paused with one that is not."""
    moved = False
    for run in world.runs():
        above = _held_with(world, run)
        if run.status in TERMINAL or run.status == "cancelling":
            continue
        if above is not None and run.paused is None:
            told = above.paused or {}
            transition = pausing.pause(
                run.status, reason=told["reason"], children=True, through=above.id, by=told["by"]
            )
            store(world, run, transition, actor=SYSTEM)
            moved = True
        elif above is None and run.paused is not None and "with" in run.paused:
            _let_go_on(world, run, reason="", actor=SYSTEM)
            moved = True
    return moved


def _check_live(run: RunRow) -> None:
    if run.status in TERMINAL:
        raise AlreadyTerminal(f"The run is {run.status}.", status=run.status)


def _held_with(world: World, run: RunRow) -> RunRow | None:
    above = world.book.one(RunRow, id=run.parent) if run.parent else None
    return above if above is not None and above.paused and above.paused["children"] else None


def _let_go_on(world: World, run: RunRow, *, reason: str, actor: Json) -> None:
    rows = world.book.find(StepRow, run=run.id, branch=run.branch, status=[one.value for one in LIVE_STEPS])
    steps = {row.address: row.status for row in rows}
    transition = pausing.resume(run.status, steps, reason=reason, ending=run.ending is not None)
    store(world, run, transition, actor=actor, reason=reason)
