"""Runs that stand in line: who is at the front, who may be let in, and what their limits have in use.

Whoever lets runs in takes, in one order, the locks of the limits they stand under; a limit's lock holds up no other limit.
A slot is given back in the transaction in which its run comes to rest, without a lock: that only makes room. Lock order:
limits, then run, then slot.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db import connection
from psycopg.rows import namedtuple_row

from runs.engine import canonical, limits
from runs.engine.limits import Head, Place
from runs.engine.status import RunStatus, StepStatus
from runs.models import Run, Slot, Step
from runs.sql import statement

SLOT_SPACE: Final = 0x4C49  # "LI": the first half of the advisory locks of limits
NOT_TOLD: Final = datetime(9999, 1, 1, tzinfo=UTC)  # `hinted_at` of a step whose run stands in line
MOST_LOOKED_AT: Final = 1_000
Told = tuple[uuid.UUID, int, str]  # run, branch and address of a step that workers are to be told about


@dataclass(frozen=True, slots=True)
class Use:
    """One limit, for one key: what is taken of it. until: when a rate lets the next one start."""

    workflow: str
    name: str
    key: str
    most: int
    per: float | None
    taken: int
    until: datetime | None = None

    @property
    def is_full(self) -> bool:
        return limits.room(self.most, self.taken) == 0


def line_of(project: uuid.UUID, workflow: str, places: Sequence[Place]) -> str:
    """The line of a run that wants these slots: all of a project that want none stand in one, others by workflow, limits and
    keys. What is free for one of a line is free for all of it."""
    if not places:
        return project.hex
    told = [str(project), workflow, *([place.name, place.key] for place in places)]
    return canonical.digest(told)[:32]


def slots_for(run: Run, places: Iterable[Place]) -> list[Slot]:
    """The slots of a new run, none of them taken, not stored yet."""
    return [
        Slot(
            run=run,
            project_id=run.project_id,
            workflow="" if place.name == limits.OF_PROJECT else run.workflow,
            name=place.name,
            key=place.key,
            most=place.most,
            per=place.per,
            whole=place.whole,
        )
        for place in places
    ]


def same_slots(run: Run, origin: Run) -> list[Slot]:
    """Slots for a fork, under the limits and keys of its origin."""
    if not origin.limited:
        return []
    found = list(Slot.objects.filter(run=origin).order_by("id"))
    for slot in found:
        slot.pk, slot.run, slot.taken_at = None, run, None
    return found


# ---- who is next


def queues_in_line() -> list[str]:
    """Queues in which a run stands in line."""
    rows = Run.objects.filter(status=RunStatus.QUEUED, admitted_at=None).order_by()
    return sorted(rows.values_list("queue", flat=True).distinct())


# The line's first run stands for all of it: they have equal limits, so what is free for one is free for all. Lines are found
# by jumps in the index, so that ten thousand runs in one cost no more than one.
_HEADS: Final = """
    WITH RECURSIVE line AS (
      (SELECT line FROM runs_run WHERE status = 'queued' AND admitted_at IS NULL AND queue = %(queue)s
       ORDER BY line LIMIT 1)
      UNION ALL
      SELECT (SELECT next.line FROM runs_run next WHERE next.status = 'queued' AND next.admitted_at IS NULL
              AND next.queue = %(queue)s AND next.line > line.line ORDER BY next.line LIMIT 1)
      FROM line WHERE line.line IS NOT NULL
    ), front AS (
      SELECT line.line, front.id FROM line CROSS JOIN LATERAL (
        SELECT id FROM runs_run run WHERE run.status = 'queued' AND run.admitted_at IS NULL
          AND run.queue = %(queue)s AND run.line = line.line
        ORDER BY run.priority DESC, run.created_at, run.id LIMIT 1
      ) front
    ), measured AS (
      SELECT front.line, coalesce(min(slot.most - used.taken), %(largest)s) AS free,
        coalesce(max(used.taken) FILTER (WHERE slot.per IS NULL), 0) AS used
      FROM front
      LEFT JOIN runs_slot slot ON slot.run_id = front.id AND slot.taken_at IS NULL
      LEFT JOIN LATERAL (
        SELECT count(*) AS taken FROM runs_slot other
        WHERE (other.project_id, other.workflow, other.name, other.key)
          = (slot.project_id, slot.workflow, slot.name, slot.key)
          AND other.taken_at IS NOT NULL
          AND (slot.per IS NULL OR other.taken_at > now() - make_interval(secs => slot.per))
      ) used ON true
      GROUP BY front.line
    )
    SELECT run.id, run.project_id AS project, run.line, run.priority, run.created_at AS since,
      run.nth, measured.used, measured.free
    FROM measured CROSS JOIN LATERAL (
      SELECT id, project_id, line, priority, created_at,
        row_number() OVER (ORDER BY priority DESC, created_at, id) - 1 AS nth
      FROM runs_run run WHERE run.status = 'queued' AND run.admitted_at IS NULL
        AND run.queue = %(queue)s AND run.line = measured.line
      ORDER BY priority DESC, created_at, id LIMIT greatest(0, least(%(each)s, measured.free))
    ) run
    WHERE measured.free > 0
