"""Putting right what must hold and does not: only what is safe, each time looked at again under the run's lock."""

from __future__ import annotations

import uuid
from typing import Final

from django.db.models import QuerySet

from runs import dispatch, invariants, policies, store
from runs.engine.canonical import Json
from runs.engine.status import LIVE_STEPS, ApprovalStatus, StepStatus
from runs.errors import BadRequest, NotFound, NothingToRepair, Told
from runs.invariants import Rule
from runs.models import Approval, Event, OperationalNote, Run, Step, Wait
from runs.operations.door import as_uuid, check_reason, locked_run, verb
from runs.policies import Actor

REPAIRED: Final = "repaired"  # kind of the note


def repair(*, actor: Actor, rule: str, target: uuid.UUID | str, reason: str) -> Run:
    """Put right that a rule (`invariants.RULES`, by key) does not hold of a run or an approval; returns the run.

    Raises `NothingToRepair` if it holds by now, and `BadRequest` for a rule that no operation puts right. What was done stands
    in the run's operational log and in the audit.
    """
    check_reason(reason)
    known = repairable(rule)
    with verb(actor, f"repair_{rule}", target, reason=reason):
        run = locked_run(run_of(known, as_uuid(target)))
        policies.check_repair(actor, run)
        if invariants.broken(known, run.pk, as_uuid(target)) is None:
            raise NothingToRepair()
        done = _DO[known.by](run, as_uuid(target))
        facts: dict[str, Json] = {"rule": rule, "reason": reason, "by": actor.as_dict(), **done}
        OperationalNote.objects.create(run=run, kind=REPAIRED, facts=facts)
        dispatch.announce(run.project_id, run.pk)
        return run


def repairable(rule: str) -> Rule:
    known = invariants.BY_KEY.get(rule)
    if known is None:
        raise NotFound()
    if known.by not in _DO:
        raise BadRequest(Told("No operation puts this right. {repair}", repair=known.repair))
    return known


def run_of(rule: Rule, target: uuid.UUID) -> uuid.UUID:
    """The run that a violation is of: its target, or that of the approval which is the target. Raises `NotFound`."""
    if rule.by == "close":
        return target
    found = Approval.objects.filter(pk=target).values_list("run", flat=True).first()
    if found is None:
        raise NotFound()
    return found


def _left(run: Run) -> tuple[QuerySet[Step], QuerySet[Wait], QuerySet[Approval]]:
    """What a run has open: its live steps, waits and approvals."""
    return (
        Step.objects.filter(run=run, status__in=LIVE_STEPS),
        Wait.objects.filter(run=run, closed_at=None),
        Approval.objects.filter(run=run, status=ApprovalStatus.OPEN),
    )


def left_over(run: Run) -> tuple[int, int, int]:
    """How many steps, waits and approvals closing what is left would close. Three queries."""
    steps, waits, approvals = _left(run)
    return steps.count(), waits.count(), approvals.count()


def _close(run: Run, target: uuid.UUID) -> dict[str, Json]:
    """Close what a run that has ended still owns."""
    moment, (steps, waits, approvals) = store.now(), _left(run)
    return {
        "steps": steps.update(status=StepStatus.CANCELLED, token=None, lease_until=None, ended_at=moment),
        "waits": waits.update(closed_at=moment),
        "approvals": approvals.update(
            status=ApprovalStatus.CANCELLED, closed_at=moment, closed_reason="run_ended", outcome=""
        ),
    }


def _move(run: Run, target: uuid.UUID) -> dict[str, Json]:
    """Put an approval into the project of its run."""
    asked = Approval.objects.select_for_update(no_key=True).get(pk=target)
    was, asked.project_id = asked.project_id, run.project_id
    asked.save(update_fields=["project"])
    dispatch.announce(was, run.pk)
    return {"approval": str(target), "from": str(was)}


def _tell(run: Run, target: uuid.UUID) -> dict[str, Json]:
    """Tell of an approval as when it was opened."""
    opened = Event.objects.filter(run=run, kind="approval_opened", payload__contains=str(target)).last()
    if opened is None:
        raise NotFound()
    store.tell(run, [opened])
    return {"approval": str(target)}


_DO: Final = {"close": _close, "move": _move, "tell": _tell}
