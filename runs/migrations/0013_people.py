import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0012_delivery"),
    ]

    operations = [
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
            ],
        ),
        migrations.RemoveConstraint(
            model_name="apitoken",
            name="token_scopes_known",
        ),
        migrations.AddField(
            model_name="member",
            name="joined_at",
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["project", "-id"], name="audit_by_project"),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "scopes__contained_by",
                        [
                            "runs:read",
                            "runs:submit",
                            "runs:operate",
                            "approvals:read",
                            "approvals:decide",
                            "admin",
                        ],
                    )
                ),
                name="token_scopes_known",
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="author",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="invitations", to="runs.project"
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="used_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(
                condition=models.Q(("used_at", None), ("withdrawn_at", None)),
                fields=["project", "-created_at"],
                name="invitation_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("roles__contained_by", ["viewer", "submitter", "reviewer", "operator", "admin"]),
                    models.Q(("roles", []), _negated=True),
                ),
                name="invitation_roles_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("used_at", None), ("withdrawn_at", None), _connector="OR"),
                name="invitation_used_or_withdrawn",
            ),
        ),
    ]
