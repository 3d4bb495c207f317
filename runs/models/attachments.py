from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.engine.files import IMAGES
from runs.models.people import Project
from runs.models.runs import Run


class Content(models.Model):
    """The bytes of a file, which a project keeps once whatever it is called. The row is there before the file and goes after it.

    stored: whether all of it was written; nothing refers to what was not. touched_at: when somebody last meant to refer to it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+", db_index=False)
    digest = models.CharField(max_length=64)
    size = models.BigIntegerField()
    stored = models.BooleanField(default=False)
    touched_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "digest"], condition=Q(stored=True), name="content_once"
            )
        ]
        indexes = [models.Index(fields=["touched_at"], name="content_by_touch")]

    def __str__(self) -> str:
        return f"{self.size} bytes, {self.digest[:12]}"

    @property
    def path(self) -> str:
        """Where it lies in the storage. Drawn by chance: a digest would tell who guesses what is in it."""
        return f"{self.project_id}/{self.pk}"


class Attachment(models.Model):
    """A file of a run. node: in which it was attached; author: who did, if it was a person or a program from outside."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attachments")
    content = models.ForeignKey(Content, on_delete=models.PROTECT, related_name="attachments")
    name = models.CharField(max_length=200)
    type = models.CharField(max_length=130)
    node = models.CharField(max_length=100, default="", blank=True)
    author = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name

    @property
    def is_image(self) -> bool:
        return self.type in IMAGES
