"""Who works on an approval, who would rather see it later, and how long it may take.

Whoever takes an approval on keeps others from answering it, for a while: then it is free again by itself. Somebody else
may take it over at any time with a reason. None of this decides anything, and none of it stops the clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runs import policies, store
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.status import ApprovalEvent
from runs.errors import NotFound, Problem, ReasonRequired, Told, Unprocessable
from runs.models import Approval, Run, Snooze, User
from runs.operations.deciding import check_open, check_words, taken
from runs.operations.door import as_uuid, locked_run, verb
from runs.operations.escalating import keep_time, move_due, tell
from runs.policies import Actor

CLAIMED_FOR: Final = timedelta(hours=1)  # by oneself; taking it on again makes it longer
GIVEN_FOR: Final = timedelta(days=1)  # by somebody else, who may not be there to take it on
LONGEST_SNOOZE: Final = timedelta(days=365)
LONGEST_DUE: Final = timedelta(days=3650)


@dataclass(slots=True)
class Attended:
    """An open approval and its locked run, and the moment by the database's clock."""

    run: Run
    approval: Approval
    moment: datetime


def assign(
    *, actor: Actor, approval_id: uuid.UUID | str, to: str | None = None, reason: str = ""
) -> Approval:
    """Take an approval on, or give it to somebody (their username) who may decide it.

    What somebody else works on is taken over, or given away, with a reason only. Raises `AlreadyAssigned` naming who works
    on it and until when, `NotACandidate` or `SelfApproval` if whoever is to work on it may not decide it.
    """
    with verb(actor, "assign", approval_id, reason=reason), _open(actor, approval_id) as found:
        user = actor.user if to is None else _person(actor, to)
        check_words(reason)
        _check_may_give(actor, found, user)
        _check_free(actor, found, user, reason)
        given = user.pk != actor.user.pk
        until = found.moment + (GIVEN_FOR if given else CLAIMED_FOR)
        before = found.approval.assignee if found.approval.is_worked_on(found.moment) else None
        _put(found, user, until)
        facts = _facts(found, to=user.username, until=until, reason=reason)
        if before is not None and before.pk != user.pk:
            facts["taken_from"] = before.username
        if before is None or before.pk != user.pk:
            tell(found.run, found.approval, "approval_assigned", facts, actor.as_dict())
        return found.approval


def unassign(*, actor: Actor, approval_id: uuid.UUID | str, reason: str = "") -> Approval:
    """Let an approval go that one works on; operators also what somebody else works on, with a reason. Free already: nothing."""
    with verb(actor, "unassign", approval_id, reason=reason), _open(actor, approval_id) as found:
        policies.check_direct(actor, found.run, found.approval)
        check_words(reason)
        if not found.approval.is_worked_on(found.moment):
            return found.approval
        if found.approval.assignee_id != actor.user.pk:
            if "operator" not in actor.roles:
                raise taken(found.approval)
            _check_reason(reason)
        _put(found, None, None)
        tell(
            found.run,
            found.approval,
            "approval_unassigned",
            _facts(found, reason=reason),
            actor.as_dict(),
        )
        return found.approval


def snooze(*, actor: Actor, approval_id: uuid.UUID | str, until: datetime | None) -> Approval:
    """Not to see an approval in one's own inbox before an instant; None: to see it again now. Its time goes on running."""
    with verb(actor, "snooze", approval_id), _open(actor, approval_id) as found:
        policies.check_decide(actor, found.run, found.approval)
        mine = Snooze.objects.filter(approval=found.approval, user=actor.user)
        if until is None:
            if not mine.delete()[0]:
                return found.approval
        else:
            _check_later(until, found.moment, LONGEST_SNOOZE, "until")
            Snooze.objects.update_or_create(
                approval=found.approval, user=actor.user, defaults={"until": until}
            )
        facts = _facts(found, until=until)
        tell(found.run, found.approval, "approval_snoozed", facts, actor.as_dict())
        return found.approval


def extend(*, actor: Actor, approval_id: uuid.UUID | str, due_at: datetime, reason: str) -> Approval:
    """Give people more time for an approval. Candidates and operators; only to a later instant, and with a reason."""
    with verb(actor, "extend", approval_id, reason=reason), _open(actor, approval_id) as found:
        policies.check_direct(actor, found.run, found.approval)
        _check_reason(reason)
        check_words(reason)
        before = found.approval.due_at
        if before is None:
            told = Told("it has no time that could be over")
            raise Unprocessable(f"{told.capitalize()}.", errors=[Problem("/due_at", "not_due", told)])
        _check_later(due_at, before, LONGEST_DUE, "due_at")
        move_due(found.approval, due_at, found.moment)
        facts = _facts(found, due=due_at, before=before, reason=reason)
        tell(found.run, found.approval, "approval_extended", facts, actor.as_dict())
        return found.approval


# ---- inside


@contextmanager
def _open(actor: Actor, approval_id: uuid.UUID | str) -> Iterator[Attended]:
    """An approval of the actor's project that can still be answered, locked with its run."""
    wanted = Approval.objects.filter(pk=as_uuid(approval_id), project=actor.project)
    run_id = wanted.values_list("run_id", flat=True).first()
    if run_id is None or not actor.roles:
        raise NotFound()
    run = locked_run(run_id)
    approval = Approval.objects.select_for_update(no_key=True).get(pk=as_uuid(approval_id))
    policies.check_scope(actor, "approvals:decide")
    moment = store.now()
    keep_time(run, approval, moment)
    check_open(approval, moment, ApprovalEvent.REVISED)
    yield Attended(run, approval, moment)


def _person(actor: Actor, username: str) -> User:
    canonical.check({"to": username})
    found = User.objects.filter(username=username, memberships__project=actor.project, is_active=True).first()
    if found is None:
        told = Told("{username!r} is no member of this project", username=username[:150])
        raise Unprocessable(f"{told}.", errors=[Problem("/to", "unknown_person", told)])
    return found


def _check_may_give(actor: Actor, found: Attended, user: User) -> None:
    """Oneself takes on what one may decide; others are given what they may decide, by somebody who may say so."""
    if user.pk == actor.user.pk:
        policies.check_decide(actor, found.run, found.approval)
        return
    policies.check_direct(actor, found.run, found.approval)
    policies.check_decide(Actor(user, actor.project, "system"), found.run, found.approval)


def _check_free(actor: Actor, found: Attended, user: User, reason: str) -> None:
    approval = found.approval
    if not approval.is_worked_on(found.moment) or approval.assignee_id in (actor.user.pk, user.pk):
        return
    if not reason.strip():
        raise taken(approval)


def _put(found: Attended, user: User | None, until: datetime | None) -> None:
    found.approval.assignee, found.approval.assigned_until = user, until
    store.write(found.approval, "assignee", "assigned_until")


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise ReasonRequired("Say why; the history keeps it.")


def _check_later(moment: datetime, than: datetime, longest: timedelta, name: str) -> None:
    if moment.utcoffset() is None:
        told = Told("an instant has a time zone")
    elif moment <= than:
        told = Told("later than {instant}", instant=than.isoformat())
    elif moment - than > longest:
        told = Told("at most {days} days later than {instant}", days=longest.days, instant=than.isoformat())
    else:
        return
    raise Unprocessable(f"{name}: {told}.", errors=[Problem(f"/{name}", "invalid_instant", told)])


def _facts(found: Attended, **more: datetime | str | None) -> dict[str, Json]:
    told = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in more.items()}
    return {"approval": str(found.approval.pk), **told}
