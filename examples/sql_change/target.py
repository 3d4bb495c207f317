"""The database that is changed, as the nodes of the workflow use it: dry run, apply, look.

Every statement goes by the extended protocol, which takes one at a time, in a transaction of its own, as a role that
can do nothing but change rows (setup.py), with limits on time. What goes wrong is one of four things: `Unavailable`
is tried again, `Unfit` is told to people, `DataChanged` asks them again, anything else ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import errors, sql

from examples.sql_change import address, statement
from examples.sql_change.schemas import DryRun, Images, Sample
from examples.sql_change.setup import LIMITS
from examples.sql_change.statement import Change
from examples.sql_change.tables import TABLES, Table
from runs.engine import canonical

MOST_ROWS: Final = 5_000
SAMPLE: Final = 5
CONNECT_SECONDS: Final = 5

Connection = psycopg.Connection[tuple[Any, ...]]


class TargetError(Exception):
    """The database did not do what was asked."""


class Unavailable(TargetError):
    """No answer, or rows are locked by somebody else. Trying again may help."""


class Unfit(TargetError):
    """The database would not do this. Nothing was done."""


class DataChanged(TargetError):
    """The rows are not those that were approved. Nothing was done."""


class AppliedAlready(TargetError):
    """Something else was applied under this key. To apply once more, rewind the run with calls: again."""


class Unsafe(TargetError):
    """The address leads to a role that may do more than change rows."""


# ---- what the nodes call


def dry_run(*, text: str) -> dict[str, Any]:
    """Execute a change, look at its rows before and after, and roll it back. Raises Unfit, Unavailable."""
    change = statement.read(text)
    with _connected() as connection, connection.transaction(force_rollback=True):
        plan, estimate = _plan(connection, change)
        total = _count(connection, sql.SQL("SELECT count(*) FROM {}").format(_place(change.table)))
        seen = _tried(connection, change)
    if not seen.keys:
        raise Unfit("it would change no row")
    return DryRun(
        rows=len(seen.keys),
        table_rows=total,
        keys=seen.keys,
        before_digest=before_digest(change.text, seen.before),
        after_digest=after_digest(seen.after),
        sample=_sample(change, seen),
        plan=plan,
        estimate=estimate,
        held_ms=seen.held_ms,
    ).model_dump()


def apply(
    *, statement: str, rows: int, before_digest: str, after_digest: str, idempotency_key: str
) -> dict[str, Any]:
    """Execute what was approved, if the rows are still those that were shown; once for a key.

    The key goes into the ledger in the same transaction: whoever comes a second time finds it, and changes nothing.
    Returns the receipt. Raises DataChanged, AppliedAlready, Unavailable.
    """
    promise = _Promise(statement, rows, before_digest, after_digest)
    with _connected() as connection:
        with connection.transaction():
            first = _enter(connection, idempotency_key, promise)
            if first:
                _execute_as_promised(connection, promise)
        # Read after the commit: who had it first may have been another process.
        return _receipt(connection, idempotency_key, promise, repeated=not first)


def look(*, table: str, keys: Sequence[str], after_digest: str) -> dict[str, Any]:
    """Read the rows again that were changed. Raises Unavailable."""
    with _connected() as connection, connection.transaction(force_rollback=True):
        found = _by_key(connection, TABLES[table], keys)
    return {"rows": len(keys), "as_promised": _after(found) == after_digest}


# ---- digests


def before_digest(text: str, before: Images) -> str:
    return canonical.digest({"statement": text, "before": before})


def after_digest(after: Images) -> str:
    return canonical.digest({"after": after})


_before, _after = before_digest, after_digest  # `apply` has arguments of these names


# ---- the connection


@contextmanager
def _connected() -> Iterator[Connection]:
    """A connection for one use. Whatever the database says is said in our words, which never hold data of rows."""
    try:
        with psycopg.connect(**_parameters(), autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
            _check_role(connection)
            yield connection
    except (errors.QueryCanceled, errors.TransactionTimeout):
        raise Unfit(f"it takes longer than {LIMITS['statement_timeout']}") from None
    except (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure):
        raise Unavailable("somebody else holds rows of it") from None
    except (errors.ConfigurationLimitExceeded, errors.DiskFull, errors.ProgramLimitExceeded):
        raise Unfit("it needs more memory or disk than it may have") from None
    except (errors.IntegrityError, errors.DataError) as error:
        raise Unfit(_broken(error)) from None
    except errors.ProgrammingError as error:
        raise Unfit(error.diag.message_primary or "it is no statement") from None
    except (psycopg.OperationalError, errors.InternalError) as error:
        raise Unavailable(f"the database does not answer ({type(error).__name__})") from None


def _parameters() -> dict[str, Any]:
    """The address, with the limits: a role can change its own defaults, but not what comes with the connection."""
    told = address.connection()
    limits = {
        **LIMITS,
        "search_path": "pg_catalog",
        "standard_conforming_strings": "on",
        "client_encoding": "UTF8",
    }
    options = " ".join(f"-c {name}={value}" for name, value in limits.items())
    return {
        **told,
        "options": f"{told.get('options', '')} {options}".strip(),
        "application_name": "hitl sql_change",
    }


def _check_role(connection: Connection) -> None:
    if connection.info.parameter_status("is_superuser") != "off":
        raise Unsafe(
            f"{connection.info.user} is a superuser; {address.VARIABLE} must name a role that is none"
        )


def _broken(error: psycopg.Error) -> str:
    """The rule that rows would break, by name. The message itself would tell values of rows, also of those not shown."""
    said = type(error).__name__
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in said).strip()
    places = [place for place in (error.diag.constraint_name, error.diag.column_name) if place]
    return f"the database refuses its rows: {words}{f' ({places[0]})' if places else ''}"


# ---- executing


@dataclass(frozen=True, slots=True)
class _Promise:
    statement: str
    rows: int
    before_digest: str
    after_digest: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """The rows that a statement changed. keys: in order; before is empty for an INSERT, after for a DELETE."""

    keys: list[str]
    before: Images
    after: Images
    held_ms: int


def _execute_as_promised(connection: Connection, promise: _Promise) -> None:
    """Raises DataChanged before anything is executed if the rows are others, and after it if their new values are."""
    change = statement.read(promise.statement)
    if change.text != promise.statement:
        raise Unfit("it is not the text that was written for it")
    begun = time.monotonic()
    before = _lock(connection, change)
    if _before(change.text, before) != promise.before_digest:
        raise DataChanged(_difference(change, promise.rows, len(before)))
    try:
        seen = _changed(connection, change, before, begun)
    except (errors.IntegrityError, errors.DataError) as error:
        raise DataChanged(_broken(error)) from None
    if len(seen.keys) != promise.rows or _after(seen.after) != promise.after_digest:
        raise DataChanged("the rows would get other values than those that were shown")


def _difference(change: Change, approved: int, found: int) -> str:
    if found == approved or change.kind == "insert":
        return f"the {change.table.many} it changes no longer hold what they held"
    return f"it would now change {change.table.rows(found)} instead of {approved:,}"


def _tried(connection: Connection, change: Change) -> _Seen:
    begun = time.monotonic()
    try:
        return _changed(connection, change, _lock(connection, change), begun)
    except DataChanged as error:  # somebody wrote between the look and the change: look again
        raise Unavailable(str(error)) from None


def _changed(connection: Connection, change: Change, before: Images, begun: float) -> _Seen:
    """Execute it, and find by the transaction's own mark what it wrote: all of it, and nothing but the locked rows."""
    done = connection.execute(change.text.encode(), prepare=True).rowcount
    after = _written(connection, change.table)
    keys = [str(row[0]) for row in (after if change.kind == "insert" else before)]
    expected = {"insert": len(after), "update": len(before), "delete": len(before)}[change.kind]
    same = change.kind != "update" or [row[0] for row in after] == [row[0] for row in before]
    if done != expected or not same or (change.kind == "delete" and after):
        raise DataChanged("other rows than those that were looked at would change")
    return _Seen(keys, before, after, _ms(begun))


