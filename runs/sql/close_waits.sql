-- Close the open waits of a locked run: of some steps, or all. A row for each.
UPDATE runs_wait SET closed_at = %(moment)s
WHERE run_id = %(run)s AND closed_at IS NULL
  AND (%(addresses)s::text[] IS NULL OR address = ANY(%(addresses)s::text[]))
RETURNING 1
