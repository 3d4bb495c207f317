from __future__ import annotations

from django.db import models
from django.db.models import Q

from runs.models.people import Project

HOUR, DAY = "hour", "day"
KINDS = ("begun", "ended", "failed", "steps", "step", "step_failed", "decision", "team", "usage")
NO_CLASS = -1


class Statistic(models.Model):
    """How often something happened in one hour, or one day, of a project: what is left of it when its runs are gone.

    kind, name: what. begun: a run; ended: a run, by how; failed: a run, by error code; steps: visits that were finished; step,
    step_failed: such visits, by node; decision: an approval, by outcome; team: one that people of it were asked and somebody
    decided; usage: of paid models, by currency. spread: the class of how long it took (`runs.engine.spread`), -1 where it is not
    measured. seconds: all together.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    grain = models.CharField(max_length=4)
    kind = models.CharField(max_length=12)
    at = models.DateTimeField()
    workflow = models.CharField(max_length=100)
    name = models.CharField(max_length=200)
    spread = models.SmallIntegerField(default=NO_CLASS)
    count = models.BigIntegerField()
    seconds = models.FloatField(default=0.0)
    model_tokens_in = models.BigIntegerField(default=0)
    model_tokens_out = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=38, decimal_places=12, null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(grain__in=[HOUR, DAY]), name="statistic_grain_known"),
            models.CheckConstraint(condition=Q(kind__in=KINDS), name="statistic_kind_known"),
            models.UniqueConstraint(
                fields=["project", "grain", "kind", "at", "workflow", "name", "spread"], name="statistic_once"
            ),
        ]
        indexes = [models.Index(fields=["grain", "at"], name="statistic_by_age")]


class Counted(models.Model):
    """Until when everything is counted: one row. Whoever counts holds it, and moves it with what was counted."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    until = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="counted_once")]
