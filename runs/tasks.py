"""Celery's side: parse ids, call one operation. Task names are wire format."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task, signals

from runs import operations
from runs.dispatch import ADVANCE


@shared_task(name=ADVANCE, ignore_result=True)
def advance(run_id: str, branch: int, address: str) -> None:
    operations.advance(run_id=uuid.UUID(run_id), branch=branch, address=address)


@signals.worker_init.connect
def _check_workflows(**_: Any) -> None:
    """A graph that changed without a new version stops the start of the worker, before it takes anything."""
    operations.register_workflows()


@signals.worker_process_init.connect
def _enter(**_: Any) -> None:
    operations.worker()


@signals.worker_process_shutdown.connect
def _leave(**_: Any) -> None:
    operations.leave()
