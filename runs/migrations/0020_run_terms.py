"""Runs are found by their labels, and by what their workflows mark in the state; lists have an index for each usual filter."""

import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models


LABELS = """
    INSERT INTO runs_runterm (run_id, project_id, kind, name, value)
    SELECT run.id, run.project_id, 'label', label.key, label.value
    FROM runs_run run, jsonb_each_text(run.labels) label
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0019_statistics"),
    ]

    operations = [
        migrations.CreateModel(
            name="RunTerm",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=5)),
                ("name", models.CharField(max_length=200)),
                ("value", models.CharField(max_length=200)),
            ],
        ),
        migrations.RemoveIndex(
            model_name="wait",
            name="wait_for_code",
        ),
        migrations.AlterField(
            model_name="run",
            name="requester",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="requested_runs",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                fields=["project", "workflow", "-created_at", "-id"], name="run_list_by_workflow"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["requester", "-created_at", "-id"], name="run_list_by_requester"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                models.F("project"),
                django.db.models.fields.json.KeyTextTransform("code", "error"),
                models.OrderBy(models.F("created_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                condition=models.Q(("status", "failed")),
                name="run_list_by_error",
            ),
        ),
        migrations.AddIndex(
            model_name="slot",
            index=models.Index(fields=["project", "key"], name="slot_of_key"),
        ),
        migrations.AddIndex(
            model_name="wait",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", True)),
                fields=["kind", "run"],
                name="wait_open_by_kind",
            ),
        ),
        migrations.AddField(
            model_name="runterm",
            name="project",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="runs.project",
            ),
        ),
        migrations.AddField(
            model_name="runterm",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="terms",
                to="runs.run",
            ),
        ),
        migrations.AddIndex(
            model_name="runterm",
            index=models.Index(
                models.F("project"), django.db.models.functions.text.Lower("value"), name="term_by_value"
            ),
        ),
        migrations.AddConstraint(
            model_name="runterm",
            constraint=models.UniqueConstraint(fields=("run", "kind", "name"), name="term_once"),
        ),
        migrations.AddConstraint(
            model_name="runterm",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ("label", "state"))), name="term_kind_known"
            ),
        ),
        migrations.RunSQL(LABELS, migrations.RunSQL.noop),
    ]
