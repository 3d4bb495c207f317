-- All steps of a run in the order in which they were made, in stretches of one length: that of a window of the timeline, or more
-- where the run has so many that a strip has no room for each window.
WITH numbered AS (
  SELECT created_at, ended_at, status,
    row_number() OVER (ORDER BY created_at, branch, address) AS no, count(*) OVER () AS every
  FROM runs_step WHERE run_id = %(run)s
), placed AS (
  SELECT *, (no - 1) / (%(window)s::bigint * greatest(1, ceil(every / (%(window)s::numeric * %(columns)s))::bigint)) AS place
  FROM numbered
)
SELECT min(no), max(no), min(created_at), max(coalesce(ended_at, now())),
  count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status IN ('ready', 'executing', 'waiting'))
FROM placed GROUP BY place ORDER BY place
