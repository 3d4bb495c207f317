"""Rows that go when they are old, whatever becomes of their run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import connection, models
from django.db.models import Exists, F, IntegerField, Model, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Now

from runs.keeping.due import KEY_HOURS
from runs.keeping.keys import pk_column
from runs.keeping.rules import DAY, days_of, default_days, older_than
from runs.models import (
    AuditEntry,
    Delivery,
    Endpoint,
    IdempotencyRecord,
    LegalHold,
    Message,
    OperationalNote,
    Removed,
    RetentionPolicy,
    Session,
    Statistic,
    Step,
    Wait,
    WorkerChild,
)
from runs.models import statistics as grains
from runs.store.counting import KEPT_FOR

HOURS_KEPT_FOR: Final = timedelta(days=40)


@dataclass(frozen=True, slots=True)
class Chore:
    """Rows that go when they are old, whatever becomes of their run. `due` finds them."""

    name: str
    model: type[Model]
    due: Callable[[], QuerySet[Any]]


def _held(run: str) -> Exists:
    return Exists(LegalHold.objects.filter(run=OuterRef(run)))


def _notes() -> QuerySet[OperationalNote]:
    rows = OperationalNote.objects.alias(kept_days=days_of("notes_days", run="run__"))
    return rows.filter(older_than("at", F("kept_days"))).exclude(_held("run"))


def _waits() -> QuerySet[Wait]:
    rows = Wait.objects.alias(kept_days=days_of("waits_days", run="run__"))
    return rows.filter(older_than("closed_at", F("kept_days")), closed_at__isnull=False).exclude(_held("run"))


def _audit() -> QuerySet[AuditEntry]:
    """Whose project has gone, or who was in none, falls under the environment. What was done to a held run stays."""
    whole = RetentionPolicy.objects.filter(project=OuterRef("project"), workflow="")
    days = Coalesce(
        Subquery(whole.values("audit_days")[:1]),
        Value(default_days("audit_days")),
        output_field=IntegerField(),
    )
    held = LegalHold.objects.alias(text=Cast("run", models.TextField())).filter(text=OuterRef("target"))
    return (
        AuditEntry.objects.alias(kept_days=days)
        .filter(older_than("at", F("kept_days")))
        .exclude(Exists(held))
    )


def _messages() -> QuerySet[Message]:
    """What belongs to no run: tests, digests, what admins were told. What belongs to one goes with it."""
    under_way = Delivery.objects.filter(message=OuterRef("pk"), status="pending")
    return _by_default(
        Message.objects.filter(run__isnull=True).exclude(Exists(under_way)), "created_at", "notes_days"
    )


def _endpoints() -> QuerySet[Endpoint]:
    """Deleted ones, once nothing tells of them any more."""
    told = Delivery.objects.filter(endpoint=OuterRef("pk"))
    return _by_default(Endpoint.objects.exclude(Exists(told)), "deleted_at", "notes_days")


def _keys() -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.filter(created_at__lt=Now() - timedelta(hours=KEY_HOURS))


def _workers() -> QuerySet[WorkerChild]:
    executing = Step.objects.filter(status="executing", worker=OuterRef("pk"))
    return _by_default(WorkerChild.objects.exclude(Exists(executing)), "gone_at", "workers_days")


def _removed() -> QuerySet[Removed]:
    return _by_default(Removed.objects.all(), "removed_at", "removed_days")


def _statistics() -> QuerySet[Statistic]:
    """Hours as long as a page may show them, days for a year."""
    hours = Q(grain=grains.HOUR, at__lt=Now() - HOURS_KEPT_FOR)
    return Statistic.objects.filter(hours | Q(grain=grains.DAY, at__lt=Now() - KEPT_FOR))


def _by_default(rows: QuerySet[Any], column: str, name: str) -> QuerySet[Any]:
    days = default_days(name)
    return rows.filter(**{f"{column}__lt": Now() - days * DAY}) if days else rows.none()


def _sessions() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=Now())


CHORES: Final = (
    Chore("notes", OperationalNote, _notes),
    Chore("waits", Wait, _waits),
    Chore("audit", AuditEntry, _audit),
    Chore("messages", Message, _messages),
    Chore("endpoints", Endpoint, _endpoints),
    Chore("keys", IdempotencyRecord, _keys),
    Chore("workers", WorkerChild, _workers),
    Chore("removed", Removed, _removed),
    Chore("statistics", Statistic, _statistics),
    Chore("sessions", Session, _sessions),
)


def clear(chore: Chore, *, limit: int) -> int:
    """Delete some rows of a chore in the caller's transaction; returns how many. What somebody holds is left."""
    chosen = list(
        chore.due().select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[:limit]
    )
    if not chosen:
        return 0
    table, column = chore.model._meta.db_table, pk_column(chore.model)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE {column} = ANY(%s)", [chosen])
        cleared: int = cursor.rowcount
    return cleared
