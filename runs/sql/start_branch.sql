-- Start a branch of a locked run at a checkpoint: it takes over from the branch of that checkpoint whose chance is drawn and of
-- which generation each call is; a call that is to be made again is of the new branch's own.
INSERT INTO runs_branch (run_id, no, parent_branch, parent_checkpoint, epoch, calls, exceptions, generation, generations, draws,
  author, reason)
SELECT parent.run_id, own.no, parent.no, origin.no, %(epoch)s, %(calls)s, %(exceptions)s::jsonb,
  CASE WHEN own.again THEN own.no ELSE parent.generation END,
  CASE WHEN own.again THEN '{}' ELSE parent.generations END || (
    SELECT coalesce(jsonb_object_agg(place, CASE
      WHEN own.again THEN coalesce((parent.generations ->> place)::integer, parent.generation) ELSE own.no END), '{}')
    FROM unnest(%(places)s::text[]) place
  ),
  parent.draws, %(author)s::jsonb, %(reason)s
FROM runs_checkpoint origin
JOIN runs_branch parent ON parent.run_id = origin.run_id AND parent.no = origin.branch
CROSS JOIN LATERAL (
  SELECT max(no) + 1 AS no, %(calls)s = 'again' AS again FROM runs_branch WHERE run_id = origin.run_id
) own
WHERE origin.run_id = %(run)s AND origin.no = %(checkpoint)s
RETURNING no
