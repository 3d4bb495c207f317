-- Take a ready step under a lease, with the branch that it is on. The caller holds the run's row lock, so nobody else can take it.
-- items: also a step in the lane of an item, which nobody takes before it is known that there is room for one more.
-- The lease counts from this moment, not from the start of a transaction that may have waited for the lock.
-- With its first step a queued run begins. Without limits, whoever is free may take it out of its turn.
WITH step AS (
  UPDATE runs_step SET
    status = 'executing', token = %(token)s, worker = %(worker)s,
    lease_until = clock_timestamp() + make_interval(secs => %(lease)s),
    entries = entries + 1, entered_at = now(), started_at = coalesce(started_at, now()), overdue = NULL, progress = NULL
  WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND status = 'ready'
    AND (%(items)s OR strpos(lane, '#') = 0)
  RETURNING lane, node, visit, failures, crashes, earlier, entries, worked
), begun AS (
  UPDATE runs_run SET
    status = 'running', started_at = coalesce(started_at, now()), admitted_at = coalesce(admitted_at, now())
  FROM step
  WHERE id = %(run)s AND status = 'queued'
  RETURNING started_at, admitted_at
)
SELECT lane, node, visit, failures, crashes, earlier, entries, worked, begun.started_at, begun.admitted_at,
  branch.run_id, branch.no, branch.parent_branch, branch.parent_checkpoint, branch.epoch, branch.calls,
  branch.exceptions, branch.generation, branch.generations, branch.draws, branch.label, branch.author,
  branch.reason, branch.created_at
FROM step LEFT JOIN begun ON true JOIN runs_branch branch ON branch.run_id = %(run)s AND branch.no = %(branch)s
