-- Tell one event: its message, a delivery for every endpoint and mailbox that wants it, a notice for every person who does.
-- Guarantees: in the transaction of the event, so told if and only if it happened; whoever is asked is found by the same rule
-- as `policies.check_decide` uses. Nothing is written if nobody wants it. What was asked and is not open any more counts as
-- read from here on.
WITH hook AS (
  SELECT id FROM runs_endpoint
  WHERE project_id = %(project)s AND disabled_at IS NULL AND deleted_at IS NULL AND %(type)s = ANY(events)
), barred AS (
  SELECT asker.id FROM runs_approval asked JOIN runs_run run ON run.id = asked.run_id,
    LATERAL (VALUES (run.requester_id), (run.submitted_by_id)) AS asker (id)
  WHERE asked.id = %(approval)s AND asker.id IS NOT NULL
    AND asked.options -> 'requester_may_decide' IS DISTINCT FROM 'true'
), seat AS ( -- in whose place somebody may answer: their own, and that of who is away now
  SELECT person.id, person.username, member.roles, answers.id AS answers
  FROM runs_member member JOIN runs_user person ON person.id = member.user_id AND person.is_active,
    LATERAL (
      SELECT person.id UNION ALL
      SELECT absence.substitute_id FROM runs_absence absence
      WHERE absence.project_id = member.project_id AND absence.user_id = person.id AND absence.ended_at IS NULL
        AND absence.starts_at <= now() AND absence.ends_at > now()
    ) AS answers
  WHERE member.project_id = %(project)s AND %(audience)s = 'candidates'
    AND member.roles && ARRAY['reviewer', 'operator']::varchar[]
), heard AS (
  SELECT person.id, person.email, coalesce(preference.digest, standard.digest, false) AS digest,
    CASE WHEN person.id = %(requester)s THEN %(own_topic)s ELSE %(topic)s END AS topic,
    coalesce(preference.app, standard.app, %(app)s::varchar[]) AS app,
    coalesce(preference.mail, standard.mail, %(mail)s::varchar[]) AS mail
  FROM runs_member member
  JOIN runs_user person ON person.id = member.user_id AND person.is_active AND NOT person.is_service
  LEFT JOIN runs_preference preference ON preference.user_id = person.id AND preference.project_id = member.project_id
  LEFT JOIN runs_preference standard ON standard.user_id IS NULL AND standard.project_id = member.project_id
  LEFT JOIN runs_approval asked ON asked.id = %(approval)s
  WHERE member.project_id = %(project)s AND CASE %(audience)s
    WHEN 'candidates' THEN
      member.roles && ARRAY['reviewer', 'operator']::varchar[]
      AND NOT (person.id IN (SELECT id FROM barred)) AND EXISTS (
        SELECT 1 FROM seat WHERE seat.answers = person.id AND NOT (seat.id IN (SELECT id FROM barred)) AND (
          (asked.teams = '{}' AND asked.users = '{}' AND 'reviewer' = ANY(seat.roles))
          OR seat.username = ANY(asked.users)
          OR EXISTS (
            SELECT 1 FROM runs_team team JOIN runs_team_people inside ON inside.team_id = team.id
            WHERE team.project_id = %(project)s AND team.name = ANY(asked.teams) AND inside.user_id = seat.id
          )
        )
      )
    WHEN 'requester' THEN person.id = %(requester)s
    WHEN 'nobody' THEN false
    ELSE person.id = %(requester)s OR 'operator' = ANY(member.roles)
  END AND person.id IS DISTINCT FROM %(actor)s
), person AS (
  SELECT id, topic, topic = ANY(app) AS shown,
    %(by_mail)s AND email <> '' AND topic = ANY(mail) AS mailed, digest
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
