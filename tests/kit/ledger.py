"""A tiny server outside the product that counts how often code really ran, and holds it at gates until a test
opens them.

Own process, own file: what it noted survives rollbacks, kills and flushes. Node bodies call `stamp` and
`gate`; tests hold a `Ledger`.

    python -m tests.kit.ledger --port 9000 --file stamps.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from urllib.request import ProxyHandler, Request, build_opener

VARIABLE = "HITL_TEST_LEDGER"  # where node bodies find it
GATE_SECONDS = 120


def _ask(url: str, *, body: dict[str, Any] | None = None, timeout: float = 10) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with build_opener(ProxyHandler({})).open(Request(url, data=data), timeout=timeout) as answer:
        return json.loads(answer.read())


# ---- in a node


def stamp(**facts: Any) -> None:
    """Notes that code ran: by convention run, step, attempt, and what else is of interest."""
    _ask(f"{os.environ[VARIABLE]}/stamps", body={"pid": os.getpid(), **facts})


def gate(name: str) -> None:
    """Waits until the test opens this gate."""
    _ask(f"{os.environ[VARIABLE]}/wait/{name}", timeout=GATE_SECONDS + 10)


# ---- in a test


class Ledger:
    def __init__(self, url: str) -> None:
        self.url = url

    def stamps(self, **facts: Any) -> list[dict[str, Any]]:
        """Those that carry all the facts."""
        found: list[dict[str, Any]] = _ask(f"{self.url}/stamps?{quote(json.dumps(facts))}")
        return found

    def count(self, **facts: Any) -> int:
        return len(self.stamps(**facts))

    def open(self, gate: str) -> None:
        _ask(f"{self.url}/open/{gate}", body={})

    def waiting(self, gate: str) -> int:
        """How often this gate was reached; a killed visitor still counts."""
        return int(_ask(f"{self.url}/visits/{gate}"))


# ---- the server


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, file: Path) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.file = file
        self.stamps: list[dict[str, Any]] = []
        self.change = threading.Condition()
        self.opened: set[str] = set()
        self.visits: dict[str, int] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A visitor that was killed at a gate is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        kind, _, name = path.strip("/").partition("/")
        if kind == "stamps":
            facts = json.loads(unquote(query)).items()
            self._answer([one for one in list(self.server.stamps) if facts <= one.items()])
        elif kind == "visits":
            self._answer(self.server.visits.get(name, 0))
        else:
            self._answer(self._wait(name))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, _, name = self.path.strip("/").partition("/")
        with self.server.change:
            if kind == "stamps":
                self.server.stamps.append(body)
                with self.server.file.open("a") as file:
                    file.write(json.dumps(body) + "\n")
            else:
                self.server.opened.add(name)
            self.server.change.notify_all()
        self._answer({})

    def _wait(self, name: str) -> bool:
        with self.server.change:
            self.server.visits[name] = self.server.visits.get(name, 0) + 1
            return self.server.change.wait_for(lambda: name in self.server.opened, timeout=GATE_SECONDS)

    def _answer(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", type=Path, required=True)
    options = parser.parse_args()
    _Server(options.port, options.file).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
