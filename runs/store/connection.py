"""Django's connection of this thread, and others beside it: what its errors mean, and writes that are repeated until it has
answered.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from weakref import WeakSet

import psycopg
from django.conf import settings
from django.db import (
    DatabaseError,
    Error,
    InterfaceError,
    OperationalError,
    connection,
    connections,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from runs.errors import (
    Busy,
    HitlError,
    Unavailable,
)
from runs.trouble import Trouble

# What the codes of errors begin with. AWAY: no connection, no room, ended, read-only. ENDED: the server has ended the session;
# by the time that is known there may be another.
AWAY: Final = ("08", "53", "57P", "25006")
ENDED: Final = ("08", "57P", "25P03", "25P04")
LOST: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
logger = logging.getLogger(__name__)
Result = TypeVar("Result")


def sign(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Say to Postgres whose connection this is: `pg_stat_activity` then leads to the process."""
    name = f"hitl {socket.gethostname()[:40]} {os.getpid()}"
    connection.connection.execute("SELECT set_config('application_name', %s, false)", [name])


_planned: WeakSet[psycopg.Connection[Any]] = WeakSet()


def plan_by_keys(raw: psycopg.Connection[Any]) -> None:
    """Have Postgres plan by indexes what this connection asks; once a connection.

    A prepared statement keeps the plan of its first uses. Made while the tables of a new installation held a page or two, that
    is to read the whole table, and each step would cost more than the one before until the statistics are renewed.
    """
    if raw not in _planned:
        raw.execute("SELECT set_config('enable_seqscan', 'off', false)")
        _planned.add(raw)


def set_lock_timeout(text: str) -> str:
    """Set for the transaction how long it waits for a lock; returns what it was."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)", [text])
        before: str = cursor.fetchone()[0]
    return before


def refuse_to_write() -> None:
    """For the transaction: the server refuses whatever would change a row."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")


@contextmanager
def refusing(refusal: type[HitlError]) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            raise refusal() from None
        raise


def refusal_of(error: Error) -> HitlError:
    """What a database error means to whoever asked: somebody is in the way for a moment, or the database is."""
    rivals = (
        psycopg.errors.LockNotAvailable,
        psycopg.errors.DeadlockDetected,
        psycopg.errors.SerializationFailure,
    )
    return Busy() if isinstance(error.__cause__, rivals) else Unavailable()


def is_connected() -> bool:
    """Whether Django's connection of this thread still works."""
    return connection.connection is not None and connection.is_usable()


def is_lost(error: Exception) -> bool:
    """Whether an error means that the connection is gone, however the server put it, or that it is worth another try."""
    return isinstance(error, LOST) or _state_of(error).startswith(ENDED) or not is_connected()


def is_away(error: BaseException) -> bool:
    """Whether the database is at fault rather than what it was asked: it is gone, full, or takes no writes since a failover.
    Not that a lock or a statement took too long."""
    if isinstance(error, Unavailable) and error.__cause__ is not None:  # as a verb has put it
        error = error.__cause__
    state = _state_of(error)
    return state.startswith(AWAY) if state else isinstance(error, LOST)


def _state_of(error: BaseException) -> str:
    """The server's code of an error, as psycopg or as Django raises it; empty if it is none of the server's."""
    cause = error.__cause__ if isinstance(error, Error) else error
    return getattr(cause, "sqlstate", None) or ""


def persistently(work: Callable[[], Result]) -> Result:
    """Do a worker's write or read; if the connection is lost, connect again and repeat it.

    What a body has worked out in minutes is not given up because a backend was ended. Repeating a write is safe: the fence
    lets it through once, and who repeats recognises what landed at the first try. A database that is away is waited for:
    without it nobody else can do the step either. One that answers, and refuses for as long as a lease, is believed.
    """
    refused_since: float | None = None
    trouble: Trouble | None = None
    pause = 0.05
    while True:
        try:
            result = work()
        except (DatabaseError, *LOST) as error:
            # From the first refusal on: the work itself may have taken long, or the process have been frozen in it.
            refused_since = refused_since or time.monotonic()
            patience = settings.HITL_LEASE_SECONDS - (time.monotonic() - refused_since)
            if connection.in_atomic_block or not is_lost(error) or patience <= 0:
                raise
            trouble = trouble or Trouble(logger, "a write is repeated until the database answers")
            trouble.note(error)
            connection.close()
        else:
            if trouble is not None:
                trouble.end()
            return result
        time.sleep(pause)
        pause = min(1.0, pause * 2)
        if not _answers():
            refused_since = None


def once_more_if_lost(transact: Callable[[], Result]) -> Result:
    """Do a transaction, on a new connection if the one at hand turns out to be lost, as it may be after hours of nothing to do.
    For what a worker begins with: to ask each time whether the connection lives would take a round trip more."""
    connection.health_check_done = True  # type: ignore[attr-defined]  # in none of the stubs
    try:
        return transact()
    except (DatabaseError, *LOST) as error:
        if connection.in_atomic_block or not is_lost(error):
            raise
        connection.close()
    return transact()


def _answers() -> bool:
    try:
        connection.ensure_connection()
    except (DatabaseError, *LOST):
        return False
    return True


def own_connection() -> psycopg.Connection[Any]:
    """A connection beside Django's, to the same database, in autocommit. Behind a pooler that keeps no prepared statements it
    makes none: by its name another client's would be run."""
    known = ("host", "port", "user", "password", "dbname", "options", "sslmode", "sslrootcert", "passfile")
    parameters = {k: v for k, v in connections["default"].get_connection_params().items() if k in known}
    prepares: dict[str, Any] = {} if settings.HITL_PREPARE else {"prepare_threshold": None}
    return psycopg.connect(**parameters, **prepares, autocommit=True, connect_timeout=5)


def disconnect() -> None:
    """Close Django's connection of this thread; the next statement opens another."""
    connection.close()
