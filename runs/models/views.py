from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Now

from runs.models.people import Project, Team, User

PAGES = ("inbox", "runs")


class SavedView(models.Model):
    """A list that somebody wants to come back to, by a name of their own.

    page: whose list. query: what its address says, by name. team: whose people have it too; the owner may change it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="views", db_index=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=10, choices=[(page, page) for page in PAGES])
    name = models.CharField(max_length=60)
    query = models.JSONField()
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "page", "owner", "name"], name="view_name_once"),
            models.CheckConstraint(condition=models.Q(page__in=PAGES), name="view_page_known"),
        ]

    def __str__(self) -> str:
        return self.name
