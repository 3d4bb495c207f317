-- Live runs follow the queue and the limits that the code says now; a limit that the code does not know any more is gone.
-- Live runs are found by their steps and waits, which have small indexes: the table of all runs is never read through.
-- Slots that change and slots that go are different rows, as one statement needs it.
WITH live AS MATERIALIZED (
  SELECT run_id FROM runs_wait WHERE closed_at IS NULL
  UNION SELECT run_id FROM runs_step WHERE status = 'ready'
  UNION SELECT run_id FROM runs_step WHERE status = 'executing'
), flow AS (
  SELECT * FROM unnest(%(flows)s::text[], %(queues)s::text[]) AS flow (workflow, queue)
), code AS (
  SELECT * FROM unnest(%(workflows)s::text[], %(names)s::text[], %(most)s::int[], %(per)s::float[], %(whole)s::bool[])
    AS code (workflow, name, most, per, whole)
), moved AS (
  UPDATE runs_run run SET queue = flow.queue FROM live, flow
  WHERE run.id = live.run_id AND run.workflow = flow.workflow AND run.queue <> flow.queue
), changed AS (
  UPDATE runs_slot slot SET most = code.most, per = code.per, whole = code.whole FROM live, code
  WHERE slot.run_id = live.run_id AND slot.workflow = code.workflow AND slot.name = code.name
    AND (slot.most, slot.per, slot.whole) IS DISTINCT FROM (code.most, code.per, code.whole)
)
DELETE FROM runs_slot slot USING live
WHERE slot.run_id = live.run_id AND slot.workflow IN (SELECT workflow FROM flow)
  AND NOT EXISTS (SELECT 1 FROM code WHERE code.workflow = slot.workflow AND code.name = slot.name)
