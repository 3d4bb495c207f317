-- What a run has come by, as one of its branches sees it, in the outermost workflow: how many steps of each status a node has had;
-- how often each edge was taken by a lane alone, which shows in the address of the step that it led to; and the steps of some
-- nodes, those that join lanes or lead to a join, in the order in which they were made.
WITH mine AS MATERIALIZED (
  SELECT s.node, s.address, s.status, s.created_at, position('#' in s.lane) > 0 AS item
  FROM runs_step s JOIN unnest(%(branches)s::int[], %(left_at)s::int[]) AS line(branch, left_at)
    ON s.branch = line.branch AND (line.left_at IS NULL OR s.checkpoint <= line.left_at)
  WHERE s.run_id = %(run)s AND s.status <> 'void' AND s.undoes IS NULL
)
SELECT 'visits', split_part(node, '/', 1), status, count(*) FROM mine GROUP BY 2, 3
UNION ALL
SELECT 'edge', was.node, edge.target, count(*)
FROM mine was
JOIN unnest(%(sources)s::text[], %(targets)s::text[]) AS edge(source, target) ON edge.source = was.node
JOIN mine became ON became.address =
  left(encode(sha256(convert_to(edge.target || chr(10) || was.address, 'UTF8')), 'hex'), 32)
GROUP BY 2, 3
UNION ALL
(SELECT 'step', node, address, row_number() OVER (ORDER BY created_at, address)
FROM mine WHERE node = ANY(%(joining)s::text[]) AND NOT item ORDER BY created_at DESC LIMIT 2000)
