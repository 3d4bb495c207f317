"""How long things are kept: the environment, a project, a workflow of it; the narrowest that says something holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import (
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    IntegerField,
    OuterRef,
    Q,
    Subquery,
    Value,
)
from django.db.models.functions import Coalesce, Now

from runs.models import RetentionPolicy, Run
from runs.models.keeping import DAYS

DAY: Final = timedelta(days=1)


def default_days(name: str) -> int:
    days: int = getattr(settings, f"HITL_RETENTION_{name.upper()}")
    return days


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for a workflow of a project, and where each number comes from."""

    project: str
    workflow: str
    days: dict[str, int]
    said_by: dict[str, str]


def rules() -> list[Rule]:
    """The environment's rule (project and workflow empty), and one for every policy that is there."""
    base = Rule("", "", {name: default_days(name) for name in DAYS}, dict.fromkeys(DAYS, "environment"))
    found = [base]
    whole = base
    for policy in RetentionPolicy.objects.select_related("project").order_by("project__slug", "workflow"):
        wider = whole if policy.workflow and whole.project == policy.project.slug else base
        rule = _narrowed(wider, policy)
        whole = whole if policy.workflow else rule
        found.append(rule)
    return found


def _narrowed(wider: Rule, policy: RetentionPolicy) -> Rule:
    told = {name: getattr(policy, name) for name in DAYS if getattr(policy, name) is not None}
    place = "workflow" if policy.workflow else "project"
    return Rule(
        policy.project.slug,
        policy.workflow,
        {**wider.days, **told},
        {**wider.said_by, **dict.fromkeys(told, place)},
    )


def days_of(name: str, *, run: str = "") -> Coalesce:
    """The days that hold for a row, as SQL. run: the way from the row to its run, as `run__`."""
    mine = RetentionPolicy.objects.filter(project=OuterRef(f"{run}project"))
    own = mine.filter(workflow=OuterRef(f"{run}workflow"))
    return Coalesce(
        Subquery(own.values(name)[:1]),
        Subquery(mine.filter(workflow="").values(name)[:1]),
        Value(default_days(name)),
        output_field=IntegerField(),
    )


def older_than(column: str, days: Any) -> Q:
    """Rows whose days are over; where days are 0 they never are."""
    return Q(kept_days__gt=0) & Q(**{f"{column}__lt": _ago(days)})


def _ago(days: Any) -> ExpressionWrapper[Any]:
    span = ExpressionWrapper(days * Value(DAY), output_field=DurationField())
    return ExpressionWrapper(Now() - span, output_field=DateTimeField())


def ends_on(run: Run) -> datetime | None:
    """When a run will be old enough to go; None if it is live or kept for ever."""
    if run.finished_at is None:
        return None
    days = Run.objects.filter(pk=run.pk).values_list(days_of(f"{run.status}_days"), flat=True).first()
    return run.finished_at + days * DAY if days else None
