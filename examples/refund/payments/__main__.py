"""Start the payment service: `python -m examples.refund.payments --port 8031 --data payments.sqlite3`."""

from __future__ import annotations

import argparse
import signal
import sqlite3
import sys
import threading
from pathlib import Path

from examples.refund.payments.book import Book
from examples.refund.payments.server import Server


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C. Exit status 2 if the port or the file cannot be had."""
    options = _parser().parse_args(arguments)
    try:
        server = Server((options.host, options.port), Book(options.data), quiet=options.quiet)
    except (OSError, sqlite3.Error) as error:
        print(
            f"payments cannot start on {options.host}:{options.port} with {options.data}: {error}",
            file=sys.stderr,
        )
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        # `shutdown` waits for the loop to end, and the handler runs in the loop's own thread.
        signal.signal(number, lambda *_: threading.Thread(target=server.stop).start())
    print(f"payments at {server.url}, book in {options.data}", flush=True)
    with server:
        server.serve_forever(poll_interval=0.2)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.refund.payments", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8031, help="0 takes a free one and prints it")
    parser.add_argument("--data", type=Path, required=True, help="the SQLite file that holds the book")
    parser.add_argument("--quiet", action="store_true", help="no line for each request")
    return parser


if __name__ == "__main__":
    sys.exit(main())
