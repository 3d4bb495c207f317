"""A mail server: real SMTP on a free port, which keeps what it was given, or refuses."""

from __future__ import annotations

import socketserver
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class Postbox:
    """`mails`: what was taken. `refusals`: what the next recipients are answered instead of 250."""

    port: int
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refusals: deque[bytes] = field(default_factory=deque)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}?tls=no"

    def text(self, place: int = -1) -> str:
        """What a mail says, in plain text."""
        part = self.mails[place].get_body(("plain",))
        assert part is not None
        return str(part.get_content())


@contextmanager
def postbox() -> Iterator[Postbox]:
    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: bytes) -> None:
            self.wfile.write(line + b"\r\n")

        def handle(self) -> None:
            self.say(b"220 box")
            while line := self.rfile.readline():
                verb = line[:4].upper().strip()
                if verb == b"QUIT":
                    self.say(b"221 bye")
                    return
                if verb == b"DATA":
                    self.take()
                elif verb == b"RCPT":
                    self.recipient(line)
                else:
                    self.say(b"250 fine")

        def recipient(self, line: bytes) -> None:
            box.recipients.append(line.decode().partition(":")[2].strip().strip("<>"))
            self.say(box.refusals.popleft() if box.refusals else b"250 fine")

        def take(self) -> None:
            self.say(b"354 go on")
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line[1:] if line.startswith(b"..") else line)
            parsed = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(parsed, EmailMessage)
            box.mails.append(parsed)
            self.say(b"250 taken")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    server = Server(("127.0.0.1", 0), Handler)
    box = Postbox(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
