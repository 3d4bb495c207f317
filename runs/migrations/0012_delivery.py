"""The outbox: endpoints, messages, deliveries and their attempts, notices, preferences, links."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0011_cheap_steps"),
    ]

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("url", models.TextField()),
                ("description", models.CharField(default="", max_length=200)),
                (
                    "events",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), size=None
                    ),
                ),
                ("salt", models.BinaryField(max_length=32)),
                ("key_print", models.CharField(max_length=16)),
                ("earlier_salt", models.BinaryField(max_length=32, null=True)),
                ("earlier_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_reason", models.CharField(default="", max_length=40)),
                ("deleted_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="endpoints",
                        to="runs.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("status", models.CharField(default="pending", max_length=10)),
                ("reason", models.CharField(db_default="", default="", max_length=40)),
                ("attempt", models.IntegerField(db_default=0, default=0)),
                ("earlier", models.IntegerField(db_default=0, default=0)),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("token", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="runs.endpoint",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Link",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("version", models.IntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.approval"
                    ),
                ),
                (
                    "delivery",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="link", to="runs.delivery"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("approval_id", models.UUIDField(null=True)),
                ("seq", models.BigIntegerField(null=True)),
                ("type", models.CharField(max_length=40)),
                ("title", models.TextField()),
                ("body", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="runs.run",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="delivery",
            name="message",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="runs.message"
            ),
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topic", models.CharField(max_length=10)),
                ("shown", models.BooleanField(default=True)),
                ("digest", models.BooleanField(default=False)),
                ("read_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "message",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notices", to="runs.message"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Preference",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "app",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=10), default=list, size=None
                    ),
                ),
                (
                    "mail",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=10), default=list, size=None
                    ),
                ),
                ("digest", models.BooleanField(default=False)),
                ("digested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.project"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("no", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("seconds", models.FloatField()),
                ("outcome", models.CharField(max_length=40)),
                ("http_status", models.IntegerField(null=True)),
                ("detail", models.TextField(default="")),
                ("answer", models.TextField(default="")),
                (
                    "delivery",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="runs.delivery",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("delivery", "no"), name="attempt_once")],
            },
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("events", []), _negated=True), name="endpoint_wants_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("earlier_salt__isnull", True), ("earlier_until__isnull", True)),
                    models.Q(("earlier_salt__isnull", False), ("earlier_until__isnull", False)),
                    _connector="OR",
                ),
                name="endpoint_earlier_secret_ends",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("run__isnull", True)), fields=["created_at"], name="message_of_no_run"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "pending")), fields=["endpoint", "due_at"], name="delivery_due"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["project", "-created_at", "-id"], name="delivery_listed"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["project", "status", "-created_at", "-id"], name="delivery_by_status"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["endpoint", "-created_at", "-id"], name="delivery_by_endpoint"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ("pending", "delivered", "dead", "blocked", "cancelled"))),
                name="delivery_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("endpoint__isnull", True), ("user__isnull", False)),
                    models.Q(("endpoint__isnull", False), ("user__isnull", True)),
                    _connector="OR",
                ),
                name="delivery_goes_one_way",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("status", "pending")),
                    models.Q(
                        models.Q(("status", "pending"), _negated=True),
                        ("ended_at__isnull", False),
                        ("token__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="delivery_ended_iff_not_pending",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                condition=models.Q(("endpoint__isnull", False)),
                fields=("message", "endpoint"),
                name="delivery_once_there",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                condition=models.Q(("user__isnull", False)),
                fields=("message", "user"),
                name="delivery_once_a_person",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("shown", True)), fields=["user", "project", "-id"], name="notice_listed"
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("read_at__isnull", True), ("shown", True)),
                fields=["user", "project", "-id"],
                name="notice_unread",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("digest", True)), fields=["user", "project"], name="notice_for_digest"
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.UniqueConstraint(fields=("message", "user"), name="notice_once"),
        ),
        migrations.AddConstraint(
            model_name="preference",
            constraint=models.UniqueConstraint(fields=("user", "project"), name="preference_once"),
        ),
        migrations.AddConstraint(
            model_name="preference",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("app__contained_by", ["asked", "decided", "ended", "failed"]),
                    ("mail__contained_by", ["asked", "decided", "ended", "failed"]),
                ),
                name="preference_topics_known",
            ),
        ),
    ]
