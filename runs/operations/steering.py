"""What people do to a run as a whole: edit its state, rewind it, retry it, cancel it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runs import policies, queries, store
from runs.engine import canonical, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.merging import Conflict
from runs.engine.status import StepStatus
from runs.engine.steering import lane_to_edit
from runs.engine.transition import Aggregate, Transition
from runs.errors import (
    AlreadyTerminal,
    BadRequest,
    NothingToRun,
    ReasonRequired,
    ResultConsumed,
    StaleVersion,
    VersionRequired,
)
from runs.models import Approval, Checkpoint, Child, JournalEntry, Run, Step, Wait
from runs.operations.door import aggregate, as_uuid, commit, locked_run, verb
from runs.policies import Actor

CALLS = ("reuse", "again")
MAX_REASON = 2_000


@dataclass(frozen=True, slots=True)
class StepPreview:
    """A step that has run, failed or is live, and would run again. item: of a fan-out, which one."""

    node: str
    visit: int
    status: str
    checkpoint: int | None
    item: int | None = None
    attempt: int = 1
    error: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class CallPreview:
    """A call made after the checkpoint: what it did to the world, its receipt, and whether it would be made again."""

    node: str
    name: str
    occurrence: str
    effect: str
    result: Json
    reused: bool


@dataclass(frozen=True, slots=True)
class RetryPreview:
    """What a Retry would run: the steps that failed with their errors, those that had not run, and how many results stay."""

    failed: list[StepPreview]
    not_run: list[str]
    kept: int
    conflicts: list[Conflict]


@dataclass(frozen=True, slots=True)
class RewindPreview:
    """What a rewind to a checkpoint would do, before anybody confirms it."""

    checkpoint: int
    branch: int
    calls: str
    next: list[str]
    state: dict[str, Json]
    steps: list[StepPreview] = field(default_factory=list)
    made: list[CallPreview] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    stopped: list[Run] = field(default_factory=list)

    @property
    def effects(self) -> list[CallPreview]:
        """Calls that did something to the world."""
        return [call for call in self.made if call.effect != "none"]


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
    with verb(actor, "edit_state", run_id):
        run = locked_run(run_id)
        policies.check_steer(actor, run)
        if lane is None or lane_version is None or version is not None:
            check_version(run, version)
        check_reason(reason)
        if not changes:
            raise BadRequest("Nothing is changed.")
        canonical.check(dict(changes))
        position = store.read_position(run.pk, run.head)
        chosen = lane_to_edit(position, lane, status=run.status)
        if lane_version is not None:
            _check_lane_version(position, chosen, lane_version)
        facts = aggregate(run, position, lane=chosen)
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
    version: int | None = None,
    lane: str | None = None,
    detach: bool = False,
) -> Run:
    """Go back to a checkpoint on a new branch; the run goes on from there by itself.

    changes: state to replace at that point. calls: `reuse` answers calls from the branch left behind, `again` makes them
    again. version: the run's version that was seen, if it matters. lane: which lane's state is changed, if there are several.
    detach: also if the run that started this one has taken its result already, which stays what it is.
    Works while a step executes: its result is discarded.
    """
    with verb(actor, "rewind", run_id):
        run = locked_run(run_id)
        policies.check_steer(actor, run)
        if version is not None:
            check_version(run, version)
        check_reason(reason)
        _check_calls(calls)
        if not detach:
            _check_not_consumed(run)
        canonical.check(dict(changes or {}))
        position = store.read_position(run.pk, checkpoint)
        target = aggregate(
            run, position, lane=lane_to_edit(position, lane, status=run.status) if changes else None
        )
        facts: dict[str, Json] = {
            "checkpoint": checkpoint,
            "reason": reason,
            "calls": calls,
            "from": run.head,
        }
        transition = machine.rewind(
            target,
            position,
            target.values,
            changes or {},
            facts,
            lane=lane_to_edit(position, lane, status=run.status) if changes else at.ROOT_LANE,
        )
        branch = store.NewBranch(checkpoint, calls, actor.as_dict(), reason)
        commit(run, transition, position=position, actor=actor.as_dict(), reason=reason, branch=branch)
        run.refresh_from_db()
        return run


def preview_rewind(
    *, actor: Actor, run_id: uuid.UUID | str, checkpoint: int, calls: str = "reuse"
) -> RewindPreview:
    """What a rewind would do: steps that run again, effects already done, approvals that are asked again. Changes nothing."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_steer(actor, run)
    _check_calls(calls)
    point = Checkpoint.objects.filter(run=run, no=checkpoint).first()
    if point is None:
        raise store.missing_checkpoint(run.pk, checkpoint)
    position = store.read_position(run.pk, checkpoint)
    live = at.live_steps(position)
    if not live:
        raise NothingToRun("The run had ended at this checkpoint; choose an earlier one.")
    line = store.lineage(run.pk, run.branch)
    preview = RewindPreview(checkpoint, point.branch, calls, [step.node for step in live], at.state(position))
    preview.steps.extend(_steps_after(run, line, checkpoint))
    preview.made.extend(_calls_after(run, line, checkpoint, reused=calls == "reuse"))
    preview.approvals.extend(_approvals_after(run, line, checkpoint))
    preview.stopped.extend(_children_after(run, checkpoint))
    return preview


