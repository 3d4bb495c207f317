from __future__ import annotations

import uuid
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.engine import canonical
from runs.engine.status import ApprovalStatus
from runs.models.people import Project, User
from runs.models.runs import Run

STATUSES = [(status.value, status.value) for status in ApprovalStatus]


class Approval(models.Model):
    """A parked question to people.

    document: what they see (title, facts, reason, agent's note, actions), canonical JSON; digest covers it, version counts
    its changes. closed_reason: why it closed without a decision. previous: the approval it asks again for. name, occurrence:
    the place of the answer in the step's journal, if it was asked in the middle of code.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="approvals", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="approvals")
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    node = models.CharField(max_length=100)
    name = models.CharField(max_length=200, db_default="", default="")
    occurrence = models.CharField(max_length=100, db_default="", default="")
    epoch = models.IntegerField()
    status = models.CharField(max_length=12, choices=STATUSES, default=ApprovalStatus.OPEN.value)
    version = models.IntegerField(default=1)
    title = models.TextField()
    document = models.TextField()
    digest = models.CharField(max_length=64)
    risk = models.CharField(max_length=10, default="")

    teams = ArrayField(models.CharField(max_length=63), default=list)
    users = ArrayField(models.CharField(max_length=150), default=list)
    quorum = models.IntegerField(default=1)
    options = models.JSONField(default=dict)

    opened_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, default="")
    closed_reason = models.CharField(max_length=40, default="")
    previous = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="following")

    class Meta:
        indexes = [
            models.Index(
                fields=["project", "opened_at", "id"], condition=Q(status="open"), name="approval_open"
            ),
            models.Index(
                fields=["project", "-closed_at", "-id"], condition=~Q(status="open"), name="approval_closed"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=[s.value for s in ApprovalStatus]), name="approval_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status="open", closed_at__isnull=True)
                | (~Q(status="open") & Q(closed_at__isnull=False)),
                name="approval_closed_iff_not_open",
            ),
            models.UniqueConstraint(
                fields=["run", "branch", "address", "name", "occurrence"],
                condition=Q(status="open"),
                name="approval_open_once",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def content(self) -> dict[str, Any]:
        """The document, parsed."""
        return dict(canonical.loads(self.document))

    @property
    def is_intact(self) -> bool:
        """Whether the stored document is still the one its digest was taken of."""
        try:
            return canonical.digest(canonical.loads(self.document)) == self.digest
        except (ValueError, RecursionError):
            return False


class Revision(models.Model):
    """An earlier or the present version of an approval's document: who made it, and what it said."""

    pk = models.CompositePrimaryKey("approval_id", "version")
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    version = models.IntegerField()
    document = models.TextField()
    digest = models.CharField(max_length=64)
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    comment = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())


class Vote(models.Model):
    """One person's answer to one version of an approval. `decisive` marks the one that decided it.

    request_digest recognises the same answer sent again; approved_digest is what the worker compares before it acts.
    """

    id = models.BigAutoField(primary_key=True)
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="votes")
    version = models.IntegerField()
    user = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="votes")
    outcome = models.CharField(max_length=10)
    signature = models.TextField()
    decisions = models.TextField()
    comment = models.TextField(default="")
    edited = models.BooleanField(default=False)
    decisive = models.BooleanField(default=False)
    digest = models.CharField(max_length=64)
    request_digest = models.CharField(max_length=64)
    approved_digest = models.CharField(max_length=64, default="")
    method = models.CharField(max_length=10)
    ip = models.CharField(max_length=60, default="")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["approval", "version", "user"], name="vote_once_a_version"),
            models.UniqueConstraint(fields=["approval"], condition=Q(decisive=True), name="vote_one_decides"),
        ]
