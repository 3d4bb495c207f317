"""What a step costs: documents as bytes that may be compressed, room for updates in place, tables vacuumed by what they grow."""

from __future__ import annotations

from django.db import migrations, models

import runs.models.packed

# In one pass over the table. Texts become their UTF-8 bytes, which is what a short one is stored as anyway.
PACK = """
ALTER TABLE runs_checkpoint
  ALTER COLUMN patch TYPE bytea USING convert_to(patch, 'UTF8'),
  ALTER COLUMN snapshot TYPE bytea USING convert_to(snapshot, 'UTF8'),
  ALTER COLUMN patch SET STORAGE EXTERNAL,
  ALTER COLUMN snapshot SET STORAGE EXTERNAL;
ALTER TABLE runs_run
  ALTER COLUMN output TYPE bytea USING convert_to(output, 'UTF8'),
  ALTER COLUMN output SET STORAGE EXTERNAL;
"""
UNPACK = """
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM runs_checkpoint WHERE substr(coalesce(patch, snapshot), 1, 1) = 'x'::bytea)
    OR EXISTS (SELECT 1 FROM runs_run WHERE substr(output, 1, 1) = 'x'::bytea) THEN
    RAISE EXCEPTION 'compressed documents cannot become text again';
  END IF;
END $$;
ALTER TABLE runs_checkpoint
  ALTER COLUMN patch TYPE text USING convert_from(patch, 'UTF8'),
  ALTER COLUMN snapshot TYPE text USING convert_from(snapshot, 'UTF8');
ALTER TABLE runs_run ALTER COLUMN output TYPE text USING convert_from(output, 'UTF8');
"""

# A run's row is rewritten at each commit: room in its page keeps the new version beside the old one, and no index hears of
# it. Vacuum and statistics follow what is written, not a fifth of a table that holds years.
TUNE = """
ALTER TABLE runs_run SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_step SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_checkpoint SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_event SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_journalentry SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_wait SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_approval SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
"""
UNTUNE = """
ALTER TABLE runs_run RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE runs_step RESET (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE runs_checkpoint RESET (autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE runs_event RESET (autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE runs_journalentry RESET (autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE runs_wait RESET (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE runs_approval RESET (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_versions")]
    operations = [
        migrations.RunSQL(
            PACK,
            UNPACK,
            state_operations=[
                migrations.AlterField(model, name, runs.models.packed.PackedText(null=True))
                for model, name in (("checkpoint", "patch"), ("checkpoint", "snapshot"), ("run", "output"))
            ],
        ),
        migrations.RunSQL(TUNE, UNTUNE),
        # Each is the beginning of another index, or answers a question that nobody asks.
        migrations.AlterField(
            "run",
            "project",
            models.ForeignKey("runs.project", models.PROTECT, related_name="runs", db_index=False),
        ),
        migrations.AlterField(
            "run",
            "token",
            models.ForeignKey(
                "runs.apitoken", models.SET_NULL, null=True, related_name="runs", db_index=False
            ),
        ),
        # Django takes the partial unique index of the same column along when it drops the plain one: it is made anew.
        migrations.RemoveConstraint("vote", "vote_one_decides"),
        migrations.AlterField(
            "vote",
            "approval",
            models.ForeignKey("runs.approval", models.CASCADE, related_name="votes", db_index=False),
        ),
        migrations.AddConstraint(
            "vote",
            models.UniqueConstraint(
                fields=["approval"], condition=models.Q(decisive=True), name="vote_one_decides"
            ),
        ),
        # The inbox in its own order: a page is the first rows of it, however many wait.
        migrations.AddIndex(
            "approval",
            models.Index(
                fields=["project", "due_at", "opened_at", "id"],
                condition=models.Q(status="open"),
                name="approval_inbox",
            ),
        ),
    ]
