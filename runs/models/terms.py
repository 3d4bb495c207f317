from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from runs.models.people import Project
from runs.models.runs import Run

TERM_KINDS = ("label", "state")


class RunTerm(models.Model):
    """A value by which a run is found: a label, or a field of its state that is marked `Searchable`, as of its last rest.

    A row of its own, because the run's row is written too often to carry an index of texts.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="terms", db_index=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=5)
    name = models.CharField(max_length=200)
    value = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "kind", "name"], name="term_once"),
            models.CheckConstraint(condition=Q(kind__in=TERM_KINDS), name="term_kind_known"),
        ]
        indexes = [models.Index("project", Lower("value"), name="term_by_value")]

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
