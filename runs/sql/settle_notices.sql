-- Whoever was told of a question that is not open any more need not look.
UPDATE runs_notice notice SET read_at = now()
FROM runs_message message JOIN runs_approval asked ON asked.id = message.approval_id
WHERE notice.run_id = %(run)s AND notice.read_at IS NULL AND message.id = notice.message_id
  AND notice.topic = 'asked' AND asked.status <> 'open'
