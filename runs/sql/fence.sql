-- Whether a step is still held under this token; if so it stays so until the transaction ends.
SELECT FROM runs_step
WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s
FOR NO KEY UPDATE
