"""Files and images of a run, their bytes kept once in a project."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0020_run_terms"),
    ]

    operations = [
        migrations.CreateModel(
            name="Content",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("digest", models.CharField(max_length=64)),
                ("size", models.BigIntegerField()),
                ("stored", models.BooleanField(default=False)),
                ("touched_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attachment",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=200)),
                ("type", models.CharField(max_length=130)),
                ("node", models.CharField(blank=True, default="", max_length=100)),
                ("author", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attachments", to="runs.run"
                    ),
                ),
                (
                    "content",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attachments",
                        to="runs.content",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="content",
            index=models.Index(fields=["touched_at"], name="content_by_touch"),
        ),
        migrations.AddConstraint(
            model_name="content",
            constraint=models.UniqueConstraint(
                condition=models.Q(("stored", True)), fields=("project", "digest"), name="content_once"
            ),
        ),
    ]
