-- Take a ready step under a lease. The caller holds the run's row lock, so nobody else can take it.
-- items: also a step in the lane of an item, which nobody takes before it is known that there is room for one more.
-- The lease counts from this moment, not from the start of a transaction that may have waited for the lock.
UPDATE runs_step SET
  status = 'executing', token = %(token)s, worker = %(worker)s,
  lease_until = clock_timestamp() + make_interval(secs => %(lease)s),
  entries = entries + 1, entered_at = now(), started_at = coalesce(started_at, now()), overdue = NULL, progress = NULL
WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND status = 'ready'
  AND (%(items)s OR strpos(lane, '#') = 0)
RETURNING lane, node, visit, failures, crashes, earlier, entries, worked
