-- What checkpoints of a run say of themselves, without their documents, the newest first; before a number, if one is given.
SELECT no, branch, parent, kind, node, address, epoch, author, reason, created_at
FROM runs_checkpoint
WHERE run_id = %(run)s AND no < coalesce(%(before)s, 2147483648)
ORDER BY no DESC LIMIT %(limit)s
