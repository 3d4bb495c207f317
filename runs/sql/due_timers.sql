-- Timers that are due and the only thing that their run waits for, in the order in which they became due.
-- Asked twice: first to lock the runs (their rows may have changed while the lock was waited for, and what hangs on them is seen
-- as it was before), then, with the locks, for what is true. Whoever changes a wait or a waiting step holds the run's row.
SELECT wait.id, wait.run_id, wait.branch, wait.address, wait.node, wait.name, wait.occurrence, wait.digest,
  wait.opened_at, wait.due_at, run.project_id, run.status, run.epoch, run.seq, run.head, run.head_hash, run.updated_at,
  step.earlier + step.failures + step.crashes + 1 AS attempt,
  (SELECT count(*) FROM runs_journalentry entry
   WHERE (entry.run_id, entry.branch, entry.address) = (wait.run_id, wait.branch, wait.address)) AS ordinal
FROM runs_wait wait
JOIN runs_run run ON run.id = wait.run_id AND run.branch = wait.branch
JOIN runs_step step ON (step.run_id, step.branch, step.address) = (wait.run_id, wait.branch, wait.address)
WHERE wait.closed_at IS NULL AND wait.due_at <= now() AND wait.kind = 'timer' AND wait.race = ''
  AND run.status = 'waiting' AND run.error IS NULL AND step.status = 'waiting'
  AND (%(runs)s::uuid[] IS NULL OR wait.run_id = ANY(%(runs)s::uuid[]))
  AND NOT EXISTS (
    SELECT 1 FROM runs_wait other WHERE other.run_id = wait.run_id AND other.closed_at IS NULL AND other.id <> wait.id
  )
ORDER BY wait.due_at, wait.id LIMIT %(limit)s
