"""Reminders, and who is asked when the time of an approval is over: each once, whatever was down at the moment."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction

from runs import queries, store
from runs.engine import schedule
from runs.engine.canonical import Json
from runs.engine.stages import PERSON
from runs.engine.status import ApprovalStatus
from runs.engine.transition import Event, Transition
from runs.engine.workflow import ApprovalOptions
from runs.models import Approval, Run, Wait
from runs.operations.door import commit
from runs.policies import SYSTEM


def escalate(run: Run, approval: Approval, moment: datetime) -> bool:
    """Ask the next of the chain about an approval whose time is over; False if nobody is left to ask. Both are locked."""
    options = ApprovalOptions.of(approval.options)
    following = _following(approval, options, moment)
    if following is None:
        return False
    approval.level = following.level
    ask_stage(approval, approval.stage)
    move_due(approval, following.due, moment)
    facts: dict[str, Json] = {
        "approval": str(approval.pk),
        "to": following.to,
        "level": following.level,
        "due": following.due.isoformat(),
    }
    tell(run, approval, "approval_escalated", facts, SYSTEM)
    return True


def keep_time(run: Run, approval: Approval, moment: datetime) -> None:
    """Who is asked when the time is over is asked from that instant on, also if nothing has noted it yet."""
    over = approval.due_at is not None and approval.due_at <= moment
    if over and approval.status == ApprovalStatus.OPEN:
        escalate(run, approval, moment)


def _following(approval: Approval, options: ApprovalOptions, moment: datetime) -> schedule.Escalation | None:
    if approval.level >= len(options.escalate_to):
        return None
    to = options.escalate_to[approval.level]
    team = "" if to.startswith(PERSON) else to
    hours = queries.hours_of(approval.project_id, team) if options.counts_hours and team else None
    return schedule.next_escalation(approval.options, approval.level, moment, hours=hours)


def ask_stage(approval: Approval, stage: int) -> None:
    """Ask the people of a stage, and those of the escalations so far. Whoever worked on it for another stage does no more."""
    asked = ApprovalOptions.of(approval.options).asked_at(approval.level)[stage]
    if stage != approval.stage:
        approval.assignee, approval.assigned_until = None, None
    approval.stage, approval.quorum = stage, asked.quorum
    approval.teams, approval.users = asked.teams, asked.users
    store.write(approval, "stage", "quorum", "teams", "users", "level", "assignee", "assigned_until")


def move_due(approval: Approval, due: datetime, moment: datetime) -> None:
    """Another instant by which an answer is due: on the approval and on what the run waits for."""
    approval.due_at = due
    approval.remind_at = schedule.remind_at(approval.options, due, after=moment)
    store.write(approval, "due_at", "remind_at")
    place = {"address": approval.address, "name": approval.name, "occurrence": approval.occurrence}
    waits = Wait.objects.filter(run=approval.run_id, branch=approval.branch, closed_at=None, kind="approval")
    waits.filter(**place).update(due_at=due)


def remind(*, approval_id: uuid.UUID) -> bool:
    """Remind people of an approval, if that is due. Reminders that were missed are one. False if there is nothing to do."""
    run_id = Approval.objects.values_list("run_id", flat=True).get(pk=approval_id)
    with transaction.atomic(durable=True):
        run = store.lock_run(run_id)
        approval = Approval.objects.select_for_update(no_key=True).get(pk=approval_id)
        moment = store.now()
        if (
            approval.status != ApprovalStatus.OPEN
            or approval.remind_at is None
            or approval.remind_at > moment
        ):
            return False
        approval.remind_at = schedule.remind_at(approval.options, approval.due_at, after=moment)
        store.write(approval, "remind_at")
        if approval.due_at is None or approval.due_at <= moment:
            return True  # what comes now is no reminder any more
        facts: dict[str, Json] = {"approval": str(approval.pk), "due": approval.due_at.isoformat()}
        tell(run, approval, "approval_reminded", facts, SYSTEM)
        return True


def tell(run: Run, approval: Approval, kind: str, facts: dict[str, Json], actor: dict[str, Json]) -> None:
    """Write into the history of a locked run what was done about an approval."""
    commit(run, Transition(events=[Event(kind, facts, approval.node, approval.address)]), actor=actor)
