"""What 0025 has added is looked at in the rows that were there. Nobody waits for it: rows are written meanwhile."""

from __future__ import annotations

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runs", "0025_checked_by_function")]
    operations = [
        ValidateConstraint("checkpoint", "checkpoint_kind_known"),
        ValidateConstraint("checkpoint", "checkpoint_patch_or_snapshot"),
        ValidateConstraint("step", "step_status_known"),
        ValidateConstraint("step", "step_token_iff_executing"),
        ValidateConstraint("journalentry", "journal_effect_known"),
        ValidateConstraint("journalentry", "journal_kind_known"),
    ]
