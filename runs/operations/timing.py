"""Timers by the thousand: those that are all that their run waits for are fired many in one transaction.

The same as `machine.satisfy` comes to for such a wait, which needs no position: the answer is journalled, the step is ready,
the run is queued, the history says so. Everything else (lanes, races, questions) is woken one by one, by `waking`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from runs import dispatch, store
from runs.engine import canonical, chain
from runs.engine.canonical import Json
from runs.engine.status import RunEvent, after
from runs.engine.waits import ENTRY_OF
from runs.models import Event, JournalEntry, Wait
from runs.policies import SYSTEM

FIRED: Final = "timer_fired"
BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Fired:
    """One timer with what the history says about it."""

    row: Any
    at: datetime
    event: Event


def fire_timers(*, limit: int = BATCH) -> int:
    """Fire one batch; returns how many. Runs that somebody holds are left for the next time."""
    with transaction.atomic(durable=True):
        locked = store.due_timers(None, limit=limit, lock=True)
        if not locked:
            return 0
        rows = store.due_timers([row.run_id for row in locked], limit=limit)
        fired = [_fired(row, store.now()) for row in rows]
        _store(fired)
        for one in fired:
            dispatch.announce(one.row.project_id, one.row.run_id)
    return len(fired)


def _fired(row: Any, moment: datetime) -> Fired:
    at = max(moment, row.updated_at)  # the history's time never goes back
    payload = canonical.dumps({"name": row.name, "due": row.due_at.isoformat()})
    salt, actor, before = os.urandom(16), canonical.dumps(SYSTEM), bytes(row.head_hash)
    payload_hash = chain.payload_hash(salt, payload)
    body = chain.body(
        kind=FIRED,
        node=row.node,
        address=row.address,
        branch=row.branch,
        epoch=row.epoch,
        actor=actor,
        payload_hash=payload_hash,
    )
    event = Event(
        run_id=row.run_id,
        seq=row.seq + 1,
        kind=FIRED,
        branch=row.branch,
        epoch=row.epoch,
        node=row.node,
        address=row.address,
        actor=actor,
        at=at,
        payload=payload,
        salt=salt,
        payload_hash=payload_hash,
        hash=chain.link(before, seq=row.seq + 1, at=at, checkpoint=None, body=body),
    )
    return Fired(row, at, event)


def _store(fired: Sequence[Fired]) -> None:
    JournalEntry.objects.bulk_create(_entry(one.row, one.at) for one in fired)
    Event.objects.bulk_create(one.event for one in fired)
    Wait.objects.filter(pk__in=[one.row.id for one in fired]).update(closed_at=store.now())
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


def _entry(row: Any, at: datetime) -> JournalEntry:
    result: Json = {"due": row.due_at.isoformat()}
    return JournalEntry(
        run_id=row.run_id,
        branch=row.branch,
        address=row.address,
        name=row.name,
        occurrence=row.occurrence,
        kind=ENTRY_OF["timer"],
        node=row.node,
        ordinal=row.ordinal,
        after=row.head,
        attempt=row.attempt,
        args_digest=row.digest,
        result=canonical.dumps(result),
        effect="none",
        call_key="",
        started_at=row.opened_at,
        ended_at=at,
    )
