-- A checkpoint of a locked run, its number given. Binary: the longest that is ever sent is a snapshot of megabytes.
INSERT INTO runs_checkpoint
  (run_id, no, branch, parent, kind, node, address, epoch, snapshot_no, snapshot, patch, author, reason, created_at)
VALUES (%(run)s, %(no)s, %(branch)s, %(parent)s, %(kind)s, %(node)s, %(address)s, %(epoch)s, %(snapshot_no)s,
  %(snapshot)b, %(patch)b, %(author)s::jsonb, %(reason)s, %(moment)s)
