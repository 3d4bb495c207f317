"""Rows of several tables in one answer: each as JSON, and rows of models again afterwards. For pages that look at a little of
many tables, where a question costs more than its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db.models import F, Field, Model, QuerySet, Value
from django.db.models.functions import JSONObject

Row = TypeVar("Row", bound=Model)


def as_json(
    rows: QuerySet[Any], at: str, *more: str, without: Sequence[str] = (), limit: int | None = None
) -> QuerySet[Any, tuple[str, Any, dict[str, Any]]]:
    """Rows as (name of the model, time, row), to be put together with those of others; the first `limit` by time.

    more: annotations that go along. No exact decimals: their numbers come back as floats.
    """
    names = [name for name in _fields(rows.model) if name not in without]
    whole = JSONObject(**{name: F(name) for name in (*names, *more)})
    rows = rows.order_by() if limit is None else rows.order_by(at)
    told = rows.annotate(table=Value(rows.model.__name__), at=F(at), row=whole)
    found: QuerySet[Any, tuple[str, Any, dict[str, Any]]] = told.values_list("table", "at", "row")[:limit]
    return found


def from_json(model: type[Row], row: dict[str, Any]) -> Row:
    """A row that came by `as_json`; what was left out is not read until it is asked for."""
    known = {name: field.to_python(row[name]) for name, field in _fields(model).items() if name in row}
    one = model.from_db("default", list(known), list(known.values()))  # in the order of the model's fields
    for name in row.keys() - known.keys():
        setattr(one, name, row[name])
    return one


def _fields(model: type[Model]) -> dict[str, Field[Any, Any]]:
    return {field.attname: field for field in model._meta.concrete_fields}  # noqa: SLF001 (Django documents it)
