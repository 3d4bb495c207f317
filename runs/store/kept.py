"""Queries of Django's that are written once in a process, and asked by their names from then on.

The ORM takes longer to write a query of a page, with its joins and conditions, than Postgres to answer it, and Postgres plans it
anew each time. So the text of those that people ask all day is kept with the places of its values in it, and prepared. What is
the same at each use stands in it as it is: the condition of an index is recognised only so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model, QuerySet, Value
from psycopg.sql import Literal

from runs.store.prepared import ask, is_kept, keep, read_as


class Given(Value):
    """The place in a query of a value that is told whenever it is asked. many: of a list, of which any will do."""

    def __init__(self, name: str, *, many: bool = False) -> None:
        super().__init__(name)
        self.name = name
        self.many = many

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "ANY(%s)" if self.many else "%s", [self]


def answers(name: str, write: Callable[[], QuerySet[Any, Any]], **told: Any) -> list[Any]:
    """The rows of a query of values. write: makes the query, the first time; but for the `told` values, which stand in it as
    `Given`, it has to be the same whenever the name is."""
    try:
        asked = kept(name, write, **told)
    except EmptyResultSet:  # nothing can be like this; then there is no text
        return []
    connection.close_if_health_check_failed()  # as Django's cursors do: it may be the first that a request asks
    return ask(*asked)


def kept(name: str, write: Callable[[], QuerySet[Any, Any]], **told: Any) -> tuple[str, dict[str, Any]]:
    """The same to be asked together with others. Raises `EmptyResultSet`."""
    if not is_kept(name):
        keep(name, _text(write()))
    return name, told


@dataclass(frozen=True)
class Part:
    """The columns of a model in a row of several. through: the way there from the model that is asked for, as `filter` has it.
    only, without: of which columns; what is left out is read when somebody asks for it. `instances` unpacks what is packed."""

    model: type[Model]
    through: str = ""
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        every = [one.attname for one in self.model._meta.concrete_fields]  # noqa: SLF001 (Django documents it)
        return tuple(name for name in every if name in (self.only or every) and name not in self.without)

    @cached_property
    def names(self) -> list[str]:
        """For `values_list`."""
        way = f"{self.through}__" if self.through else ""
        return [f"{way}{name}" for name in self.columns]


def instances(row: Sequence[Any], *parts: Part) -> list[Any]:
    """What a row begins with, as instances of the models of its parts; none where nothing was joined."""
    found, end = [], 0
    for part in parts:
        some = row[end : end + len(part.columns)]
        found.append(None if some[0] is None else read_as(part.model, some, part.columns))
        end += len(part.columns)
    return found


def _text(query: QuerySet[Any, Any]) -> str:
    connection.ensure_connection()
    text, values = query.query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
    return str(text.replace("%%", "%%%%") % tuple(_in_text(value) for value in values))


def _in_text(value: Any) -> str:
    if isinstance(value, Given):
        return f"%({value.name})s"
    return Literal(value).as_string(connection.connection).replace("%", "%%")
