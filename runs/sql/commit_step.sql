-- Commit one step: checkpoint, event, end of the step, and the lane's next step already claimed.
-- Guarantees: all or nothing in one statement; only while epoch and token are ours; numbers and hashes come from the run
-- row itself, so they have no gap and no twin. Lock order: run, then step. The time of the history never goes back: a
-- statement that had to wait for the run's row began earlier than the one it waited for.
-- Beside sibling lanes: no version is compared, since what a lane does to itself commutes with what they do; the parent is
-- the checkpoint before this one, whoever made it. A branch's first checkpoint, which has another parent, is never theirs.
-- The run row says no (other epoch, or the run drains after a failure): no row comes back. The step row says no (other token): runs_fence raises HL001,
-- because the run row has been changed by then and only an error takes that back.
WITH run AS (
  UPDATE runs_run SET
    seq = seq + 1,
    checkpoint_no = checkpoint_no + 1,
    head = checkpoint_no + 1,
    prev_hash = head_hash,
    head_hash = sha256(
      head_hash || int8send(seq + 1) || int8send((extract(epoch FROM greatest(now(), updated_at)) * 1000000)::bigint)
      || int4send(checkpoint_no + 1) || %(body)s::bytea
    ),
    snapshot_no = CASE WHEN %(snapshot)s::bytea IS NULL THEN snapshot_no ELSE checkpoint_no + 1 END,
    snapshot_size = coalesce(%(snapshot_size)s::bigint, snapshot_size),
    patch_weight = CASE WHEN %(snapshot)s::bytea IS NULL THEN patch_weight + %(patch_weight)s ELSE 0 END,
    updated_at = greatest(now(), updated_at)
  WHERE id = %(run)s AND epoch = %(epoch)s AND status = 'running' AND error IS NULL
  RETURNING id, seq, checkpoint_no, snapshot_no, snapshot_size, patch_weight, head_hash, updated_at AS moment
), ended AS (
  UPDATE runs_step SET
    status = 'completed', token = NULL, lease_until = NULL, ended_at = run.moment, checkpoint = run.checkpoint_no, error = NULL
  FROM run
  WHERE run_id = run.id AND branch = %(branch)s AND address = %(address)s AND token = %(token)s
  RETURNING 1
), point AS (
  INSERT INTO runs_checkpoint
    (run_id, no, branch, parent, kind, node, address, epoch, snapshot_no, patch, snapshot, reason, created_at)
  SELECT id, checkpoint_no, %(branch)s, coalesce(%(parent)s::integer, checkpoint_no - 1), 'step', %(node)s, %(address)s, %(epoch)s, snapshot_no,
    %(patch)s::bytea, %(snapshot)s::bytea, '', moment
  FROM run
), event AS (
  INSERT INTO runs_event
    (run_id, seq, kind, branch, epoch, checkpoint, node, address, actor, at, payload, salt, payload_hash, hash)
  SELECT id, seq, 'step_completed', %(branch)s, %(epoch)s, checkpoint_no, %(node)s, %(address)s, '', moment,
    %(payload)s, %(salt)s::bytea, %(payload_hash)s::bytea, head_hash
  FROM run
), following AS (
  INSERT INTO runs_step
    (run_id, branch, address, lane, node, visit, status, epoch, token, worker, lease_until,
     failures, crashes, entries, started_at, entered_at)
  SELECT id, %(branch)s, %(next_address)s, %(lane)s, %(next_node)s, %(next_visit)s,
    CASE WHEN %(next_token)s::uuid IS NULL THEN 'ready' ELSE 'executing' END,
    %(epoch)s, %(next_token)s::uuid, CASE WHEN %(next_token)s::uuid IS NULL THEN NULL ELSE %(worker)s::bigint END,
    CASE WHEN %(next_token)s::uuid IS NULL THEN NULL ELSE clock_timestamp() + make_interval(secs => %(lease)s) END,
    0, 0, CASE WHEN %(next_token)s::uuid IS NULL THEN 0 ELSE 1 END,
    CASE WHEN %(next_token)s::uuid IS NULL THEN NULL ELSE now() END,
    CASE WHEN %(next_token)s::uuid IS NULL THEN NULL ELSE now() END
  FROM run
)
SELECT checkpoint_no, snapshot_no, snapshot_size, patch_weight, runs_fence((SELECT count(*) FROM ended)) FROM run
