"""Who works: the advisory locks of worker processes and of the one sweeper."""

from __future__ import annotations

import select
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import (
    connection,
)

from runs.engine.limits import DEFAULT_QUEUE
from runs.models import (
    WorkerChild,
)
from runs.store.connection import own_connection
from runs.store.due import HINT_AGAIN_AFTER, UNHINTED

LOCK_SPACE: Final = 0x4849  # "HI": the first half of our two-part advisory lock keys
SWEEPER_LOCK: Final = 0
ROUND_AT_MOST: Final = "60s"  # after which a sweeper loses its turn to another
FORGOTTEN_AFTER: Final = 2.0  # seconds more, and workers take it without being told


class Keeper:
    """A process's own connection: it holds the advisory lock of its child row and renews its lease.

    Opened after fork. If the connection is lost, the next `beat` opens another and takes the lock again; until then the
    sweeper may suspect the child, and the fences make sure that suspecting it wrongly costs work and nothing else.
    """

    def __init__(
        self,
        host: str,
        pid: int,
        family: uuid.UUID | None = None,
        code: dict[str, Any] | None = None,
        *,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
    ) -> None:
        self._queues = list(queues)
        child = WorkerChild.objects.create(host=host, pid=pid, family=family, code=code)
        self.id: int = child.pk
        self._connection: psycopg.Connection[Any] | None = None
        self._has_lock = self._has_left = False

    def beat(self, tokens: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        """Make sure of the lock, and renew the leases of these tokens, in one statement. Returns those that were there."""
        held = self._locked()
        rows = held.execute(
            "UPDATE runs_step SET lease_until = now() + make_interval(secs => %s) "
            "WHERE status = 'executing' AND worker = %s AND token = ANY(%s) RETURNING token",
            [settings.HITL_LEASE_SECONDS, self.id, list(tokens)],
        )
        return {row[0] for row in rows}

    def held(self, tokens: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        """Those of these tokens that are still their steps'."""
        rows = self._locked().execute(
            "SELECT token FROM runs_step WHERE status = 'executing' AND worker = %s AND token = ANY(%s)",
            [self.id, list(tokens)],
        )
        return {row[0] for row in rows}

    def listen(self, seconds: float) -> None:
        """Wait, but notice at once when the connection ends: raises `psycopg.Error` then.

        A sweeper gives a free lock nearly a second; polling as rarely as that would let it count the living among the dead.
        """
        held = self._locked()
        ready, _, _ = select.select([held.fileno()], [], [], seconds)
        if ready:
            held.execute("SELECT 1")

    def forgotten_step(self) -> tuple[uuid.UUID, int, str] | None:
        """A ready step of this process's queues that has lain for longer than the sweeper would have let it; it counts as told
        from now on."""
        after = HINT_AGAIN_AFTER + FORGOTTEN_AFTER
        row = (
            self._locked().execute(UNHINTED, {"after": after, "limit": 1, "queues": self._queues}).fetchone()
        )
        return (row[0], row[1], row[2]) if row else None

    def leave(self) -> None:
        held = self._locked()
        held.execute("UPDATE runs_workerchild SET gone_at = now() WHERE id = %s", [self.id])
        self._has_left = True
        held.close()

    def drop(self) -> None:
        """Forget a broken connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _locked(self) -> psycopg.Connection[Any]:
        if self._has_left:  # a thread that was slow to stop must not bring the child back
            raise psycopg.OperationalError("this child has said that it ends")
        if self._connection is None or self._connection.closed:
            self._connection, self._has_lock = own_connection(), False
        if not self._has_lock:
            self._take_lock(self._connection)
        return self._connection

    def _take_lock(self, held: psycopg.Connection[Any]) -> None:
        # Never waiting: whoever still has the lock is our own earlier backend, which the server believes to be alive. The
        # leases must be renewed meanwhile, and the next beat tries again.
        row = held.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK_SPACE, self.id]).fetchone()
        self._has_lock = bool(row and row[0])
        if self._has_lock:
            held.execute(
                "UPDATE runs_workerchild SET suspected_at = NULL, gone_at = NULL WHERE id = %s", [self.id]
            )


@contextmanager
def sweeping(lock: psycopg.Connection[Any]) -> Iterator[bool]:
    """Whether this process is the one that sweeps now; by a transaction lock on a connection of its own."""
    with lock.transaction():
        # A sweeper that is frozen in its round must not keep the others from theirs.
        lock.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [ROUND_AT_MOST])
        row = lock.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCK_SPACE, SWEEPER_LOCK]).fetchone()
        yield bool(row and row[0])


def suspect_children() -> list[int]:
    """Children whose lock is free: newly seen ones are suspected, those suspected a round ago count as dead. Rounds begin a
    second apart, or nearly so.

    A restart of Postgres frees all locks at once; then everybody has a third of a lease to come back.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH free AS (
              SELECT child.id, child.suspected_at FROM runs_workerchild child
              WHERE child.gone_at IS NULL
                AND pg_postmaster_start_time() < now() - make_interval(secs => %(grace)s)
                AND child.started_at < now() - interval '2 seconds'
                AND NOT EXISTS (
                  SELECT 1 FROM pg_locks l
                  WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = %(space)s
                    AND l.objid::bigint = child.id AND l.granted
                    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                )
            ), dead AS (
              UPDATE runs_workerchild child SET gone_at = now()
              FROM free WHERE child.id = free.id AND free.suspected_at < now() - interval '900 milliseconds'
                AND child.suspected_at IS NOT NULL
              RETURNING child.id
            ), suspected AS (
              UPDATE runs_workerchild child SET suspected_at = now()
              FROM free WHERE child.id = free.id AND free.suspected_at IS NULL
            )
            SELECT id FROM dead
            """,
            {"grace": settings.HITL_LEASE_SECONDS / 3, "space": LOCK_SPACE},
        )
        return [row[0] for row in cursor.fetchall()]


def say_leaving(family: uuid.UUID) -> None:
    """The processes of a worker were asked to end: what they do not finish was handed over. On a connection of its own."""
    with own_connection() as connection:
        connection.execute(
            "UPDATE runs_workerchild SET leaving_at = now()"
            " WHERE family = %s AND gone_at IS NULL AND leaving_at IS NULL",
            [family],
        )


def child_of(worker: int | None) -> WorkerChild | None:
    """The process behind a lease, as far as it is known."""
    return None if worker is None else WorkerChild.objects.filter(pk=worker).first()
