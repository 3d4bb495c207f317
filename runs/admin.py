"""Django's admin, for looking only: every change goes through an operation, which checks, audits and tells workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from runs.models import (
    Absence,
    ApiToken,
    Approval,
    Attachment,
    AuditEntry,
    Content,
    Invitation,
    LegalHold,
    Member,
    OperationalNote,
    Project,
    Removed,
    RetentionPolicy,
    Run,
    SavedView,
    ServiceBeat,
    Snooze,
    Team,
    TeamHours,
    Usage,
    User,
    Vote,
    Wait,
    WorkerChild,
    WorkflowVersion,
)

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class ReadOnly(ModelAdmin):
    """Nothing can be added, changed or deleted here, by nobody."""

    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def _look(model: type[Model], *columns: str, hidden: tuple[str, ...] = ()) -> None:
    options = {"list_display": columns, "exclude": hidden, "show_full_result_count": False}
    admin.site.register(model, type(f"{model.__name__}Admin", (ReadOnly,), options))


_look(Project, "slug", "name", "created_at")
_look(User, "username", "name", "is_service", "is_active", hidden=("password",))
_look(Member, "project", "user", "roles")
_look(Team, "project", "name")
_look(Invitation, "project", "email", "roles", "expires_at", "used_at", "withdrawn_at", hidden=("digest",))
_look(ApiToken, "name", "prefix", "user", "scopes", "expires_at", "revoked_at", hidden=("digest",))
_look(WorkflowVersion, "name", "version", "fingerprint", "registered_at")
# Documents are read on the pages, which know whose eyes they are for.
_look(
    Run,
    "id",
    "workflow",
    "status",
    "requester",
    "created_at",
    hidden=("head_hash", "prev_hash", "input", "output", "error"),
)
_look(
    Approval, "id", "node", "status", "outcome", "opened_at", "due_at", hidden=("title", "document", "words")
)
_look(
    Vote, "id", "version", "user", "outcome", "decisive", "at", hidden=("approval", "decisions", "signature")
)
_look(Attachment, "id", "run", "node", "created_at", hidden=("name", "author"))
_look(Content, "id", "project", "size", "stored", "touched_at", hidden=("digest",))
_look(Absence, "project", "user", "substitute", "starts_at", "ends_at", "ended_at")
_look(Snooze, "approval", "user", "until")
_look(SavedView, "project", "page", "name", "owner", "team", "changed_at")
_look(TeamHours, "team", "changed_at")
_look(Wait, "run", "node", "kind", "opened_at", "due_at", "closed_at")
_look(Usage, "run", "node", "call", "model", "model_tokens_in", "model_tokens_out", "cost", "currency", "at")
_look(OperationalNote, "run", "kind", "at", hidden=("facts",))
_look(AuditEntry, "at", "user_name", "method", "verb", "target", "outcome", "reason")
_look(RetentionPolicy, "project", "workflow", "updated_at")
_look(LegalHold, "run", "author", "created_at")
_look(Removed, "id", "kind", "workflow", "status", "removed_at", hidden=("head_hash",))
_look(WorkerChild, "id", "host", "pid", "started_at", "leaving_at", "gone_at")
_look(ServiceBeat, "name", "at")
