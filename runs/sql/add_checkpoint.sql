-- A checkpoint of a locked run, its number given, and the step that made it, if one did. Binary: the longest that is ever sent is
-- a snapshot of megabytes.
WITH step AS (
  UPDATE runs_step SET checkpoint = %(no)s
  WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND %(address)s <> ''
)
INSERT INTO runs_checkpoint
  (run_id, no, branch, parent, kind, node, address, epoch, snapshot_no, snapshot, patch, author, reason, created_at)
VALUES (%(run)s, %(no)s, %(branch)s, %(parent)s, %(kind)s, %(node)s, %(address)s, %(epoch)s, %(snapshot_no)s,
  %(snapshot)b, %(patch)b, %(author)s::jsonb, %(reason)s, %(moment)s)
