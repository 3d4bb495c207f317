"""Who looks at an approval now. Kept in Redis alone: the open page says it every few seconds, and silence is leaving.

Redis may be slow or gone: then nobody is seen, nothing fails, and nothing is asked of it for a while.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, cast
from uuid import UUID

import redis

from runs import dispatch

EVERY: Final = 20  # seconds between two words of an open page
STAYS: Final = 50.0  # seconds after the last word
REST: Final = 30.0  # seconds without a try after Redis did not answer
MOST: Final = 20  # onlookers of one approval that are told

log = logging.getLogger("runs.live")


@dataclass(frozen=True, slots=True)
class Onlooker:
    """A person, and since when they look."""

    user: int
    name: str
    since: datetime


class _Patience:
    """After a failure this process leaves Redis alone for a while."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.resting_until = 0.0

    @property
    def is_resting(self) -> bool:
        with self.lock:
            return time.monotonic() < self.resting_until

    def rest(self, error: redis.RedisError) -> None:
        with self.lock:
            self.resting_until = time.monotonic() + REST
        log.warning("nobody is told who looks at an approval: %s", type(error).__name__)


_patience = _Patience()


def look(project: UUID, approval: UUID, user: int, name: str) -> bool:
    """Say that somebody looks at an approval now. Returns whether they have just come. Never raises."""
    if _patience.is_resting:
        return False
    moment = datetime.now(UTC)
    try:
        kept = _kept(project)
        here = {place: one for place, text in kept.items() if (one := _read(place, text, moment)) is not None}
        before = here.get(_place(approval, user))
        since = before.since if before else moment
        gone = [place for place in kept if place not in here]
        with dispatch.client().pipeline(transaction=False) as sent:
            sent.hset(_key(project), _place(approval, user), _told(name, since, moment))
            if gone:
                sent.hdel(_key(project), *gone)
            sent.expire(_key(project), int(STAYS))
            sent.execute()
    except redis.RedisError as error:
        _patience.rest(error)
        return False
    return before is None


def leave(project: UUID, approval: UUID, user: int) -> None:
    """Say that somebody looks at it no more. Never raises."""
    if _patience.is_resting:
        return
    try:
        dispatch.client().hdel(_key(project), _place(approval, user))
    except redis.RedisError as error:
        _patience.rest(error)


def onlookers(project: UUID) -> dict[UUID, list[Onlooker]]:
    """Who looks at what in a project, who came first first. Never raises; empty if it is not known."""
    if _patience.is_resting:
        return {}
    try:
        kept = _kept(project)
    except redis.RedisError as error:
        _patience.rest(error)
        return {}
    moment = datetime.now(UTC)
    found: dict[UUID, list[Onlooker]] = {}
    for place, text in kept.items():
        one = _read(place, text, moment)
        if one is not None:
            found.setdefault(UUID(place.partition(":")[0]), []).append(one)
    return {approval: sorted(people, key=lambda one: one.since)[:MOST] for approval, people in found.items()}


def mark(project: UUID) -> str:
    """Changes whenever somebody comes or leaves."""
    pairs = sorted(
        (str(approval), one.user) for approval, people in onlookers(project).items() for one in people
    )
    return sha256(repr(pairs).encode()).hexdigest()[:8] if pairs else ""


def _kept(project: UUID) -> dict[str, str]:
    told = cast(dict[bytes, bytes], dispatch.client().hgetall(_key(project)))
    return {place.decode(): text.decode() for place, text in told.items()}


def _told(name: str, since: datetime, last: datetime) -> str:
    return json.dumps([name, since.timestamp(), last.timestamp()])


def _read(place: str, text: str, moment: datetime) -> Onlooker | None:
    name, since, last = json.loads(text)
    if moment.timestamp() - last > STAYS:
        return None
    return Onlooker(int(place.partition(":")[2]), name, datetime.fromtimestamp(since, UTC))


def _key(project: UUID) -> str:
    return f"hitl:looks:{project}"


def _place(approval: UUID, user: int) -> str:
    return f"{approval}:{user}"
