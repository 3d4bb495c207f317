"""Requests whose body comes in chunks, without a Content-Length. WSGI knows only bodies of a stated length.

The body is taken in, up to a little more than any door accepts, and handed on with its length.
"""

from __future__ import annotations

from typing import Final

from runs.live.waiting import App, Message, Receive, Scope, Send

MOST: Final = 12 * 1024 * 1024 + 1  # what is longer is cut here and refused as too large inside


class Measured:
    """Wraps an ASGI app."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_chunked(scope):
            body = await _read(receive)
            scope = {**scope, "headers": [*_plain(scope), (b"content-length", str(len(body)).encode())]}
            receive = _once(body, then=receive)
        await self.app(scope, receive, send)


def _is_chunked(scope: Scope) -> bool:
    names = {name.lower() for name, _ in scope["headers"]}
    return b"transfer-encoding" in names and b"content-length" not in names


def _plain(scope: Scope) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in scope["headers"] if name.lower() != b"transfer-encoding"]


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while len(body) < MOST:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            break
    return bytes(body[:MOST])


def _once(body: bytes, *, then: Receive) -> Receive:
    parts = [body]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        return await then()

    return receive
