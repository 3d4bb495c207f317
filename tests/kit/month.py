"""A month of statistics, as a busy project would have them: for pictures, and to see what reading them costs."""

from __future__ import annotations

from typing import Final

# Fuller by day than by night and at weekends. One workflow has a bad hour.
MONTH: Final = """
WITH moment AS (
  SELECT at, (1 + sin((extract(hour FROM at) - 9) / 24 * 2 * pi()))
    * CASE WHEN extract(isodow FROM at) > 5 THEN 0.3 ELSE 1 END AS busy
  FROM generate_series(date_trunc('hour', now(), 'UTC') - interval '61 days', now(), interval '1 hour') at
), flow (workflow, much) AS (VALUES (%(first)s, 40), (%(second)s, 9)), hourly AS (
  SELECT at, workflow, kind, name, spread, round(busy * much * share)::bigint AS count,
    CASE kind WHEN 'usage' THEN 180000 ELSE 0 END AS given, CASE kind WHEN 'usage' THEN 21000 ELSE 0 END AS got,
    CASE kind WHEN 'usage' THEN 0.41 END AS cost
  FROM moment, flow, (VALUES
    ('begun', '', -1, 1.0), ('ended', 'completed', 68, 0.5), ('ended', 'completed', 76, 0.4), ('ended', 'completed', 90, 0.1),
    ('ended', 'cancelled', 70, 0.03), ('ended', 'failed', 60, 0.06), ('failed', 'node_error', -1, 0.02),
    ('failed', 'call_timeout', -1, 0.01), ('failed', 'rejected', -1, 0.03), ('steps', '', -1, 7.0),
    ('decision', 'approve', 78, 0.4), ('decision', 'edit', 79, 0.05), ('decision', 'reject', 81, 0.06),
    ('decision', 'timeout', 92, 0.01), ('team', %(team)s, 78, 0.4), ('team', %(team)s, 88, 0.08),
    ('team', 'security on call', 71, 0.2), ('team', 'security on call', 77, 0.02), ('team', '', 84, 0.1),
    ('step', 'look_up', 36, 1.0), ('step', 'look_up', 44, 0.1), ('step', 'confirm', 78, 0.5), ('step', 'confirm', 88, 0.1),
    ('step', 'pay', 42, 0.4), ('step_failed', 'pay', -1, 0.02), ('usage', 'USD', -1, 1.0)
  ) fact (kind, name, spread, share)
  UNION ALL
  SELECT date_trunc('hour', now(), 'UTC') - interval '2 hours', %(first)s, kind, name, spread, 38, 0, 0, NULL
  FROM (VALUES ('ended', 'failed', 60), ('failed', %(code)s, -1)) bad (kind, name, spread)
)
INSERT INTO runs_statistic
  (project_id, grain, at, workflow, kind, name, spread, count, seconds, model_tokens_in, model_tokens_out, cost)
SELECT (SELECT id FROM runs_project ORDER BY slug LIMIT 1), grain, date_trunc(grain, at, 'UTC'), workflow, kind, name, spread,
  sum(count), 0, sum(given), sum(got), sum(cost)
FROM hourly, (VALUES ('hour'), ('day')) grains (grain) WHERE count > 0
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT (project_id, grain, kind, at, workflow, name, spread) DO NOTHING
RETURNING id
"""
NAMES: Final = {"first": "refund", "second": "sql_change", "team": "finance", "code": "payment_refused"}
UNTIL_NOW: Final = """
INSERT INTO runs_counted (id, until) VALUES (1, now()) ON CONFLICT (id) DO UPDATE SET until = excluded.until RETURNING id
"""
