-- Show how far a step is. Guarantee: only while the token is ours.
UPDATE runs_step SET progress = %(progress)s::jsonb || jsonb_build_object('at', clock_timestamp())
WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s
RETURNING 1
