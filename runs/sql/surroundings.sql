-- The time, and what a transition of a locked run may have to close, stop or settle: whoever knows that there is nothing need
-- not ask for it. True as long as the run is locked, and nothing is written in the same transaction.
SELECT now(),
  (SELECT count(*) FROM runs_wait WHERE run_id = %(run)s AND closed_at IS NULL),
  EXISTS (SELECT 1 FROM runs_approval WHERE run_id = %(run)s AND status = 'open'),
  EXISTS (SELECT 1 FROM runs_child WHERE parent_id = %(run)s),
  EXISTS (SELECT 1 FROM runs_notice WHERE run_id = %(run)s AND read_at IS NULL)
