"""Invitations: a link that an admin copies or that goes by mail, for one person, once, until it expires."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.formats import date_format
from django.utils.translation import gettext

from runs.errors import Conflict, InvitationOver, InvitedSomebodyElse, NotFound, Problem, Told, Unprocessable
from runs.models import Invitation, Member, User
from runs.operations.administering import (
    administration,
    check_password,
    known_roles,
    lock_projects,
    new_user,
    shown_name,
)
from runs.operations.door import as_uuid, verb
from runs.operations.sending import send_after_commit
from runs.policies import Actor
from runs.store import now

DAYS: Final = 7
LONGEST: Final = 90


@dataclass(frozen=True, slots=True)
class NewAccount:
    """What somebody says of themselves who comes in by an invitation. email: where the invitation names none."""

    username: str
    name: str
    password: str
    email: str = ""


def invite(
    *, actor: Actor, roles: Sequence[str], link: Callable[[str], str], email: str = "", days: int = DAYS
) -> tuple[Invitation, str]:
    """Ask somebody in. Returns the invitation and its link, once; with an e-mail address it is also sent there.

    link: makes the address of a page from the invitation's secret.
    """
    wanted, address = known_roles(roles), _email(email)
    if not 0 < days <= LONGEST:
        message = Told("a whole number from 1 to {longest}", longest=LONGEST)
        raise Unprocessable("The days are not right.", errors=[Problem("/days", "days", message)])
    secret = secrets.token_urlsafe(32)
    said = f"roles: {', '.join(wanted)}" + (f"; for {address}" if address else "; for whoever has the link")
    with administration(actor, "invite", address or "by link", what="invite people", said=said):
        made = Invitation.objects.create(
            project=actor.project,
            roles=wanted,
            email=address,
            digest=_digest(secret),
            author=actor.user,
            expires_at=now() + timedelta(days=days),
        )
        where = link(secret)
        if address:
            send_after_commit(
                to=address,
                subject=gettext("{user} invites you to {project}").format(
                    user=actor.user, project=actor.project
                ),
                text=_letter(made, actor, where),
            )
        return made, where


def _letter(made: Invitation, actor: Actor, where: str) -> str:
    """In the language of who invites: nobody knows yet which one the other reads."""
    opening = gettext("{user} invites you to the project {project}.")
    closing = gettext("The link works once, until {day}. If you do not know why you get this, do nothing.")
    day = date_format(made.expires_at, gettext("d F Y"))
    return (
        f"{opening.format(user=actor.user, project=actor.project)}\n\n{where}\n\n{closing.format(day=day)}\n"
    )


def withdraw_invitation(*, actor: Actor, invitation_id: uuid.UUID | str) -> Invitation:
    """End an invitation that nobody has used. Again changes nothing. Raises `InvitationOver` for one that was used."""
    with administration(actor, "withdraw_invitation", invitation_id, what="withdraw invitations"):
        found = (
            Invitation.objects.select_for_update()
            .filter(pk=as_uuid(invitation_id), project=actor.project)
            .first()
        )
        if found is None:
            raise NotFound()
        if found.used_at is not None:
            raise Conflict("Somebody has already come in by this invitation.")
        if found.withdrawn_at is None:
            found.withdrawn_at = now()
            found.save(update_fields=["withdrawn_at"])
        return found


def invitation(secret: str) -> Invitation:
    """The invitation of a link, to be looked at. One query; raises `NotFound`, `InvitationOver`."""
    return _open(
        Invitation.objects.select_related("project", "author").filter(digest=_digest(secret)).first()
    )


def accept_invitation(*, user: User, secret: str, address: str = "") -> Member:
    """Come in with the account one has; who is a member already gets the roles besides. Raises `InvitedSomebodyElse`."""
    asked = invitation(secret)
    actor = Actor(user, asked.project, "session", address)
    with verb(actor, "accept_invitation", asked.pk, reason=f"roles: {', '.join(asked.roles)}"):
        taken = _taken(asked)
        if taken.email and user.email.lower() != taken.email:
            raise InvitedSomebodyElse(
                Told(
                    "This invitation is for {email}; you are signed in as {username}.",
                    email=taken.email,
                    username=user.username,
                )
            )
        return _come_in(taken, user)


def join_by_invitation(*, secret: str, account: NewAccount, address: str = "") -> Member:
    """Come in with a new account. Raises `NameTaken`, `Unprocessable`."""
    asked = invitation(secret)
    email = asked.email or _email(account.email)
    stranger = User(username=account.username)
    actor = Actor(stranger, asked.project, "session", address)
    with verb(actor, "join_by_invitation", asked.pk, reason=f"roles: {', '.join(asked.roles)}"):
        taken = _taken(asked)
        shown_name(account.name)
        check_password(account.password)
        user = new_user(username=account.username, name=account.name, email=email, password="!")  # noqa: S106 (fits none)
        user.set_password(account.password)
        user.save(update_fields=["password"])
        return _come_in(taken, user)


# ---- inside


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _open(found: Invitation | None) -> Invitation:
    if found is None:
        raise NotFound()
    if found.used_at is not None:
        raise InvitationOver("Somebody has already come in by this invitation.")
    if found.withdrawn_at is not None:
        raise InvitationOver("This invitation was withdrawn.")
    if found.expires_at <= now():
        raise InvitationOver("This invitation has expired; ask for another.")
    return found


def _taken(asked: Invitation) -> Invitation:
    """The invitation, locked after its project as every change of members is: of two who come at once, one comes in."""
    lock_projects([asked.project_id])
    return _open(Invitation.objects.select_for_update().filter(pk=asked.pk).first())


def _come_in(taken: Invitation, user: User) -> Member:
    member, new = Member.objects.get_or_create(
        project_id=taken.project_id, user=user, defaults={"roles": taken.roles}
    )
    if not new:
        member.roles = known_roles([*member.roles, *taken.roles])
        member.save(update_fields=["roles"])
    taken.used_at, taken.used_by = now(), user
    taken.save(update_fields=["used_at", "used_by"])
    return member


def _email(text: str) -> str:
    address = text.strip().lower()
    if not address:
        return ""
    try:
        validate_email(address)
    except ValidationError:
        raise Unprocessable(
            "This is no mail address.", errors=[Problem("/email", "email", "no mail address")]
        ) from None
    return address
