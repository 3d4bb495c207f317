"""Threads with connections of their own, made to meet by what Postgres says they wait for: never by the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import connection, connections

from runs import store
from tests.kit.waiting import until

PATIENCE = 60.0  # seconds; only a test that fails takes so long


class Contender:
    """A thread that does one thing, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:  # noqa: BLE001  # whatever it was, the test looks at it
            self.error = error
        finally:
            connections.close_all()

    def end(self) -> Contender:
        self._thread.join(timeout=PATIENCE)
        assert not self._thread.is_alive(), "a contender never came back"
        return self

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()


def waiting_for_locks() -> int:
    """How many backends wait for a lock in this database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # inside a transaction it would look only once
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        count: int = cursor.fetchone()[0]
    return count


def blocked(work: Callable[[], Any]) -> Contender:
    """Start something, and return when it waits for a lock that somebody holds."""
    before = waiting_for_locks()
    contender = Contender(work)
    until(
        lambda: contender.is_done or waiting_for_locks() > before,
        seconds=PATIENCE,
        what="it waits for a lock",
    )
    assert not contender.is_done, f"it did not wait: {contender.value!r} {contender.error!r}"
    return contender


@contextmanager
def holding(run_id: UUID) -> Iterator[None]:
    """Somebody else holds the run's row."""
    with store.own_connection() as other, other.transaction():
        other.execute("SELECT 1 FROM runs_run WHERE id = %s FOR NO KEY UPDATE", [run_id])
        yield


def in_order(run_id: UUID, *works: Callable[[], Any]) -> list[Contender]:
    """All of them queue for the run's row, in this order; then it is let go."""
    with holding(run_id):
        contenders = [blocked(work) for work in works]
    return [contender.end() for contender in contenders]


def at_once(*works: Callable[[], Any]) -> list[Contender]:
    """All of them start at the same moment, each with its connection open."""
    barrier = threading.Barrier(len(works))

    def ready(work: Callable[[], Any]) -> Callable[[], Any]:
        def start() -> Any:
            connection.ensure_connection()
            barrier.wait(timeout=PATIENCE)
            return work()

        return start

    return [contender.end() for contender in [Contender(ready(work)) for work in works]]


def deadlocks() -> int:
    """How many deadlocks Postgres has counted in this database; backends tell when they end."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        count: int = cursor.fetchone()[0]
    return count
