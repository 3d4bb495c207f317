-- What a call used of paid models: a part of commit_call, before its last line, for the calls that used some.
used AS (
  INSERT INTO runs_usage
    (run_id, branch, address, node, call, occurrence, model, model_tokens_in, model_tokens_out, cost, currency)
  SELECT step.run_id, step.branch, step.address, step.node, %(name)s, %(occurrence)s, u.model,
    u.model_tokens_in, u.model_tokens_out,
    nullif(u.cost, '')::numeric, u.currency
  FROM step, jsonb_to_recordset(%(used)s::jsonb)
    AS u(model text, model_tokens_in bigint, model_tokens_out bigint, cost text, currency text)
)
