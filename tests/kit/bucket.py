"""A bucket: a real HTTP server that speaks as much of S3 as files of runs need, with the bucket in the path."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

XML: Final = '<?xml version="1.0" encoding="UTF-8"?>'


@dataclass
class Bucket:
    """objects: what lies in it, by key. down: it answers every request with 503. asked: methods and keys, in order."""

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    down: bool = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def do_PUT(self) -> None:
        body = self._body()
        if self._refused():
            return
        if "partNumber" in self.query:
            self.bucket.parts[self.query["uploadId"]][int(self.query["partNumber"])] = body
        else:
            self.bucket.objects[self.key] = body
        self._say(200, ETag=_tag(body))

    def do_POST(self) -> None:
        """An upload in parts: begun, and put together."""
        self._body()
        if self._refused():
            return
        if "uploads" in self.query:
            upload = f"upload-{len(self.bucket.parts) + 1}"
            self.bucket.parts[upload] = {}
            told = f"<UploadId>{upload}</UploadId>"
            self._say(
                200, f"{XML}<InitiateMultipartUploadResult>{told}</InitiateMultipartUploadResult>".encode()
            )
            return
        parts = self.bucket.parts.pop(self.query["uploadId"])
        whole = b"".join(parts[number] for number in sorted(parts))
        self.bucket.objects[self.key] = whole
        told = f"<Key>{self.key}</Key><ETag>{_tag(whole)}</ETag>"
        self._say(200, f"{XML}<CompleteMultipartUploadResult>{told}</CompleteMultipartUploadResult>".encode())

    def do_GET(self) -> None:
        if self._refused() or self._missing():
            return
        whole = self.bucket.objects[self.key]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            self._say(200, whole, ETag=_tag(whole))
            return
        first, last = int(wanted[1]), min(int(wanted[2] or len(whole)), len(whole) - 1)
        self._say(
            206,
            whole[first : last + 1],
            ETag=_tag(whole),
            Content_Range=f"bytes {first}-{last}/{len(whole)}",
        )

    def do_HEAD(self) -> None:
        if self._refused() or self._missing():
            return
        whole = self.bucket.objects[self.key]
        self._say(200, length=len(whole), ETag=_tag(whole))

    def do_DELETE(self) -> None:
        if not self._refused():
            self.bucket.objects.pop(self.key, None)
            self._say(204)

    # -- inside

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    @property
    def query(self) -> dict[str, str]:
        told = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in told.items()}

    def _body(self) -> bytes:
        """As it was meant: boto3 may wrap it in chunks, each with its length before it, and a checksum at the end."""
        if self.headers.get("Expect", "").lower() == "100-continue":
            pass  # answered by the base class before the method is called
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
            return body
        whole = b""
        while body:
            length, _, rest = body.partition(b"\r\n")
            size = int(length.partition(b";")[0], 16)
            if not size:
                break
            whole, body = whole + rest[:size], rest[size + 2 :]
        return whole

    def _refused(self) -> bool:
        self.bucket.asked.append((self.command, self.key))
        if self.bucket.down:
            self._say(503)
        return self.bucket.down

    def _missing(self) -> bool:
        missing = self.key not in self.bucket.objects
        if missing:
            self._say(404)
        return missing

    def _say(self, status: int, body: bytes = b"", *, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        if status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


@contextmanager
def bucket() -> Iterator[Bucket]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    made = Bucket(f"http://127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"bucket": made})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
