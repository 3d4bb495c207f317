"""Most checks of a run are made when one of their columns is written, and not at each of its steps."""

from __future__ import annotations

from django.db import migrations, models

import runs.models.guards

REFUSE = """
CREATE FUNCTION runs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'new row for relation "%" violates check "%"', TG_TABLE_NAME, TG_NAME
    USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0016_account")]
    operations = [
        migrations.RunSQL(REFUSE, "DROP FUNCTION runs_refuse();"),
        migrations.RemoveConstraint("run", "run_status_known"),
        migrations.RemoveConstraint("run", "run_finished_iff_terminal"),
        migrations.RemoveConstraint("run", "run_failed_has_error"),
        migrations.RemoveConstraint("run", "run_paused_is_told"),
        migrations.RemoveConstraint("run", "run_ending_is_live"),
        migrations.RemoveConstraint("run", "run_erased_is_told"),
        migrations.RemoveConstraint("run", "run_at_work_is_admitted"),
        migrations.RemoveConstraint("run", "run_at_rest_stands_in_line"),
        migrations.RemoveConstraint("run", "run_priority_in_bounds"),
        migrations.RemoveConstraint("run", "run_fork_has_checkpoint"),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            "queued",
                            "running",
                            "waiting",
                            "paused",
                            "completed",
                            "failed",
                            "cancelling",
                            "cancelled",
                        ],
                    )
                ),
                name="run_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(
                    models.Q(
                        ("finished_at__isnull", False), ("status__in", ["cancelled", "completed", "failed"])
                    ),
                    models.Q(
                        models.Q(("status__in", ["cancelled", "completed", "failed"]), _negated=True),
                        ("finished_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="run_finished_iff_terminal",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(
                    models.Q(("error__isnull", False), ("status", "failed")),
                    models.Q(("status", "failed"), _negated=True),
                    _connector="OR",
                ),
                name="run_failed_has_error",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
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
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(
                    models.Q(("ending__isnull", True), models.Q(("status", "cancelling"), _negated=True)),
                    models.Q(("ending__isnull", False), ("status__in", ["cancelling", "running", "paused"])),
                    _connector="OR",
                ),
                name="run_ending_is_live",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(
                    models.Q(("erased_at__isnull", True), ("erasure__isnull", True)),
                    models.Q(
                        ("erased_at__isnull", False),
                        ("erasure__isnull", False),
                        ("finished_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="run_erased_is_told",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
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
            constraint=runs.models.guards.CheckedWhenWritten(
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
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(("priority__gte", -100), ("priority__lte", 100)),
                name="run_priority_in_bounds",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=runs.models.guards.CheckedWhenWritten(
                condition=models.Q(
                    ("forked_from__isnull", True), ("forked_checkpoint__isnull", False), _connector="OR"
                ),
                name="run_fork_has_checkpoint",
            ),
        ),
    ]
