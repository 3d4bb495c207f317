-- What a call used that came to nothing. Guarantee: only while the token is ours.
WITH step AS (
  SELECT * FROM runs_step
  WHERE run_id = %(run)s AND branch = %(branch)s AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s
  FOR SHARE
), used AS (
  INSERT INTO runs_usage
    (run_id, branch, address, node, call, occurrence, failed, model, model_tokens_in, model_tokens_out, cost, currency)
  SELECT step.run_id, step.branch, step.address, step.node, %(name)s, %(occurrence)s, true, u.model, u.model_tokens_in,
    u.model_tokens_out, nullif(u.cost, '')::numeric, u.currency
  FROM step, jsonb_to_recordset(%(used)s::jsonb)
    AS u(model text, model_tokens_in bigint, model_tokens_out bigint, cost text, currency text)
)
SELECT 1 FROM step