"""


def heads(queue: str, *, each: int) -> list[Head]:
    """The first runs of every line of a queue that has room, at most so many each."""
    connection.ensure_connection()
    with connection.connection.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(_HEADS, {"queue": queue, "each": each, "largest": limits.LARGEST})
        return [
            Head(row.id, row.project, row.line, row.priority, row.since, row.nth, row.used, row.free)
            for row in cursor.fetchall()
        ]


_BUSY: Final = """
    SELECT run.project_id, count(*) FILTER (WHERE step.status = 'executing'),
      count(*) FILTER (WHERE step.status = 'ready')
    FROM (
      (SELECT run_id, status FROM runs_step WHERE status = 'executing')
      UNION ALL
      (SELECT run_id, status FROM runs_step WHERE status = 'ready' AND hinted_at < %(not_told)s LIMIT %(most)s)
    ) step JOIN runs_run run ON run.id = step.run_id
    WHERE run.queue = %(queue)s
    GROUP BY run.project_id
"""


def busy(queue: str) -> tuple[dict[uuid.UUID, int], int]:
    """By project, its steps at work and those that workers were told about; and how many of the latter there are in all."""
    with connection.cursor() as cursor:
        cursor.execute(_BUSY, {"queue": queue, "not_told": NOT_TOLD, "most": MOST_LOOKED_AT})
        rows = cursor.fetchall()
    return {row[0]: row[1] + row[2] for row in rows}, sum(row[2] for row in rows)


# ---- letting in


def let_in(runs: Sequence[uuid.UUID]) -> list[Told]:
    """Let these runs of one line in, in this order, as far as its limits have room by now. In the caller's transaction.

    Returns the steps that workers are to be told about. Two at once for one limit come one after the other.
    """
    lock_limits(runs)
    in_line = Run.objects.filter(status=RunStatus.QUEUED, admitted_at=None)
    # Others may have let some in since they were found: room is measured by one that still wants its slots.
    lines = dict(in_line.filter(pk__in=runs).values_list("pk", "line"))
    waiting = [run_id for run_id in runs if run_id in lines]
    if not waiting:
        return []
    alike = [run_id for run_id in waiting if lines[run_id] == lines[waiting[0]]]
    free = min((limits.room(use.most, use.taken) for use in uses(alike[0], untaken=True)), default=len(alike))
    chosen = alike[:free]
    if not chosen:
        return []
    moment = _clock()
    found = in_line.select_for_update(no_key=True, skip_locked=True).filter(pk__in=chosen).order_by("pk")
    admitted = list(found.values_list("pk", flat=True))
    Run.objects.filter(pk__in=admitted).update(admitted_at=moment)
    Slot.objects.filter(run__in=admitted, taken_at=None).update(taken_at=moment)
    with connection.cursor() as cursor:
        cursor.execute(_TELL, {"runs": admitted})
        told = _grouped(cursor.fetchall())
    return [step for run_id in chosen for step in told.get(run_id, [])]


_TELL: Final = """
    UPDATE runs_step step SET hinted_at = now() FROM runs_run run
    WHERE run.id = ANY(%(runs)s) AND step.run_id = run.id AND step.branch = run.branch AND step.status = 'ready'
    RETURNING step.run_id, step.branch, step.address
"""


def _grouped(rows: Iterable[Told]) -> dict[uuid.UUID, list[Told]]:
    found: dict[uuid.UUID, list[Told]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def lock_limits(runs: Sequence[uuid.UUID]) -> None:
    """Wait for the locks of all limits that these runs stand under, always in the same order, for this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT hashtext(concat_ws(chr(10), project_id, workflow, name, key)) AS limit_lock"
            " FROM runs_slot WHERE run_id = ANY(%s) ORDER BY limit_lock",
            [list(runs)],
        )
        for (lock,) in cursor.fetchall():
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [SLOT_SPACE, lock])


