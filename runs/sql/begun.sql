-- Whether any of these steps of a run has something in the journal, or waited for an instant or a signal at a place of its own.
SELECT
  EXISTS (SELECT 1 FROM runs_journalentry
    WHERE run_id = %(run)s AND branch = ANY(%(branches)s::integer[]) AND address = ANY(%(addresses)s::text[])),
  EXISTS (SELECT 1 FROM runs_wait
    WHERE run_id = %(run)s AND branch = ANY(%(branches)s::integer[]) AND address = ANY(%(addresses)s::text[]) AND name > ''
      AND kind IN ('timer', 'signal'))
