"""Timers by the thousand: those that are all that their run waits for are fired many in one transaction.

The same as `machine.satisfy` comes to for such a wait, which needs no position: the answer is journalled, the step is ready,
the run is queued, the history says so. Everything else (lanes, races, questions) is woken one by one, by `waking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from runs import dispatch, store
from runs.engine import canonical, given, transition
from runs.engine.status import RunEvent, after
from runs.engine.waits import ENTRY_OF, Satisfied
from runs.models import Event, JournalEntry, Wait
from runs.policies import SYSTEM

BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Fired:
    """One timer, its answer, and what the history says about it."""

    row: Any
    at: datetime
    answer: Satisfied
    event: Event


def fire_timers(*, limit: int = BATCH) -> int:
    """Fire one batch; returns how many. Runs that somebody holds are left for the next time."""
    with transaction.atomic(durable=True):
        locked = store.due_timers(None, limit=limit, lock=True)
        if not locked:
            return 0
        moment = store.now()
        rows = store.due_timers([row.run_id for row in locked], limit=limit)
        fired = [_fired(row, moment) for row in rows]
        _store(fired, moment)
        for one in fired:
            dispatch.announce(one.row.project_id, one.row.run_id)
    return len(fired)


def _fired(row: Any, moment: datetime) -> Fired:
    at = max(moment, row.updated_at)  # the history's time never goes back
    told = given.of_time("timer", row.name, row.due_at)
    answer = Satisfied(
        kind=ENTRY_OF["timer"],
        name=row.name,
        occurrence=row.occurrence,
        digest=row.digest,
        result=told.result,
        event=told.event,
        facts=told.facts,
        since=row.opened_at,
    )
    event = store.linked(
        transition.Event(answer.event, answer.facts, row.node, row.address),
        run_id=row.run_id,
        branch=row.branch,
        epoch=row.epoch,
        actor=canonical.dumps(SYSTEM),
        seq=row.seq + 1,
        at=at,
        before=bytes(row.head_hash),
    )
    return Fired(row, at, answer, event)


def _store(fired: Sequence[Fired], moment: datetime) -> None:
    JournalEntry.objects.bulk_create(_entry(one) for one in fired)
    Event.objects.bulk_create(one.event for one in fired)
    Wait.objects.filter(pk__in=[one.row.id for one in fired]).update(closed_at=moment)
    store.wake_all([_awake(one) for one in fired])


def _awake(one: Fired) -> store.Awake:
    row = one.row
    status = after(row.status, RunEvent.WOKEN).value
    return store.Awake(
        row.run_id,
        row.branch,
        row.address,
        status,
        one.event.seq,
        bytes(one.event.hash),
        bytes(row.head_hash),
        one.at,
    )


def _entry(fired: Fired) -> JournalEntry:
    row = fired.row
    return store.answered(
        fired.answer,
        run_id=row.run_id,
        branch=row.branch,
        address=row.address,
        node=row.node,
        ordinal=row.ordinal,
        after=row.head,
        attempt=row.attempt,
        at=fired.at,
    )
