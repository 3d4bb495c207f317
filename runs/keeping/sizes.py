"""What a round would do, in rows and bytes. Looks only at what is due, and unpacks no document to measure it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import models
from django.db.models import Count, F, Func, IntegerField, Model, QuerySet, Sum, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from runs.keeping.chores import CHORES
from runs.keeping.compacting import kept_checkpoints
from runs.keeping.due import to_compact, to_remove
from runs.keeping.keys import keys_to
from runs.models import Checkpoint, Run

ROW_HEADER: Final = 28  # bytes that Postgres adds to each row


@dataclass(frozen=True, slots=True)
class Size:
    """How much would go. what: remove, compact or the name of a chore."""

    what: str
    project: str
    workflow: str
    table: str
    rows: int
    size: int


def of_removal() -> list[Size]:
    """Per table, project and workflow: the rows of every run that is due."""
    ways: dict[type[Model], str] = {}
    for model, way in _ways(Run):
        ways.setdefault(model, way)  # rows that lead to a run by two ways go once
    return [*_in_table(Run, ""), *(size for model, way in ways.items() for size in _in_table(model, way))]


def _ways(model: type[Model], further: str = "") -> Iterator[tuple[type[Model], str]]:
    """Every table whose rows go with a run, with the way from them to it."""
    for key in keys_to(model):
        if key.remote_field.on_delete is models.CASCADE:
            way = f"{key.name}__{further}"
            yield key.model, way
            yield from _ways(key.model, way)


def _in_table(model: type[Model], way: str) -> list[Size]:
    due = to_remove().order_by().values("pk")
    rows = model._default_manager.filter(**{f"{way}pk__in": due})
    place = (f"{way}project__slug", f"{way}workflow")
    told = rows.order_by().values(*place).annotate(some=Count("*"), size=Sum(_bytes(model)))
    return [
        Size("remove", row[place[0]], row[place[1]], model._meta.db_table, row["some"], int(row["size"]))
        for row in told.order_by(*place)
    ]


def of_compaction(*, limit: int) -> list[Size]:
    """Of the first `limit` runs that are due: checkpoints that would go. What they hold is partly handed on to those that
    stay, so the bytes are at most these."""
    found: dict[tuple[str, str], list[int]] = {}
    for run in to_compact().select_related("project")[:limit]:
        gone = Checkpoint.objects.filter(run=run).exclude(no__in=kept_checkpoints(run))
        rows, size = _measured(gone)
        place = found.setdefault((run.project.slug, run.workflow), [0, 0])
        place[0] += rows
        place[1] += size
    return [
        Size("compact", project, workflow, Checkpoint._meta.db_table, rows, size)
        for (project, workflow), (rows, size) in sorted(found.items())
    ]


def of_chores() -> list[Size]:
    measured = [(chore, *_measured(chore.due())) for chore in CHORES]
    return [
        Size(chore.name, "", "", chore.model._meta.db_table, rows, size)
        for chore, rows, size in measured
        if rows
    ]


def _measured(rows: QuerySet[Any]) -> tuple[int, int]:
    told = rows.order_by().aggregate(some=Count("*"), size=Sum(_bytes(rows.model)))
    return int(told["some"]), int(told["size"] or 0)


def _bytes(model: type[Model]) -> Combinable:
    """Bytes of a row as it lies on the disk: compressed, and without unpacking what lies apart."""
    total: Combinable = Value(ROW_HEADER)
    for column in model._meta.concrete_fields:
        if column.column:
            stored = Func(F(column.attname), function="pg_column_size", output_field=IntegerField())
            total = total + Coalesce(stored, 0)
    return total
