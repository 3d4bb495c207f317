from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.models.people import Project, User
from runs.models.runs import Run

NEVER = 0  # days: kept for ever
DAYS = (
    "completed_days",
    "failed_days",
    "cancelled_days",
    "compact_days",
    "notes_days",
    "waits_days",
    "audit_days",
)


class RetentionPolicy(models.Model):
    """How long a project keeps things, or one workflow of it (`workflow` empty: all the others).

    In days; 0: for ever; null: as the next wider one says, in the end the environment. Audit entries know no workflow.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="retention", db_index=False)
    workflow = models.CharField(max_length=100, default="", blank=True)
    completed_days = models.IntegerField(null=True)
    failed_days = models.IntegerField(null=True)
    cancelled_days = models.IntegerField(null=True)
    compact_days = models.IntegerField(null=True)
    notes_days = models.IntegerField(null=True)
    waits_days = models.IntegerField(null=True)
    audit_days = models.IntegerField(null=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "workflow"], name="retention_once"),
            models.CheckConstraint(
                condition=~Q(*[Q(**{f"{name}__lt": 0}) for name in DAYS], _connector=Q.OR),
                name="retention_days_known",
            ),
            models.CheckConstraint(
                condition=Q(workflow="") | Q(audit_days__isnull=True), name="retention_audit_by_project"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project}: {self.workflow or 'every workflow'}"


class LegalHold(models.Model):
    """While it stands, nothing of the run is deleted, compacted or erased. PROTECT: nor by anybody else, by accident."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, primary_key=True, related_name="hold")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.run_id}: {self.reason}"


class Removed(models.Model):
    """What is left of a run that retention has deleted, and of each of its approvals: who asks is told so.

    run: the run it belonged to, by id. seq, head_hash: the end of its history, against which a copy can be held.
    """

    id = models.UUIDField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=10, choices=[("run", "run"), ("approval", "approval")])
    run = models.UUIDField()
    workflow = models.CharField(max_length=100)
    status = models.CharField(max_length=12)
    finished_at = models.DateTimeField()
    removed_at = models.DateTimeField(db_default=Now())
    seq = models.BigIntegerField()
    head_hash = models.BinaryField(max_length=32)

    class Meta:
        indexes = [models.Index(fields=["removed_at"], name="removed_by_time")]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["run", "approval"]), name="removed_kind_known")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
