"""`/live/…`: server-sent events that tell a page that something has changed. Raw ASGI, outside Django.

An open stream holds no thread and no database connection: it sleeps on the event loop until the hub wakes it or its
heartbeat is due, and then asks the product itself, with the page's own cookie, what there is (`/live/state/…`: one or
two queries). So rights are looked at again at every heartbeat, and a lost message costs at most one.

    /live/runs/<id>?after=<seq>   `changed` with the run's seq as id; `end` when the run has ended
    /live/runs, /live/inbox, /live/dashboard
                                  `changed` whenever the page would read something else
    /live/notices                 `changed` when there is something new for the bell; so it does on the others

`signed-out` and `gone` end a stream for good. The position comes in the address or as Last-Event-ID.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from runs.live.hub import Hub
from runs.live.waiting import Answer, App, Message, Receive, Scope, Send

HEARTBEAT: Final = 15.0
HEARTBEAT_DEAF: Final = 3.0  # while Redis says nothing, Postgres is read more often
TOGETHER: Final = 0.1  # seconds in which several changes of a run become one message
TOGETHER_LIST: Final = 1.0  # the same for a list, which any run of the project changes

_STREAM = re.compile(r"/live/(runs/[0-9a-f-]{36}|runs|inbox|dashboard|notices)\Z")
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


class Streams:
    """Wraps an ASGI app and answers the addresses of streams itself."""

    def __init__(self, app: App, hub: Hub) -> None:
        self.app = app
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _STREAM.match(scope["path"]) if scope["type"] == "http" else None
        if match is None:
            await self.app(scope, receive, send)
        elif scope["method"] != "GET":
            await _refuse(send, 405)
        else:
            await Stream(self, scope, match[1]).run(receive, send)

    async def ask(self, scope: Scope, what: str) -> Answer:
        """Ask the product what there is, as the person whose page this is."""
        kept = [(name, value) for name, value in scope["headers"] if name.lower() in (b"cookie", b"host")]
        path = f"/live/state/{what}"
        which_part = urlencode([(name, value) for name, value in _query(scope) if name != "after"])
        inner = {
            **scope,
            "path": path,
            "raw_path": path.encode(),
            "query_string": which_part.encode(),
            "headers": kept,
        }
        answer = Answer()
        await self.app(inner, _nothing, answer.take)
        return answer


class Stream:
    """One open page."""

    def __init__(self, streams: Streams, scope: Scope, what: str) -> None:
        self.streams = streams
        self.scope = scope
        self.what = what
        self.mark = _position(scope)

    async def run(self, receive: Receive, send: Send) -> None:
        answer = await self.streams.ask(self.scope, self.what)
        if answer.status != 200:
            await _refuse(send, answer.status)
            return
        state = json.loads(answer.body)
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _say(send, "retry: 2000\n\n")
        page = asyncio.ensure_future(_closed(receive))
        try:
            with self.streams.hub.listening(*state["listen"]) as bell:
                await self._follow(state, bell, page, send)
        finally:
            page.cancel()
            with suppress(asyncio.CancelledError):
                await page
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(
        self, state: dict[str, Any], bell: asyncio.Event, page: asyncio.Future[None], send: Send
    ) -> None:
        while not page.done():
            await self._tell(state, send)
            if state.get("ended"):
                await _say(send, "event: end\ndata: {}\n\n")
                return
            await self._sleep(bell, page)
            if page.done():
                return
            answer = await self.streams.ask(self.scope, self.what)
            if answer.status in (401, 403, 404):
                await _say(send, f"event: {'gone' if answer.status == 404 else 'signed-out'}\ndata: {{}}\n\n")
                return
            if answer.status == 200:  # anything else is trouble of the moment: the next heartbeat asks again
                state = json.loads(answer.body)

    async def _tell(self, state: dict[str, Any], send: Send) -> None:
        mark = str(state["mark"])
        if mark == self.mark:
            await _say(send, ": still here\n\n")
            return
        self.mark = mark
        await _say(send, f"id: {mark}\nevent: changed\ndata: {json.dumps(state['tell'])}\n\n")

    async def _sleep(self, bell: asyncio.Event, page: asyncio.Future[None]) -> None:
        """Until something has changed, the heartbeat is due, or the page is closed."""
        patience = HEARTBEAT if self.streams.hub.hears else HEARTBEAT_DEAF
        rung = asyncio.ensure_future(bell.wait())
        either: set[asyncio.Future[Any]] = {rung, page}
        await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        rung.cancel()
        if bell.is_set() and not page.done():
            await asyncio.sleep(TOGETHER if "/" in self.what else TOGETHER_LIST)
        bell.clear()


def _position(scope: Scope) -> str | None:
    """Where the page stands: Last-Event-ID of a reconnect, else `?after=`, else unknown."""
    for name, value in scope["headers"]:
        if name.lower() == b"last-event-id":
            return str(value.decode("latin-1"))
    return dict(_query(scope)).get("after")


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _say(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
