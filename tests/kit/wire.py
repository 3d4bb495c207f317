"""What goes over a connection to Postgres, counted in the protocol's own messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.db import connection


@dataclass
class Traffic:
    """statements: executed. parsed: how many of them the server had to read and plan. trips: answers that ended with "ready".
    open: how many of them inside a transaction.
    """

    statements: int = 0
    parsed: int = 0
    trips: int = 0
    open: int = 0

    @property
    def commits(self) -> int:
        return self.trips - self.open


@contextmanager
def watched(file: Path) -> Iterator[Traffic]:
    """Counts what goes over this thread's connection, as libpq writes it down."""
    connection.ensure_connection()
    traffic, raw = Traffic(), connection.connection.pgconn
    with file.open("wb") as out:
        raw.trace(out.fileno())
        try:
            yield traffic
        finally:
            raw.untrace()
    for line in file.read_text().splitlines():
        sender, _, rest = line.partition("\t")[2].partition("\t")
        message = rest.partition("\t")[2].split("\t")[0]
        if sender == "F" and message in ("Execute", "Query"):
            traffic.statements += 1
        if sender == "F" and message in ("Parse", "Query"):
            traffic.parsed += 1
        elif sender == "B" and message == "ReadyForQuery":
            traffic.trips += 1
            traffic.open += not line.rstrip().endswith(" I")
