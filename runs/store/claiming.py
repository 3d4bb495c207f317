"""Steps that a worker holds: taking one under a lease, and whether it is still this worker's."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from runs.engine import position as at
from runs.engine.position import LiveStep
from runs.engine.status import RunStatus, StepStatus
from runs.errors import (
    LateResult,
)
from runs.models import (
    Branch,
    Run,
    Step,
)
from runs.store.clock import now
from runs.store.prepared import ask, ask_all, read_as
from runs.store.reading import lock_run, lock_run_with, position_in


@dataclass(frozen=True, slots=True)
class Held:
    """A step that this worker has: every write names its token and epoch."""

    run_id: uuid.UUID
    branch: int
    step: LiveStep
    epoch: int
    token: uuid.UUID
    worker: int
    attempt: int = 1
    failures: int = 0
    crashes: int = 0
    earlier: int = 0  # attempts before the last Retry; what a policy allows counts from there
    entry: int = 1  # how often it was claimed, this time included
    worked: float = 0.0  # seconds of this attempt in earlier entries
    is_fresh: bool = False  # made and claimed in one statement: nothing was ever done at this address


@dataclass(slots=True)
class Claimed:
    """A claimed step with everything that is needed to run it."""

    held: Held
    run: Run
    position: dict[str, Any]
    branch: Branch


def claim(
    *, run_id: uuid.UUID, branch: int, address: str, worker: int, check: Callable[[Run], object] | None = None
) -> Claimed | None:
    """Take a ready step under a lease, or None if it is not there to be taken. Raises `CheckpointUnreadable` or `Busy`, and
    whatever `check` raises of the locked run.
    """
    with transaction.atomic():
        run = lock_run(run_id)
        if check:
            check(run)
        if run.branch != branch or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
            return None
        if run.error is not None:
            return None  # it drains after a failure: nothing new begins
        if run.limited and run.admitted_at is None:
            return None  # it stands in line
        told = _of_claim(run, address, worker, items=False)
        rows, points = ask_all(("claim_step", told), ("read_positions", {"run": run.pk, "nos": [run.head]}))
        taken = _taken(run, told, rows)
        if taken is None and (item := _with_room(run, address, points)):
            taken = take_step(run, item, worker)
        if taken is None:
            return None
        held, its_branch = taken
        return Claimed(held, run, position_in(points, run.pk, run.head), its_branch)


def _with_room(run: Run, address: str, points: Sequence[Any]) -> str | None:
    """The step to take for a hint of an item: of its fan-out the lowest that is ready, if there is room for one more. None for
    what is no item. points: the rows of the run's position.
    """
    lane = (
        Step.objects.filter(run=run, branch=run.branch, address=address)
        .values_list("lane", flat=True)
        .first()
    )
    outer, is_item, _ = (lane or "").partition("#")
    if not is_item:
        return None
    items = Step.objects.filter(run=run, branch=run.branch, lane__startswith=f"{outer}#")
    ready = list(items.filter(status=StepStatus.READY).values_list("lane", "address"))
    if not ready:
        return None  # a late hint: the fan-out may be over
    executing = items.filter(status=StepStatus.EXECUTING).count()
    if executing >= at.lane_at(position_in(points, run.pk, run.head), outer)["fan"]["at_once"]:
        return None
    return min(ready, key=lambda row: int(row[0].partition("#")[2]))[1]


def take_step(run: Run, address: str, worker: int) -> tuple[Held, Branch] | None:
    """Put a ready step of a locked run under a lease, also one in the lane of an item; a queued run begins with it."""
    told = _of_claim(run, address, worker, items=True)
    return _taken(run, told, ask("claim_step", told))


def _of_claim(run: Run, address: str, worker: int, *, items: bool) -> dict[str, Any]:
    return {
        "run": run.pk,
        "branch": run.branch,
        "address": address,
        "token": uuid.uuid4(),
        "worker": worker,
        "lease": settings.HITL_LEASE_SECONDS,
        "items": items,
    }


def _taken(run: Run, told: Mapping[str, Any], rows: Sequence[Any]) -> tuple[Held, Branch] | None:
    if not rows:
        return None
    lane, node, visit, failures, crashes, earlier, entry, worked, started_at, admitted_at, *branch = rows[0]
    if started_at is not None:
        run.status, run.started_at, run.admitted_at = RunStatus.RUNNING, started_at, admitted_at
    held = Held(
        run.pk,
        run.branch,
        LiveStep(lane, node, told["address"], visit),
        run.epoch,
        told["token"],
        told["worker"],
        attempt=earlier + failures + crashes + 1,
        failures=failures,
        crashes=crashes,
        earlier=earlier,
        entry=entry,
        worked=worked,
    )
    return held, read_as(Branch, branch)


def lock_held(held: Held) -> Run:
    """The run of a step, locked however long that takes. Raises `LateResult` if the step is not this worker's any more."""
    run, fenced = lock_run_with(held.run_id, ("fence", fence_of(held)), patience=None)
    check_fence(run, held, fenced)
    locked: Run = run
    return locked


def check_fence(run: Run, held: Held, fenced: Sequence[Any]) -> None:
    """fenced: what the statement `fence` answered under the run's lock. Raises `LateResult`."""
    if run.epoch != held.epoch or not fenced:
        raise LateResult()


def fence_of(held: Held) -> dict[str, Any]:
    """What a fenced statement names a step by."""
    return {
        "run": held.run_id,
        "branch": held.branch,
        "address": held.step.address,
        "token": held.token,
        "epoch": held.epoch,
    }


def check_held(held: Held) -> None:
    """Raises `LateResult` if the step is not this worker's any more."""
    if not step_of(held).exists():
        raise LateResult()


def lapse(held: Held) -> None:
    """End the lease of a step now: the sweeper takes it over as if the worker had died."""
    step_of(held).update(lease_until=now())


def step_of(held: Held) -> QuerySet[Step]:
    """The row of a step, as long as this worker holds it."""
    return Step.objects.filter(
        run=held.run_id, branch=held.branch, address=held.step.address, token=held.token, epoch=held.epoch
    )
