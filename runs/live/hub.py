"""Hears on Redis what has changed, and wakes the open streams of this process. One connection, one task, no threads.

A missed message costs a page until its next heartbeat, so nothing here is repeated or kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import redis.asyncio as redis
from redis import RedisError

from runs.trouble import Trouble

AGAIN: Final = 1.0  # seconds between two tries to reach Redis

log = logging.getLogger("runs.live")


class Hub:
    """The streams of one process, by what they listen for: the id of a run or of a project, and the person's own key."""

    def __init__(self, url: str, channel: str) -> None:
        self.url = url
        self.channel = channel
        self.hears = False
        self._bells: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._trouble = Trouble(log, "open pages hear nothing from Redis")

    @contextmanager
    def listening(self, *keys: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something with one of these ids has changed."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._hear())
        bell = asyncio.Event()
        for key in keys:
            self._bells[key].add(bell)
        try:
            yield bell
        finally:
            for key in keys:
                self._bells[key].discard(bell)
                if not self._bells[key]:
                    del self._bells[key]

    def ring(self, *keys: str) -> None:
        for key in keys:
            for bell in self._bells.get(key, ()):
                bell.set()

    async def _hear(self) -> None:
        """Listen as long as somebody is there; come back after every trouble."""
        while self._bells:
            try:
                async with (
                    redis.Redis.from_url(self.url, socket_connect_timeout=1) as client,
                    client.pubsub() as sub,
                ):
                    await sub.subscribe(self.channel)
                    await self._listen(sub)
            except (RedisError, OSError) as error:
                self._trouble.note(type(error).__name__)
            finally:
                self.hears = False
            await asyncio.sleep(AGAIN)

    async def _listen(self, sub: redis.client.PubSub) -> None:
        self.hears = True
        self._trouble.end()
        self.ring(*list(self._bells))  # what was said while nobody listened
        while self._bells:
            message = await sub.get_message(ignore_subscribe_messages=True, timeout=AGAIN)
            if message is not None:
                self.ring(*message["data"].decode().split())