def _clock() -> datetime:
    """The database's time of this moment: a transaction that has waited for a lock began earlier."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


# ---- giving back


def come_to_rest(run: Run) -> str | None:
    """Give back the slots of a limited, locked run that has nothing to do. Returns the line in which it will stand after that,
    or None if it has something to do.

    A run that ends gives back all that count what is at work; what counts starts stays.
    """
    if not _is_at_rest(run):
        return None
    held = Slot.objects.filter(run=run, per=None).exclude(taken_at=None)
    if not run.is_terminal:
        held = held.filter(whole=False)
    held.update(taken_at=None)
    wanted = Slot.objects.filter(run=run, taken_at=None).order_by("id")
    places = [Place(slot.name, slot.key, slot.most) for slot in wanted]
    return line_of(run.project_id, run.workflow, places)


def _is_at_rest(run: Run) -> bool:
    if run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        return False
    if run.is_terminal or run.status == RunStatus.WAITING:
        return True
    # Paused, or being cancelled: what executes is finished first.
    return not Step.objects.filter(run=run, branch=run.branch, status=StepStatus.EXECUTING).exists()


# ---- looking


_USES: Final = """
    SELECT slot.workflow, slot.name, slot.key, slot.most, slot.per, used.taken, used.until
    FROM runs_slot slot CROSS JOIN LATERAL (
      SELECT count(*) AS taken,
        (array_agg(other.taken_at ORDER BY other.taken_at DESC))[slot.most] + make_interval(secs => slot.per) AS until
      FROM runs_slot other
      WHERE (other.project_id, other.workflow, other.name, other.key)
        = (slot.project_id, slot.workflow, slot.name, slot.key)
        AND other.taken_at IS NOT NULL
        AND (slot.per IS NULL OR other.taken_at > clock_timestamp() - make_interval(secs => slot.per))
    ) used
    WHERE slot.run_id = %(run)s AND (NOT %(untaken)s OR slot.taken_at IS NULL)
    ORDER BY slot.id
"""


def uses(run_id: uuid.UUID, *, untaken: bool = False) -> list[Use]:
    """What is taken of the limits that a run stands under. untaken: of those only whose slot it does not have."""
    with connection.cursor() as cursor:
        cursor.execute(_USES, {"run": run_id, "untaken": untaken})
        return [Use(*row) for row in cursor.fetchall()]


def before(run: Run, *, most: int = MOST_LOOKED_AT) -> int:
    """How many runs stand before this one in its line; counted up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT 1 FROM runs_run WHERE status = 'queued' AND admitted_at IS NULL"
            " AND queue = %(queue)s AND line = %(line)s"
            " AND (-priority, created_at, id) < (-%(priority)s, %(since)s, %(run)s) LIMIT %(most)s) earlier",
            {
                "queue": run.queue,
                "line": run.line,
                "priority": run.priority,
                "since": run.created_at,
                "run": run.pk,
                "most": most,
            },
        )
        count: int = cursor.fetchone()[0]
    return count


def taken(project: uuid.UUID) -> list[Use]:
    """What is in use of the limits of a project, by key, those with most in use first; at most a thousand."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKEN, {"project": project, "most": MOST_LOOKED_AT})
        return [Use(*row) for row in cursor.fetchall()]


_TAKEN: Final = """
    SELECT workflow, name, key, max(most), max(per), count(*) AS taken FROM runs_slot
    WHERE project_id = %(project)s AND taken_at IS NOT NULL
      AND (per IS NULL OR taken_at > now() - make_interval(secs => per))
    GROUP BY workflow, name, key ORDER BY taken DESC, workflow, name, key LIMIT %(most)s
"""


# ---- what a deploy changes


def follow_code(flows: Mapping[str, tuple[str, Sequence[Place]]]) -> None:
    """Live runs follow the numbers and the queue that the code says now. flows: by name of workflow, its queue and its limits
    without keys. A limit that the code does not know any more holds nobody up."""
    declared = [(name, place) for name, (_, places) in flows.items() for place in places]
    told: dict[str, Any] = {
        "flows": list(flows),
        "queues": [queue for queue, _ in flows.values()],
        "workflows": [name for name, _ in declared],
        "names": [place.name for _, place in declared],
        "most": [place.most for _, place in declared],
        "per": [place.per for _, place in declared],
        "whole": [place.whole for _, place in declared],
    }
    with connection.cursor() as cursor:
        cursor.execute(statement("follow_code"), told)
