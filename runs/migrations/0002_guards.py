"""What the database itself refuses: a rewritten history, and a step commit without its lease."""

from __future__ import annotations

from django.db import migrations

APPEND_ONLY = """
CREATE FUNCTION runs_event_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Only the retention operation may pass; it says so for its own transaction.
  IF current_setting('hitl.retention', true) = 'on' THEN
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  END IF;
  RAISE EXCEPTION 'the history is append-only' USING ERRCODE = 'HL002';
END $$;
CREATE TRIGGER runs_event_append_only BEFORE UPDATE OR DELETE ON runs_event
  FOR EACH ROW EXECUTE FUNCTION runs_event_append_only();
"""

# The step commit changes the run row first and the step row second (everybody locks in that order). If the step is not
# ours any more, the whole statement must vanish, and only an error can do that.
FENCE = """
CREATE FUNCTION runs_fence(held bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF held = 1 THEN RETURN true; END IF;
  RAISE EXCEPTION 'the lease is not held any more' USING ERRCODE = 'HL001';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]
    operations = [
        migrations.RunSQL(
            APPEND_ONLY,
            "DROP TRIGGER runs_event_append_only ON runs_event; DROP FUNCTION runs_event_append_only();",
        ),
        migrations.RunSQL(FENCE, "DROP FUNCTION runs_fence(bigint);"),
    ]
