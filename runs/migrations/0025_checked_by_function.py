"""The checks of what a step and a call write are functions, which Postgres keeps and need not read anew.

Added without a look at the rows that are there, which have passed the same conditions: the tables may be long, and nobody can
write to them meanwhile. The next migration looks.
"""

from __future__ import annotations

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

from runs.models.guards import CheckedByFunction


class Migration(migrations.Migration):
    dependencies = [("runs", "0024_single_keys")]
    operations = [
        migrations.RemoveConstraint("checkpoint", "checkpoint_kind_known"),
        AddConstraintNotValid(
            "checkpoint",
            CheckedByFunction(
                condition=(
                    models.Q(("kind__in", ["input", "step", "answer", "edit", "signal", "migration"]))
                ),
                name="checkpoint_kind_known",
            ),
        ),
        migrations.RemoveConstraint("checkpoint", "checkpoint_patch_or_snapshot"),
        AddConstraintNotValid(
            "checkpoint",
            CheckedByFunction(
                condition=(
                    models.Q(
                        ("patch__isnull", True), ("snapshot__isnull", False), ("snapshot_no", models.F("no"))
                    )
                    | models.Q(
                        ("patch__isnull", False),
                        ("snapshot__isnull", True),
                        ("snapshot_no__lt", models.F("no")),
                    )
                ),
                name="checkpoint_patch_or_snapshot",
            ),
        ),
        migrations.RemoveConstraint("step", "step_status_known"),
        AddConstraintNotValid(
            "step",
            CheckedByFunction(
                condition=(
                    models.Q(
                        (
                            "status__in",
                            ["ready", "executing", "waiting", "completed", "failed", "cancelled", "void"],
                        )
                    )
                ),
                name="step_status_known",
            ),
        ),
        migrations.RemoveConstraint("step", "step_token_iff_executing"),
        AddConstraintNotValid(
            "step",
            CheckedByFunction(
                condition=(
                    models.Q(
                        ("lease_until__isnull", False),
                        ("status", "executing"),
                        ("token__isnull", False),
                        ("worker__isnull", False),
                    )
                    | models.Q(models.Q(("status", "executing"), _negated=True), ("token__isnull", True))
                ),
                name="step_token_iff_executing",
            ),
        ),
        migrations.RemoveConstraint("journalentry", "journal_effect_known"),
        AddConstraintNotValid(
            "journalentry",
            CheckedByFunction(
                condition=(models.Q(("effect__in", ["none", "reversible", "irreversible"]))),
                name="journal_effect_known",
            ),
        ),
        migrations.RemoveConstraint("journalentry", "journal_kind_known"),
        AddConstraintNotValid(
            "journalentry",
            CheckedByFunction(
                condition=(models.Q(("kind__in", ["call", "sleep", "signal", "answer", "child", "first"]))),
                name="journal_kind_known",
            ),
        ),
    ]
