"""Named statements on this thread's connection, prepared once and run by their names.

A cursor reads a statement's text, chooses types for its parameters and looks for what it has prepared, every time anew. That
costs more of a worker's processor than to send the statement and read the answer, so here libpq does only that. Values are
written and read by psycopg all the same; answers come in binary, since a document written out in hex is twice as long. Behind
a pooler that keeps no prepared statements each is sent with its text (`HITL_PREPARE`).

Several go in one round trip where none needs the answer of another, as libpq's pipeline has it: `ask_all`, and what was left to
be sent `together` with the next question. BEGIN goes with the first of a transaction.

The cursors of psycopg prepare nothing on these connections (Django sees to that), so none of them lets go of what was prepared
here, as psycopg does after a ROLLBACK.
"""

from __future__ import annotations

import hashlib
import logging
import re
import select
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from psycopg.abc import Transformer as AbstractTransformer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from runs.sql import statement
from runs.store.connection import plan_by_keys
from runs.trouble import Trouble

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=models.Model)
LONGEST_NAME: Final = 63  # bytes; the server cuts off what is longer
_BYTES: Final[frozenset[type]] = frozenset([bytes, bytearray, memoryview, psycopg.Binary])
_FORMATS: Final[dict[type, PyFormat]] = {  # of what is sent most; other things are looked at
    **dict.fromkeys(_BYTES, PyFormat.BINARY),
    **dict.fromkeys([str, int, float, bool, type(None), uuid.UUID], PyFormat.TEXT),
}
_PLACE: Final = re.compile(r"%\((\w+)\)[sb]")


class _Message(NamedTuple):
    """A statement, and its values as they are sent."""

    name: str
    given: Sequence[Any]
    formats: Sequence[Any]


_BEGIN: Final = _Message("begin", (), ())


@dataclass(slots=True)
class _Known:
    """What a connection has prepared, what writes and reads its values, and what is left to be sent."""

    names: set[str] = field(default_factory=set)
    adapter: AbstractTransformer = field(default_factory=Transformer)
    left: list[_Message] = field(default_factory=list)
    gathers: bool = False

    def write(self, name: str, parameters: Mapping[str, Any]) -> _Message:
        """As text, which the server reads as whatever type it needs at the place; bytes, and lists of them, as they are: their
        text is written for another setting of the server, with each backslash twice."""
        values = [parameters[place] for place in _places(name)]
        formats = [_FORMATS.get(type(one)) or _format_of_list(one) for one in values]
        given = self.adapter.dump_sequence(values, formats)
        return _Message(name, given, self.adapter.formats or ())

    def rows(self, result: PGresult) -> list[tuple[Any, ...]]:
        self.adapter.set_pgresult(result)
        return self.adapter.load_rows(0, result.ntuples, tuple)


_pooled: Final = Trouble(
    logger,
    "statements do not stay with their connection; behind a pooler that keeps none, set HITL_PREPARE=false",
)
_known: WeakKeyDictionary[psycopg.Connection[Any], _Known] = WeakKeyDictionary()
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

    Counted, and its errors translated, like any query of Django's. What was left to be sent goes before it.
    """
    return ask_all((name, parameters))[0]


def ask_all(*asked: tuple[str, Mapping[str, Any]]) -> list[list[Any]]:
    """The same of several statements, none of which needs the answer of another, in one round trip."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    here = _of(raw)
    with connection.wrap_database_errors:
        messages = [_written(raw, here, name, parameters) for name, parameters in asked]
        results = _sent(raw, here, [*_before(raw, here), *messages])
        return [here.rows(result) for result in results[-len(messages) :]]


def leave(name: str, parameters: Mapping[str, Any]) -> None:
    """Have a statement that only writes sent with the next one, if we are `together`; else now."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    here = _of(raw)
    if here.gathers:
        here.left.append(_written(raw, here, name, parameters))
    else:
        ask(name, parameters)


@contextmanager
def together() -> Iterator[None]:
    """What is left to be sent inside of this goes with the next statement that is asked, and at its end at the latest. In a
    transaction: an error of one of them is told by whatever they were sent with."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    here = _of(raw)
    if here.gathers or not connection.in_atomic_block:
        yield
        return
    here.gathers = True
    try:
        with connection.execute_wrapper(partial(_after_what_was_left, raw, here)):
            yield
        _send_left(raw, here)
    finally:
        here.gathers = False
        here.left.clear()


def _after_what_was_left(
    raw: psycopg.Connection[Any], here: _Known, execute: Callable[..., Any], *query: Any
) -> Any:
    """Around what Django's cursors execute."""
    _send_left(raw, here)
    return execute(*query)


def _send_left(raw: psycopg.Connection[Any], here: _Known) -> None:
    if here.left:
        with connection.wrap_database_errors:
            _sent(raw, here, _before(raw, here))


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
    mine = connections[DEFAULT_DB_ALIAS]  # looked up once: it is another one in each thread
    mine.ensure_connection()
    raw: psycopg.Connection[Any] = mine.connection
    plan_by_keys(raw)
    here = _of(raw)
    return next(iter(here.rows(_asked(raw, here, here.write(name, parameters)))), None)


