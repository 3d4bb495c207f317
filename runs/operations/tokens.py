from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Sequence
from datetime import datetime

from runs import policies
from runs.errors import BadRequest, Forbidden, NotFound, Told
from runs.models import ApiToken, Member, Project, User
from runs.models.people import SCOPES
from runs.operations.door import as_uuid, verb
from runs.policies import Actor
from runs.store import now

PREFIX = "hitl_"


def token_digest(secret: str) -> bytes:
    """What is kept of a token. A random token of 256 bits needs no slow hash."""
    return hashlib.sha256(secret.encode()).digest()


def create_token(
    *,
    actor: Actor,
    name: str,
    scopes: Sequence[str],
    user: User | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Make a token for oneself; for somebody else it takes the role admin (or a command). Returns it and its secret, once."""
    owner = user or actor.user
    with verb(actor, "create_token", name, reason=f"for {owner.username}: {', '.join(scopes)}"):
        if owner.pk != actor.user.pk and actor.method != "command":
            policies.check_administer(actor, "make a token for somebody else")
            if not owner.is_service:
                raise Forbidden("A token of a person acts as that person; only they make it.")
        for scope in ["admin", *scopes]:  # a token makes none that could do more
            policies.check_scope(actor, scope)
        return issue_token(project=actor.project, user=owner, name=name, scopes=scopes, expires_at=expires_at)


def issue_token(
    *, project: Project, user: User, name: str, scopes: Sequence[str], expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token without asking who asks: for commands, and inside `create_token`."""
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise BadRequest(
            Told("Scopes are {choices}; at least one is needed.", choices=", ".join(SCOPES)), unknown=unknown
        )
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise BadRequest("A token has a name of 1 to 100 characters.")
    if not Member.objects.filter(project=project, user=user).exists():
        raise Forbidden(Told("{user} is no member of {project}.", user=user, project=project))
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        project=project,
        user=user,
        name=name.strip(),
        prefix=secret[:12],
        digest=token_digest(secret),
        scopes=list(scopes),
        expires_at=expires_at,
    )
    return token, secret


def revoke_token(*, actor: Actor, token_id: uuid.UUID | str) -> ApiToken:
    """End a token: one's own, or anybody's as admin. Again changes nothing."""
    with verb(actor, "revoke_token", token_id):
        token = (
            ApiToken.objects.select_for_update().filter(pk=as_uuid(token_id), project=actor.project).first()
        )
        policies.check_scope(actor, "admin")
        if token is None or (token.user_id != actor.user.pk and not policies.can_administer(actor)):
            raise NotFound()
        if token.revoked_at is None:
            token.revoked_at = now()
            token.save(update_fields=["revoked_at"])
        return token
