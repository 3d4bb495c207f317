"""Named statements on this thread's connection, prepared once and run by their names.

A cursor reads a statement's text, chooses types for its parameters and looks for what it has prepared, every time anew. That
costs more of a worker's processor than to send the statement and read the answer, so here libpq does only that. Values are
written and read by psycopg all the same; answers come in binary, since a document written out in hex is twice as long. Behind
a pooler that keeps no prepared statements each is sent with its text (`HITL_PREPARE`).

The cursors of psycopg prepare nothing on these connections (Django sees to that), so none of them lets go of what was prepared
here, as psycopg does after a ROLLBACK.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from psycopg.abc import Transformer as AbstractTransformer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from runs.sql import statement
from runs.store.connection import plan_by_keys

M = TypeVar("M", bound=models.Model)
LONGEST_NAME: Final = 63  # bytes; the server cuts off what is longer
_BYTES: Final = (bytes, bytearray, memoryview, psycopg.Binary)
_PLACE: Final = re.compile(r"%\((\w+)\)[sb]")


@dataclass(slots=True)
class _Prepared:
    """What a connection has prepared, and what writes and reads its values."""

    names: set[str] = field(default_factory=set)
    adapter: AbstractTransformer = field(default_factory=Transformer)


_prepared: WeakKeyDictionary[psycopg.Connection[Any], _Prepared] = WeakKeyDictionary()
_kept: dict[str, str] = {}  # texts of this process, by name; those of files are in runs/sql


def keep(name: str, text: str) -> None:
    """A text that is asked by this name from now on; its parameters are written `%(name)s`, a percent sign twice."""
    _kept[name] = text


def is_kept(name: str) -> bool:
    return name in _kept


def _text(name: str) -> str:
    return _kept.get(name) or statement(name)


def ask(name: str, parameters: Mapping[str, Any]) -> list[Any]:
    """The rows that a named statement gives, none of one that only writes; within the transaction, if there is one.

    Counted, and its errors translated, like any query of Django's.
    """
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    with connection.wrap_database_errors, _logged(raw, name, parameters):
        if not raw.autocommit and raw.pgconn.transaction_status == TransactionStatus.IDLE:
            with raw.lock:
                _checked(raw.pgconn.exec_(b"BEGIN"))  # as psycopg does before what its cursors send
        return _rows(raw, name, parameters)


def read_as(model: type[M], row: Sequence[Any], only: tuple[str, ...] | None = None) -> M:
    """The instance of a row that has the columns of its table in the order of the model's fields (a test compares them).
    only: those that it has, in the same order; the others are read when somebody asks for them."""
    names, read = _readers(model, only)
    values = [
        value if one is None or value is None else one(value) for one, value in zip(read, row, strict=True)
    ]
    return model.from_db(connection.alias, names, values)


@cache
def _readers(
    model: type[models.Model], only: tuple[str, ...] | None
) -> tuple[list[str], list[Callable[[Any], Any] | None]]:
    """Names of fields, and what makes their values of those of columns, where these differ. JSON has been read by psycopg."""
    kept = [one for one in model._meta.concrete_fields if only is None or one.attname in only]
    found: list[Callable[[Any], Any] | None] = []
    for one in kept:
        convert = None if isinstance(one, models.JSONField) else getattr(one, "from_db_value", None)
        found.append(convert and partial(_converted, convert))
    return [one.attname for one in kept], found


def _converted(convert: Callable[[Any, Any, Any], Any], value: Any) -> Any:
    return convert(value, None, connection)


def run_prepared(name: str, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Run a statement of the hot path as a transaction of its own, planned by indexes; its first row, if there is one.

    Raises `psycopg.Error`.
    """
    here = connections[DEFAULT_DB_ALIAS]  # looked up once: it is another one in each thread
    here.ensure_connection()
    raw: psycopg.Connection[Any] = here.connection
    plan_by_keys(raw)
    return next(iter(_rows(raw, name, parameters)), None)


def _logged(
    raw: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any]
) -> AbstractContextManager[None]:
    """For whoever counts or looks at queries."""
    if not connection.queries_logged:
        return nullcontext()
    cursor: Any = psycopg.ClientCursor(raw)
    whole = cursor.mogrify(_text(name).encode(), parameters)
    logged: AbstractContextManager[None] = connection.make_debug_cursor(cursor).debug_sql(whole)
    return logged


def _rows(raw: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    adapter = _of(raw).adapter
    values = [parameters[place] for place in _places(name)]
    given = adapter.dump_sequence(values, [_format(value) for value in values])
    result = _sent(raw, name, given, adapter.formats or ())
    adapter.set_pgresult(result)
    return adapter.load_rows(0, result.ntuples, tuple)


def _format(value: Any) -> PyFormat:
    """Text, which the server reads as whatever type it needs at the place; bytes, and lists of them, as they are: their text
    is written for another setting of the server, with each backslash twice."""
    one = value[0] if type(value) is list and value else value
    return PyFormat.BINARY if type(one) in _BYTES else PyFormat.TEXT


def _of(raw: psycopg.Connection[Any]) -> _Prepared:
    found = _prepared.get(raw)
    if found is None:
        found = _prepared[raw] = _Prepared()
    return found


def _sent(raw: psycopg.Connection[Any], name: str, given: Sequence[Any], formats: Sequence[Any]) -> PGresult:
    with raw.lock:
        if not settings.HITL_PREPARE:
            return _checked(raw.pgconn.exec_params(_numbered(name), given, None, formats, Format.BINARY))
        known = _of(raw).names
        if name in known:
            try:
                return _checked(raw.pgconn.exec_prepared(_label(name), given, formats, Format.BINARY))
            except psycopg.errors.InvalidSqlStatementName:
                known.clear()  # somebody let go of all that was prepared; nothing was done
                if raw.pgconn.transaction_status == TransactionStatus.INERROR:
                    raise
        _checked(raw.pgconn.prepare(_label(name), _numbered(name)))
        known.add(name)
        return _checked(raw.pgconn.exec_prepared(_label(name), given, formats, Format.BINARY))


def _checked(result: PGresult) -> PGresult:
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return result
    error = error_from_result(result)
    if not error.sqlstate:  # the server did not say anything: it is gone
        raise psycopg.OperationalError(str(error))
    raise error


@cache
def _label(name: str) -> bytes:
    """A name as Postgres keeps it: of a long one it would keep the beginning only."""
    label = name.encode()
    return label if len(label) <= LONGEST_NAME else hashlib.sha256(label).hexdigest()[:LONGEST_NAME].encode()


@cache
def _places(name: str) -> tuple[str, ...]:
    """The names of a statement's parameters, in the order of their numbers."""
    return tuple(dict.fromkeys(_PLACE.findall(_text(name))))


@cache
def _numbered(name: str) -> bytes:
    numbers = {place: f"${number}" for number, place in enumerate(_places(name), 1)}
    return _PLACE.sub(lambda found: numbers[found[1]], _text(name)).replace("%%", "%").encode()