def _written(
    raw: psycopg.Connection[Any], here: _Known, name: str, parameters: Mapping[str, Any]
) -> _Message:
    """A statement ready to be sent, shown to whoever counts or looks at queries."""
    if not connection.queries_logged:
        return here.write(name, parameters)
    cursor: Any = psycopg.ClientCursor(raw)
    whole = cursor.mogrify(_text(name).encode(), parameters)
    with connection.make_debug_cursor(cursor).debug_sql(whole):
        return here.write(name, parameters)


def _before(raw: psycopg.Connection[Any], here: _Known) -> list[_Message]:
    """What goes before the next statement: what was left, and first of all BEGIN, as psycopg sends it before what its cursors
    execute."""
    begins = not raw.autocommit and raw.pgconn.transaction_status == TransactionStatus.IDLE
    left, here.left = here.left, []
    return [_BEGIN, *left] if begins else left


def _format_of_list(value: Any) -> PyFormat:
    return PyFormat.BINARY if type(value) is list and value and type(value[0]) in _BYTES else PyFormat.TEXT


def _of(raw: psycopg.Connection[Any]) -> _Known:
    found = _known.get(raw)
    if found is None:
        found = _known[raw] = _Known()
    return found


def _sent(raw: psycopg.Connection[Any], here: _Known, batch: Sequence[_Message]) -> list[PGresult]:
    """The answers to some messages, which are sent at once. Raises the first error."""
    if len(batch) == 1:
        return [_asked(raw, here, batch[0])]
    with raw.lock:
        try:
            return _piped(raw, here, batch)
        except psycopg.errors.InvalidSqlStatementName:
            if not _may_be_sent_again(raw, here):
                raise
        return _piped(raw, here, batch)


def _asked(raw: psycopg.Connection[Any], here: _Known, message: _Message) -> PGresult:
    """The answer to one message, for which nothing but libpq's own waiting is needed."""
    with raw.lock:
        name, given, formats = message
        if not _prepare(raw, here, message):
            return _checked(raw.pgconn.exec_params(_numbered(name), given, None, formats, Format.BINARY))
        try:
            return _checked(raw.pgconn.exec_prepared(_label(name), given, formats, Format.BINARY))
        except psycopg.errors.InvalidSqlStatementName:
            if not _may_be_sent_again(raw, here):
                raise
        _prepare(raw, here, message)
        return _checked(raw.pgconn.exec_prepared(_label(name), given, formats, Format.BINARY))


def _prepare(raw: psycopg.Connection[Any], here: _Known, message: _Message) -> bool:
    """Whether a message goes by its name, which the server knows afterwards."""
    if not settings.HITL_PREPARE:
        return False
    if message.name not in here.names:
        try:
            _checked(raw.pgconn.prepare(_label(message.name), _numbered(message.name)))
        except psycopg.errors.DuplicatePreparedStatement as error:
            _pooled.note(error)
            raise
        here.names.add(message.name)
    return True


def _may_be_sent_again(raw: psycopg.Connection[Any], here: _Known) -> bool:
    """Somebody let go of all that was prepared. Of a single statement, or of a transaction that could not begin, nothing was
    done; one that had begun is over."""
    here.names.clear()
    _pooled.note("one that was prepared here is gone")
    return raw.pgconn.transaction_status != TransactionStatus.INERROR


def _piped(raw: psycopg.Connection[Any], here: _Known, batch: Sequence[_Message]) -> list[PGresult]:
    """Send messages one behind the other and read their answers; after an error the server skips the rest."""
    for message in batch:
        _prepare(raw, here, message)
    return [_checked(result) for result in _answers(raw.pgconn, batch)]


def _answers(sent: PGconn, batch: Sequence[_Message]) -> list[PGresult]:
    sent.enter_pipeline_mode()
    try:
        for message in batch:
            name, given, formats = message
            if settings.HITL_PREPARE:
                sent.send_query_prepared(_label(name), given, formats, Format.BINARY)
            else:
                sent.send_query_params(_numbered(name), given, None, formats, Format.BINARY)
        sent.pipeline_sync()
        _flush(sent)
        results = [_next(sent) for _ in batch]
        _wait(sent)
        sent.get_result()  # the mark at the end
        sent.exit_pipeline_mode()
    except BaseException:
        sent.finish()  # nobody knows what was done, nor what is still on its way
        raise
    return results


def _flush(sent: PGconn) -> None:
    """Send all that libpq could not send at once: megabytes are more than a socket takes. Answers are taken in meanwhile, or
    each side would wait for the other."""
    while sent.flush():
        if _ready(sent, select.POLLIN | select.POLLOUT) & select.POLLIN:
            sent.consume_input()


def _wait(sent: PGconn) -> None:
    """Until there is an answer."""
    while sent.is_busy():
        _ready(sent, select.POLLIN)
        sent.consume_input()


def _ready(sent: PGconn, events: int) -> int:
    """What the socket is ready for. Waited for outside of Python's own lock: threads that renew leases and watch bodies go on."""
    sockets = select.poll()
    sockets.register(sent.socket, events)
    [(_, found)] = sockets.poll()
    return found


def _next(sent: PGconn) -> PGresult:
    _wait(sent)
    result = sent.get_result()
    if result is None:
        raise psycopg.OperationalError(sent.get_error_message())
    while sent.get_result() is not None:
        pass
    return result


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
