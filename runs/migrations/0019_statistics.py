"""What happened in each hour and day, kept when its runs are gone; by which approval a call was guarded."""

from __future__ import annotations

import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0018_travelling"),
    ]

    operations = [
        migrations.CreateModel(
            name="Counted",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Statistic",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("grain", models.CharField(max_length=4)),
                ("kind", models.CharField(max_length=12)),
                ("at", models.DateTimeField()),
                ("workflow", models.CharField(max_length=100)),
                ("name", models.CharField(max_length=200)),
                ("spread", models.SmallIntegerField(default=-1)),
                ("count", models.BigIntegerField()),
                ("seconds", models.FloatField(default=0.0)),
                ("model_tokens_in", models.BigIntegerField(default=0)),
                ("model_tokens_out", models.BigIntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=12, max_digits=38, null=True)),
            ],
        ),
        migrations.AddField(
            model_name="journalentry",
            name="guard",
            field=models.UUIDField(null=True),
        ),
        migrations.AddIndex(
            model_name="event",
            index=django.contrib.postgres.indexes.BrinIndex(fields=["at"], name="event_by_time"),
        ),
        migrations.AddIndex(
            model_name="journalentry",
            index=models.Index(
                condition=models.Q(("guard__isnull", False)), fields=["ended_at"], name="journal_guarded"
            ),
        ),
        migrations.AddIndex(
            model_name="usage",
            index=django.contrib.postgres.indexes.BrinIndex(fields=["at"], name="usage_by_time"),
        ),
        migrations.AddConstraint(
            model_name="counted",
            constraint=models.CheckConstraint(condition=models.Q(("pk", 1)), name="counted_once"),
        ),
        migrations.AddField(
            model_name="statistic",
            name="project",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="runs.project",
            ),
        ),
        migrations.AddIndex(
            model_name="statistic",
            index=models.Index(fields=["grain", "at"], name="statistic_by_age"),
        ),
        migrations.AddConstraint(
            model_name="statistic",
            constraint=models.CheckConstraint(
                condition=models.Q(("grain__in", ["hour", "day"])), name="statistic_grain_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="statistic",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        (
                            "begun",
                            "ended",
                            "failed",
                            "steps",
                            "step",
                            "step_failed",
                            "decision",
                            "team",
                            "usage",
                        ),
                    )
                ),
                name="statistic_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="statistic",
            constraint=models.UniqueConstraint(
                fields=("project", "grain", "kind", "at", "workflow", "name", "spread"), name="statistic_once"
            ),
        ),
    ]
