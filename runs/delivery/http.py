"""One POST to a place we do not trust: to an address that was judged, within a time that holds, reading little."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import certifi
import httpcore

from runs.wall import Address, Resolver, Target, addresses, target

SECONDS: Final = 10.0  # for everything: the look-up, the connection, the answer to its last byte
READ_AT_MOST: Final = 64 * 1024  # bytes of an answer


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: status, headers by lower-case name, the beginning of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Deadline:
    """One time for everything that a request does."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left. Raises `TimeoutError` if there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class Pinned(httpcore.NetworkBackend):
    """Connects to addresses that were judged, whatever the name says by now."""

    def __init__(self, judged: Sequence[Address], deadline: Deadline) -> None:
        self.judged = judged
        self.deadline = deadline
        self.plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        refused: Exception | None = None
        for address in self.judged:
            try:
                stream = self.plain.connect_tcp(str(address), port, timeout=self.deadline.left())
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refused = error
            else:
                return Timed(stream, self.deadline)
        raise refused or httpcore.ConnectError("no address")


class Timed(httpcore.NetworkStream):
    """A connection that ends at the deadline, however slowly the other side speaks."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.stream = stream
        self.deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.stream.read(max_bytes, timeout=self.deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.stream.write(buffer, timeout=self.deadline.left())

    def close(self) -> None:
        self.stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secure = self.stream.start_tls(ssl_context, server_hostname, timeout=self.deadline.left())
        return Timed(secure, self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


@cache
def certificates() -> ssl.SSLContext:
    """Whom we believe: the public authorities, and those of SSL_CERT_FILE or SSL_CERT_DIR."""
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    resolver: Resolver | None = None,
    seconds: float = SECONDS,
) -> Answer:
    """Send a body. No redirect is followed, no proxy asked, no connection kept.

    Raises `ForbiddenTarget`; `TimeoutError`, `OSError` and `httpcore` errors for what the network does.
    """
    deadline = Deadline(seconds)
    place = target(url)
    judged = addresses(place, resolver=resolver, seconds=deadline.left() / 2)
    pool = httpcore.ConnectionPool(
        ssl_context=certificates(), network_backend=Pinned(judged, deadline), max_connections=1
    )
    sent = [("Host", place.authority), *headers.items()]
    with (
        pool,
        pool.stream("POST", _url(place), headers=[_line(*pair) for pair in sent], content=body) as response,
    ):
        told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, told, _beginning(response))


def _url(place: Target) -> httpcore.URL:
    return httpcore.URL(
        scheme=place.scheme.encode(),
        host=place.host.encode(),
        port=place.port,
        target=place.path.encode(),
    )


def _line(name: str, value: str) -> tuple[bytes, bytes]:
    return name.encode("ascii"), value.encode("ascii")


def _beginning(response: httpcore.Response) -> bytes:
    read = b""
    for chunk in response.iter_stream():
        read += chunk
        if len(read) >= READ_AT_MOST:
            break
    return read[:READ_AT_MOST]
