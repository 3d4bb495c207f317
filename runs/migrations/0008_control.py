"""Pausing, and taking calls back before a run ends."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_time_travel"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="ending",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="paused",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="step",
            name="undoes",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="stop",
            name="compensate",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("status", "paused")), fields=["id"], name="run_paused"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("paused__isnull", False), ("status", "paused")),
                    models.Q(models.Q(("status", "paused"), _negated=True), ("paused__isnull", True)),
                    _connector="OR",
                ),
                name="run_paused_is_told",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ending__isnull", True), models.Q(("status", "cancelling"), _negated=True)),
                    models.Q(("ending__isnull", False), ("status__in", ["cancelling", "running", "paused"])),
                    _connector="OR",
                ),
                name="run_ending_is_live",
            ),
        ),
    ]
