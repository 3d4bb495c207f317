from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Case, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now

from runs.engine import canonical
from runs.engine.status import ApprovalStatus
from runs.models.people import Project, Team, User
from runs.models.runs import Run

STATUSES = [(status.value, status.value) for status in ApprovalStatus]
RISKIEST_FIRST = ("critical", "high", "medium", "low")
NEVER = datetime(9999, 12, 31, tzinfo=UTC)  # what has no due time comes after all that has one


class Approvals(models.Manager["Approval"]):
    """Without the words for the search, which nobody reads."""

    def get_queryset(self) -> QuerySet[Approval]:
        return super().get_queryset().defer("words")


class Approval(models.Model):
    """A parked question to people.

    document: what they see (title, facts, reason, agent's note, actions), canonical JSON; digest covers it, version counts
    its changes. closed_reason: why it closed without a decision. previous: the approval it asks again for. name, occurrence:
    the place of the answer in the step's journal, if it was asked in the middle of code. teams, users, quorum: who is asked
    now, at this stage (from 0) and after so many escalations. assignee: who works on it, until assigned_until. words: by
    which it is found, made only of what everybody in the project may read; none: not looked at yet. due_key, risk_key: the
    places of its due time and its risk in a list.
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
    stage = models.IntegerField(db_default=0, default=0)
    level = models.IntegerField(db_default=0, default=0)
    assignee = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    assigned_until = models.DateTimeField(null=True)

    opened_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True)
    remind_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, default="")
    closed_reason = models.CharField(max_length=40, default="")
    previous = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="following")

    words = SearchVectorField(null=True)
    due_key = models.GeneratedField(
        expression=Coalesce("due_at", Value(NEVER)), output_field=models.DateTimeField(), db_persist=True
    )
    risk_key = models.GeneratedField(
        expression=Case(
            *(When(risk=risk, then=Value(place)) for place, risk in enumerate(RISKIEST_FIRST)),
            default=Value(len(RISKIEST_FIRST)),
        ),
        output_field=models.SmallIntegerField(),
        db_persist=True,
    )

    objects = Approvals()

    class Meta:
        indexes = [
            models.Index(
                fields=["project", "opened_at", "id"], condition=Q(status="open"), name="approval_open"
            ),
            models.Index(
                fields=["project", "due_key", "opened_at", "id"],
                condition=Q(status="open"),
                name="approval_inbox",
            ),
            models.Index(
                fields=["project", "risk_key", "due_key", "opened_at", "id"],
                condition=Q(status="open"),
                name="approval_by_risk",
            ),
            GinIndex(fields=["words"], name="approval_words"),
            models.Index(fields=["id"], condition=Q(words__isnull=True), name="approval_without_words"),
            models.Index(
                fields=["project", "-closed_at", "-id"], condition=~Q(status="open"), name="approval_closed"
            ),
            models.Index(
                fields=["remind_at"],
                condition=Q(status="open", remind_at__isnull=False),
                name="approval_to_remind",
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
            models.CheckConstraint(
                condition=Q(assignee__isnull=True, assigned_until__isnull=True)
                | Q(assigned_until__isnull=False),
                name="approval_assigned_until",
            ),
            models.UniqueConstraint(
                fields=["run", "branch", "address", "name", "occurrence"],
                condition=Q(status="open"),
                name="approval_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.pk}"

    @property
    def content(self) -> dict[str, Any]:
        """The document, parsed."""
        return dict(canonical.loads(self.document))

    def is_worked_on(self, moment: datetime) -> bool:
        """Whether somebody has taken it on, and their time for it is not over."""
        return (
            self.assignee_id is not None and self.assigned_until is not None and self.assigned_until > moment
        )

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

    stage: in which it was given. in_place_of: who is away, if a substitute has answered. request_digest recognises the same
    answer sent again; approved_digest is what the worker compares before it acts.
    """

    id = models.BigAutoField(primary_key=True)
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="votes", db_index=False)
    version = models.IntegerField()
    user = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="votes")
    stage = models.IntegerField(db_default=0, default=0)
    in_place_of = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
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
            models.UniqueConstraint(
                fields=["approval", "version", "in_place_of"], name="vote_once_in_somebodys_place"
            ),
        ]


class Snooze(models.Model):
    """A person does not want to see an approval before an instant. It goes on asking, and its time goes on running."""

    id = models.BigAutoField(primary_key=True)
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="snoozes", db_index=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["approval", "user"], name="snooze_once_a_person")]


class Absence(models.Model):
    """A person is away from an instant until another: the substitute answers in their place. ended_at: when it was taken back."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="absences")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="absences")
    substitute = models.ForeignKey(User, on_delete=models.CASCADE, related_name="substitutions")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    note = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=models.F("starts_at")), name="absence_ends_after"),
            models.CheckConstraint(condition=~Q(substitute=models.F("user")), name="absence_somebody_else"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is away, {self.substitute} answers"


class TeamHours(models.Model):
    """When the people of a team work (see `runs.engine.hours`): zone, hours by weekday, holidays."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, primary_key=True, related_name="hours")
    document = models.JSONField()
    changed_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"hours of {self.team}"
