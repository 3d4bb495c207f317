-- What checkpoints of a run say of themselves, without their documents, in the order of their numbers.
SELECT no, branch, parent, kind, node, address, epoch, author, reason, created_at
FROM runs_checkpoint
WHERE run_id = %(run)s AND no > %(after)s AND (%(branch)s::bigint IS NULL OR branch = %(branch)s)
ORDER BY no LIMIT %(limit)s
