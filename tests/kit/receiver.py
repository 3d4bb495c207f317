"""A receiver of webhooks: a real server on a free port that answers as it is told, and keeps what it got."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.kit.waiting import until

Conversation = Callable[[BaseHTTPRequestHandler], None]


@dataclass(slots=True)
class Got:
    """One request, as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def attempt(self) -> int:
        return int(self.headers["webhook-attempt"])


@dataclass
class Receiver:
    """`answers`: what to do with the next requests; then 204. `got`: what came, in order."""

    url: str
    got: list[Got] = field(default_factory=list)
    answers: deque[Conversation] = field(default_factory=deque)
    free: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    names: list[str | None] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def wait_for(self, some: int, *, seconds: float = 60) -> list[Got]:
        until(lambda: len(self.got) >= some, seconds=seconds, what=f"{some} requests at the receiver")
        return self.got

    # -- what it may do

    def say(self, status: int, body: bytes = b"", **headers: str) -> Receiver:
        self.answers.append(lambda request: _say(request, status, body, headers))
        return self

    def stall(self) -> Receiver:
        """Take the request and say nothing until the test is over."""
        self.answers.append(lambda _: self._wait())
        return self

    def _wait(self) -> None:
        self.free.wait()

    def reset(self) -> Receiver:
        """Take the request, then break the connection off."""
        self.answers.append(_reset)
        return self

    def drip(self) -> Receiver:
        """A line now and then, for ever: no single silence is long."""

        def dripping(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            while not self.free.wait(0.05):
                request.wfile.write(b"X-More: yes\r\n")
                request.wfile.flush()

        self.answers.append(dripping)
        return self

    def flood(self) -> Receiver:
        """A body without end."""

        def flooding(request: BaseHTTPRequestHandler) -> None:
            _say(request, 200, b"", {"Content-Length": str(2**30)}, lines=False)
            while not self.free.is_set():
                request.wfile.write(b"x" * 65_536)

        self.answers.append(flooding)
        return self


def _say(
    request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str], *, lines: bool = True
) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    if lines:
        request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _reset(request: BaseHTTPRequestHandler) -> None:
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that hangs up is what is tested."""


@contextmanager
def receiving(*, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """tls: what it speaks TLS with; the names that clients ask it for are kept in `names`."""

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            receiver.connections += 1
            super().setup()

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.answers.popleft() if receiver.answers else (lambda r: _say(r, 204, b"", {}))
            receiver.got.append(Got(self.path, headers, self.rfile.read(length)))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    scheme = "https" if tls else "http"
    receiver = Receiver(f"{scheme}://127.0.0.1:{server.server_address[1]}/hooks")
    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: receiver.names.append(name)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.free.set()
        server.shutdown()
        server.server_close()
        thread.join()
