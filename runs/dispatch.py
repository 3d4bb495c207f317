"""Tells workers that a step is ready, and open pages that a run has changed.

Hints and no more: Postgres knows what is ready and what has changed, the sweeper hints again, and pages look again.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import uuid
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

from runs.engine.limits import DEFAULT_QUEUE

ADVANCE: Final = "runs.advance"
WAKE_PARENT: Final = "runs.wake_parent"
LET_IN: Final = "runs.let_in"
RETENTION: Final = "runs.retention"
COUNT: Final = "runs.count"
CHANGES: Final = "hitl:changes"  # the channel that open pages hear
BETWEEN: Final = 0.1  # seconds between two announcements of one run from its own steps
CALLED: Final = "hitl:called:"  # before a queue's name: the call that lies in it
CALLED_FOR: Final = 30  # seconds after which it is taken for lost
MEASURED_FOR: Final = 1.0  # seconds for which the measured length of a queue is believed
MEASURED_AGAIN: Final = 0.1  # and if it was full
PASSED_ON: Final = 2.0  # seconds in which the hints of a run are passed on once
REST: Final = 5.0  # seconds without a try after Redis did not answer
logger = logging.getLogger(__name__)


def enqueue(run_id: uuid.UUID, branch: int, address: str, *, queue: str) -> None:
    """Send the hint once the surrounding transaction has committed; at once if there is none.

    Robust: what is committed is done, and whoever asked must not be told otherwise.
    """

    def hint() -> None:
        send(run_id, branch, address, queue=queue)

    transaction.on_commit(
        hint, robust=True
    )  # no partial: Django cannot name one in its log, and fails over that


def tell_parent(child_id: uuid.UUID) -> None:
    """Tell a worker, once the transaction has committed, that a child run has ended: a hint, as every message."""

    def hint() -> None:
        _send(WAKE_PARENT, str(child_id))

    transaction.on_commit(hint, robust=True)


def send(run_id: uuid.UUID, branch: int, address: str, *, queue: str) -> bool:
    """Send the hint now. A broker that does not answer is no error: the sweeper tells the workers later."""
    return _send(ADVANCE, str(run_id), branch, address, queue=queue)


def pass_on(run_id: uuid.UUID, branch: int, address: str, *, queue: str) -> None:
    """Send a hint, of which this process can make nothing, to the others: while it is busy with it, only they listen.

    Whoever took a hint listens anew first, and so has listened longest when the sweeper gives the next one: without this it
    would get that too, and the next. Once in a while for a run; if the others are busy it comes back, and is let be.
    """
    now = time.monotonic()
    for known in [known for known, at in _passed_on.items() if now - at >= PASSED_ON]:
        del _passed_on[known]
    if run_id not in _passed_on:
        _passed_on[run_id] = now
        send(run_id, branch, address, queue=queue)


_passed_on: Final[dict[uuid.UUID, float]] = {}  # when, by run


def call_in(queue: str) -> None:
    """Ask a worker to let in who stands in line for this queue, when it comes to it. One such message lies in the queue."""
    mark = uuid.uuid4().hex
    try:
        alone = client().set(f"{CALLED}{queue}", mark, nx=True, ex=CALLED_FOR)
    except RedisError as error:
        logger.warning("nobody was called in for %s: %s", queue, type(error).__name__)
        return
    if alone:
        _send(LET_IN, queue, mark, queue=queue)


def call_in_soon(queue: str) -> None:
    """The same once the surrounding transaction has committed."""

    def call() -> None:
        call_in(queue)

    transaction.on_commit(call, robust=True)


def is_called(queue: str, mark: str) -> bool:
    """Whether this is the call that counts; from now on there may be another."""
    try:
        if client().get(f"{CALLED}{queue}") != mark.encode():
            return False
        client().delete(f"{CALLED}{queue}")
    except RedisError as error:
        logger.warning("a call for %s is let be: %s", queue, type(error).__name__)
        return False
    return True


def _send(task: str, first: str, *more: object, queue: str = DEFAULT_QUEUE) -> bool:
    to: dict[str, Any] = {"queue": _queue(queue)}  # Celery takes a queue as well as its name
    try:
        current_app.send_task(task, args=[first, *more], retry=False, **to)
    except (OSError, OperationalError, RedisError) as error:
        logger.warning("the broker did not take a hint: %s", error, extra={"run": first, "task": task})
        return False
    return True


@cache
def _queue(name: str) -> Queue:
    return Queue(name, Exchange(""), routing_key=name)


def length(queue: str) -> int:
    """How many messages lie in a queue. Raises `RedisError`."""
    found = client().llen(queue)
    assert isinstance(found, int)
    return found


def has_room(queue: str) -> bool:
    """Whether a new run may be handed out at once: without a line, and with few hints before it in the broker.

    Counted by this process, and measured now and then; no request waits for the broker because of it. If it does not
    answer there is nothing to be out of turn with.
    """
    return _room_in(os.getpid(), queue).take()


@cache
def _room_in(process: int, queue: str) -> _Room:
    return _Room(queue)


class _Room:
    """How many more hints a queue takes before others have to stand in line."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.left = 0
        self.sure_until = 0.0

    def take(self) -> bool:
        if time.monotonic() >= self.sure_until:
            self._look()
        self.left -= 1
        return self.left >= 0

    def _look(self) -> None:
        try:
            self.left = settings.HITL_HINTS_AHEAD - length(self.queue)
        except RedisError as error:
            logger.warning("the length of the queue %s is not known: %s", self.queue, type(error).__name__)
            self.left = sys.maxsize
        self.sure_until = time.monotonic() + (MEASURED_FOR if self.left > 0 else MEASURED_AGAIN)


