"""Tells workers that a step is ready. A hint and no more: Postgres knows what is ready, and the sweeper hints again."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import Final

from celery import current_app
from django.db import transaction

ADVANCE: Final = "runs.advance"
logger = logging.getLogger(__name__)


def enqueue(run_id: uuid.UUID, branch: int, address: str) -> None:
    """Send the hint once the surrounding transaction has committed; at once if there is none."""
    transaction.on_commit(partial(send, run_id, branch, address))


def send(run_id: uuid.UUID, branch: int, address: str) -> bool:
    """Send the hint now. A broker that does not answer is no error: the sweeper tells the workers later."""
    try:
        current_app.send_task(ADVANCE, args=[str(run_id), branch, address], retry=False)
    except current_app.connection_for_write().connection_errors + (OSError,) as error:
        logger.warning(
            "the broker did not take a hint: %s", error, extra={"run": str(run_id), "step": address}
        )
        return False
    return True
