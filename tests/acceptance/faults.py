"""Places where a process is stopped exactly at a write: triggers that wait for a lock which the test holds."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tests.acceptance.site import Site
from tests.kit.waiting import until

SPACE = 7777
Answer = TypeVar("Answer")
_numbers = itertools.count(1)


class Hold:
    """Writes of one kind wait until `release`. The waiting transaction has not committed."""

    def __init__(self, site: Site, number: int, connection: psycopg.Connection[Any]) -> None:
        self.site = site
        self.number = number
        self.connection = connection

    def reached(self, *, visitors: int = 1) -> list[int]:
        """Waits until so many backends stand here; their process ids in Postgres."""

        def look() -> list[int] | None:
            rows = self.site.sql(
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND NOT granted",
                SPACE,
                self.number,
            )
            return [row["pid"] for row in rows] if len(rows) >= visitors else None

        found = until(look, seconds=60, what=f"{visitors} transactions reach hold {self.number}")
        assert found is not None
        return found

    def release(self) -> None:
        self.connection.execute("SELECT pg_advisory_unlock_all()")


@contextmanager
def held(
    site: Site, table: str, when: str, *, verb: str = "INSERT", at_commit: bool = False
) -> Iterator[Hold]:
    """`when`: an SQL condition on NEW. at_commit: as the last thing before the transaction commits."""
    number = next(_numbers)
    name = f"hold{number}"
    timing = "AFTER" if at_commit else "BEFORE"
    kind = "CONSTRAINT TRIGGER" if at_commit else "TRIGGER"
    deferred = "DEFERRABLE INITIALLY DEFERRED" if at_commit else ""
    with psycopg.connect(site.stack.database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s, %s)", [SPACE, number])
        connection.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"PERFORM pg_advisory_xact_lock_shared({SPACE}, {number}); RETURN NEW; END $$"
        )
        connection.execute(
            f"CREATE {kind} {name} {timing} {verb} ON {table} {deferred} FOR EACH ROW"
            f" WHEN ({when}) EXECUTE FUNCTION {name}()"
        )
        try:
            yield Hold(site, number, connection)
        finally:
            connection.execute("SELECT pg_advisory_unlock_all()")
            connection.execute(f"DROP TRIGGER {name} ON {table}")
            connection.execute(f"DROP FUNCTION {name}()")


@contextmanager
def in_background(ask: Callable[[], Answer]) -> Iterator[Callable[[], Answer]]:
    """Asks in a thread; what is given waits for the answer."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(ask)
        yield lambda: future.result(timeout=60)


def end_backends(site: Site, pids: list[int]) -> None:
    for pid in pids:
        site.sql("SELECT pg_terminate_backend(%s)", pid)
    until(
        lambda: not site.sql("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", pids),
        what="the backends are gone",
    )


def kill(site: Site, worker: str) -> None:
    """KILL of the whole group, and nothing of it is left."""
    group = site.stack.children[worker].pid
    site.stack.kill(worker)
    until(lambda: not _group_alive(group), what=f"{worker} is gone")


def freeze(site: Site, worker: str) -> None:
    site.stack.freeze(worker)


def thaw(site: Site, worker: str) -> None:
    site.stack.thaw(worker)


def kill_child(pid: int) -> None:
    """KILL of one pool child; its worker starts another, which is cheaper than a new worker."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: _state(pid) in {"", "Z"}, what=f"{pid} is gone")


def freeze_child(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _state(pid) == "T", what=f"{pid} is frozen")


def thaw_child(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> str:
    """The state letter of a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _states(group: int) -> list[str]:
    """The state letters of a process group's living members."""
    states = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            states.append(fields[0])
    return states


def _group_alive(group: int) -> bool:
    return any(state != "Z" for state in _states(group))
