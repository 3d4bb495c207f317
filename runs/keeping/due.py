"""Which runs are due, and what spares them.

Candidates are looked for without a lock, locked without waiting (what somebody holds is left for the next round), and
looked at once more under the lock, with a snapshot of its own: a run may have been rewound, held or forked in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.db.models.functions import Now

from runs import store
from runs.keeping.keys import keys_to
from runs.keeping.rules import days_of, older_than
from runs.models import Delivery, IdempotencyRecord, LegalHold, Run
from runs.models.runs import ENDED

KEY_HOURS: Final = 24
LOCKED_AT_MOST: Final = "1s"  # how long a batch waits for a row that somebody else is writing
ROWS_A_CHECKPOINT: Final = 3  # about: checkpoint, step, call

Spares = dict[str, Callable[[], Q | Exists]]


def _referred() -> Q:
    """Another run at the other end of a foreign key is live: a parent that waits, a fork that still needs its origin.

    Made of the model itself, so that whoever adds such a key need not think of retention: PROTECT keeps a run as long as
    the row is there, SET_NULL as long as one of both runs is live, CASCADE goes with it.
    """
    found = Q(pk__in=[])
    for key in keys_to(Run):
        referring = key.model._default_manager.filter(**{key.name: OuterRef("pk")})
        if key.remote_field.on_delete is models.PROTECT:
            found |= Q(Exists(referring))
        elif key.model is Run:
            found |= Q(**{f"{key.name}__isnull": False}) & ~Q(**{f"{key.name}__status__in": ENDED})
            found |= Q(Exists(referring.exclude(status__in=ENDED)))
        elif key.remote_field.on_delete is models.SET_NULL:
            found |= Q(Exists(referring.exclude(run__status__in=ENDED)))
    return found


SPARED: Final[Spares] = {
    "it is live": lambda: ~Q(status__in=ENDED),
    "it is under a legal hold": lambda: Exists(LegalHold.objects.filter(run=OuterRef("pk"))),
    "a live run needs it": _referred,
}
SPARED_FROM_REMOVAL: Final[Spares] = {
    **SPARED,
    "something of it is still to be delivered": lambda: Exists(
        Delivery.objects.filter(message__run=OuterRef("pk"), status="pending")
    ),
    "its idempotency key is still valid": lambda: Exists(
        IdempotencyRecord.objects.filter(
            run=OuterRef("pk"), created_at__gte=Now() - timedelta(hours=KEY_HOURS)
        )
    ),
}


def spared(spares: Spares) -> Q:
    found = Q(pk__in=[])
    for condition in spares.values():
        found |= Q(condition())
    return found


def why_spared(run: Run, spares: Spares) -> str:
    """The first reason why a run must stay, or nothing."""
    for reason, condition in spares.items():
        if Run.objects.filter(Q(condition()), pk=run.pk).exists():
            return reason
    return ""


def to_remove() -> QuerySet[Run]:
    """Ended runs whose time is over, and that nothing spares; those that ended first come first."""
    days = Case(*(When(status=status, then=days_of(f"{status}_days")) for status in ENDED))
    due = Run.objects.alias(kept_days=days).filter(
        older_than("finished_at", F("kept_days")), finished_at__isnull=False
    )
    return due.exclude(spared(SPARED_FROM_REMOVAL)).order_by("finished_at", "id")


def to_compact() -> QuerySet[Run]:
    """Ended runs that are old enough to be compacted and have not been since they ended."""
    due = Run.objects.alias(kept_days=days_of("compact_days")).filter(
        older_than("finished_at", F("kept_days")),
        Q(compacted_at__isnull=True) | Q(compacted_at__lt=F("finished_at")),
        finished_at__isnull=False,
        erased_at__isnull=True,
    )
    return due.exclude(spared(SPARED)).order_by("finished_at", "id")


def lock_due(due: QuerySet[Run], ids: Sequence[uuid.UUID], *, rows: int) -> list[uuid.UUID]:
    """Of these runs those that are free and still due, locked until the transaction ends: as many as make up `rows` rows,
    and one at least.

    Two statements: one that locks cannot see what was committed to other tables while it waited or before it began.
    """
    store.set_lock_timeout(LOCKED_AT_MOST)
    free = Run.objects.select_for_update(skip_locked=True).filter(pk__in=ids).order_by("finished_at", "id")
    weights: list[tuple[uuid.UUID, int]] = []
    room = rows
    for run_id, seq, points in free.values_list("pk", "seq", "checkpoint_no"):
        weights.append((run_id, seq + ROWS_A_CHECKPOINT * points))
    still = set(due.filter(pk__in=[run_id for run_id, _ in weights]).values_list("pk", flat=True))
    chosen: list[uuid.UUID] = []
    for run_id, weight in weights:
        if run_id not in still:
            continue
        if chosen and weight > room:
            break
        chosen.append(run_id)
        room -= weight
    return chosen
