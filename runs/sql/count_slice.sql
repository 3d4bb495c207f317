-- Count what happened from one instant to another into hours and days.
-- Guarantees: each event and each use of a model is counted in the one slice that its time is in, whichever bucket that adds
-- to; whoever runs it holds the row of `runs_counted` and moves it in the same transaction, so once. Complete only for a slice
-- that ends before every transaction under way began (`store.horizon`). Found by time alone, before anything is joined: by block
-- range indexes, which cost a step nothing.
WITH happened AS MATERIALIZED (
  SELECT run_id, branch, address, node, kind, at,
    CASE WHEN kind IN ('run_failed', 'approval_decided') THEN payload::json END AS told
  FROM runs_event
  WHERE at >= %(since)s AND at < %(until)s AND kind IN (
    'run_submitted', 'run_forked', 'run_completed', 'run_failed', 'run_cancelled', 'step_completed', 'step_failed',
    'approval_decided'
  )
), spent AS MATERIALIZED (
  SELECT run_id, at, currency, model_tokens_in, model_tokens_out, cost FROM runs_usage
  WHERE at >= %(since)s AND at < %(until)s
), slice AS MATERIALIZED (
  SELECT happened.*, run.project_id, run.workflow, run.created_at FROM happened JOIN runs_run run ON run.id = run_id
), decided AS MATERIALIZED (
  SELECT slice.*, asked.teams, extract(epoch FROM slice.at - asked.opened_at)::float8 AS took,
    told ->> 'reason' = 'timeout' AS by_clock,
    CASE WHEN told ->> 'reason' = 'timeout' THEN 'timeout'
      WHEN told ->> 'edited' = 'true' AND told ->> 'outcome' = 'approve' THEN 'edit'
      ELSE coalesce(told ->> 'outcome', '') END AS outcome
  FROM slice LEFT JOIN runs_approval asked ON asked.id = (told ->> 'approval')::uuid
  WHERE kind = 'approval_decided'
), fact (project_id, workflow, at, kind, name, took) AS (
  SELECT project_id, workflow, at, 'begun', '', NULL::float8 FROM slice WHERE kind IN ('run_submitted', 'run_forked')
  UNION ALL
  SELECT project_id, workflow, at, 'ended', substr(kind, 5), extract(epoch FROM at - created_at)::float8
  FROM slice WHERE kind IN ('run_completed', 'run_failed', 'run_cancelled')
  UNION ALL
  SELECT project_id, workflow, at, 'failed', coalesce(left(told -> 'error' ->> 'code', 200), ''), NULL
  FROM slice WHERE kind = 'run_failed'
  UNION ALL
  SELECT project_id, workflow, at, 'steps', '', NULL FROM slice WHERE kind IN ('step_completed', 'approval_decided')
  UNION ALL
  SELECT slice.project_id, slice.workflow, slice.at, 'step', slice.node, extract(epoch FROM slice.at - step.started_at)::float8
  FROM slice LEFT JOIN runs_step step USING (run_id, branch, address) WHERE slice.kind = 'step_completed'
  UNION ALL
  SELECT project_id, workflow, at, 'step_failed', node, NULL FROM slice WHERE kind = 'step_failed'
  UNION ALL
  SELECT project_id, workflow, at, 'step', node, took FROM decided
  UNION ALL
  SELECT project_id, workflow, at, 'decision', outcome, took FROM decided
  UNION ALL
  SELECT project_id, workflow, at, 'team', team, took
  FROM decided, unnest(CASE WHEN teams = '{}' THEN '{""}' ELSE teams END) team WHERE NOT by_clock
), used AS (
  SELECT run.project_id, run.workflow, spent.at, spent.currency, spent.model_tokens_in, spent.model_tokens_out, spent.cost
  FROM spent JOIN runs_run run ON run.id = spent.run_id
), counted AS (
  SELECT project_id, workflow, at, kind, name,
    CASE WHEN took IS NULL THEN -1
      WHEN took <= 0.001 THEN 0
      ELSE least(200, floor(4 * ln(took * 1000) / ln(2::float8)))::int END AS spread,
    greatest(coalesce(took, 0), 0) AS seconds, 0 AS given, 0 AS got, NULL::numeric AS cost
  FROM fact
  UNION ALL
  SELECT project_id, workflow, at, 'usage', currency, -1, 0, model_tokens_in, model_tokens_out, cost FROM used
)
INSERT INTO runs_statistic AS known
  (project_id, grain, at, workflow, kind, name, spread, count, seconds, model_tokens_in, model_tokens_out, cost)
SELECT project_id, grain, date_trunc(grain, at, 'UTC'), workflow, kind, name, spread,
  count(*), sum(seconds), sum(given), sum(got), sum(cost)
FROM counted, (VALUES ('hour'), ('day')) grains (grain)
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT (project_id, grain, kind, at, workflow, name, spread) DO UPDATE SET
  count = known.count + excluded.count,
  seconds = known.seconds + excluded.seconds,
  model_tokens_in = known.model_tokens_in + excluded.model_tokens_in,
  model_tokens_out = known.model_tokens_out + excluded.model_tokens_out,
  cost = CASE WHEN excluded.cost IS NULL THEN known.cost ELSE coalesce(known.cost, 0) + excluded.cost END