def _ms(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)


def _lock(connection: Connection, change: Change) -> Images:
    """The rows before, locked until the transaction ends; of an INSERT none, but its rows are counted."""
    if change.kind == "insert":
        _count_inserted(connection, change)
        return []
    query = sql.SQL(
        "SELECT {columns} FROM {place} AS {alias} {where} ORDER BY {key} LIMIT {most} FOR UPDATE"
    ).format(
        columns=_columns(change.table, change.alias),
        place=_place(change.table),
        alias=sql.Identifier(change.alias),
        where=_checked(change.where),
        key=sql.Identifier(change.alias, change.table.key),
        most=sql.Literal(MOST_ROWS + 1),
    )
    rows = _rows(connection, query)
    _check_number(change, len(rows))
    return rows


def _count_inserted(connection: Connection, change: Change) -> None:
    if change.source:
        query = sql.SQL("SELECT count(*) FROM ({} LIMIT {}) AS new").format(
            _checked(change.source), sql.Literal(MOST_ROWS + 1)
        )
        _check_number(change, _count(connection, query))


def _check_number(change: Change, rows: int) -> None:
    if rows > MOST_ROWS:
        raise Unfit(f"it changes more than {change.table.rows(MOST_ROWS)}; send it in parts")


def _written(connection: Connection, table: Table) -> Images:
    """The rows that this transaction wrote."""
    query = sql.SQL("SELECT {} FROM {} AS t WHERE t.xmin = pg_current_xact_id()::xid ORDER BY {}").format(
        _columns(table, "t"), _place(table), sql.Identifier("t", table.key)
    )
    return _rows(connection, query)


