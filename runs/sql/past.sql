-- Whether calls of a run were taken back, or tried to be, and whether it was ever migrated: of most runs neither.
SELECT
  EXISTS (SELECT 1 FROM runs_step WHERE run_id = %(run)s AND undoes IS NOT NULL AND status IN ('completed', 'failed')),
  EXISTS (SELECT 1 FROM runs_migrated WHERE run_id = %(run)s)
