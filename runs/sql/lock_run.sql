-- A run's row but for its output, which may be long, locked until the transaction ends. NO KEY, because rows that name the run check that it exists: a call that is
-- just being committed holds its step and would wait for the run, while whoever holds the run waits for the step.
-- How long the transaction waits for locks, and how long it may do nothing, is set before the row is asked for: what locks rows
-- stands above the join. patience: none leaves it as it is.
WITH patience AS MATERIALIZED (
  SELECT set_config('idle_in_transaction_session_timeout', %(idle)s, true),
    CASE WHEN %(patience)s::text IS NOT NULL THEN set_config('lock_timeout', %(patience)s, true) END
)
SELECT run.id, run.project_id, run.workflow, run.workflow_version, run.fingerprint, run.status, run.waiting_for,
  run.parent_id, run.root_id, run.forked_from_id, run.forked_checkpoint, run.requester_id, run.submitted_by_id,
  run.token_id, run.labels, run.input, run.error, run.version, run.epoch, run.branch, run.head,
  run.checkpoint_no, run.seq, run.head_hash, run.prev_hash, run.snapshot_no, run.patch_weight, run.snapshot_size,
  run.created_at, run.started_at, run.updated_at, run.finished_at, run.compacted_at, run.erased_at, run.erasure,
  run.paused, run.ending, run.queue, run.priority, run.line, run.limited, run.admitted_at, run.deadline,
  run.deadline_at, run.time_left
FROM patience, runs_run run
WHERE run.id = %(run)s
FOR NO KEY UPDATE OF run
