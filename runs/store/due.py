"""What the sweeper looks for: leases and times that have run out, timers, steps that nobody took."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import (
    connection,
)
from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import RawSQL
from django.db.models.fields import BooleanField
from django.db.models.functions import Now
from psycopg.rows import namedtuple_row

from runs.engine.canonical import Json
from runs.engine.status import ApprovalStatus, StepStatus
from runs.models import (
    Approval,
    Run,
    ServiceBeat,
    Step,
    Wait,
    WorkerChild,
)
from runs.sql import statement
from runs.store.lines import NOT_TOLD
from runs.store.versions import At, without

HINT_AGAIN_AFTER: Final = 3.0  # seconds a ready step may lie before workers are told once more


@dataclass(frozen=True, slots=True)
class Awake:
    """A step that is ready again, and its run: status and end of the history, with the hash before."""

    run_id: uuid.UUID
    branch: int
    address: str
    status: str
    seq: int
    hash: bytes
    before: bytes
    at: datetime


def due_timers(runs: Sequence[uuid.UUID] | None, *, limit: int, lock: bool = False) -> list[Any]:
    """Timers that are due and all that their run waits for, with what there is to know of the run; of these runs, or any.

    lock: lock the runs that nobody holds, and leave the others out.
    """
    text = statement("due_timers") + (" FOR NO KEY UPDATE OF run SKIP LOCKED" if lock else "")
    connection.ensure_connection()
    with connection.connection.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(text, {"runs": None if runs is None else list(runs), "limit": limit})
        found: list[Any] = cursor.fetchall()
    return found


def wake_all(awake: Sequence[Awake]) -> None:
    """Store that steps are ready, each all that its locked run was waiting for. Two statements for all of them.

    They count as told long ago: the sweeper tells workers as there is room for hints.
    """
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in awake] for name in Awake.__slots__}
    with connection.cursor() as cursor:
        cursor.execute(_WAKE_STEPS, {**columns, "not_told": NOT_TOLD})
        cursor.execute(_WAKE_RUNS, columns)


_WAKE_STEPS: Final = """
    UPDATE runs_step step SET status = 'ready', token = NULL, lease_until = NULL, error = NULL,
      hinted_at = CASE WHEN run.admitted_at IS NULL THEN %(not_told)s ELSE now() - interval '1 hour' END
    FROM unnest(%(run_id)s::uuid[], %(branch)s::int[], %(address)s::text[]) AS awake (run_id, branch, address)
    JOIN runs_run run ON run.id = awake.run_id
    WHERE (step.run_id, step.branch, step.address) = (awake.run_id, awake.branch, awake.address)
"""


_WAKE_RUNS: Final = """
    UPDATE runs_run run SET status = awake.status, seq = awake.seq, head_hash = awake.hash, prev_hash = awake.before,
      waiting_for = '[]', version = run.version + 1, updated_at = awake.at
    FROM unnest(%(run_id)s::uuid[], %(status)s::text[], %(seq)s::bigint[], %(hash)s::bytea[], %(before)s::bytea[],
      %(at)s::timestamptz[]) AS awake (run_id, status, seq, hash, before, at)
    WHERE run.id = awake.run_id
"""


def lapsed_steps(*, limit: int = 200) -> list[Step]:
    """Executing steps whose worker is gone, or whose lease has run out.

    While Postgres was down nobody could renew: leases that ran out then do not count before every worker had its turn.
    """
    # Asked for each of the few executing steps: children that have gone are kept, and become many.
    over = Q(Exists(WorkerChild.objects.filter(pk=OuterRef("worker"), gone_at__isnull=False)))
    over |= Q(overdue__isnull=False)  # its process has said that it ends
    over |= Q(_everybody_had_a_turn(), lease_until__lt=Now())
    found = Step.objects.filter(over, status=StepStatus.EXECUTING)
    return list(found.order_by("lease_until")[:limit])


def _everybody_had_a_turn() -> RawSQL:
    """A condition: Postgres has been up for longer than one renewal."""
    return RawSQL(
        "pg_postmaster_start_time() < now() - make_interval(secs => %s)",
        [settings.HITL_LEASE_SECONDS / 3],
        output_field=BooleanField(),
    )


def overdue_runs(*, limit: int = 200) -> list[Run]:
    """Runs whose time is over."""
    return list(Run.objects.filter(deadline_at__lte=Now()).only("pk").order_by("deadline_at")[:limit])


def due_waits(strangers: Sequence[At] = (), *, limit: int = 500) -> list[Wait]:
    """Open waits whose time has come, in the order in which they became due; not of runs whose code nobody here has."""
    due = without(Wait.objects.filter(closed_at=None, due_at__lte=Now()), strangers)
    return list(due.order_by("due_at", "id")[:limit])


def due_reminders(*, limit: int = 200) -> list[uuid.UUID]:
    """Open approvals of which people are to be reminded by now, the one that was due first at the top."""
    due = Approval.objects.filter(status=ApprovalStatus.OPEN, remind_at__lte=Now())
    return list(due.order_by("remind_at").values_list("pk", flat=True)[:limit])


# Chosen first, and once: as a subquery of the UPDATE it may be planned as the inner side of a loop, and then every turn
# skips what the turn before has updated and finds another `limit` rows.
UNHINTED: Final = """
    WITH chosen AS MATERIALIZED (
      SELECT step.run_id, step.branch, step.address
      FROM runs_step step JOIN runs_run run ON run.id = step.run_id AND run.branch = step.branch
      WHERE step.status = 'ready' AND step.hinted_at < now() - make_interval(secs => %(after)s)
        AND run.queue = ANY(%(queues)s)
        AND (run.status IN ('queued', 'running') AND run.error IS NULL AND run.admitted_at IS NOT NULL
          OR run.ending IS NOT NULL AND run.status <> 'paused')
        AND NOT EXISTS (
          SELECT 1 FROM runs_wait mark
          WHERE mark.run_id = run.id AND mark.kind = 'needs_migration' AND mark.closed_at IS NULL
        )
      ORDER BY step.hinted_at LIMIT %(limit)s FOR NO KEY UPDATE OF step SKIP LOCKED
    )
    UPDATE runs_step step SET hinted_at = now() FROM chosen
    WHERE (step.run_id, step.branch, step.address) = (chosen.run_id, chosen.branch, chosen.address)
    RETURNING step.run_id, step.branch, step.address
"""


def unhinted_steps(queue: str, *, limit: int) -> list[tuple[uuid.UUID, int, str]]:
    """Ready steps of a queue that no worker took for a while; they count as told again from now on."""
    with connection.cursor() as cursor:
        cursor.execute(UNHINTED, {"after": HINT_AGAIN_AFTER, "limit": limit, "queues": [queue]})
        return [(row[0], row[1], row[2]) for row in cursor.fetchall()]


def beat(name: str, facts: dict[str, Json]) -> None:
    """Note that a service has done its round. One statement, but for the first time."""
    told: dict[str, Any] = {"at": Now(), "facts": facts}
    if not ServiceBeat.objects.filter(name=name).update(**told):
        ServiceBeat.objects.update_or_create(name=name, defaults=told)