def hints(queues: Iterable[str]) -> int | None:
    """How many hints lie in some queues of the broker; None if it does not answer."""
    try:
        return sum(length(queue) for queue in queues)
    except RedisError as error:
        logger.warning("the broker does not answer: %s", error)
        return None


def announce(project_id: uuid.UUID, run_id: uuid.UUID) -> None:
    """Say that a run has changed, once the surrounding transaction has committed."""

    def tell() -> None:
        _announcer().say(project_id, run_id)

    transaction.on_commit(tell, robust=True)


def announce_person(user_id: int) -> None:
    """Say that a person's rights have changed, once the surrounding transaction has committed: their open pages look again."""

    def tell() -> None:
        _announcer().publish(person_key(user_id))

    transaction.on_commit(tell, robust=True)


def person_key(user_id: int) -> str:
    """What the open pages of a person listen for."""
    return f"person:{user_id}"


def announce_step(project_id: uuid.UUID, run_id: uuid.UUID) -> None:
    """Say that a run has made a step: at most every tenth of a second, for a run that makes hundreds."""
    _announcer().say_step(project_id, run_id)


class _Announcer:
    """Publishes without ever waiting for long: a page that misses something reads Postgres at its next heartbeat."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.resting_until = 0.0
        self.last_step = (uuid.UUID(int=0), 0.0)

    def say(self, project_id: uuid.UUID, run_id: uuid.UUID) -> None:
        self.publish(f"{project_id} {run_id}")

    def publish(self, keys: str) -> None:
        if time.monotonic() < self.resting_until:
            return
        try:
            self.redis.publish(CHANGES, keys)
        except RedisError as error:
            self.resting_until = time.monotonic() + REST
            logger.warning("open pages were not told of %s: %s", keys, type(error).__name__)

    def say_step(self, project_id: uuid.UUID, run_id: uuid.UUID) -> None:
        last_run, last_time = self.last_step
        if last_run == run_id and time.monotonic() - last_time < BETWEEN:
            return
        self.last_step = (run_id, time.monotonic())
        self.say(project_id, run_id)


# One of each for a process: a connection must not be shared over a fork.


def client() -> Redis:
    """The one of this process: what notes, looks and measures shares its connections, so they are never more than its threads."""
    return _client_of(os.getpid(), settings.REDIS_URL)


def _announcer() -> _Announcer:
    return _announcer_of(os.getpid(), settings.REDIS_URL)


@cache
def _client_of(process: int, url: str) -> Redis:
    return Redis.from_url(url, socket_connect_timeout=0.2, socket_timeout=0.2, retry=None)


@cache
def _announcer_of(process: int, url: str) -> _Announcer:
    return _Announcer(_client_of(process, url))
