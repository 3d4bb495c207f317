"""Places where a process is stopped exactly at a write: triggers that wait for a lock which the test holds."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
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
        self.connection.execute("SELECT pg_advisory_unlock(%s, %s)", [SPACE, self.number])


@dataclass(frozen=True)
class Place:
    """A row whose INSERT is a moment. when: an SQL condition on NEW. at_commit: the last moment at which its transaction may
    still be lost.
    """

    table: str
    when: str
    at_commit: bool = False


class Places:
    """Triggers at many writes, which let everybody pass but the runs that are to be held there. So many runs may stand at
    writes at the same time; to make a trigger, nobody may be in the middle of one.
    """

    def __init__(self, site: Site, places: Sequence[Place]) -> None:
        self.site = site
        self.connection = psycopg.connect(site.stack.database_url, autocommit=True)
        self.connection.execute(
            "CREATE TABLE held (name text, place text, number int, PRIMARY KEY (name, place));"
            "CREATE FUNCTION hold_here() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE found_number int; BEGIN "
            " SELECT number INTO found_number FROM held JOIN runs_run run ON held.name = run.input::json ->> 'name'"
            "  WHERE place = TG_NAME AND run.id = coalesce(to_jsonb(NEW) ->> 'parent_id', to_jsonb(NEW) ->> 'run_id')::uuid;"
            f" IF FOUND THEN PERFORM pg_advisory_xact_lock_shared({SPACE}, found_number); END IF; RETURN NEW; END $$"
        )
        self._names = {place: f"place{number}" for number, place in enumerate(places)}
        for place, name in self._names.items():
            self.connection.execute(_trigger(name, place, function="hold_here").encode())

    def hold(self, place: Place, name: str) -> Hold:
        """From now on the run whose input has this name waits there."""
        hold = Hold(self.site, next(_numbers), self.connection)
        self.connection.execute("SELECT pg_advisory_lock(%s, %s)", [SPACE, hold.number])
        self.connection.execute(
            "INSERT INTO held VALUES (%s, %s, %s)", [name, self._names[place], hold.number]
        )
        return hold

    def close(self) -> None:
        self.connection.close()


def _trigger(name: str, place: Place, *, function: str, verb: str = "INSERT") -> str:
    timing = "AFTER" if place.at_commit else "BEFORE"
    kind = "CONSTRAINT TRIGGER" if place.at_commit else "TRIGGER"
    deferred = "DEFERRABLE INITIALLY DEFERRED" if place.at_commit else ""
    return (
        f"CREATE {kind} {name} {timing} {verb} ON {place.table} {deferred} FOR EACH ROW"
        f" WHEN ({place.when}) EXECUTE FUNCTION {function}()"
    )


@contextmanager
def held(
    site: Site, table: str, when: str, *, verb: str = "INSERT", at_commit: bool = False
) -> Iterator[Hold]:
    """`when`: an SQL condition on NEW. at_commit: as the last thing before the transaction commits."""
    number = next(_numbers)
    name = f"hold{number}"
    with psycopg.connect(site.stack.database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s, %s)", [SPACE, number])
        connection.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"PERFORM pg_advisory_xact_lock_shared({SPACE}, {number}); RETURN NEW; END $$"
        )
        connection.execute(_trigger(name, Place(table, when, at_commit), function=name, verb=verb).encode())
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
