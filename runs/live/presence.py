"""When an API token or a session was last used. Kept in Redis alone: reading changes no row, losing it loses little.

Redis may be slow or gone: a note is never waited for longer than a fifth of a second, and after a failure nothing is
noted for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

import redis

from runs import dispatch

REST: Final = 30.0  # seconds without a try after Redis did not answer
FRESH: Final = 60.0  # a note is at most this much older than the use
KEPT: Final = 400 * 86400

log = logging.getLogger("runs.live")


class _Notes:
    """What this process has noted lately, so that a busy one costs one write a minute."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.noted: dict[UUID, float] = {}
        self.resting_until = 0.0

    def is_due(self, used: UUID) -> bool:
        moment = time.monotonic()
        with self.lock:
            if moment < self.resting_until or moment - self.noted.get(used, -FRESH) < FRESH:
                return False
            self.noted[used] = moment
            return True

    def rest(self) -> None:
        with self.lock:
            self.noted.clear()
            self.resting_until = time.monotonic() + REST


_notes = _Notes()


def note_use(used: UUID) -> None:
    """Remember that a token, or a session by its handle, was used now. Never raises."""
    if not _notes.is_due(used):
        return
    try:
        dispatch.client().set(_key(used), datetime.now(UTC).isoformat(timespec="seconds"), ex=KEPT)
    except redis.RedisError as error:
        _notes.rest()
        log.warning("last use was not noted: %s", type(error).__name__)


def last_uses(things: Iterable[UUID]) -> dict[UUID, datetime]:
    """When each token or session was last used, as far as is known. Never raises."""
    asked = list(things)
    if not asked:
        return {}
    try:
        told = cast(list[Any], dispatch.client().mget([_key(one) for one in asked]))
    except redis.RedisError:
        return {}
    return {
        one: datetime.fromisoformat(text.decode())
        for one, text in zip(asked, told, strict=True)
        if text is not None
    }


def _key(used: UUID) -> str:
    return f"hitl:used:{used}"
