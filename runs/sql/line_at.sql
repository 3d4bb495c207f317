-- The branch of a checkpoint, and of it and all older branches where each began; none if there is no such checkpoint.
SELECT head.branch, branch.no, branch.parent_branch, branch.parent_checkpoint
FROM runs_checkpoint head JOIN runs_branch branch ON branch.run_id = head.run_id AND branch.no <= head.branch
WHERE head.run_id = %(run)s AND head.no = %(no)s
