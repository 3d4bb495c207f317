"""What the inbox is searched and sorted by; views that people save."""

from __future__ import annotations

import datetime
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0014_deciders"),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("page", models.CharField(choices=[("inbox", "inbox"), ("runs", "runs")], max_length=10)),
                ("name", models.CharField(max_length=60)),
                ("query", models.JSONField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.RemoveIndex(
            model_name="approval",
            name="approval_inbox",
        ),
        migrations.AddField(
            model_name="approval",
            name="due_key",
            field=models.GeneratedField(
                db_persist=True,
                expression=django.db.models.functions.comparison.Coalesce(
                    "due_at", models.Value(datetime.datetime(9999, 12, 31, 0, 0, tzinfo=datetime.UTC))
                ),
                output_field=models.DateTimeField(),
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="risk_key",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Case(
                    models.When(risk="critical", then=models.Value(0)),
                    models.When(risk="high", then=models.Value(1)),
                    models.When(risk="medium", then=models.Value(2)),
                    models.When(risk="low", then=models.Value(3)),
                    default=models.Value(4),
                ),
                output_field=models.SmallIntegerField(),
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="words",
            field=django.contrib.postgres.search.SearchVectorField(null=True),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "open")),
                fields=["project", "due_key", "opened_at", "id"],
                name="approval_inbox",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "open")),
                fields=["project", "risk_key", "due_key", "opened_at", "id"],
                name="approval_by_risk",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=django.contrib.postgres.indexes.GinIndex(fields=["words"], name="approval_words"),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("words__isnull", True)), fields=["id"], name="approval_without_words"
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="owner",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="project",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="views",
                to="runs.project",
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="team",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.team"
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(
                fields=("project", "page", "owner", "name"), name="view_name_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.CheckConstraint(
                condition=models.Q(("page__in", ("inbox", "runs"))), name="view_page_known"
            ),
        ),
    ]
