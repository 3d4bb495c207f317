-- New steps of a branch of a locked run.
INSERT INTO runs_step
  (run_id, branch, address, lane, node, visit, status, epoch, failures, crashes, entries, hinted_at, undoes)
SELECT %(run)s, %(branch)s, address, lane, node, visit, status, %(epoch)s, 0, 0, 0, %(hinted_at)s, undoes
FROM unnest(%(addresses)s::text[], %(lanes)s::text[], %(nodes)s::text[], %(visits)s::integer[], %(statuses)s::text[],
  %(undoes)s::jsonb[]) AS step (address, lane, node, visit, status, undoes)