def _by_key(connection: Connection, table: Table, keys: Sequence[str]) -> Images:
    query = sql.SQL("SELECT {} FROM {} AS t WHERE t.{key} = ANY (%s) ORDER BY t.{key}").format(
        _columns(table, "t"), _place(table), key=sql.Identifier(table.key)
    )
    return _rows(connection, query, [list(keys)])


def _plan(connection: Connection, change: Change) -> tuple[str, int]:
    """Postgres' plan as it draws it, and how many rows it expects."""
    lines = [line for (line,) in connection.execute(b"EXPLAIN " + change.text.encode(), prepare=True)]
    under = next((line for line in lines[1:] if "rows=" in line), lines[0])
    return "\n".join(lines), int(under.partition("rows=")[2].split()[0])


def _columns(table: Table, alias: str) -> sql.Composable:
    """The key first."""
    return sql.SQL(", ").join(sql.Identifier(alias, name) for name in _names(table))


def _names(table: Table) -> list[str]:
    return [table.key, *(name for name in table.columns if name != table.key)]


def _place(table: Table) -> sql.Identifier:
    return sql.Identifier(*table.place.split("."))


def _checked(text: str) -> sql.SQL:
    """A part of a statement that was let through, as it stands in its text."""
    return sql.SQL(text)


def _rows(connection: Connection, query: sql.Composed, parameters: Sequence[Any] | None = None) -> Images:
    return [list(row) for row in connection.execute(query, parameters, prepare=True)]


def _count(connection: Connection, query: sql.Composed) -> int:
    ((number,),) = _rows(connection, query)
    return int(number)


# ---- the ledger


def _enter(connection: Connection, key: str, promise: _Promise) -> bool:
    """False if the key is there already. Waits for somebody who is just applying it."""
    entered = connection.execute(
        "INSERT INTO ledger.applied (key, statement, rows, before_digest, after_digest) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (key) DO NOTHING",
        [key, promise.statement, promise.rows, promise.before_digest, promise.after_digest],
    )
    return entered.rowcount == 1


def _receipt(connection: Connection, key: str, promise: _Promise, *, repeated: bool) -> dict[str, Any]:
    row = connection.execute(
        "SELECT statement, rows, before_digest, after_digest, applied_at FROM ledger.applied WHERE key = %s",
        [key],
    ).fetchone()
    if row is None or _Promise(*row[:4]) != promise:
        raise AppliedAlready(AppliedAlready.__doc__)
    return {"key": key, "rows": promise.rows, "applied_at": row[4].isoformat(), "repeated": repeated}


# ---- what people see of the rows


def _sample(change: Change, seen: _Seen) -> Sample:
    """Some rows from all over the change, in the order of their keys."""
    count = len(seen.keys)
    some = min(SAMPLE, count)
    places = [index * count // some for index in range(some)]
    names = _names(change.table)
    before = [dict(zip(names, seen.before[place], strict=True)) for place in places if seen.before]
    after = [dict(zip(names, seen.after[place], strict=True)) for place in places if seen.after]
    if change.kind != "update":
        return _known(names, before or after)
    return _compared(change, before, after)


def _known(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Sample:
    """Of rows that come or go all that any of them holds."""
    columns = [name for name in names if any(row[name] is not None for row in rows)]
    return Sample(columns=columns, rows=[[row[name] for name in columns] for row in rows])


def _compared(
    change: Change, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Sample:
    """Of rows that stay what they are called, and what is written: before and after."""
    fixed = [name for name in (change.table.key, change.table.label) if name not in change.columns]
    columns = [*fixed, *(f"{name} {when}" for name in change.columns for when in ("before", "after"))]
    rows = [
        [*(old[name] for name in fixed), *(row[name] for name in change.columns for row in (old, new))]
        for old, new in zip(before, after, strict=True)
    ]
    return Sample(columns=columns, rows=rows)
