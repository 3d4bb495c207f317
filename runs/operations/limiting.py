"""What people say about who goes first: a run's priority, and how many runs a project may have at work."""

from __future__ import annotations

import uuid

from django.db import transaction

from runs import policies, store
from runs.engine import canonical, machine
from runs.engine.limits import LARGEST, OF_PROJECT
from runs.errors import BadRequest, Told
from runs.models import Project, Run, Slot
from runs.operations.admitting import let_in, let_in_soon
from runs.operations.door import MAX_REASON, audit_command, commit, locked_run, verb
from runs.operations.submitting import checked_priority
from runs.policies import Actor


def prioritise(*, actor: Actor, run_id: uuid.UUID | str, priority: int, reason: str = "") -> Run:
    """Say who goes first among the project's runs that stand in line: the higher of -100 to 100.

    A run that is at work goes on; it counts when the run stands in line the next time. The same again changes nothing.
    """
    with verb(actor, "prioritise", run_id, reason=reason):
        run = locked_run(run_id)
        policies.check_prioritise(actor, run)
        canonical.check(reason)
        wanted = checked_priority(priority)
        if wanted == run.priority:
            return run
        transition = machine.prioritise(
            run.status, was=run.priority, priority=wanted, reason=reason[:MAX_REASON]
        )
        Run.objects.filter(pk=run.pk).update(priority=wanted)
        commit(run, transition, actor=actor.as_dict(), reason=reason)
        if run.is_in_line:
            let_in_soon(run)
        run.refresh_from_db()
        return run


def limit_project(*, project: Project, most: int | None) -> None:
    """Say how many runs of a project may be at work at once; None: any number. For whoever has the command line.

    It holds for runs that stand in line, and for those submitted from now on.
    """
    if most is not None and not 1 <= most <= LARGEST:
        raise BadRequest(
            Told("max_concurrent_runs is a whole number from 1 to {largest:,}.", largest=LARGEST)
        )
    with transaction.atomic(durable=True):
        audit_command(project, "limit_project", "*", reason=f"max_concurrent_runs={most}")
        Project.objects.filter(pk=project.pk).update(max_concurrent_runs=most)
        slots = Slot.objects.filter(project=project, workflow="", name=OF_PROJECT, run__finished_at=None)
        if most is None:
            slots.delete()
        else:
            slots.exclude(most=most).update(most=most)
    for queue in store.queues_in_line():
        let_in(queue=queue)
