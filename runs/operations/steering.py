"""What people do to a run as a whole: edit its state, rewind it, retry it, cancel it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runs import policies, store
from runs.engine import canonical, compensation, machine, migrating
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.status import LIVE_STEPS
from runs.engine.steering import lane_to_edit
from runs.engine.transition import Aggregate, Transition
from runs.errors import (
    AlreadyTerminal,
    BadRequest,
    Compensating,
    ResultConsumed,
    StaleVersion,
    Told,
)
from runs.models import Run
from runs.operations.door import (
    MAX_REASON,
    aggregate,
    as_uuid,
    check_reason,
    check_version,
    commit,
    locked_run,
    verb,
)
from runs.operations.previewing import (
    calls_after,
    check_calls,
    check_known,
    check_steady,
    check_unbroken,
    is_consumed,
    rewindable,
    with_taken_back,
)
from runs.operations.registering import version_for
from runs.operations.versioning import noting, with_code
from runs.policies import Actor
from runs.store import CallAt


def edit_state(
    *,
    actor: Actor,
    run_id: uuid.UUID | str,
    version: int | None,
    changes: Mapping[str, Json],
    reason: str,
    lane: str | None = None,
    lane_version: int | None = None,
) -> Run:
    """Replace keys of the state of a parked or failed run. What is asked of people is asked anew.

    version: the run's version that was seen. changes: new values by top-level key. lane: whose state it is, if there are
    several; with lane_version, the lane's version that was seen, whatever siblings did since does not matter. Raises
    `StaleVersion`, `StepExecuting`, `AmbiguousTarget`, `Unprocessable` with pointers.
    """
    with noting(as_uuid(run_id)), verb(actor, "edit_state", run_id):
        run = locked_run(run_id)
        policies.check_steer(actor, run)
        check_steady(run)
        if lane is None or lane_version is None or version is not None:
            check_version(run, version)
        check_reason(reason)
        if not changes:
            raise BadRequest("Nothing is changed.")
        canonical.check(dict(changes))
        with_code(run)
        position = store.read_position(run.pk, run.head)
        chosen = lane_to_edit(position, lane, status=run.status)
        if lane_version is not None:
            _check_lane_version(position, chosen, lane_version)
        facts = aggregate(run, position, lane=chosen)
        policies.check_edit(actor, facts.workflow_of(chosen).schema, changes)
        transition = machine.edit_state(facts, chosen, changes, reason=reason)
        return _commit(run, transition, facts, actor, reason)


def rewind(
    *,
    actor: Actor,
    run_id: uuid.UUID | str,
    checkpoint: int,
    reason: str,
    changes: Mapping[str, Json] | None = None,
    calls: str = "reuse",
    exceptions: Sequence[CallAt] = (),
    version: int | None = None,
    lane: str | None = None,
    detach: bool = False,
) -> Run:
    """Go back to a checkpoint on a new branch; the run goes on from there by itself.

    changes: state to replace at that point. calls: `reuse` answers calls from the branch left behind, `again` makes them
    again; exceptions: calls that are treated the other way, by address, name and occurrence. version: the run's version that
    was seen, if it matters. lane: which lane's state is changed, if there are several. detach: also if the run that started
    this one has taken its result already, which stays what it is.
    Works while a step executes: its result is discarded.
    """
    with verb(actor, "rewind", run_id):
        run = locked_run(run_id)
        policies.check_steer(actor, run)
        if version is not None:
            check_version(run, version)
        check_reason(reason)
        check_calls(calls)
        if not detach and is_consumed(run):
            raise ResultConsumed(parent=str(run.parent_id))
        canonical.check(dict(changes or {}))
        standing = rewindable(run, checkpoint)
        position = standing.position
        apart = sorted(set(exceptions))
        if apart:
            check_known(apart, calls_after(run, checkpoint, calls=calls, apart=apart))
        apart = with_taken_back(run, checkpoint, calls=calls, apart=apart, past=standing.past)
        edits, later = ({}, changes) if standing.way else (changes or {}, None)
        chosen = lane_to_edit(position, lane, status=run.status) if changes else at.ROOT_LANE
        target = aggregate(
            run, position, lane=chosen if changes else None, workflow=standing.workflow, rows=False
        )
        if changes:
            policies.check_edit(actor, target.workflow_of(chosen).schema, changes)
        facts: dict[str, Json] = {
            "checkpoint": checkpoint,
            "reason": reason,
            "calls": calls,
            **({"exceptions": [list(place) for place in apart]} if apart else {}),
            "from": run.head,
        }
        transition = machine.rewind(target, position, target.values, edits, facts, lane=chosen)
        if standing.way:
            migrating.on_the_way(
                transition, standing.workflow, standing.way, version=version_for(standing.workflow)
            )
        branch = store.NewBranch(checkpoint, calls, actor.as_dict(), reason, apart)
        commit(run, transition, position=position, actor=actor.as_dict(), reason=reason, branch=branch)
        if later:
            again = aggregate(run, lane=chosen)
            edited = machine.edit_state(again, chosen, later, reason=reason)
            return _commit(run, edited, again, actor, reason)
        return run


def retry(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "", version: int | None = None) -> Run:
    """Let a failed run go on: only what failed or had not run is run, each step with its attempts allowed anew.

    Results of sibling lanes stay. What people had not answered is asked again.
    """
    with verb(actor, "retry", run_id):
        run = locked_run(run_id)
        policies.check_retry(actor, run)
        check_unbroken(run)
        if version is not None:
            check_version(run, version)
        canonical.check(reason)
        facts = aggregate(run)
        return _commit(run, machine.retry(facts, reason=reason[:MAX_REASON]), facts, actor, reason)


def cancel(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "", compensate: bool = True) -> Run:
    """End a run. Its approvals and waits close in the same transaction; again changes nothing.

    Calls with an `undo=` are taken back first, the newest first, and the run is `cancelling` until then. compensate: whether;
    without, also a run that is taking them back already ends at once, and what is left is listed in its error.
    """
    with verb(actor, "cancel", run_id):
        run = locked_run(run_id)
        policies.check_cancel(actor, run)
        if run.status == "cancelled" or (run.status == "cancelling" and compensate):
            return run
        check_cancellable(run, compensate=compensate)
        canonical.check(reason)
        transition = _cancelled(run, reason=reason[:MAX_REASON])
        commit(run, transition, actor=actor.as_dict(), reason=reason, compensate=compensate)
        run.refresh_from_db()
        return run


def check_cancellable(run: Run, *, compensate: bool) -> None:
    if run.is_terminal:
        raise AlreadyTerminal(Told("The run is {status}.", status=run.status), status=run.status)
    if run.ending is not None and compensate:
        raise Compensating()


def _cancelled(run: Run, *, reason: str) -> Transition:
    if run.ending is None:
        return machine.cancel(run.status, reason=reason)
    ending = store.ending_of(run)
    under_way = [store.undo_at(step) for step in store.undo_steps(run.pk) if step.status in LIVE_STEPS]
    return compensation.give_up(replace(ending, left=[*under_way, *ending.left]), reason=reason)


def _commit(run: Run, transition: Transition, facts: Aggregate, actor: Actor, reason: str) -> Run:
    commit(run, transition, position=facts.position, actor=actor.as_dict(), reason=reason)
    run.refresh_from_db()
    return run


def _check_lane_version(position: dict[str, Any], lane: str, version: int) -> None:
    now = at.lane_version(position, lane)
    if version != now:
        raise StaleVersion(
            Told(
                "You saw version {version} of the lane; version {now} is there now.", version=version, now=now
            ),
            version=now,
            lane=lane,
        )
