"""Who may start: queues, priorities, lines, slots of limits."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0008_control"),
    ]

    operations = [
        migrations.CreateModel(
            name="Slot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("workflow", models.CharField(max_length=100)),
                ("name", models.CharField(max_length=60)),
                ("key", models.CharField(max_length=200)),
                ("most", models.IntegerField()),
                ("per", models.FloatField(null=True)),
                ("whole", models.BooleanField(default=False)),
                ("taken_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="project",
            name="max_concurrent_runs",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="admitted_at",
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="limited",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="run",
            name="line",
            field=models.CharField(db_default="", default="", max_length=32),
        ),
        migrations.AddField(
            model_name="run",
            name="priority",
            field=models.SmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="queue",
            field=models.CharField(db_default="runs", default="runs", max_length=60),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                models.F("queue"),
                models.F("line"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("created_at"),
                models.F("id"),
                condition=models.Q(("admitted_at__isnull", True), ("status", "queued")),
                name="run_in_line",
            ),
        ),
        migrations.AddConstraint(
            model_name="project",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("max_concurrent_runs__isnull", True), ("max_concurrent_runs__gte", 1), _connector="OR"
                ),
                name="project_limit_is_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "running"), _negated=True),
                    ("admitted_at__isnull", False),
                    _connector="OR",
                ),
                name="run_at_work_is_admitted",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("limited", False),
                    models.Q(("status__in", ["waiting", "cancelled", "completed", "failed"]), _negated=True),
                    ("admitted_at__isnull", True),
                    _connector="OR",
                ),
                name="run_at_rest_stands_in_line",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(("priority__gte", -100), ("priority__lte", 100)),
                name="run_priority_in_bounds",
            ),
        ),
        migrations.AddField(
            model_name="slot",
            name="project",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.project",
            ),
        ),
        migrations.AddField(
            model_name="slot",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="slots",
                to="runs.run",
            ),
        ),
        migrations.AddIndex(
            model_name="slot",
            index=models.Index(
                condition=models.Q(("taken_at__isnull", False)),
                fields=["project", "workflow", "name", "key", "taken_at"],
                name="slot_taken",
            ),
        ),
        migrations.AddConstraint(
            model_name="slot",
            constraint=models.UniqueConstraint(fields=("run", "workflow", "name"), name="slot_once"),
        ),
        migrations.AddConstraint(
            model_name="slot",
            constraint=models.CheckConstraint(
                condition=models.Q(("most__gte", 1)), name="slot_limit_is_positive"
            ),
        ),
    ]