def preview_retry(*, actor: Actor, run_id: uuid.UUID | str) -> RetryPreview:
    """What a Retry of a failed run would run, before anybody confirms it. Changes nothing."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_retry(actor, run)
    facts = aggregate(run)
    machine.retry(facts, reason="")  # says why not, if there is nothing to retry
    around = {step.address for step in at.opened_steps(facts.position)}
    rows = list(Step.objects.filter(run=run, branch=run.branch).order_by("created_at", "address"))
    return RetryPreview(
        failed=[
            _previewed(step) for step in rows if step.address in facts.errors and step.address not in around
        ],
        not_run=[
            step.node
            for step in at.all_steps(facts.position)
            if step.address not in around and step.address not in facts.errors
        ],
        kept=sum(1 for step in rows if step.status == StepStatus.COMPLETED),
        conflicts=at.every_conflict(facts.position),
    )


def retry(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "", version: int | None = None) -> Run:
    """Let a failed run go on: only what failed or had not run is run, each step with its attempts allowed anew.

    Results of sibling lanes stay. What people had not answered is asked again.
    """
    with verb(actor, "retry", run_id):
        run = locked_run(run_id)
        policies.check_retry(actor, run)
        if version is not None:
            check_version(run, version)
        canonical.check(reason)
        facts = aggregate(run)
        return _commit(run, machine.retry(facts, reason=reason[:MAX_REASON]), facts, actor, reason)


def cancel(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "") -> Run:
    """End a run. Its approvals and waits close in the same transaction; again changes nothing."""
    with verb(actor, "cancel", run_id):
        run = locked_run(run_id)
        policies.check_cancel(actor, run)
        if run.status == "cancelled":
            return run
        if run.is_terminal:
            raise AlreadyTerminal(f"The run is {run.status}.", status=run.status)
        canonical.check(reason)

        commit(
            run, machine.cancel(run.status, reason=reason[:MAX_REASON]), actor=actor.as_dict(), reason=reason
        )
        run.refresh_from_db()
        return run


def _commit(run: Run, transition: Transition, facts: Aggregate, actor: Actor, reason: str) -> Run:
    commit(run, transition, position=facts.position, actor=actor.as_dict(), reason=reason)
    run.refresh_from_db()
    return run


def _check_not_consumed(run: Run) -> None:
    """A parent that has taken the result of this run goes on with it whatever comes out now."""
    if run.parent_id is None or not run.is_terminal:
        return
    if (
        Wait.objects.filter(child=run).exists()
        and not Wait.objects.filter(child=run, closed_at=None).exists()
    ):
        raise ResultConsumed(parent=str(run.parent_id))


def check_version(run: Run, version: int | None) -> None:
    if version is None:
        raise VersionRequired("Send the version of the run that you saw.", version=run.version)
    if version != run.version:
        raise StaleVersion(
            f"You saw version {version} of the run; version {run.version} is there now.", version=run.version
        )


def _check_lane_version(position: dict[str, Any], lane: str, version: int) -> None:
    now = at.lane_version(position, lane)
    if version != now:
        raise StaleVersion(
            f"You saw version {version} of the lane; version {now} is there now.", version=now, lane=lane
        )


def check_reason(reason: str) -> None:
    if not reason.strip():
        raise ReasonRequired("Give a reason; it stands in the history.")
    if len(reason) > MAX_REASON:
        raise ReasonRequired(f"A reason has at most {MAX_REASON:,} characters.")
    canonical.check(reason)


def _check_calls(calls: str) -> None:
    if calls not in CALLS:
        raise BadRequest(f"calls is {' or '.join(CALLS)}, not {calls!r}.")


# ---- the preview's parts: what lies after the checkpoint on the line that is left


def _steps_after(run: Run, line: Mapping[int, int | None], checkpoint: int) -> list[StepPreview]:
    rows = Step.objects.filter(run=run, branch__in=line).order_by("created_at", "checkpoint")
    return [
        _previewed(step)
        for step in rows
        if step.status != "void" and _lies_after(run, line, step, checkpoint)
    ]


def _previewed(step: Step) -> StepPreview:
    _, _, item = step.lane.partition("#")
    return StepPreview(
        step.node,
        step.visit,
        step.status,
        step.checkpoint,
        item=int(item) if item else None,
        attempt=step.attempt,
        error=step.error,
    )


def _lies_after(run: Run, line: Mapping[int, int | None], step: Step, checkpoint: int) -> bool:
    """Whether a step is on the line that is left, and after the checkpoint. One that never committed counts where it stands."""
    if step.checkpoint is None:
        return step.branch == run.branch
    return checkpoint < step.checkpoint <= _until(line, step.branch)


def _calls_after(
    run: Run, line: Mapping[int, int | None], checkpoint: int, *, reused: bool
) -> list[CallPreview]:
    rows = JournalEntry.objects.filter(run=run, branch__in=line, after__gte=checkpoint, kind="call").order_by(
        "ended_at", "ordinal"
    )
    return [
        CallPreview(row.node, row.name, row.occurrence, row.effect, canonical.loads(row.result), reused)
        for row in rows
        if row.after < _until(line, row.branch)
    ]


def _approvals_after(run: Run, line: Mapping[int, int | None], checkpoint: int) -> list[Approval]:
    after = {
        (step.branch, step.address)
        for step in Step.objects.filter(run=run, branch__in=line)
        if _lies_after(run, line, step, checkpoint)
    }
    rows = Approval.objects.filter(run=run, branch__in=line).order_by("opened_at")
    return [approval for approval in rows if (approval.branch, approval.address) in after]


def _children_after(run: Run, checkpoint: int) -> list[Run]:
    """Children that were started after the checkpoint and are under way: a rewind cancels them."""
    rows = Child.objects.filter(parent=run, after__gte=checkpoint, run__finished_at=None)
    return [child.run for child in rows.filter(on_parent_cancel="cancel").select_related("run")]


def _until(line: Mapping[int, int | None], branch: int) -> int:
    limit = line[branch]
    return 2**31 if limit is None else limit
