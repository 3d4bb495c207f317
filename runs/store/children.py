"""Child runs: where they were started, whether a branch can see them, and which of them are to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import connection
from django.db.models import Q, QuerySet

from runs.engine.status import TERMINAL, RunStatus
from runs.engine.waits import Place
from runs.models import (
    Child,
    Run,
    Stop,
    Wait,
)
from runs.store.reading import sight
from runs.store.versions import At, without

_HELD: Final = (RunStatus.PAUSED, RunStatus.CANCELLING)


def visible_child(parent: Run, address: str, place: Place) -> Child | None:
    """The child that was started at this place, where the parent's branch can see it; the newest."""
    sees = sight(parent.pk, parent.branch)
    return next(
        (child for child in children_at(parent, address, place) if sees(child.branch, child.after)), None
    )


def children_at(parent: Run, address: str, place: Place) -> list[Child]:
    """Every child that was ever started at a place, the newest first."""
    rows = Child.objects.filter(parent=parent, address=address, name=place[0], occurrence=place[1])
    return list(rows.select_related("run").order_by("-branch", "-run__created_at"))


def left_children(run: Run, children: QuerySet[Child]) -> list[Child]:
    """Children that the run's branch does not see."""
    sees = sight(run.pk, run.branch)
    return [child for child in children if not sees(child.branch, child.after)]


def depth_of(run: Run, *, limit: int) -> int:
    """How many runs are inside one another down to this one; counted up to a limit."""
    with connection.cursor() as cursor:
        cursor.execute(_DEPTH, {"run": run.pk, "limit": limit})
        (depth,) = cursor.fetchone()
    return int(depth)


_DEPTH: Final = """
    WITH RECURSIVE line AS (
      SELECT id, parent_id, 1 AS depth FROM runs_run WHERE id = %(run)s
      UNION ALL
      SELECT run.id, run.parent_id, depth + 1 FROM line JOIN runs_run run ON run.id = line.parent_id
      WHERE depth < %(limit)s
    )
    SELECT max(depth) FROM line
"""


def size_of_tree(run: Run, *, limit: int) -> int:
    """How many runs the first run of the tree has under it; counted up to a limit."""
    return int(Run.objects.filter(root=run.root_id or run.pk)[:limit].count())


def has_stopped_ancestor(run: Run) -> bool:
    """Whether this run, or one that it was started by, is about to be cancelled with its children or was."""
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS, {"run": run.pk})
        return cursor.fetchone() is not None


_ANCESTORS: Final = """
    WITH RECURSIVE line AS (
      SELECT run.id, run.status, child.parent_id FROM runs_run run
      LEFT JOIN runs_child child ON child.run_id = run.id AND child.on_parent_cancel = 'cancel' WHERE run.id = %(run)s
      UNION ALL
      SELECT run.id, run.status, child.parent_id FROM line JOIN runs_run run ON run.id = line.parent_id
      LEFT JOIN runs_child child ON child.run_id = run.id AND child.on_parent_cancel = 'cancel'
    )
    SELECT 1 FROM line
    WHERE status IN ('cancelled', 'cancelling') OR EXISTS (SELECT 1 FROM runs_stop WHERE run_id = line.id) LIMIT 1
"""


def to_stop(*, limit: int = 200) -> list[Stop]:
    """Children that are to be cancelled, the oldest order first."""
    return list(Stop.objects.order_by("since", "run_id")[:limit])


def to_follow(*, limit: int = 200) -> list[Run]:
    """Runs that go on although the one above them is paused with its children, and runs that are paused with the one above
    them, which is paused so no more; the tops of trees first. One query."""
    held = {"paused__children": True, "status": RunStatus.PAUSED}
    going_on = Run.objects.filter(parent__in=Run.objects.filter(**held)).exclude(
        status__in=[*TERMINAL, *_HELD]
    )
    left_behind = Run.objects.filter(status=RunStatus.PAUSED, paused__has_key="with").exclude(
        Q(**{f"parent__{name}": value for name, value in held.items()})
    )
    both = going_on.only("created_at").union(left_behind.only("created_at"), all=True)
    return list(both.order_by("created_at")[:limit])


def ended_children(strangers: Sequence[At] = (), *, limit: int = 500) -> list[Wait]:
    """Open waits for children that have ended, in the order of their ends; not of parents whose code nobody here has."""
    ended = Wait.objects.filter(closed_at=None, child__isnull=False, child__finished_at__isnull=False)
    found = without(ended, strangers)
    return list(found.order_by("child__finished_at", "id")[:limit])
