"""Celery's side: parse ids, call one operation. Task names are wire format."""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from typing import Any

from billiard import active_children
from celery import shared_task, signals
from django.conf import settings

from runs import operations, store
from runs.dispatch import ADVANCE, COUNT, LET_IN, RETENTION, WAKE_PARENT


@shared_task(name=ADVANCE, ignore_result=True)
def advance(run_id: str, branch: int, address: str) -> None:
    operations.advance(run_id=uuid.UUID(run_id), branch=branch, address=address)


@shared_task(name=WAKE_PARENT, ignore_result=True)
def wake_parent(run_id: str) -> None:
    operations.wake_parent(run_id=uuid.UUID(run_id))


@shared_task(name=LET_IN, ignore_result=True)
def let_in(queue: str, mark: str) -> None:
    operations.answer_call(queue=queue, mark=mark)


@shared_task(name=RETENTION, ignore_result=True)
def keep_house() -> None:
    operations.keep_house(removing=settings.HITL_RETENTION)


@shared_task(name=COUNT, ignore_result=True)
def count() -> None:
    operations.count()


@signals.worker_init.connect
def _check_workflows(**_: Any) -> None:
    """A graph that changed without a new version stops the start of the worker, before it takes anything."""
    operations.register_or_stop()
    store.disconnect()  # a child must not inherit the connection: it may be dead by the time of the fork


@signals.worker_process_init.connect
def _enter(**_: Any) -> None:
    # A child is ended by its parent, which lets it finish. Any other handler than this would be replaced at this point by
    # the pool's own, which ends the process in mid-step: a signal to the whole group, as service managers send it, would.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    operations.worker().look_out(operations.advance_alone)


@signals.task_prerun.connect
def _finish_when_asked(**_: Any) -> None:
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, lambda *_: operations.stop_soon())
    # Again, for a child that was started while the database was away.
    operations.worker().look_out(operations.advance_alone)


@signals.worker_shutting_down.connect
def _stop_soon(**_: Any) -> None:
    """The worker was asked to end: its children need not use up their slices."""
    operations.say_leaving()
    for child in active_children():
        if child.pid:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)


@signals.worker_process_shutdown.connect
def _leave(**_: Any) -> None:
    operations.leave()
