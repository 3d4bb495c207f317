-- A live step ends, waits, or is ready again: nobody holds it any more.
UPDATE runs_step SET
  status = %(status)s, token = NULL, lease_until = NULL, error = %(error)s::jsonb,
  failures = failures + %(failed)s, crashes = crashes + %(crashed)s,
  ended_at = %(ended)s::timestamptz, hinted_at = %(told)s::timestamptz
WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND status = ANY(%(live)s::text[])
