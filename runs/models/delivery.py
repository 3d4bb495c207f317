"""The outbox: what is told, to whom, and how far that has come."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, time, timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext

from runs.engine import telling
from runs.engine.telling import ASKED, FAILED, TOPICS
from runs.models.approvals import Approval
from runs.models.people import Project, User
from runs.models.runs import Run

PENDING, DELIVERED, DEAD, BLOCKED, CANCELLED = "pending", "delivered", "dead", "blocked", "cancelled"
STATUSES = (PENDING, DELIVERED, DEAD, BLOCKED, CANCELLED)
MAILED = (ASKED, FAILED)  # what a person who has said nothing gets by mail


class Endpoint(models.Model):
    """Where a project's webhooks go. Its secrets are not kept: each is made of the installation's key and a salt.

    key_print tells whether that is still the key which the secret was made with. earlier_salt: the secret before, which
    signs as well until earlier_until.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="endpoints")
    url = models.TextField()
    description = models.CharField(max_length=200, default="")
    events = ArrayField(models.CharField(max_length=40))
    salt = models.BinaryField(max_length=32)
    key_print = models.CharField(max_length=16)
    earlier_salt = models.BinaryField(max_length=32, null=True)
    earlier_until = models.DateTimeField(null=True)
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.CharField(max_length=40, default="")
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(events=[]), name="endpoint_wants_something"),
            models.CheckConstraint(
                condition=Q(earlier_salt__isnull=True, earlier_until__isnull=True)
                | Q(earlier_salt__isnull=False, earlier_until__isnull=False),
                name="endpoint_earlier_secret_ends",
            ),
        ]

    def __str__(self) -> str:
        return self.url


class Message(models.Model):
    """What is told of one event: made in its transaction, the same bytes for everybody and at every attempt."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="messages")
    approval_id = models.UUIDField(null=True)
    seq = models.BigIntegerField(null=True)
    type = models.CharField(max_length=40)
    title = models.TextField()
    body = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["created_at"], condition=Q(run__isnull=True), name="message_of_no_run")
        ]

    @property
    def headline(self) -> str:
        """The title in the language of who reads; what is stored, and programs get, is English."""
        template = telling.HEADLINES.get(self.type, "")
        opening, _, rest = template.partition("{")
        if not template or not self.title.startswith(opening):
            return self.title
        named = self.title.removeprefix(opening)
        return gettext(template).format(**{rest.removesuffix("}"): named})


class Delivery(models.Model):
    """A message on its way to one endpoint, or by mail to one person.

    attempt: how many were begun; earlier: how many of them before somebody sent it again by hand. token: of the sender that
    tries just now, until due_at.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="deliveries")
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, null=True, related_name="deliveries", db_index=False
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    status = models.CharField(max_length=10, default=PENDING)
    reason = models.CharField(max_length=40, db_default="", default="")
    attempt = models.IntegerField(db_default=0, default=0)
    earlier = models.IntegerField(db_default=0, default=0)
    due_at = models.DateTimeField(db_default=Now())
    token = models.UUIDField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["endpoint", "due_at"], condition=Q(status=PENDING), name="delivery_due"),
            models.Index(fields=["project", "-created_at", "-id"], name="delivery_listed"),
            models.Index(fields=["project", "status", "-created_at", "-id"], name="delivery_by_status"),
            models.Index(fields=["endpoint", "-created_at", "-id"], name="delivery_by_endpoint"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(status__in=STATUSES), name="delivery_status_known"),
            models.CheckConstraint(
                condition=Q(endpoint__isnull=True, user__isnull=False)
                | Q(endpoint__isnull=False, user__isnull=True),
                name="delivery_goes_one_way",
            ),
            models.CheckConstraint(
                condition=Q(status=PENDING, ended_at__isnull=True)
                | (~Q(status=PENDING) & Q(ended_at__isnull=False, token__isnull=True)),
                name="delivery_ended_iff_not_pending",
            ),
            models.UniqueConstraint(
                fields=["message", "endpoint"],
                condition=Q(endpoint__isnull=False),
                name="delivery_once_there",
            ),
            models.UniqueConstraint(
                fields=["message", "user"], condition=Q(user__isnull=False), name="delivery_once_a_person"
            ),
        ]

    @property
    def channel(self) -> str:
        return "webhook" if self.endpoint_id else "mail"

    @property
    def is_being_sent(self) -> bool:
        return self.token is not None


class Attempt(models.Model):
    """One attempt of a delivery and what came of it. answer: the beginning of what the other side said; for admins only."""

    id = models.BigAutoField(primary_key=True)
    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    no = models.IntegerField()
    at = models.DateTimeField()
    seconds = models.FloatField()
    outcome = models.CharField(max_length=40)
    http_status = models.IntegerField(null=True)
    detail = models.TextField(default="")
    answer = models.TextField(default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["delivery", "no"], name="attempt_once")]


class Notice(models.Model):
    """A message as one person has it in the app. shown: in the bell; digest: it waits for the daily mail."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notices", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="notices")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="+")
    topic = models.CharField(max_length=10)
    shown = models.BooleanField(default=True)
    digest = models.BooleanField(default=False)
    read_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["user", "project", "-id"], condition=Q(shown=True), name="notice_listed"),
            models.Index(
                fields=["user", "project", "-id"],
                condition=Q(shown=True, read_at__isnull=True),
                name="notice_unread",
            ),
            models.Index(fields=["user", "project"], condition=Q(digest=True), name="notice_for_digest"),
        ]
        constraints = [models.UniqueConstraint(fields=["message", "user"], name="notice_once")]


class Preference(models.Model):
    """What a person wants to hear in a project, and how; without a user: what holds there for whoever has said nothing.

    Without any row everything is shown, and `MAILED` is mailed at once. hour: when the mail of a day comes, on the person's
    clock; on that of UTC without a user.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    app = ArrayField(models.CharField(max_length=10), default=list)
    mail = ArrayField(models.CharField(max_length=10), default=list)
    digest = models.BooleanField(default=False)
    hour = models.SmallIntegerField(db_default=7, default=7)
    digested_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "project"], name="preference_once"),
            models.UniqueConstraint(
                fields=["project"], condition=Q(user__isnull=True), name="preference_once_a_project"
            ),
            models.CheckConstraint(
                condition=Q(app__contained_by=list(TOPICS)) & Q(mail__contained_by=list(TOPICS)),
                name="preference_topics_known",
            ),
            models.CheckConstraint(condition=Q(hour__range=(0, 23)), name="preference_hour_of_a_day"),
        ]

    def hour_before(self, moment: datetime) -> datetime:
        """The last time that it was this hour for whoever hears of it. An hour that a clock leaves out comes an hour later."""
        clock = self.user.clock if self.user is not None else UTC
        day = moment.astimezone(clock).date()
        latest = datetime.combine(day, time(self.hour), clock)
        return (
            latest if latest <= moment else datetime.combine(day - timedelta(days=1), time(self.hour), clock)
        )


class Link(models.Model):
    """What a link in a mail is good for: one answer of one person to one version of an approval, until it expires."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    delivery = models.OneToOneField(Delivery, on_delete=models.CASCADE, related_name="link")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="+")
    version = models.IntegerField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
