from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from runs.models.people import Project
from runs.models.runs import Run


class IdempotencyRecord(models.Model):
    """What a request with an Idempotency-Key created. Scope: project, endpoint and key; kept for 24 hours."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    endpoint = models.CharField(max_length=60)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="idempotency_by_time")]
        constraints = [
            models.UniqueConstraint(fields=["project", "endpoint", "key"], name="idempotency_key_once")
        ]


class OperationalNote(models.Model):
    """The operational log of a run, outside the hash chain: late results, poisoned steps, trouble."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="notes")
    kind = models.CharField(max_length=40)
    facts = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["at"], name="note_by_time")]


class AuditEntry(models.Model):
    """Who did what, from where, and whether it was allowed. Denied access is written too."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    project = models.ForeignKey(Project, on_delete=models.SET_NULL, null=True, related_name="+")
    user_name = models.CharField(max_length=150, default="")
    method = models.CharField(max_length=10)
    ip = models.CharField(max_length=60, default="")
    verb = models.CharField(max_length=40)
    target = models.CharField(max_length=120, default="")
    outcome = models.CharField(max_length=40)
    reason = models.TextField(db_default="", default="")

    class Meta:
        indexes = [
            models.Index(fields=["-at"], name="audit_by_time"),
            models.Index(fields=["project", "-id"], name="audit_by_project"),
        ]


class WorkerChild(models.Model):
    """A process that runs steps. It holds the session advisory lock of its id for as long as it lives.

    family: the processes that one worker has started. leaving_at: when it was asked to end; what is still unfinished when it
    has gone was handed over, not crashed. code: the versions that it has and those it would migrate (`workflows.code`); null if
    it did not say.
    """

    id = models.BigAutoField(primary_key=True)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    family = models.UUIDField(null=True)
    started_at = models.DateTimeField(db_default=Now())
    suspected_at = models.DateTimeField(null=True)
    leaving_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    code = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=models.Q(gone_at__isnull=True), name="worker_child_live"),
            models.Index(fields=["gone_at"], name="worker_child_gone"),
        ]


class ServiceBeat(models.Model):
    """When a service last did its round (the sweeper), with what it saw."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField(db_default=Now())
    facts = models.JSONField(default=dict)
