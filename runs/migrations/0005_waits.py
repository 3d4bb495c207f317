"""What bodies wait for: waits with a place in the journal, the mailbox, child runs."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

MAILBOX = """
CREATE TRIGGER runs_signal_append_only BEFORE UPDATE OR DELETE ON runs_signal
  FOR EACH ROW EXECUTE FUNCTION runs_event_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_inside_a_step"),
    ]

    operations = [
        migrations.CreateModel(
            name="Child",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="as_child",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("name", models.CharField(max_length=200)),
                ("occurrence", models.CharField(max_length=100)),
                ("after", models.IntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("on_parent_cancel", models.CharField(max_length=8)),
            ],
        ),
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("no", models.IntegerField()),
                ("name", models.CharField(max_length=200)),
                ("sent_id", models.CharField(max_length=200)),
                ("payload", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("sender", models.JSONField()),
                ("received_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Stop",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="stop",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("reason", models.CharField(max_length=40)),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="approval",
            name="approval_open_once",
        ),
        migrations.RemoveConstraint(
            model_name="wait",
            name="wait_kind_known",
        ),
        migrations.RemoveConstraint(
            model_name="wait",
            name="wait_open_once",
        ),
        migrations.AddField(
            model_name="approval",
            name="name",
            field=models.CharField(db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="approval",
            name="occurrence",
            field=models.CharField(db_default="", default="", max_length=100),
        ),
        migrations.AddField(
            model_name="journalentry",
            name="kind",
            field=models.CharField(db_default="call", default="call", max_length=8),
        ),
        migrations.AddField(
            model_name="run",
            name="parent",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="children",
                to="runs.run",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="root",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="runs.run",
            ),
        ),
        migrations.AddField(
            model_name="wait",
            name="after",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="wait",
            name="child",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="awaited_by",
                to="runs.run",
            ),
        ),
        migrations.AddField(
            model_name="wait",
            name="digest",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="wait",
            name="label",
            field=models.CharField(db_default="", default="", max_length=100),
        ),
        migrations.AddField(
            model_name="wait",
            name="name",
            field=models.CharField(db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="wait",
            name="occurrence",
            field=models.CharField(db_default="", default="", max_length=100),
        ),
        migrations.AddField(
            model_name="wait",
            name="position",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="wait",
            name="race",
            field=models.CharField(db_default="", default="", max_length=100),
        ),
        migrations.AddField(
            model_name="wait",
            name="schema",
            field=models.JSONField(null=True),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("parent__isnull", False)), fields=["parent"], name="run_of_parent"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("root__isnull", False)), fields=["root"], name="run_of_root"
            ),
        ),
        migrations.AddIndex(
            model_name="wait",
            index=models.Index(
                condition=models.Q(("child__isnull", False), ("closed_at__isnull", True)),
                fields=["child"],
                name="wait_for_child",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status", "open")),
                fields=("run", "branch", "address", "name", "occurrence"),
                name="approval_open_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="journalentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ("call", "sleep", "signal", "answer", "child", "first"))),
                name="journal_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="wait",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ("approval", "retry", "timer", "signal", "child"))),
                name="wait_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="wait",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at__isnull", True)),
                fields=("run", "branch", "address", "kind", "name", "occurrence"),
                name="wait_open_once",
            ),
        ),
        migrations.AddField(
            model_name="child",
            name="parent",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
            ),
        ),
        migrations.AddField(
            model_name="signal",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="signals",
                to="runs.run",
            ),
        ),
        migrations.AddIndex(
            model_name="child",
            index=models.Index(fields=["parent", "address"], name="child_by_place"),
        ),
        migrations.AddConstraint(
            model_name="child",
            constraint=models.CheckConstraint(
                condition=models.Q(("on_parent_cancel__in", ["cancel", "abandon"])), name="child_policy_known"
            ),
        ),
        migrations.AddIndex(
            model_name="signal",
            index=models.Index(fields=["run", "name", "no"], name="signal_by_name"),
        ),
        migrations.AddConstraint(
            model_name="signal",
            constraint=models.UniqueConstraint(fields=("run", "no"), name="signal_number_once"),
        ),
        migrations.AddConstraint(
            model_name="signal",
            constraint=models.UniqueConstraint(fields=("run", "sent_id"), name="signal_id_once"),
        ),
        migrations.RunSQL(MAILBOX, "DROP TRIGGER runs_signal_append_only ON runs_signal;"),
    ]
