"""All of 0001 to 0021 in one: a new database has its tables made once, and not altered twenty times on the way.

A database that has the earlier ones counts as having this one; one in their midst goes on with them.
"""

from __future__ import annotations

import datetime
import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
import runs.models.guards
import runs.models.packed
import uuid
from django.conf import settings
from django.db import migrations, models

# What the database itself refuses: a rewritten history, a step commit without its lease, a row that breaks a check.
APPEND_ONLY = """
CREATE FUNCTION runs_event_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Only the retention operation may pass; it says so for its own transaction.
  IF current_setting('hitl.retention', true) = 'on' THEN
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  END IF;
  RAISE EXCEPTION 'the history is append-only' USING ERRCODE = 'HL002';
END $$;
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

REFUSE = """
CREATE FUNCTION runs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'new row for relation "%" violates check "%"', TG_TABLE_NAME, TG_NAME
    USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;
"""

HISTORIES = """
CREATE TRIGGER runs_event_append_only BEFORE UPDATE OR DELETE ON runs_event
  FOR EACH ROW EXECUTE FUNCTION runs_event_append_only();
CREATE TRIGGER runs_signal_append_only BEFORE UPDATE OR DELETE ON runs_signal
  FOR EACH ROW EXECUTE FUNCTION runs_event_append_only();
