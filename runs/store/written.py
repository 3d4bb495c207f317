"""Rows of models that are written one at a time, by statements that are prepared once.

`save` and `update` write their text anew each time, which takes longer than Postgres needs for the row. What is stored is the
same: values pass through their fields, and what the database itself gives a new row is left to it.
"""

from __future__ import annotations

from typing import Any

from django.db import connection, models
from django.db.models.expressions import DatabaseDefault

from runs.store.prepared import ask, is_kept, keep, leave, read_as


def insert(row: models.Model) -> None:
    """Insert a row. What the database gives it, its number and defaults, it has afterwards."""
    fields: list[Any] = list(row._meta.concrete_fields)  # noqa: SLF001 (Django documents it)
    if any(_is_expression(getattr(row, one.attname)) for one in fields if one.attname in row.__dict__):
        row.save(force_insert=True)
        return
    left = tuple(one.attname for one in fields if _is_left(row, one))
    values = {
        one.column: _stored(one, one.pre_save(row, add=True)) for one in fields if one.attname not in left
    }
    name = f"insert {row._meta.db_table} {' '.join(values)}"  # noqa: SLF001
    if not is_kept(name):
        columns, places = ", ".join(map(_quoted, values)), ", ".join(f"%({column})s" for column in values)
        asked = ", ".join(_quoted(one.column) for one in fields if one.attname in left)
        text = f"INSERT INTO {_table(row)} ({columns}) VALUES ({places})"  # noqa: S608  # no value stands in it
        keep(name, f"{text} RETURNING {asked}" if asked else text)
    if left:
        made = read_as(type(row), ask(name, values)[0], left)
        for attribute in left:
            setattr(row, attribute, getattr(made, attribute))
    else:
        leave(name, values)
    row._state.adding = False  # noqa: SLF001  # as `save` leaves it
    row._state.db = connection.alias  # noqa: SLF001


def write(row: models.Model, *names: str) -> None:
    """Write some fields of a row that is there."""
    fields: list[Any] = [row._meta.get_field(name) for name in names]  # noqa: SLF001
    keys: list[Any] = row._meta.pk_fields  # noqa: SLF001
    values = {one.column: _stored(one, getattr(row, one.attname)) for one in [*fields, *keys]}
    name = f"write {row._meta.db_table} {' '.join(values)}"  # noqa: SLF001
    if not is_kept(name):
        told = ", ".join(_equal(one) for one in fields)
        keep(name, f"UPDATE {_table(row)} SET {told} WHERE {' AND '.join(map(_equal, keys))}")  # noqa: S608
    leave(name, values)


def _is_left(row: models.Model, field: Any) -> bool:
    """Whether the database gives the value."""
    if field.generated:
        return True
    value = getattr(row, field.attname)
    return isinstance(value, DatabaseDefault) or (field.primary_key and value is None)


def _is_expression(value: Any) -> bool:
    """Whether it is something to be worked out in the statement, which then is another one each time."""
    return hasattr(value, "resolve_expression") and not isinstance(value, DatabaseDefault)


def _stored(field: Any, value: Any) -> Any:
    return field.get_db_prep_save(value, connection)


def _equal(field: Any) -> str:
    return f"{_quoted(field.column)} = %({field.column})s"


def _table(row: models.Model) -> str:
    return _quoted(row._meta.db_table)  # noqa: SLF001


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)
