-- Whether a run asks anybody, has used paid models, has started runs, was forked: of what most have none, whoever shows it need
-- not ask one by one.
SELECT
  EXISTS (SELECT 1 FROM runs_approval WHERE run_id = %(run)s AND status = 'open'),
  EXISTS (SELECT 1 FROM runs_usage WHERE run_id = %(run)s),
  EXISTS (SELECT 1 FROM runs_child WHERE parent_id = %(run)s),
  EXISTS (SELECT 1 FROM runs_run WHERE forked_from_id = %(run)s)
