"""Calls that a run takes back before it ends: which they are, and the step that does it for one of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import transaction

from runs.engine.compensation import Ending, failure, left_to_take_back, undo_of
from runs.engine.status import RunStatus, StepStatus
from runs.engine.transition import Undo
from runs.models import JournalEntry, OperationalNote, Run, Step
from runs.store.claiming import Held, take_step
from runs.store.reading import lineage, lock_run


@dataclass(frozen=True, slots=True)
class ClaimedUndo:
    """A step that takes a call back, under a lease, with the call as it stands in the journal."""

    held: Held
    run: Run
    undo: Undo
    entry: JournalEntry


def undos(run: Run) -> list[Undo]:
    """The calls that the run's branch sees, that say how they are taken back, and that nobody has begun to take back; the
    newest first. One query, three if there are any."""
    entries = can_be_taken_back(run)
    if not entries:
        return []
    begun = [step.address for step in undo_steps(run.pk)]
    return left_to_take_back(entries, lineage(run.pk, run.branch), begun)


def can_be_taken_back(run: Run) -> list[JournalEntry]:
    """The calls of a run that say how they are taken back, on all branches, the newest first. One query."""
    rows = JournalEntry.objects.filter(run=run, undo__isnull=False, kind="call")
    return list(rows.defer("result", "arguments", "undo").order_by("-ended_at", "-ordinal"))


def undo_steps(run_id: uuid.UUID) -> list[Step]:
    """The steps of a run that take, or took, a call back, first made first. One query."""
    return list(Step.objects.filter(run=run_id, undoes__isnull=False).order_by("created_at", "address"))


def undo_at(step: Step) -> Undo:
    """What a step takes back."""
    assert step.undoes is not None
    branch, address, name, occurrence = step.undoes
    return Undo(branch, address, name, occurrence, step.node)


def ending_of(run: Run) -> Ending:
    """A locked run that takes back its calls: what is left, and what could not be taken back up to now."""
    failed = Step.objects.filter(
        run=run, branch=run.branch, undoes__isnull=False, status=StepStatus.FAILED
    ).order_by("created_at")
    told = [failure(undo_at(step), step.error or {}) for step in failed]
    return Ending(run.status, run.ending or {}, undos(run), told)


def claim_undo(
    *, run_id: uuid.UUID, branch: int, address: str, worker: int, check: Callable[[Run], object]
) -> ClaimedUndo | None:
    """Take a step that takes a call back, or None if it is not there to be taken. Raises `Busy` or `NotFound`, and whatever
    `check` raises of the locked run.
    """
    with transaction.atomic():
        run = lock_run(run_id)
        check(run)
        if run.branch != branch or run.ending is None or run.status == RunStatus.PAUSED:
            return None
        taken = take_step(run, address, worker)
        if taken is None:
            return None
        undo = undo_at(Step.objects.get(run=run, branch=branch, address=address))
        entry = JournalEntry.objects.get(
            run=run, branch=undo.branch, address=undo.address, name=undo.name, occurrence=undo.occurrence
        )
        return ClaimedUndo(taken[0], run, undo, entry)


def taken_back(run: Run) -> list[JournalEntry]:
    """The calls of a run that were taken back, or were tried to be: nothing builds on them any more. One query, or two."""
    ended = (StepStatus.COMPLETED, StepStatus.FAILED)
    steps = {step.address for step in undo_steps(run.pk) if step.status in ended}
    if not steps:
        return []
    return [entry for entry in can_be_taken_back(run) if undo_of(entry).step in steps]


def made_too_late(run_ids: Iterable[uuid.UUID]) -> list[OperationalNote]:
    """Calls that were made while their run was stopped: their results were refused, and nobody took them back. One query."""
    rows = OperationalNote.objects.filter(run__in=run_ids, facts__what="call result", facts__has_key="undo")
    return list(rows.order_by("at"))
