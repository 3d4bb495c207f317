"""Which versions of workflows live runs are at, and which of them somebody can run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from runs.engine.versions import Move, base_of, stored_as
from runs.errors import MigrationFailed
from runs.models import Migrated, Run, Wait, WorkerChild
from runs.store.reading import lineage_at

NEEDS_MIGRATION: Final = "needs_migration"


@dataclass(frozen=True, slots=True, order=True)
class At:
    """What a run is pinned to."""

    workflow: str
    version: str
    fingerprint: str

    @classmethod
    def of(cls, run: Run) -> At:
        return cls(run.workflow, run.workflow_version, run.fingerprint)


@dataclass(frozen=True, slots=True)
class Code:
    """What the workers that live, or were there a moment ago, have between them.

    knows: whether every one of them has said it. newest: when the last of them started; None without any.
    """

    has: frozenset[tuple[str, str, str]]
    takes: frozenset[tuple[str, str]]
    knows: bool
    newest: datetime | None

    def has_code(self, at: At) -> bool:
        """Whether a worker runs this version. One that did not say what it has may have anything."""
        if not self.knows or (at.workflow, at.version, at.fingerprint) in self.has:
            return True
        base = base_of(at.version)
        if settings.DEBUG or base != at.version:  # in development a changed graph runs on
            return any((name, version) == (at.workflow, base) for name, version, _ in self.has)
        return False

    def can_take(self, at: At) -> bool:
        """Whether a worker runs this version, or has a migration that leads on from it."""
        return self.has_code(at) or (at.workflow, base_of(at.version)) in self.takes


def grace() -> float:
    """Seconds for which the code of a worker that has gone counts as there: it may only be restarting."""
    return settings.HITL_LEASE_SECONDS / 3


def code_of_workers() -> Code:
    """What workers can run, from what each said when it started. One query."""
    lately = Now() - timedelta(seconds=grace())
    here = Q(gone_at=None, leaving_at=None, suspected_at=None)
    left = Q(gone_at=None) & (Q(leaving_at__gt=lately) | Q(suspected_at__gt=lately))
    rows = list(
        WorkerChild.objects.filter(here | left | Q(gone_at__gt=lately))
        .values_list("code")
        .annotate(newest=Max("started_at"))
        .order_by()
    )
    said = [code for code, _ in rows if code is not None]
    return Code(
        frozenset((name, version, mark) for code in said for name, version, mark in code["has"]),
        frozenset((name, version) for code in said for name, version in code["takes"]),
        len(said) == len(rows),
        max((newest for _, newest in rows), default=None),
    )


# A walk from one distinct key to the next over the index: as many steps as there are versions, however many runs.
_VERSIONS: Final = """
    WITH RECURSIVE at AS (
      (SELECT workflow, workflow_version, fingerprint FROM runs_run WHERE finished_at IS NULL
       ORDER BY workflow, workflow_version, fingerprint LIMIT 1)
      UNION ALL
      SELECT next.* FROM at CROSS JOIN LATERAL (
        SELECT workflow, workflow_version, fingerprint FROM runs_run
        WHERE finished_at IS NULL
          AND (workflow, workflow_version, fingerprint) > (at.workflow, at.workflow_version, at.fingerprint)
        ORDER BY workflow, workflow_version, fingerprint LIMIT 1
      ) next
    )
    SELECT workflow, workflow_version, fingerprint FROM at
"""


def versions_of_live_runs() -> list[At]:
    """What live runs are at. One query, of a step a version."""
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS)
        return [At(*row) for row in cursor.fetchall()]


def marks() -> QuerySet[Wait]:
    """Runs that wait for the code of their version: the open waits that say so."""
    return Wait.objects.filter(kind=NEEDS_MIGRATION, closed_at=None)


def mark_of(run_id: uuid.UUID) -> Wait | None:
    return marks().filter(run=run_id).first()


def is_marked(run: str) -> Exists:
    """A condition: the run that this column leads to waits for code."""
    return Exists(marks().filter(run=OuterRef(run)))


def runs_without_code(places: Sequence[At], *, limit: int) -> list[uuid.UUID]:
    """Live runs at these versions that do not say yet that they wait for code; not those that something has just touched."""
    if not places:
        return []
    rows = Run.objects.filter(_at(places), ~is_marked("pk"), finished_at=None)
    rows = rows.filter(updated_at__lt=Now() - timedelta(seconds=grace()))
    return list(rows.values_list("pk", flat=True)[:limit])


def marks_to_lift(code: Code, places: Sequence[At], *, limit: int) -> list[uuid.UUID]:
    """Runs that need not wait for code any more, those that wait longest first: a worker has it or leads on from it; or a
    migration that failed may do better, because a worker has started since."""
    if code.newest is None or not code.knows:
        return []
    failed = Q(facts__code=MigrationFailed.code)
    here = [place for place in places if code.has_code(place)]
    ahead = [place for place in places if code.can_take(place)]
    due = _at(here, "run__") | (_at(ahead, "run__") & ~failed) | (failed & Q(opened_at__lt=code.newest))
    return list(marks().filter(due).order_by("opened_at", "id").values_list("run_id", flat=True)[:limit])


def without(waits: QuerySet[Wait], strangers: Iterable[At]) -> QuerySet[Wait]:
    """Waits of runs that this process could wake: not those that wait for code, nor those at these versions."""
    found = waits.filter(~is_marked("run"))
    strange = list(strangers)
    return found.exclude(_at(strange, "run__")) if strange else found


def _at(places: Sequence[At], prefix: str = "") -> Q:
    found = Q(pk__in=[])
    for at in places:
        found |= Q(
            **{
                f"{prefix}workflow": at.workflow,
                f"{prefix}workflow_version": at.version,
                f"{prefix}fingerprint": at.fingerprint,
            }
        )
    return found


# ---- checkpoints


def was_migrated() -> Exists:
    """Of a query of runs: whether each was ever migrated."""
    return Exists(Migrated.objects.filter(run=OuterRef("pk")))


def version_at(run: Run, checkpoint: int) -> str:
    """The version as which a checkpoint is stored. One query for a run that was never migrated, else two; none for a run that
    was read with `was_migrated` and was not."""
    if not getattr(run, "was_migrated", True):
        return run.workflow_version
    rows = Migrated.objects.filter(run=run)
    moves = [Move(row.branch, row.checkpoint, row.from_version, row.to_version) for row in rows]
    line = lineage_at(run.pk, checkpoint) if moves else {}
    return stored_as(moves, line, now=run.workflow_version)
