"""The statements of the hot path, prepared once a connection and run by their names.

A cursor reads a statement's text, chooses types for its parameters and looks for what it has prepared, every time anew. That
costs more of a worker's processor than to send the statement and read the answer, so here libpq does only that. Values
are written and read by psycopg all the same, and its errors are raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import connection
from psycopg.abc import Transformer as AbstractTransformer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from runs.sql import statement
from runs.store.connection import plan_by_keys

_PLACE: Final = re.compile(r"%\((\w+)\)s")


@dataclass(slots=True)
class _Prepared:
    """What a connection has prepared, and what writes and reads its values."""

    names: set[str] = field(default_factory=set)
    adapter: AbstractTransformer = field(default_factory=Transformer)


_prepared: WeakKeyDictionary[psycopg.Connection[Any], _Prepared] = WeakKeyDictionary()


def run_prepared(name: str, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Run a named statement on this thread's connection, alone or in the transaction that is open there; its first row, if
    there is one.

    Raises `psycopg.Error`.
    """
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    adapter = _of(raw).adapter
    values = [parameters[place] for place in _places(name)]
    # As text, which the server reads as whatever type it needs at the place; bytes as they are.
    formats = [PyFormat.BINARY if type(value) is bytes else PyFormat.TEXT for value in values]
    given = adapter.dump_sequence(values, formats)
    result = _sent(raw, name, given, adapter.formats or ())
    adapter.set_pgresult(result)
    return adapter.load_row(0, tuple) if result.ntuples else None


def _of(raw: psycopg.Connection[Any]) -> _Prepared:
    found = _prepared.get(raw)
    if found is None:
        plan_by_keys(raw)
        found = _prepared[raw] = _Prepared()
    return found


def _sent(raw: psycopg.Connection[Any], name: str, given: Sequence[Any], formats: Sequence[Any]) -> PGresult:
    with raw.lock:
        if not settings.HITL_PREPARE or raw.pgconn.transaction_status != TransactionStatus.IDLE:
            return _checked(raw.pgconn.exec_params(_numbered(name), given, None, formats))
        try:
            return _by_name(raw, name, given, formats)
        except psycopg.errors.InvalidSqlStatementName:
            # The driver forgets what it has prepared at a rollback, and has the server forget ours with it.
            _of(raw).names.clear()
            return _by_name(raw, name, given, formats)


def _by_name(
    raw: psycopg.Connection[Any], name: str, given: Sequence[Any], formats: Sequence[Any]
) -> PGresult:
    known = _of(raw).names
    if name not in known:
        _checked(raw.pgconn.prepare(name.encode(), _numbered(name)))
        known.add(name)
    return _checked(raw.pgconn.exec_prepared(name.encode(), given, formats))


def _checked(result: PGresult) -> PGresult:
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return result
    error = error_from_result(result)
    if not error.sqlstate:  # the server did not say anything: it is gone
        raise psycopg.OperationalError(str(error))
    raise error


@cache
def _places(name: str) -> tuple[str, ...]:
    """The names of a statement's parameters, in the order of their numbers."""
    return tuple(dict.fromkeys(_PLACE.findall(statement(name))))


@cache
def _numbered(name: str) -> bytes:
    numbers = {place: f"${number}" for number, place in enumerate(_places(name), 1)}
    return _PLACE.sub(lambda found: numbers[found[1]], statement(name)).encode()
