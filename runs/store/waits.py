"""What steps wait for, and the mailbox of signals."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from django.db.models import QuerySet

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.status import ApprovalStatus
from runs.engine.waits import Place, Satisfied, reason_of
from runs.models import (
    Approval,
    JournalEntry,
    Run,
    Signal,
    Wait,
)
from runs.store.clock import now
from runs.store.reading import sight


def open_waits(run: Run, address: str) -> QuerySet[Wait]:
    """What a step of the run's branch waits for."""
    return Wait.objects.filter(run=run, branch=run.branch, address=address, closed_at=None)


def asked_before(run: Run, address: str, places: Collection[Place]) -> dict[Place, Wait]:
    """What a step has asked for before at these places, on this branch or where this branch can see it; the newest of each."""
    if not places:
        return {}
    sees = sight(run.pk, run.branch)
    names, occurrences = {name for name, _ in places}, {occurrence for _, occurrence in places}
    rows = Wait.objects.filter(run=run, address=address, name__in=names, occurrence__in=occurrences)
    rows = rows.order_by("branch", "id")
    return {(row.name, row.occurrence): row for row in rows if sees(row.branch, row.after)}


def answered(
    found: Satisfied,
    *,
    run_id: uuid.UUID,
    branch: int,
    address: str,
    node: str,
    ordinal: int,
    after: int,
    attempt: int,
    at: datetime,
) -> JournalEntry:
    """The journal entry of an answer to what a step waited for."""
    return JournalEntry(
        run_id=run_id,
        branch=branch,
        address=address,
        name=found.name,
        occurrence=found.occurrence,
        kind=found.kind,
        node=node,
        ordinal=ordinal,
        after=after,
        attempt=attempt,
        args_digest=found.digest,
        result=canonical.dumps(found.result),
        effect="none",
        call_key="",
        started_at=found.since or at,
        ended_at=at,
    )


def waiting_for(run: Run) -> list[Json]:
    """Why a run waits, of whom, since when, until when; from its open waits."""
    approvals = {
        (approval.address, approval.name, approval.occurrence): approval
        for approval in Approval.objects.filter(run=run, status=ApprovalStatus.OPEN)
    }
    reasons: list[Json] = []
    for wait in Wait.objects.filter(run=run, closed_at=None).order_by("opened_at", "id"):
        reason = reason_of(wait, child=str(wait.child_id or ""))
        reason.update(wait.facts or {})
        place = (wait.address, wait.name, wait.occurrence)
        approval = approvals.get(place) if wait.kind == "approval" else None
        if approval:
            reason["approval"] = str(approval.pk)
            reason["who"] = [*approval.teams, *approval.users]
            reason["quorum"] = approval.quorum
        reasons.append(reason)
    return reasons


def waiting_steps(run: Run, signal: str) -> list[str]:
    """Addresses of the steps that wait for a signal, the one that has waited longest first."""
    found = Wait.objects.filter(run=run, branch=run.branch, closed_at=None, kind="signal", name=signal)
    return list(dict.fromkeys(found.order_by("opened_at", "id").values_list("address", flat=True)))


def free_signals(run: Run, name: str, taken: Sequence[int]) -> list[Signal]:
    """The mailbox of a name without what was taken, oldest first."""
    rows = Signal.objects.filter(run=run, name=name).exclude(no__in=list(taken))
    return list(rows.order_by("no"))


def add_signal(run: Run, *, name: str, sent_id: str, payload: str, digest: str, sender: Json) -> Signal:
    """Put a signal into the mailbox of a locked run."""
    last = Signal.objects.filter(run=run).order_by("-no").values_list("no", flat=True).first() or 0
    return Signal.objects.create(
        run=run,
        no=last + 1,
        name=name,
        sent_id=sent_id,
        payload=payload,
        digest=digest,
        sender=sender,
        received_at=max(now(), run.updated_at),
    )
