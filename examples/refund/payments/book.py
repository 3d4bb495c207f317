"""What the payment service remembers: refunds, messages, faults to come; in one SQLite file.

Every write is one `BEGIN IMMEDIATE` transaction: two requests with one key at the same time make one refund.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from examples.refund import money
from examples.refund.payments.orders import STALL_SECONDS, Order

Operation = Literal["look_up", "refund", "message"]
Kind = Literal["error", "stall", "lost_answer"]

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS booking (
    no          INTEGER PRIMARY KEY,
    operation   TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    order_id    TEXT NOT NULL,
    cents       INTEGER NOT NULL,
    answer      TEXT NOT NULL,
    asked       INTEGER NOT NULL DEFAULT 1,
    UNIQUE (operation, key)
);
CREATE TABLE IF NOT EXISTS fault (
    no        INTEGER PRIMARY KEY,
    operation TEXT NOT NULL,
    kind      TEXT NOT NULL,
    seconds   REAL NOT NULL,
    left      INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS visit (
    operation TEXT NOT NULL,
    subject   TEXT NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (operation, subject)
);
"""


class KeyReused(Exception):
    """This Idempotency-Key was used with another body."""


class ExceedsRefundable(Exception):
    """More than what is left of the order."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Booked:
    answer: dict[str, Any]
    replayed: bool


class Book:
    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA)

    # ---- refunds and messages

    def refund(self, order: Order, *, amount: str, key: str) -> Booked:
        """Book a refund once a key. Raises KeyReused, ExceedsRefundable; a refusal leaves the key free."""
        body = {"order_id": order.id, "amount": amount}
        wanted = money.cents(amount)
        with self._writing() as connection:
            if found := _replay(connection, operation="refund", key=key, body=body):
                return found
            left = order.total - _refunded(connection, order.id)
            if wanted > left:
                raise ExceedsRefundable(left)
            receipt = {
                "id": f"RF-{_next_no(connection):05d}",
                **body,
                "currency": order.currency,
                "paid_to": order.paid_with,
                "paid_at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            _book(connection, operation="refund", key=key, body=body, cents=wanted, answer=receipt)
            return Booked(receipt, replayed=False)

    def message(self, order: Order, *, text: str, key: str) -> Booked:
        """Send a message to the customer once a key. Raises KeyReused."""
        body = {"order_id": order.id, "text": text}
        with self._writing() as connection:
            if found := _replay(connection, operation="message", key=key, body=body):
                return found
            sent = {
                "id": f"MS-{_next_no(connection):05d}",
                **body,
                "to": order.customer,
                "sent_at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            _book(connection, operation="message", key=key, body=body, cents=0, answer=sent)
            return Booked(sent, replayed=False)

    def booked(self, operation: Operation) -> list[dict[str, Any]]:
        """Everything booked, oldest first, each with its key and how often it was asked for."""
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "SELECT answer, key, asked FROM booking WHERE operation = ? ORDER BY no", (operation,)
            )
            return [{**json.loads(answer), "key": key, "asked": asked} for answer, key, asked in rows]

    def refunded(self, order_id: str) -> int:
        """Cents refunded of an order so far."""
        with closing(self._connect()) as connection:
            return _refunded(connection, order_id)

    # ---- faults

    def plan_fault(self, *, operation: Operation, fault: Fault, times: int) -> None:
        """Let the next `times` requests of this operation go wrong."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO fault (operation, kind, seconds, left) VALUES (?, ?, ?, ?)",
                (operation, fault.kind, fault.seconds, times),
            )

    def planned_faults(self) -> list[dict[str, Any]]:
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "SELECT operation, kind, seconds, left FROM fault WHERE left > 0 ORDER BY no"
            )
            return [dict(zip(("operation", "kind", "seconds", "left"), row, strict=True)) for row in rows]

    def forget_faults(self) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM fault")

    def next_fault(self, *, operation: Operation, order: Order, key: str = "") -> Fault | None:
        """What goes wrong with this request: a planned fault, used up by this, or else the order's quirk."""
        with self._writing() as connection:
            planned = connection.execute(
                "UPDATE fault SET left = left - 1 WHERE no ="
                " (SELECT min(no) FROM fault WHERE operation = ? AND left > 0) RETURNING kind, seconds",
                (operation,),
            ).fetchone()
            if planned:
                return Fault(*planned)
            return _quirk(connection, operation=operation, order=order, key=key)

    # ---- the file

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=10, isolation_level=None)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def _fingerprint(body: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _replay(
    connection: sqlite3.Connection, *, operation: Operation, key: str, body: dict[str, str]
) -> Booked | None:
    row = connection.execute(
        "UPDATE booking SET asked = asked + 1"
        " WHERE operation = ? AND key = ? AND fingerprint = ? RETURNING answer",
        (operation, key, _fingerprint(body)),
    ).fetchone()
    if row:
        return Booked(json.loads(row[0]), replayed=True)
    if connection.execute(
        "SELECT 1 FROM booking WHERE operation = ? AND key = ?", (operation, key)
    ).fetchone():
        raise KeyReused
    return None


def _book(
    connection: sqlite3.Connection,
    *,
    operation: Operation,
    key: str,
    body: dict[str, str],
    cents: int,
    answer: dict[str, Any],
) -> None:
    connection.execute(
        "INSERT INTO booking (operation, key, fingerprint, order_id, cents, answer)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (operation, key, _fingerprint(body), body["order_id"], cents, json.dumps(answer)),
    )


def _next_no(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(no), 0) + 1 FROM booking").fetchone()[0])


def _refunded(connection: sqlite3.Connection, order_id: str) -> int:
    return int(
        connection.execute(
            "SELECT coalesce(sum(cents), 0) FROM booking WHERE operation = 'refund' AND order_id = ?",
            (order_id,),
        ).fetchone()[0]
    )


def _quirk(connection: sqlite3.Connection, *, operation: Operation, order: Order, key: str) -> Fault | None:
    match order.quirk, operation:
        case "look_up_fails", "look_up":
            return Fault("error") if _visit(connection, operation=operation, subject=order.id) % 3 else None
        case "answer_lost", "refund":
            return Fault("lost_answer") if _visit(connection, operation=operation, subject=key) == 1 else None
        case "stalls", "refund":
            first = _visit(connection, operation=operation, subject=key) == 1
            return Fault("stall", STALL_SECONDS) if first else None
    return None


def _visit(connection: sqlite3.Connection, *, operation: Operation, subject: str) -> int:
    """Count one more visit, and say the count."""
    return int(
        connection.execute(
            "INSERT INTO visit VALUES (?, ?, 1)"
            " ON CONFLICT (operation, subject) DO UPDATE SET count = count + 1 RETURNING count",
            (operation, subject),
        ).fetchone()[0]
    )
