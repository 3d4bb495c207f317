"""Preflight: what the code of this process would do with every live run of the database, without writing anything.

Each batch is read in a transaction of its own that Postgres itself keeps from writing, so that a long look holds up no vacuum.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction

from runs import store, workflows
from runs.engine import Workflow, migrating
from runs.engine.versions import Migration
from runs.errors import CheckpointUnreadable, HitlError, NeedsMigration, Told
from runs.models import Approval, Run, Wait

BATCH: Final = 200
EXAMPLES: Final = 3

RUNS_ON: Final = "runs on"  # its version is here, with its graph
MIGRATES: Final = "migrates"  # a way leads on, and its head comes along
FINE: Final = (RUNS_ON, MIGRATES)


@dataclass(slots=True)
class Line:
    """Runs of one version that come to the same verdict. verdict: one of `FINE`, or the code of an error; detail: of the first
    run; examples: ids."""

    workflow: str
    version: str
    verdict: str
    detail: str = ""
    runs: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_fine(self) -> bool:
        return self.verdict in FINE


@dataclass(slots=True)
class Preflight:
    """What became clear about all live runs. Without a line that is not fine, the code can be deployed."""

    lines: list[Line]
    looked_at: int

    @property
    def is_fine(self) -> bool:
        return all(line.is_fine for line in self.lines)


def preflight(*, tell: Callable[[int], object] | None = None) -> Preflight:
    """Try every live run against the code of this process. Writes nothing. tell: hears after each batch how many it were."""
    found: dict[tuple[str, str, str], Line] = {}
    looked_at = 0
    for runs, verdicts in _batches():
        for run, (verdict, detail) in zip(runs, verdicts, strict=True):
            key = (run.workflow, run.workflow_version, verdict)
            line = found.setdefault(key, Line(*key, detail))
            line.runs += 1
            if len(line.examples) < EXAMPLES:
                line.examples.append(str(run.pk))
        looked_at += len(runs)
        if tell:
            tell(looked_at)
    return Preflight([found[key] for key in sorted(found)], looked_at)


def _batches() -> Iterator[tuple[list[Run], list[tuple[str, str]]]]:
    last: uuid.UUID | None = None
    while True:
        with transaction.atomic():
            store.refuse_to_write()
            runs = _some_after(last)
            verdicts = _verdicts(runs)
        if not runs:
            return
        yield runs, verdicts
        last = runs[-1].pk


def _some_after(last: uuid.UUID | None) -> list[Run]:
    rows = Run.objects.filter(finished_at=None).defer("input", "output").order_by("pk")
    return list((rows if last is None else rows.filter(pk__gt=last))[:BATCH])


def _verdicts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    ways = {run.pk: _way_of(run) for run in runs}
    moving = [run.pk for run in runs if isinstance(ways[run.pk], tuple)]
    asked = _asked(moving)
    return [_verdict(run, ways[run.pk], asked.get(run.pk, [])) for run in runs]


Way = Workflow | tuple[Workflow, list[Migration]] | NeedsMigration


def _way_of(run: Run) -> Way:
    """The code of its version, the migrations that lead on, or what is missing. No query."""
    own = workflows.pinned(run.workflow, run.workflow_version, run.fingerprint)
    if own is not None:
        return own
    try:
        return workflows.way_on(run.workflow, run.workflow_version)
    except NeedsMigration as missing:
        return missing


def _asked(runs: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Addresses of steps that are parked at an approval node, by run. One query."""
    found: dict[uuid.UUID, list[str]] = {}
    parked = Wait.objects.filter(run__in=runs, closed_at=None, kind="approval", name="")
    for run_id, address in parked.values_list("run_id", "address"):
        found.setdefault(run_id, []).append(address)
    return found


def _verdict(run: Run, way: Way, asked: Sequence[str]) -> tuple[str, str]:
    if isinstance(way, Workflow):
        return RUNS_ON, ""
    if isinstance(way, NeedsMigration):
        return way.code, way.detail
    try:
        position = store.read_position(run.pk, run.head)
        migrating.carry(position, way[1], way[0], asked=asked)
        _check_approvals(run)
    except HitlError as fault:
        return fault.code, _told(fault)
    return MIGRATES, f"to version {way[0].version}"


def _check_approvals(run: Run) -> None:
    """What people see must be what its digest was taken of, or their answer is refused whatever the code."""
    for approval in Approval.objects.filter(run=run, status="open"):
        if not approval.is_intact:
            raise CheckpointUnreadable(
                Told("The approval {approval} is not what its digest was taken of.", approval=approval.pk)
            )


def _told(fault: HitlError) -> str:
    where: list[Any] = [problem.path for problem in fault.errors if problem.path]
    return f"{fault.detail} ({', '.join(where)})" if where else fault.detail
