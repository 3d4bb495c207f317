from __future__ import annotations

import uuid
from datetime import UTC, tzinfo

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from runs.engine.hours import is_zone, zone_named

ROLES = ("viewer", "submitter", "reviewer", "operator", "admin")
SCOPES = (
    "runs:read",
    "runs:submit",
    "runs:submit_for_others",
    "runs:operate",
    "approvals:read",
    "approvals:decide",
    "admin",
)


class User(AbstractUser):
    """A person, or a service account (which signs in by API token only).

    zone: the time zone in which they read times; empty: UTC. language: the one in which they read pages and mails; empty:
    whatever their browser asks for, and English in mails. single_keys: whether single letters act on pages; who dictates, or
    types with a switch, would set them off by accident.
    """

    name = models.CharField("shown name", max_length=150, blank=True)
    zone = models.CharField("time zone", max_length=64, blank=True, default="")
    language = models.CharField("language", max_length=16, blank=True, default="")
    single_keys = models.BooleanField("single keys act", db_default=True, default=True)
    is_service = models.BooleanField("service account", default=False)

    def __str__(self) -> str:
        return self.name or self.username

    @property
    def clock(self) -> tzinfo:
        """The time zone in which they read times."""
        return zone_named(self.zone) if self.zone and is_zone(self.zone) else UTC


class Project(models.Model):
    """The tenant: every row of runs, approvals and history belongs to one.

    max_concurrent_runs: how many of its runs may be at work at once, of whatever workflow; none: any number. hours: when its
    people work, where their team says nothing (see `runs.engine.hours`); none: the standard week.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=150)
    max_concurrent_runs = models.IntegerField(null=True)
    hours = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(max_concurrent_runs__isnull=True) | models.Q(max_concurrent_runs__gte=1),
                name="project_limit_is_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    """What a user may do in a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    roles = ArrayField(models.CharField(max_length=20))
    joined_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="member_once"),
            models.CheckConstraint(
                condition=models.Q(roles__contained_by=list(ROLES)) & ~models.Q(roles=[]),
                name="member_roles_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}: {', '.join(self.roles)}"


class Invitation(models.Model):
    """A way into a project for one person. Only the SHA-256 of its link is kept.

    email: whom it is for; whoever comes in by it has this address. Empty: for whoever has the link.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    roles = ArrayField(models.CharField(max_length=20))
    email = models.EmailField(blank=True, default="")
    digest = models.BinaryField(max_length=32, unique=True)
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["project", "-created_at"],
                condition=models.Q(used_at=None, withdrawn_at=None),
                name="invitation_open",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(roles__contained_by=list(ROLES)) & ~models.Q(roles=[]),
                name="invitation_roles_known",
            ),
            models.CheckConstraint(
                condition=models.Q(used_at=None) | models.Q(withdrawn_at=None),
                name="invitation_used_or_withdrawn",
            ),
        ]

    def __str__(self) -> str:
        return f"invitation to {self.project}"


class Team(models.Model):
    """People who are asked together."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="teams")
    name = models.SlugField(max_length=63)
    people = models.ManyToManyField(User, related_name="teams", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="team_once")]

    def __str__(self) -> str:
        return self.name


class ApiToken(models.Model):
    """A credential of a user in a project. Only its SHA-256 is kept; last use is noted in Redis."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="api_tokens")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.CharField(max_length=40))
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(scopes__contained_by=list(SCOPES)), name="token_scopes_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
