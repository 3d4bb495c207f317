"""Tells workers that a step is ready, and open pages that a run has changed.

Hints and no more: Postgres knows what is ready and what has changed, the sweeper hints again, and pages look again.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from typing import Final

from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

ADVANCE: Final = "runs.advance"
WAKE_PARENT: Final = "runs.wake_parent"
RETENTION: Final = "runs.retention"
CHANGES: Final = "hitl:changes"  # the channel that open pages hear
BETWEEN: Final = 0.1  # seconds between two announcements of one run from its own steps
REST: Final = 5.0  # seconds without a try after Redis did not answer
logger = logging.getLogger(__name__)


def enqueue(run_id: uuid.UUID, branch: int, address: str) -> None:
    """Send the hint once the surrounding transaction has committed; at once if there is none.

    Robust: what is committed is done, and whoever asked must not be told otherwise.
    """

    def hint() -> None:
        send(run_id, branch, address)

    transaction.on_commit(
        hint, robust=True
    )  # no partial: Django cannot name one in its log, and fails over that


def tell_parent(child_id: uuid.UUID) -> None:
    """Tell a worker, once the transaction has committed, that a child run has ended: a hint, as every message."""

    def hint() -> None:
        _send(WAKE_PARENT, str(child_id))

    transaction.on_commit(hint, robust=True)


def send(run_id: uuid.UUID, branch: int, address: str) -> bool:
    """Send the hint now. A broker that does not answer is no error: the sweeper tells the workers later."""
    return _send(ADVANCE, str(run_id), branch, address)


def _send(task: str, run_id: str, *more: object) -> bool:
    try:
        current_app.send_task(task, args=[run_id, *more], retry=False)
    except (OSError, OperationalError, RedisError) as error:
        logger.warning("the broker did not take a hint: %s", error, extra={"run": run_id, "task": task})
        return False
    return True


def hints() -> int | None:
    """How many hints lie in the broker; None if it does not answer."""
    try:
        with Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as broker:
            return int(broker.llen(current_app.conf.task_default_queue))
    except RedisError as error:
        logger.warning("the broker does not answer: %s", error)
        return None


def announce(project_id: uuid.UUID, run_id: uuid.UUID) -> None:
    """Say that a run has changed, once the surrounding transaction has committed."""

    def tell() -> None:
        _announcer().say(project_id, run_id)

    transaction.on_commit(tell, robust=True)


def announce_step(project_id: uuid.UUID, run_id: uuid.UUID) -> None:
    """Say that a run has made a step: at most every tenth of a second, for a run that makes hundreds."""
    _announcer().say_step(project_id, run_id)


class _Announcer:
    """Publishes without ever waiting for long: a page that misses something reads Postgres at its next heartbeat."""

    def __init__(self) -> None:
        self.redis = Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=0.2, socket_timeout=0.2, retry=None
        )
        self.resting_until = 0.0
        self.last_step = (uuid.UUID(int=0), 0.0)

    def say(self, project_id: uuid.UUID, run_id: uuid.UUID) -> None:
        if time.monotonic() < self.resting_until:
            return
        try:
            self.redis.publish(CHANGES, f"{project_id} {run_id}")
        except RedisError as error:
            self.resting_until = time.monotonic() + REST
            logger.warning("open pages were not told: %s", type(error).__name__, extra={"run": str(run_id)})

    def say_step(self, project_id: uuid.UUID, run_id: uuid.UUID) -> None:
        last_run, last_time = self.last_step
        if last_run == run_id and time.monotonic() - last_time < BETWEEN:
            return
        self.last_step = (run_id, time.monotonic())
        self.say(project_id, run_id)


_announcers: dict[int, _Announcer] = {}


def _announcer() -> _Announcer:
    """One for each process: a connection must not be shared over a fork."""
    process = os.getpid()
    if process not in _announcers:
        _announcers[process] = _Announcer()
    return _announcers[process]
