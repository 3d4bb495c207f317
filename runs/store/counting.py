"""Statistics, a slice of time after the other: what has happened is read once, and added to its hour and its day.

Theory. An event carries the time at which its transaction began, and is seen when that commits: a slice is complete once every
transaction under way began after its end. So the slices end at the horizon, and nothing is late. They neither overlap nor leave a
gap, since one row says until when all is counted, and it moves with the counts.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from runs.models import Counted, Project, Run
from runs.sql import statement

MARGIN: Final = timedelta(seconds=2)  # a transaction is listed a moment after it has taken its time
LONGEST_SLICE: Final = timedelta(hours=1)  # a month that nobody counted must not be one transaction
KEPT_FOR: Final = timedelta(days=400)  # what is older is not counted: it would be cleared at once

HORIZON: Final = """
    SELECT least(clock_timestamp(), min(xact_start)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def horizon() -> datetime:
    """Everything that carries an earlier time can be seen by the next statement. One query.

    A transaction that stays open holds it back, also one that only reads: whether it will write nobody knows.
    """
    with connection.cursor() as cursor:
        cursor.execute(HORIZON)
        row = cursor.fetchone()
    found: datetime = row[0]
    return found - MARGIN


def count_slice() -> timedelta | None:
    """Count the next slice in the caller's transaction; returns how long it was, None if there is none yet or somebody counts."""
    mark = _mark()
    if mark is None:
        return None
    until = min(horizon(), mark.until + LONGEST_SLICE)
    if until <= mark.until:
        return None
    with connection.cursor() as cursor:
        cursor.execute(statement("count_slice"), {"since": mark.until, "until": until})
    length = until - mark.until
    Counted.objects.filter(pk=1).update(until=until)
    return length


def counted_until() -> datetime | None:
    """Until when everything is counted; None before the first time. One query."""
    return Counted.objects.filter(pk=1).values_list("until", flat=True).first()


def _mark() -> Counted | None:
    """Until when everything is counted, locked; None if somebody else has it. The first time it is put before the first run."""
    rows = Counted.objects.select_for_update(skip_locked=True)
    if not Counted.objects.filter(pk=1).exists():
        Counted.objects.bulk_create([Counted(until=_beginning())], ignore_conflicts=True)
    return rows.filter(pk=1).first()


def _beginning() -> datetime:
    """The oldest run there is, of each project by the index of its list."""
    oldest = [
        Run.objects.filter(project=project)
        .order_by("created_at", "id")
        .values_list("created_at", flat=True)
        .first()
        for project in Project.objects.all()
    ]
    now = horizon()
    return max(now - KEPT_FOR, min((at for at in oldest if at is not None), default=now))
