"""Who decides, in which order and in whose place; who works on what; working time of teams; requests for others."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0013_people"),
    ]

    operations = [
        migrations.CreateModel(
            name="Absence",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("note", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Snooze",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="TeamHours",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="hours",
                        serialize=False,
                        to="runs.team",
                    ),
                ),
                ("document", models.JSONField()),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="apitoken",
            name="token_scopes_known",
        ),
        migrations.AddField(
            model_name="approval",
            name="assigned_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="assignee",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="level",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="approval",
            name="remind_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="stage",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="submitted_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="vote",
            name="in_place_of",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="vote",
            name="stage",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("remind_at__isnull", False), ("status", "open")),
                fields=["remind_at"],
                name="approval_to_remind",
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "scopes__contained_by",
                        [
                            "runs:read",
                            "runs:submit",
                            "runs:submit_for_others",
                            "runs:operate",
                            "approvals:read",
                            "approvals:decide",
                            "admin",
                        ],
                    )
                ),
                name="token_scopes_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("assigned_until__isnull", True), ("assignee__isnull", True)),
                    ("assigned_until__isnull", False),
                    _connector="OR",
                ),
                name="approval_assigned_until",
            ),
        ),
        migrations.AddConstraint(
            model_name="vote",
            constraint=models.UniqueConstraint(
                fields=("approval", "version", "in_place_of"), name="vote_once_in_somebodys_place"
            ),
        ),
        migrations.AddField(
            model_name="absence",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="absences", to="runs.project"
            ),
        ),
        migrations.AddField(
            model_name="absence",
            name="substitute",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="substitutions",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="absence",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="absences",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="snooze",
            name="approval",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="snoozes",
                to="runs.approval",
            ),
        ),
        migrations.AddField(
            model_name="snooze",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddConstraint(
            model_name="absence",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="absence_ends_after"
            ),
        ),
        migrations.AddConstraint(
            model_name="absence",
            constraint=models.CheckConstraint(
                condition=models.Q(("substitute", models.F("user")), _negated=True),
                name="absence_somebody_else",
            ),
        ),
        migrations.AddConstraint(
            model_name="snooze",
            constraint=models.UniqueConstraint(fields=("approval", "user"), name="snooze_once_a_person"),
        ),
    ]
