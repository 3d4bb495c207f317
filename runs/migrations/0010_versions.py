"""Versions: runs that are migrated, why a run waits for code, what a worker has, what was refused."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0009_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="Migrated",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "checkpoint", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="migrations",
                        to="runs.run",
                    ),
                ),
                ("checkpoint", models.IntegerField()),
                ("branch", models.IntegerField()),
                ("from_version", models.CharField(max_length=60)),
                ("to_version", models.CharField(max_length=60)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="checkpoint",
            name="checkpoint_kind_known",
        ),
        migrations.RemoveConstraint(
            model_name="wait",
            name="wait_kind_known",
        ),
        migrations.AddField(
            model_name="wait",
            name="facts",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="workerchild",
            name="code",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="workflowversion",
            name="refused",
            field=models.JSONField(null=True),
        ),
        migrations.AlterField(
            model_name="checkpoint",
            name="kind",
            field=models.CharField(max_length=10),
        ),
        migrations.AlterField(
            model_name="wait",
            name="kind",
            field=models.CharField(max_length=16),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", True)),
                fields=["workflow", "workflow_version", "fingerprint"],
                name="run_live_by_version",
            ),
        ),
        migrations.AddIndex(
            model_name="wait",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", True), ("kind", "needs_migration")),
                fields=["run"],
                name="wait_for_code",
            ),
        ),
        migrations.AddIndex(
            model_name="workerchild",
            index=models.Index(fields=["gone_at"], name="worker_child_gone"),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ("input", "step", "answer", "edit", "signal", "migration"))),
                name="checkpoint_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="wait",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ("approval", "retry", "timer", "signal", "child", "needs_migration"))
                ),
                name="wait_kind_known",
            ),
        ),
    ]