"""

# Documents are compressed by us, or too short to be.
PACKED = """
ALTER TABLE runs_checkpoint ALTER COLUMN patch SET STORAGE EXTERNAL, ALTER COLUMN snapshot SET STORAGE EXTERNAL;
ALTER TABLE runs_run ALTER COLUMN output SET STORAGE EXTERNAL;
"""

# A run's row is rewritten at each commit: room in its page keeps the new version beside the old one, and no index hears of
# it. Vacuum and statistics follow what is written, not a fifth of a table that holds years.
TUNE = """
ALTER TABLE runs_run SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_step SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_checkpoint SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_event SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_journalentry SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_wait SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs_approval SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
"""


class Migration(migrations.Migration):
    replaces = [
        ("runs", "0001_initial"),
        ("runs", "0002_guards"),
        ("runs", "0003_attempts_before_a_retry"),
        ("runs", "0004_inside_a_step"),
        ("runs", "0005_waits"),
        ("runs", "0006_keeping"),
        ("runs", "0007_time_travel"),
        ("runs", "0008_control"),
        ("runs", "0009_limits"),
        ("runs", "0010_versions"),
        ("runs", "0011_cheap_steps"),
        ("runs", "0012_delivery"),
        ("runs", "0013_people"),
        ("runs", "0014_deciders"),
        ("runs", "0015_inbox"),
        ("runs", "0016_account"),
        ("runs", "0017_checked_when_written"),
        ("runs", "0018_travelling"),
        ("runs", "0019_statistics"),
        ("runs", "0020_run_terms"),
        ("runs", "0021_attachments"),
    ]

    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.RunSQL(APPEND_ONLY, "DROP FUNCTION runs_event_append_only();"),
        migrations.RunSQL(FENCE, "DROP FUNCTION runs_fence(bigint);"),
        migrations.RunSQL(REFUSE, "DROP FUNCTION runs_refuse();"),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("slug", models.SlugField(max_length=63, unique=True)),
                ("name", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("max_concurrent_runs", models.IntegerField(null=True)),
                ("hours", models.JSONField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_concurrent_runs__isnull", True),
                            ("max_concurrent_runs__gte", 1),
                            _connector="OR",
                        ),
                        name="project_limit_is_positive",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ServiceBeat",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("facts", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                (
                    "date_joined",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined"),
                ),
                ("name", models.CharField(blank=True, max_length=150, verbose_name="shown name")),
                ("is_service", models.BooleanField(default=False, verbose_name="service account")),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
                ("zone", models.CharField(blank=True, default="", max_length=64, verbose_name="time zone")),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="WorkerChild",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=255)),
                ("pid", models.IntegerField()),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("suspected_at", models.DateTimeField(null=True)),
                ("gone_at", models.DateTimeField(null=True)),
                ("family", models.UUIDField(null=True)),
                ("leaving_at", models.DateTimeField(null=True)),
                ("code", models.JSONField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("gone_at__isnull", True)), fields=["id"], name="worker_child_live"
                    ),
                    models.Index(fields=["gone_at"], name="worker_child_gone"),
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("version", models.CharField(max_length=60)),
                ("fingerprint", models.CharField(max_length=16)),
                ("shape", models.TextField()),
                ("registered_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("refused", models.JSONField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("name", "version"), name="workflow_version_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Counted",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("pk", 1)), name="counted_once")],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=100)),
                ("prefix", models.CharField(max_length=12)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), size=None
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "scopes__contained_by",
                                [
                                    "runs:read",
                                    "runs:submit",
                                    "runs:submit_for_others",
                                    "runs:operate",
                                    "approvals:read",
                                    "approvals:decide",
                                    "admin",
                                ],
                            )
                        ),
                        name="token_scopes_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.SlugField(max_length=63)),
                (
                    "people",
                    models.ManyToManyField(blank=True, related_name="teams", to=settings.AUTH_USER_MODEL),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="teams", to="runs.project"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project", "name"), name="team_once")],
            },
        ),
        migrations.CreateModel(
            name="Member",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "roles",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20), size=None
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="members", to="runs.project"
                    ),
                ),
                ("joined_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "user"), name="member_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("roles__contained_by", ["viewer", "submitter", "reviewer", "operator", "admin"]),
                            models.Q(("roles", []), _negated=True),
                        ),
                        name="member_roles_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("user_name", models.CharField(default="", max_length=150)),
                ("method", models.CharField(max_length=10)),
                ("ip", models.CharField(default="", max_length=60)),
                ("verb", models.CharField(max_length=40)),
                ("target", models.CharField(default="", max_length=120)),
                ("outcome", models.CharField(max_length=40)),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                ("reason", models.TextField(db_default="", default="")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-at"], name="audit_by_time"),
                    models.Index(fields=["project", "-id"], name="audit_by_project"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Removed",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("kind", models.CharField(choices=[("run", "run"), ("approval", "approval")], max_length=10)),
                ("run", models.UUIDField()),
                ("workflow", models.CharField(max_length=100)),
                ("status", models.CharField(max_length=12)),
                ("finished_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("seq", models.BigIntegerField()),
                ("head_hash", models.BinaryField(max_length=32)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["removed_at"], name="removed_by_time")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["run", "approval"])), name="removed_kind_known"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RetentionPolicy",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("workflow", models.CharField(blank=True, default="", max_length=100)),
                ("completed_days", models.IntegerField(null=True)),
                ("failed_days", models.IntegerField(null=True)),
                ("cancelled_days", models.IntegerField(null=True)),
                ("compact_days", models.IntegerField(null=True)),
                ("notes_days", models.IntegerField(null=True)),
                ("waits_days", models.IntegerField(null=True)),
                ("audit_days", models.IntegerField(null=True)),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="retention",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "workflow"), name="retention_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("completed_days__lt", 0)),
                            models.Q(("failed_days__lt", 0)),
                            models.Q(("cancelled_days__lt", 0)),
                            models.Q(("compact_days__lt", 0)),
                            models.Q(("notes_days__lt", 0)),
                            models.Q(("waits_days__lt", 0)),
                            models.Q(("audit_days__lt", 0)),
                            _connector="OR",
                            _negated=True,
                        ),
                        name="retention_days_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("workflow", ""), ("audit_days__isnull", True), _connector="OR"),
                        name="retention_audit_by_project",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("url", models.TextField()),
                ("description", models.CharField(default="", max_length=200)),
                (
                    "events",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), size=None
                    ),
                ),
                ("salt", models.BinaryField(max_length=32)),
                ("key_print", models.CharField(max_length=16)),
                ("earlier_salt", models.BinaryField(max_length=32, null=True)),
                ("earlier_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_reason", models.CharField(default="", max_length=40)),
                ("deleted_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="endpoints",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("events", []), _negated=True), name="endpoint_wants_something"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("earlier_salt__isnull", True), ("earlier_until__isnull", True)),
                            models.Q(("earlier_salt__isnull", False), ("earlier_until__isnull", False)),
                            _connector="OR",
                        ),
                        name="endpoint_earlier_secret_ends",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Preference",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "app",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=10), default=list, size=None
                    ),
                ),
                (
                    "mail",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=10), default=list, size=None
                    ),
                ),
                ("digest", models.BooleanField(default=False)),
                ("digested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.project"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "project"), name="preference_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("app__contained_by", ["asked", "decided", "ended", "failed"]),
                            ("mail__contained_by", ["asked", "decided", "ended", "failed"]),
                        ),
                        name="preference_topics_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", True)),
                        fields=("project",),
                        name="preference_once_a_project",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "roles",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20), size=None
                    ),
                ),
                ("email", models.EmailField(blank=True, default="", max_length=254)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                ("withdrawn_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="invitations",
                        to="runs.project",
                    ),
                ),
                (
                    "used_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("used_at", None), ("withdrawn_at", None)),
                        fields=["project", "-created_at"],
                        name="invitation_open",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("roles__contained_by", ["viewer", "submitter", "reviewer", "operator", "admin"]),
                            models.Q(("roles", []), _negated=True),
                        ),
                        name="invitation_roles_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("used_at", None), ("withdrawn_at", None), _connector="OR"),
                        name="invitation_used_or_withdrawn",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Absence",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("note", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="absences",
                        to="runs.project",
                    ),
                ),
                (
                    "substitute",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="substitutions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="absences",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="absence_ends_after"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("substitute", models.F("user")), _negated=True),
                        name="absence_somebody_else",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "session_key",
                    models.CharField(
                        max_length=40, primary_key=True, serialize=False, verbose_name="session key"
                    ),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Statistic",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("grain", models.CharField(max_length=4)),
                ("kind", models.CharField(max_length=12)),
                ("at", models.DateTimeField()),
                ("workflow", models.CharField(max_length=100)),
                ("name", models.CharField(max_length=200)),
                ("spread", models.SmallIntegerField(default=-1)),
                ("count", models.BigIntegerField()),
                ("seconds", models.FloatField(default=0.0)),
                ("model_tokens_in", models.BigIntegerField(default=0)),
                ("model_tokens_out", models.BigIntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=12, max_digits=38, null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["grain", "at"], name="statistic_by_age")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("grain__in", ["hour", "day"])), name="statistic_grain_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                (
                                    "begun",
                                    "ended",
                                    "failed",
                                    "steps",
                                    "step",
                                    "step_failed",
                                    "decision",
                                    "team",
                                    "usage",
                                ),
                            )
                        ),
                        name="statistic_kind_known",
                    ),
                    models.UniqueConstraint(
                        fields=("project", "grain", "kind", "at", "workflow", "name", "spread"),
                        name="statistic_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Content",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("digest", models.CharField(max_length=64)),
                ("size", models.BigIntegerField()),
                ("stored", models.BooleanField(default=False)),
                ("touched_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["touched_at"], name="content_by_touch")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("stored", True)),
                        fields=("project", "digest"),
                        name="content_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("workflow", models.CharField(max_length=100)),
                ("workflow_version", models.CharField(max_length=60)),
                ("fingerprint", models.CharField(max_length=16)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("paused", "paused"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelling", "cancelling"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("waiting_for", models.JSONField(default=list)),
                ("labels", models.JSONField(default=dict)),
                ("input", models.TextField()),
                ("output", runs.models.packed.PackedText(null=True)),
                ("error", models.JSONField(null=True)),
                ("version", models.IntegerField(default=1)),
                ("epoch", models.IntegerField(default=1)),
                ("branch", models.IntegerField(default=1)),
                ("head", models.IntegerField(default=0)),
                ("checkpoint_no", models.IntegerField(default=0)),
                ("seq", models.BigIntegerField(default=0)),
                ("head_hash", models.BinaryField(max_length=32)),
                ("prev_hash", models.BinaryField(max_length=32)),
                ("snapshot_no", models.IntegerField(default=0)),
                ("patch_weight", models.BigIntegerField(default=0)),
                ("snapshot_size", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="runs.project",
                    ),
                ),
                (
                    "requester",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="requested_runs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="runs",
                        to="runs.apitoken",
                    ),
                ),
                ("deadline", models.FloatField(null=True)),
                ("deadline_at", models.DateTimeField(null=True)),
                ("time_left", models.FloatField(null=True)),
                (
                    "parent",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="children",
                        to="runs.run",
                    ),
                ),
                (
                    "root",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
                ("compacted_at", models.DateTimeField(null=True)),
                ("erased_at", models.DateTimeField(null=True)),
                ("erasure", models.JSONField(null=True)),
                ("forked_checkpoint", models.IntegerField(null=True)),
                (
                    "forked_from",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="forks",
                        to="runs.run",
                    ),
                ),
                ("ending", models.JSONField(null=True)),
                ("paused", models.JSONField(null=True)),
                (
                    "admitted_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), null=True),
                ),
                ("limited", models.BooleanField(db_default=False, default=False)),
                ("line", models.CharField(db_default="", default="", max_length=32)),
                ("priority", models.SmallIntegerField(db_default=0, default=0)),
                ("queue", models.CharField(db_default="runs", default="runs", max_length=60)),
                (
                    "submitted_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["project", "-created_at", "-id"], name="run_list"),
                    models.Index(
                        fields=["project", "status", "-created_at", "-id"], name="run_list_by_status"
                    ),
                    models.Index(
                        condition=models.Q(("deadline_at__isnull", False)),
                        fields=["deadline_at"],
                        name="run_deadline",
                    ),
                    models.Index(
                        condition=models.Q(("parent__isnull", False)), fields=["parent"], name="run_of_parent"
                    ),
                    models.Index(
                        condition=models.Q(("root__isnull", False)), fields=["root"], name="run_of_root"
                    ),
                    models.Index(
                        condition=models.Q(("finished_at__isnull", False)),
                        fields=["finished_at", "id"],
                        name="run_ended",
                    ),
                    models.Index(
                        condition=models.Q(("forked_from__isnull", False)),
                        fields=["forked_from"],
                        name="run_of_origin",
                    ),
                    models.Index(condition=models.Q(("status", "paused")), fields=["id"], name="run_paused"),
                    models.Index(
                        models.F("queue"),
                        models.F("line"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("created_at"),
                        models.F("id"),
                        condition=models.Q(("admitted_at__isnull", True), ("status", "queued")),
                        name="run_in_line",
                    ),
                    models.Index(
                        condition=models.Q(("finished_at__isnull", True)),
                        fields=["workflow", "workflow_version", "fingerprint"],
                        name="run_live_by_version",
                    ),
                    models.Index(
                        fields=["project", "workflow", "-created_at", "-id"], name="run_list_by_workflow"
                    ),
                    models.Index(fields=["requester", "-created_at", "-id"], name="run_list_by_requester"),
                    models.Index(
                        models.F("project"),
                        django.db.models.fields.json.KeyTextTransform("code", "error"),
                        models.OrderBy(models.F("created_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("status", "failed")),
                        name="run_list_by_error",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("head__lte", models.F("checkpoint_no"))), name="run_head_exists"
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "queued",
                                    "running",
                                    "waiting",
                                    "paused",
                                    "completed",
                                    "failed",
                                    "cancelling",
                                    "cancelled",
                                ],
                            )
                        ),
                        name="run_status_known",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False),
                                ("status__in", ["cancelled", "completed", "failed"]),
                            ),
                            models.Q(
                                models.Q(("status__in", ["cancelled", "completed", "failed"]), _negated=True),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="run_finished_iff_terminal",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            models.Q(("error__isnull", False), ("status", "failed")),
                            models.Q(("status", "failed"), _negated=True),
                            _connector="OR",
                        ),
                        name="run_failed_has_error",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            models.Q(("paused__isnull", False), ("status", "paused")),
                            models.Q(models.Q(("status", "paused"), _negated=True), ("paused__isnull", True)),
                            _connector="OR",
                        ),
                        name="run_paused_is_told",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            models.Q(
                                ("ending__isnull", True), models.Q(("status", "cancelling"), _negated=True)
                            ),
                            models.Q(
                                ("ending__isnull", False), ("status__in", ["cancelling", "running", "paused"])
                            ),
                            _connector="OR",
                        ),
                        name="run_ending_is_live",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            models.Q(("erased_at__isnull", True), ("erasure__isnull", True)),
                            models.Q(
                                ("erased_at__isnull", False),
                                ("erasure__isnull", False),
                                ("finished_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="run_erased_is_told",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            models.Q(("status", "running"), _negated=True),
                            ("admitted_at__isnull", False),
                            _connector="OR",
                        ),
                        name="run_at_work_is_admitted",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            ("limited", False),
                            models.Q(
                                ("status__in", ["waiting", "cancelled", "completed", "failed"]), _negated=True
                            ),
                            ("admitted_at__isnull", True),
                            _connector="OR",
                        ),
                        name="run_at_rest_stands_in_line",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(("priority__gte", -100), ("priority__lte", 100)),
                        name="run_priority_in_bounds",
                    ),
                    runs.models.guards.CheckedWhenWritten(
                        condition=models.Q(
                            ("forked_from__isnull", True),
                            ("forked_checkpoint__isnull", False),
                            _connector="OR",
                        ),
                        name="run_fork_has_checkpoint",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TeamHours",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="hours",
                        serialize=False,
                        to="runs.team",
                    ),
                ),
                ("document", models.JSONField()),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("page", models.CharField(choices=[("inbox", "inbox"), ("runs", "runs")], max_length=10)),
                ("name", models.CharField(max_length=60)),
                ("query", models.JSONField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="views",
                        to="runs.project",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.team",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "page", "owner", "name"), name="view_name_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("page__in", ("inbox", "runs"))), name="view_page_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("node", models.CharField(max_length=100)),
                ("epoch", models.IntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("decided", "decided"),
                            ("expired", "expired"),
                            ("cancelled", "cancelled"),
                            ("superseded", "superseded"),
                        ],
                        default="open",
                        max_length=12,
                    ),
                ),
                ("version", models.IntegerField(default=1)),
                ("title", models.TextField()),
                ("document", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("risk", models.CharField(default="", max_length=10)),
                (
                    "teams",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=63), default=list, size=None
                    ),
                ),
                (
                    "users",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=150), default=list, size=None
                    ),
                ),
                ("quorum", models.IntegerField(default=1)),
                ("options", models.JSONField(default=dict)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("due_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(default="", max_length=10)),
                ("closed_reason", models.CharField(default="", max_length=40)),
                (
                    "previous",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="following",
                        to="runs.approval",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="approvals",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="approvals", to="runs.run"
                    ),
                ),
                ("name", models.CharField(db_default="", default="", max_length=200)),
                ("occurrence", models.CharField(db_default="", default="", max_length=100)),
                ("assigned_until", models.DateTimeField(null=True)),
                (
                    "assignee",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("level", models.IntegerField(db_default=0, default=0)),
                ("remind_at", models.DateTimeField(null=True)),
                ("stage", models.IntegerField(db_default=0, default=0)),
                (
                    "due_key",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.comparison.Coalesce(
                            "due_at",
                            models.Value(datetime.datetime(9999, 12, 31, 0, 0, tzinfo=datetime.UTC)),
                        ),
                        output_field=models.DateTimeField(),
                    ),
                ),
                (
                    "risk_key",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(risk="critical", then=models.Value(0)),
                            models.When(risk="high", then=models.Value(1)),
                            models.When(risk="medium", then=models.Value(2)),
                            models.When(risk="low", then=models.Value(3)),
                            default=models.Value(4),
                        ),
                        output_field=models.SmallIntegerField(),
                    ),
                ),
                ("words", django.contrib.postgres.search.SearchVectorField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "open")),
                        fields=["project", "opened_at", "id"],
                        name="approval_open",
                    ),
                    models.Index(
                        condition=models.Q(("status", "open"), _negated=True),
                        fields=["project", "-closed_at", "-id"],
                        name="approval_closed",
                    ),
                    models.Index(
                        condition=models.Q(("remind_at__isnull", False), ("status", "open")),
                        fields=["remind_at"],
                        name="approval_to_remind",
                    ),
                    models.Index(
                        condition=models.Q(("status", "open")),
                        fields=["project", "due_key", "opened_at", "id"],
                        name="approval_inbox",
                    ),
                    models.Index(
                        condition=models.Q(("status", "open")),
                        fields=["project", "risk_key", "due_key", "opened_at", "id"],
                        name="approval_by_risk",
                    ),
                    django.contrib.postgres.indexes.GinIndex(fields=["words"], name="approval_words"),
                    models.Index(
                        condition=models.Q(("words__isnull", True)),
                        fields=["id"],
                        name="approval_without_words",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["open", "decided", "expired", "cancelled", "superseded"])
                        ),
                        name="approval_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("closed_at__isnull", True), ("status", "open")),
                            models.Q(
                                models.Q(("status", "open"), _negated=True), ("closed_at__isnull", False)
                            ),
                            _connector="OR",
                        ),
                        name="approval_closed_iff_not_open",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("status", "open")),
                        fields=("run", "branch", "address", "name", "occurrence"),
                        name="approval_open_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("assigned_until__isnull", True), ("assignee__isnull", True)),
                            ("assigned_until__isnull", False),
                            _connector="OR",
                        ),
                        name="approval_assigned_until",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="OperationalNote",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=40)),
                ("facts", models.JSONField(default=dict)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notes", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="note_by_time")],
            },
        ),
        migrations.CreateModel(
            name="JournalEntry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "branch",
                        "address",
                        "name",
                        "occurrence",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("name", models.CharField(max_length=200)),
                ("occurrence", models.CharField(max_length=100)),
                ("node", models.CharField(max_length=100)),
                ("ordinal", models.IntegerField()),
                ("after", models.IntegerField()),
                ("attempt", models.IntegerField()),
                ("args_digest", models.CharField(max_length=64)),
                ("result", models.TextField()),
                ("effect", models.CharField(max_length=12)),
                ("call_key", models.CharField(max_length=64)),
                ("reused_from", models.IntegerField(null=True)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="journal",
                        to="runs.run",
                    ),
                ),
                ("arguments", models.TextField(db_default="", default="")),
                ("undo", models.TextField(null=True)),
                ("kind", models.CharField(db_default="call", default="call", max_length=8)),
                ("guard", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("guard__isnull", False)),
                        fields=["ended_at"],
                        name="journal_guarded",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("effect__in", ["none", "reversible", "irreversible"])),
                        name="journal_effect_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ("call", "sleep", "signal", "answer", "child", "first"))
                        ),
                        name="journal_kind_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("endpoint", models.CharField(max_length=60)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="idempotency_by_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "endpoint", "key"), name="idempotency_key_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("kind", models.CharField(max_length=40)),
                ("branch", models.IntegerField()),
                ("epoch", models.IntegerField()),
                ("checkpoint", models.IntegerField(null=True)),
                ("node", models.CharField(default="", max_length=100)),
                ("address", models.CharField(default="", max_length=32)),
                ("actor", models.TextField(default="")),
                ("at", models.DateTimeField()),
                ("payload", models.TextField(null=True)),
                ("salt", models.BinaryField(max_length=16, null=True)),
                ("payload_hash", models.BinaryField(max_length=32)),
                ("hash", models.BinaryField(max_length=32)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [django.contrib.postgres.indexes.BrinIndex(fields=["at"], name="event_by_time")],
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "no", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("no", models.IntegerField()),
                ("branch", models.IntegerField()),
                ("parent", models.IntegerField(null=True)),
                ("kind", models.CharField(max_length=10)),
                ("node", models.CharField(default="", max_length=100)),
                ("address", models.CharField(default="", max_length=32)),
                ("epoch", models.IntegerField()),
                ("snapshot_no", models.IntegerField()),
                ("patch", runs.models.packed.PackedText(null=True)),
                ("snapshot", runs.models.packed.PackedText(null=True)),
                ("author", models.JSONField(null=True)),
                ("reason", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checkpoints",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("patch__isnull", True),
                                ("snapshot__isnull", False),
                                ("snapshot_no", models.F("no")),
                            ),
                            models.Q(
                                ("patch__isnull", False),
                                ("snapshot__isnull", True),
                                ("snapshot_no__lt", models.F("no")),
                            ),
                            _connector="OR",
                        ),
                        name="checkpoint_patch_or_snapshot",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ("input", "step", "answer", "edit", "signal", "migration"))
                        ),
                        name="checkpoint_kind_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Branch",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "no", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("no", models.IntegerField()),
                ("parent_branch", models.IntegerField(null=True)),
                ("parent_checkpoint", models.IntegerField(null=True)),
                ("epoch", models.IntegerField()),
                ("calls", models.CharField(default="reuse", max_length=8)),
                ("generation", models.IntegerField(default=0)),
                ("author", models.JSONField(null=True)),
                ("reason", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="branches",
                        to="runs.run",
                    ),
                ),
                ("draws", models.JSONField(null=True)),
                (
                    "exceptions",
                    models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
                ),
                (
                    "generations",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                ("label", models.CharField(db_default="", default="", max_length=100)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("calls__in", ["reuse", "again"])), name="branch_calls_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("no", 1),
                                ("parent_branch__isnull", True),
                                ("parent_checkpoint__isnull", True),
                            ),
                            models.Q(
                                ("no__gt", 1),
                                ("parent_branch__isnull", False),
                                ("parent_checkpoint__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="branch_has_parent_but_first",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "branch",
                        "address",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("lane", models.CharField(max_length=100)),
                ("node", models.CharField(max_length=100)),
                ("visit", models.IntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("ready", "ready"),
                            ("executing", "executing"),
                            ("waiting", "waiting"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("void", "void"),
                        ],
                        default="ready",
                        max_length=10,
                    ),
                ),
                ("epoch", models.IntegerField()),
                ("token", models.UUIDField(null=True)),
                ("worker", models.BigIntegerField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("crashes", models.IntegerField(default=0)),
                ("entries", models.IntegerField(default=0)),
                ("error", models.JSONField(null=True)),
                ("checkpoint", models.IntegerField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("entered_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("hinted_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="runs.run",
                    ),
                ),
                ("earlier", models.IntegerField(db_default=0, default=0)),
                ("overdue", models.JSONField(null=True)),
                ("progress", models.JSONField(null=True)),
                ("worked", models.FloatField(db_default=0.0, default=0.0)),
                ("undoes", models.JSONField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "ready")), fields=["hinted_at"], name="step_ready"
                    ),
                    models.Index(
                        condition=models.Q(("status", "executing")),
                        fields=["worker", "lease_until"],
                        name="step_leased",
                    ),
                    models.Index(
                        condition=models.Q(("undoes__isnull", False)), fields=["run"], name="step_undoing"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                ["ready", "executing", "waiting", "completed", "failed", "cancelled", "void"],
                            )
                        ),
                        name="step_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("lease_until__isnull", False),
                                ("status", "executing"),
                                ("token__isnull", False),
                                ("worker__isnull", False),
                            ),
                            models.Q(
                                models.Q(("status", "executing"), _negated=True), ("token__isnull", True)
                            ),
                            _connector="OR",
                        ),
                        name="step_token_iff_executing",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Wait",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("node", models.CharField(max_length=100)),
                ("kind", models.CharField(max_length=16)),
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("due_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="waits", to="runs.run"
                    ),
                ),
                ("after", models.IntegerField(db_default=0, default=0)),
                (
                    "child",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="awaited_by",
                        to="runs.run",
                    ),
                ),
                ("digest", models.CharField(db_default="", default="", max_length=64)),
                ("label", models.CharField(db_default="", default="", max_length=100)),
                ("name", models.CharField(db_default="", default="", max_length=200)),
                ("occurrence", models.CharField(db_default="", default="", max_length=100)),
                ("position", models.IntegerField(db_default=0, default=0)),
                ("race", models.CharField(db_default="", default="", max_length=100)),
                ("schema", models.JSONField(null=True)),
                ("facts", models.JSONField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("closed_at__isnull", True), ("due_at__isnull", False)),
                        fields=["due_at"],
                        name="wait_due",
                    ),
                    models.Index(
                        condition=models.Q(("child__isnull", False), ("closed_at__isnull", True)),
                        fields=["child"],
                        name="wait_for_child",
                    ),
                    models.Index(
                        condition=models.Q(("closed_at__isnull", False)),
                        fields=["closed_at"],
                        name="wait_closed",
                    ),
                    models.Index(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=["kind", "run"],
                        name="wait_open_by_kind",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=("run", "branch", "address", "kind", "name", "occurrence"),
                        name="wait_open_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ("approval", "retry", "timer", "signal", "child", "needs_migration"))
                        ),
                        name="wait_kind_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LogLine",
            fields=[
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lines",
                        to="runs.run",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id",
                        "branch",
                        "address",
                        "attempt",
                        "no",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("attempt", models.IntegerField()),
                ("no", models.IntegerField()),
                ("node", models.CharField(max_length=100)),
                ("message", models.TextField()),
                ("facts", models.TextField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Usage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="usage", to="runs.run"
                    ),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("node", models.CharField(max_length=100)),
                ("call", models.CharField(max_length=200)),
                ("occurrence", models.CharField(max_length=100)),
                ("failed", models.BooleanField(db_default=False, default=False)),
                ("model", models.CharField(max_length=200)),
                ("model_tokens_in", models.BigIntegerField()),
                ("model_tokens_out", models.BigIntegerField()),
                ("cost", models.DecimalField(decimal_places=12, max_digits=30, null=True)),
                ("currency", models.CharField(max_length=3)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "indexes": [django.contrib.postgres.indexes.BrinIndex(fields=["at"], name="usage_by_time")],
            },
        ),
        migrations.CreateModel(
            name="Child",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="as_child",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("branch", models.IntegerField()),
                ("address", models.CharField(max_length=32)),
                ("name", models.CharField(max_length=200)),
                ("occurrence", models.CharField(max_length=100)),
                ("after", models.IntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("on_parent_cancel", models.CharField(max_length=8)),
                (
                    "parent",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["parent", "address"], name="child_by_place")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("on_parent_cancel__in", ["cancel", "abandon"])),
                        name="child_policy_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("no", models.IntegerField()),
                ("name", models.CharField(max_length=200)),
                ("sent_id", models.CharField(max_length=200)),
                ("payload", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("sender", models.JSONField()),
                ("received_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="signals",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["run", "name", "no"], name="signal_by_name")],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "no"), name="signal_number_once"),
                    models.UniqueConstraint(fields=("run", "sent_id"), name="signal_id_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Stop",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="stop",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("reason", models.CharField(max_length=40)),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("compensate", models.BooleanField(db_default=True, default=True)),
            ],
        ),
        migrations.CreateModel(
            name="LegalHold",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="hold",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("reason", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Slot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("workflow", models.CharField(max_length=100)),
                ("name", models.CharField(max_length=60)),
                ("key", models.CharField(max_length=200)),
                ("most", models.IntegerField()),
                ("per", models.FloatField(null=True)),
                ("whole", models.BooleanField(default=False)),
                ("taken_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="slots",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("taken_at__isnull", False)),
                        fields=["project", "workflow", "name", "key", "taken_at"],
                        name="slot_taken",
                    ),
                    models.Index(fields=["project", "key"], name="slot_of_key"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "workflow", "name"), name="slot_once"),
                    models.CheckConstraint(
                        condition=models.Q(("most__gte", 1)), name="slot_limit_is_positive"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Migrated",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "checkpoint", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="migrations",
                        to="runs.run",
                    ),
                ),
                ("checkpoint", models.IntegerField()),
                ("branch", models.IntegerField()),
                ("from_version", models.CharField(max_length=60)),
                ("to_version", models.CharField(max_length=60)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("approval_id", models.UUIDField(null=True)),
                ("seq", models.BigIntegerField(null=True)),
                ("type", models.CharField(max_length=40)),
                ("title", models.TextField()),
                ("body", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("run__isnull", True)),
                        fields=["created_at"],
                        name="message_of_no_run",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RunTerm",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=5)),
                ("name", models.CharField(max_length=200)),
                ("value", models.CharField(max_length=200)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="terms",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        models.F("project"),
                        django.db.models.functions.text.Lower("value"),
                        name="term_by_value",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "kind", "name"), name="term_once"),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ("label", "state"))), name="term_kind_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attachment",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=200)),
                ("type", models.CharField(max_length=130)),
                ("node", models.CharField(blank=True, default="", max_length=100)),
                ("author", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attachments", to="runs.run"
                    ),
                ),
                (
                    "content",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attachments",
                        to="runs.content",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "approval_id",
                        "version",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("version", models.IntegerField()),
                ("document", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("comment", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "approval",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="revisions",
                        to="runs.approval",
                    ),
                ),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Vote",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("version", models.IntegerField()),
                ("outcome", models.CharField(max_length=10)),
                ("signature", models.TextField()),
                ("decisions", models.TextField()),
                ("comment", models.TextField(default="")),
                ("edited", models.BooleanField(default=False)),
                ("decisive", models.BooleanField(default=False)),
                ("digest", models.CharField(max_length=64)),
                ("request_digest", models.CharField(max_length=64)),
                ("approved_digest", models.CharField(default="", max_length=64)),
                ("method", models.CharField(max_length=10)),
                ("ip", models.CharField(default="", max_length=60)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "approval",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="votes",
                        to="runs.approval",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="votes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "in_place_of",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("stage", models.IntegerField(db_default=0, default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("approval", "version", "user"), name="vote_once_a_version"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("decisive", True)), fields=("approval",), name="vote_one_decides"
                    ),
                    models.UniqueConstraint(
                        fields=("approval", "version", "in_place_of"), name="vote_once_in_somebodys_place"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("status", models.CharField(default="pending", max_length=10)),
                ("reason", models.CharField(db_default="", default="", max_length=40)),
                ("attempt", models.IntegerField(db_default=0, default=0)),
                ("earlier", models.IntegerField(db_default=0, default=0)),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("token", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="runs.endpoint",
                    ),
                ),
                (
                    "message",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="runs.message",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "pending")),
                        fields=["endpoint", "due_at"],
                        name="delivery_due",
                    ),
                    models.Index(fields=["project", "-created_at", "-id"], name="delivery_listed"),
                    models.Index(
                        fields=["project", "status", "-created_at", "-id"], name="delivery_by_status"
                    ),
                    models.Index(fields=["endpoint", "-created_at", "-id"], name="delivery_by_endpoint"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ("pending", "delivered", "dead", "blocked", "cancelled"))
                        ),
                        name="delivery_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("endpoint__isnull", True), ("user__isnull", False)),
                            models.Q(("endpoint__isnull", False), ("user__isnull", True)),
                            _connector="OR",
                        ),
                        name="delivery_goes_one_way",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("status", "pending")),
                            models.Q(
                                models.Q(("status", "pending"), _negated=True),
                                ("ended_at__isnull", False),
                                ("token__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="delivery_ended_iff_not_pending",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("endpoint__isnull", False)),
                        fields=("message", "endpoint"),
                        name="delivery_once_there",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("message", "user"),
                        name="delivery_once_a_person",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("topic", models.CharField(max_length=10)),
                ("shown", models.BooleanField(default=True)),
                ("digest", models.BooleanField(default=False)),
                ("read_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "message",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notices", to="runs.message"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.project",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("shown", True)),
                        fields=["user", "project", "-id"],
                        name="notice_listed",
                    ),
                    models.Index(
                        condition=models.Q(("read_at__isnull", True), ("shown", True)),
                        fields=["user", "project", "-id"],
                        name="notice_unread",
                    ),
                    models.Index(
                        condition=models.Q(("digest", True)),
                        fields=["user", "project"],
                        name="notice_for_digest",
                    ),
                ],
                "constraints": [models.UniqueConstraint(fields=("message", "user"), name="notice_once")],
            },
        ),
        migrations.CreateModel(
            name="Snooze",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
                (
                    "approval",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="snoozes",
                        to="runs.approval",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("approval", "user"), name="snooze_once_a_person")
                ],
            },
        ),
        migrations.CreateModel(
            name="Link",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("version", models.IntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.approval"
                    ),
                ),
                (
                    "delivery",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="link", to="runs.delivery"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("no", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("seconds", models.FloatField()),
                ("outcome", models.CharField(max_length=40)),
                ("http_status", models.IntegerField(null=True)),
                ("detail", models.TextField(default="")),
                ("answer", models.TextField(default="")),
                (
                    "delivery",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="runs.delivery",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("delivery", "no"), name="attempt_once")],
            },
        ),
        migrations.RunSQL(HISTORIES, migrations.RunSQL.noop),
        migrations.RunSQL(PACKED, migrations.RunSQL.noop),
        migrations.RunSQL(TUNE, migrations.RunSQL.noop),
    ]
