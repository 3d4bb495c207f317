-- A batch of runs with all that belongs to them: 1 of 100 waits for people, 1 of 50 has failed. Runs come evenly over a year.
-- Parameters: first and last number of the batch, how many runs there are in all, events and checkpoints of each.
CREATE TEMP TABLE IF NOT EXISTS batch (
  number bigint, id uuid, project uuid, person bigint, at timestamptz, status text, hash bytea
) ON COMMIT DELETE ROWS;
INSERT INTO batch
SELECT number, filling.id, project.id, asking.id,
  timestamptz '2026-01-01 00:00:00+00' + interval '330 days' * number / %(runs)s,
  CASE WHEN number %% 100 = 0 THEN 'waiting' WHEN number %% 50 = 1 THEN 'failed' ELSE 'completed' END,
  sha256(filling.id::text::bytea)
FROM filling
CROSS JOIN runs_project project JOIN runs_user asking ON asking.username = 'asking'
WHERE number BETWEEN %(first)s AND %(last)s
ORDER BY number;
INSERT INTO runs_run (id, project_id, workflow, workflow_version, fingerprint, status, waiting_for, requester_id, labels, input,
  error, version, epoch, branch, head, checkpoint_no, seq, head_hash, prev_hash, snapshot_no, patch_weight, snapshot_size,
  created_at, started_at, updated_at, finished_at)
SELECT id, project, 'flow_' || number %% 20, '1', repeat('0', 16), status, '[]', person, '{}', '{"left":100}',
  CASE WHEN status = 'failed' THEN '{"code": "step_failed", "message": "no"}'::jsonb END,
  2, 1, 1, %(checkpoints)s - 1, %(checkpoints)s - 1, %(events)s, hash, hash, 0, 300, 400,
  at, at, at, CASE WHEN status <> 'waiting' THEN at + interval '5 minutes' END
FROM batch;
INSERT INTO runs_branch (run_id, no, epoch, calls, generation, reason)
SELECT id, 1, 1, 'reuse', 0, '' FROM batch;
INSERT INTO runs_event
  (run_id, seq, kind, branch, epoch, checkpoint, node, address, actor, at, payload, salt, payload_hash, hash)
SELECT id, seq, 'step_completed', 1, 1, seq - 1, 'again', lpad(to_hex(number), 16, '0') || lpad(to_hex(seq), 16, '0'), '', at,
  '{"visit":' || seq || '}', substring(hash FOR 16), hash, hash
FROM batch CROSS JOIN generate_series(1, %(events)s) seq;
INSERT INTO runs_checkpoint
  (run_id, no, branch, parent, kind, node, address, epoch, snapshot_no, patch, snapshot, reason, created_at)
SELECT id, no, 1, nullif(no - 1, -1), CASE no WHEN 0 THEN 'input' ELSE 'step' END, CASE no WHEN 0 THEN '' ELSE 'again' END,
  CASE no WHEN 0 THEN '' ELSE lpad(to_hex(number), 16, '0') || lpad(to_hex(no), 16, '0') END, 1, 0,
  CASE WHEN no > 0 THEN convert_to('[{"op":"replace","path":"/commits","value":7},'
    '{"op":"replace","path":"/root/base/left","value":93},'
    '{"op":"replace","path":"/root/lanes/0/step","value":"00000000000000000000000000000000"},'
    '{"op":"replace","path":"/root/lanes/0/visit","value":8},{"op":"replace","path":"/visits/again","value":8}]', 'UTF8') END,
  CASE no WHEN 0 THEN
    convert_to('{"commits":0,"root":{"base":{"left":100},"lanes":{},"order":[]},"visits":{}}', 'UTF8') END,
  '', at
FROM batch CROSS JOIN generate_series(0, %(checkpoints)s - 1) no;
INSERT INTO runs_step
  (run_id, branch, address, lane, node, visit, status, epoch, failures, crashes, entries, checkpoint, ended_at)
SELECT id, 1, lpad(to_hex(number), 16, '0') || lpad(to_hex(no), 16, '0'), '0', 'again', no, 'completed', 1, 0, 0, 1, no, at
FROM batch CROSS JOIN generate_series(1, %(checkpoints)s - 1) no;
INSERT INTO runs_approval (id, project_id, run_id, branch, address, node, epoch, status, version, title, document, digest, risk,
  teams, users, quorum, options, opened_at, outcome, closed_reason)
SELECT gen_random_uuid(), project, id, 1, lpad(to_hex(number), 16, '0') || lpad('1', 16, '0'), 'confirm', 1, 'open', 1, 'Pay',
  '{"actions":[]}', repeat('0', 64), 'high', ARRAY[CASE WHEN number %% 200 = 0 THEN 'bench' ELSE 'others' END]::text[], '{}', 1,
  '{}', at, '', ''
FROM batch WHERE status = 'waiting'
