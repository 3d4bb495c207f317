-- End what is live of a locked run, on whichever branch, but for some steps: no worker's token is good for it any more.
UPDATE runs_step SET status = %(status)s, token = NULL, lease_until = NULL, ended_at = %(moment)s
WHERE run_id = %(run)s AND status IN ('ready', 'executing', 'waiting') AND NOT address = ANY(%(kept)s::text[])
