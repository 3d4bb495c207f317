-- The rows that make up the documents of some checkpoints: of each its snapshot and the patches since, in order; none where
-- there is no such checkpoint. Two ranges of one index. A branch's rows alone: others of the same run may have numbers between.
SELECT head.no, point.no, point.parent, point.snapshot, point.patch
FROM runs_checkpoint head JOIN runs_checkpoint point
  ON point.run_id = head.run_id AND point.no BETWEEN head.snapshot_no AND head.no AND point.branch = head.branch
WHERE head.run_id = %(run)s AND head.no = ANY(%(nos)s)
ORDER BY head.no, point.no
