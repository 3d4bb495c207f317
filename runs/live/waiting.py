"""`GET /api/v1/runs/{id}?wait=seconds`: the answer comes when the run has settled, or when the time is over.

An ASGI middleware around the whole product. It asks the product again and again, as a client that polls would, and
sleeps in between on the event loop: a waiting client holds no thread and no database connection. What it asks again
is a conditional request, which the API answers with 304 from the run's row alone as long as nothing has changed.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_WAIT: Final = 60.0
PAUSES: Final = (0.05, 0.1, 0.2, 0.3, 0.5)  # then the last one again and again
STATUS_HEADER: Final = b"hitl-run-status"
SETTLED: Final = frozenset({b"waiting", b"paused", b"completed", b"failed", b"cancelled"})

_RUN = re.compile(r"/api/v1/runs/[0-9A-Fa-f-]{32,36}/?\Z")


@dataclass(slots=True)
class Answer:
    """A response of the inner app, kept until it is known whether it is the one to send."""

    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", []))
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key.lower() == name), b"")

    @property
    def is_final(self) -> bool:
        """Whether there is nothing to wait for: an error, or a run that does not move by itself."""
        return self.status not in (200, 304) or self.header(STATUS_HEADER) in SETTLED

    async def give(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": bytes(self.body)})


class Waiting:
    """Wraps an ASGI app. Requests that do not wait, or ask for an impossible wait, pass through untouched."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = wanted(scope)
        if seconds is None:
            await self.app(scope, receive, send)
            return
        await self._wait(without_wait(scope), seconds, receive=receive, send=send)

    async def _wait(self, scope: Scope, seconds: float, *, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        answer = await self._ask(scope)
        gone = asyncio.ensure_future(_gone(receive))
        try:
            for pause in _pauses():
                left = deadline - loop.time()
                if answer.is_final or left <= 0:
                    break
                await asyncio.wait({gone}, timeout=min(pause, left))
                if gone.done():
                    return
                answer = await self._newer(scope, answer)
        except asyncio.CancelledError:
            # The server stops: the client gets what is known, as at the deadline.
            with suppress(Exception):
                await answer.give(send)
            raise
        finally:
            gone.cancel()
        await answer.give(send)

    async def _newer(self, scope: Scope, last: Answer) -> Answer:
        etag = last.header(b"etag")
        answer = await self._ask(_conditional(scope, etag) if etag else scope)
        return last if answer.status == 304 else answer

    async def _ask(self, scope: Scope) -> Answer:
        answer = Answer()
        await self.app({**scope}, _no_body, answer.take)
        return answer


def wanted(scope: Scope) -> float | None:
    """How long this request wants to wait; None if it does not, or if the API has to refuse what it says."""
    if scope["type"] != "http" or scope["method"] != "GET" or not _RUN.match(scope["path"]):
        return None
    told = [value for name, value in _query(scope) if name == "wait"]
    if len(told) != 1:
        return None
    try:
        seconds = float(told[0])
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 < seconds <= MAX_WAIT else None


def without_wait(scope: Scope) -> Scope:
    """The same request, answered at once: no `wait`, and no condition of the client's own (it wants a whole answer)."""
    query = urlencode([(name, value) for name, value in _query(scope) if name != "wait"]).encode()
    headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"if-none-match"]
    return {**scope, "query_string": query, "headers": headers}


def _conditional(scope: Scope, etag: bytes) -> Scope:
    return {**scope, "headers": [*scope["headers"], (b"if-none-match", etag)]}


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _pauses() -> Iterator[float]:
    yield from PAUSES
    while True:
        yield PAUSES[-1]


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _gone(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
