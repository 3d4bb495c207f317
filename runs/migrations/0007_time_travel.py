"""Forks, what is said of single calls at a rewind, names of branches."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0006_keeping"),
    ]

    operations = [
        migrations.AddField(
            model_name="branch",
            name="draws",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="branch",
            name="exceptions",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name="branch",
            name="generations",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AddField(
            model_name="branch",
            name="label",
            field=models.CharField(db_default="", default="", max_length=100),
        ),
        migrations.AddField(
            model_name="run",
            name="forked_checkpoint",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="forked_from",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="forks",
                to="runs.run",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("forked_from__isnull", False)),
                fields=["forked_from"],
                name="run_of_origin",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("forked_from__isnull", True), ("forked_checkpoint__isnull", False), _connector="OR"
                ),
                name="run_fork_has_checkpoint",
            ),
        ),
    ]
