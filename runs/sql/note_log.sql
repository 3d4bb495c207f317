-- Keep a line of a node's log. Guarantees: only while the token is ours; a line that a replay says again is not kept twice;
-- a run keeps only so many.
WITH step AS (
  SELECT * FROM runs_step
  WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s
  FOR SHARE
), line AS (
  INSERT INTO runs_logline (run_id, branch, address, attempt, no, node, message, facts)
  SELECT run_id, branch, address, %(attempt)s, %(no)s, node, %(message)s, %(facts)s
  FROM step WHERE (SELECT count(*) FROM runs_logline WHERE run_id = %(run)s) < %(room)s
  ON CONFLICT DO NOTHING
)
SELECT 1 FROM step
