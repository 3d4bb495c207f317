-- Commit the result of a call inside a step. Guarantee: only while the token is ours; FOR
-- SHARE waits for a takeover or rewind that is under way and then sees what it did. Touches neither the run row nor its
-- version; `after` is the run's head as it is now, which may be ahead of what this lane has seen. Without a result it is the
-- time, by the clock that all share.
WITH step AS (
  SELECT * FROM runs_step
  WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s
  FOR SHARE
), entry AS (
  INSERT INTO runs_journalentry
    (run_id, branch, address, name, occurrence, node, ordinal, after, attempt, args_digest, result, effect, call_key,
     reused_from, arguments, undo, guard, started_at)
  SELECT step.run_id, step.branch, step.address, %(name)s, %(occurrence)s, step.node, %(ordinal)s,
    (SELECT head FROM runs_run WHERE id = %(run)s),
    step.earlier + step.failures + step.crashes + 1, %(args_digest)s,
    coalesce(%(result)s::text,
      to_json(to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'))::text),
    %(effect)s, %(key)s, %(reused_from)s::integer, %(arguments)s, %(undo)s::text, %(guard)s::uuid,
    now() - make_interval(secs => %(took)s)
  FROM step
  RETURNING result
)
SELECT result FROM entry
