-- Tell one event: its message, a delivery for every endpoint and mailbox that wants it, a notice for every person who does.
-- Guarantees: in the transaction of the event, so told if and only if it happened; whoever is asked is found by the same rule
-- as `policies.check_decide` uses. Nothing is written if nobody wants it. What was asked and is not open any more counts as
-- read from here on.
WITH hook AS (
  SELECT id FROM runs_endpoint
  WHERE project_id = %(project)s AND disabled_at IS NULL AND deleted_at IS NULL AND %(type)s = ANY(events)
), heard AS (
  SELECT person.id, person.email, preference.digest,
    CASE WHEN person.id = %(requester)s THEN %(own_topic)s ELSE %(topic)s END AS topic,
    coalesce(preference.app, %(app)s::varchar[]) AS app, coalesce(preference.mail, %(mail)s::varchar[]) AS mail
  FROM runs_member member
  JOIN runs_user person ON person.id = member.user_id AND person.is_active AND NOT person.is_service
  LEFT JOIN runs_preference preference ON preference.user_id = person.id AND preference.project_id = member.project_id
  LEFT JOIN runs_approval asked ON asked.id = %(approval)s
  WHERE member.project_id = %(project)s AND CASE %(audience)s
    WHEN 'candidates' THEN
      member.roles && ARRAY['reviewer', 'operator']::varchar[]
      AND (person.id IS DISTINCT FROM %(requester)s OR asked.options -> 'requester_may_decide' = 'true')
      AND (
        (asked.teams = '{}' AND asked.users = '{}' AND 'reviewer' = ANY(member.roles))
        OR person.username = ANY(asked.users)
        OR EXISTS (
          SELECT 1 FROM runs_team team JOIN runs_team_people inside ON inside.team_id = team.id
          WHERE team.project_id = %(project)s AND team.name = ANY(asked.teams) AND inside.user_id = person.id
        )
      )
    WHEN 'requester' THEN person.id = %(requester)s
    WHEN 'nobody' THEN false
    ELSE person.id = %(requester)s OR 'operator' = ANY(member.roles)
  END AND person.id IS DISTINCT FROM %(actor)s
), person AS (
  SELECT id, topic, topic = ANY(app) AS shown,
    %(by_mail)s AND email <> '' AND topic = ANY(mail) AS mailed, coalesce(digest, false) AS digest
  FROM heard
), message AS (
  INSERT INTO runs_message (id, project_id, run_id, approval_id, seq, type, title, body, created_at)
  SELECT %(id)s, %(project)s, %(run)s, %(approval)s, %(seq)s, %(type)s, %(title)s, %(body)s, %(moment)s
  WHERE EXISTS (SELECT 1 FROM hook) OR EXISTS (SELECT 1 FROM person WHERE shown OR mailed)
  RETURNING id
), webhook AS (
  INSERT INTO runs_delivery (id, project_id, message_id, endpoint_id, status)
  SELECT gen_random_uuid(), %(project)s, message.id, hook.id, 'pending' FROM message, hook
), mail AS (
  INSERT INTO runs_delivery (id, project_id, message_id, user_id, status)
  SELECT gen_random_uuid(), %(project)s, message.id, person.id, 'pending'
  FROM message, person WHERE person.mailed AND NOT person.digest
), notice AS (
  INSERT INTO runs_notice (project_id, user_id, message_id, run_id, topic, shown, digest)
  SELECT %(project)s, person.id, message.id, %(run)s, person.topic, person.shown, person.mailed AND person.digest
  FROM message, person WHERE person.shown OR person.mailed AND person.digest
)
UPDATE runs_notice notice SET read_at = now()
FROM runs_message told JOIN runs_approval asked ON asked.id = told.approval_id
WHERE notice.run_id = %(run)s AND notice.read_at IS NULL AND told.id = notice.message_id
  AND notice.topic = 'asked' AND asked.status <> 'open'
