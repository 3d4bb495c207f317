"""Who belongs to a project, and what they may do there."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from runs import dispatch, policies
from runs.errors import Conflict, NotFound, Told, WorksElsewhere
from runs.models import ApiToken, Member, Project, Team, User
from runs.operations.administering import (
    administration,
    check_admin_stays,
    check_password,
    known_roles,
    lock_projects,
    locked_member,
    new_user,
)
from runs.operations.door import audit_command, verb
from runs.policies import Actor
from runs.store import now


def set_roles(*, actor: Actor, username: str, roles: Sequence[str]) -> Member:
    """Say what a member may do; it holds from their next request on. Raises `LastAdmin`."""
    wanted = known_roles(roles)
    with administration(
        actor, "set_roles", username, what="change roles", said=f"roles: {', '.join(wanted)}"
    ):
        member = locked_member(actor, username)
        if "admin" in member.roles and "admin" not in wanted:
            check_admin_stays(actor.project.pk, without=member.user)
        if member.roles != wanted:
            member.roles = wanted
            member.save(update_fields=["roles"])
            dispatch.announce_person(member.user_id)
        return member


def remove_member(*, actor: Actor, username: str) -> None:
    """Take somebody out of the project: their teams and tokens there end. One may always leave. Raises `LastAdmin`."""
    with verb(actor, "remove_member", username):
        policies.check_scope(actor, "admin")
        if username != actor.user.username:
            policies.check_administer(actor, "remove members")
        lock_projects([actor.project.pk])
        member = locked_member(actor, username)
        if "admin" in member.roles:
            check_admin_stays(actor.project.pk, without=member.user)
        for team in Team.objects.filter(project=actor.project, people=member.user):
            team.people.remove(member.user)
        mine = ApiToken.objects.filter(project=actor.project, user=member.user, revoked_at__isnull=True)
        mine.update(revoked_at=now())
        member.delete()
        dispatch.announce_person(member.user_id)


def create_service_account(*, actor: Actor, username: str, name: str, roles: Sequence[str]) -> Member:
    """An account that comes in by API token only. Raises `NameTaken`."""
    wanted = known_roles(roles)
    with administration(
        actor,
        "create_service_account",
        username,
        what="make service accounts",
        said=f"roles: {', '.join(wanted)}",
    ):
        user = new_user(username=username, name=name, is_service=True, password="!")  # noqa: S106 (fits no password)
        return Member.objects.create(project=actor.project, user=user, roles=wanted)


def deactivate(*, actor: Actor, username: str) -> Member:
    """Close an account everywhere, at once: sessions, tokens, open pages, candidacy. What it had started goes on.

    Raises `LastAdmin`, and `WorksElsewhere` where the account has projects that the actor does not administer.
    """
    if username == actor.user.username:
        raise Conflict("You cannot deactivate yourself; another admin can.")
    return _switch(actor, "deactivate", username, active=False)


def reactivate(*, actor: Actor, username: str) -> Member:
    """Open an account again: its tokens work as before, unless they were revoked. Raises `WorksElsewhere`."""
    return _switch(actor, "reactivate", username, active=True)


def _switch(actor: Actor, name: str, username: str, *, active: bool) -> Member:
    projects = Member.objects.filter(user__username=username).values_list("project", flat=True)
    with administration(actor, name, username, what=f"{name} accounts", also=list(projects)):
        member = locked_member(actor, username)
        _check_everywhere(actor, member.user)
        _set_active(member.user, active=active)
        return member


def _check_everywhere(actor: Actor, user: User) -> None:
    """An account is one in all projects: whoever closes it administers them all."""
    mine = Member.objects.filter(user=actor.user, roles__contains=["admin"]).values("project")
    if Member.objects.filter(user=user).exclude(project__in=mine).exists():
        raise WorksElsewhere()


def _set_active(user: User, *, active: bool) -> None:
    """In projects that are locked."""
    if not active:
        for member in Member.objects.filter(user=user, roles__contains=["admin"]):
            check_admin_stays(member.project_id, without=user)
    User.objects.filter(pk=user.pk).update(is_active=active)
    user.is_active = active
    dispatch.announce_person(user.pk)


# ---- at the command line


@transaction.atomic(durable=True)
def add_person(
    *, project: Project, username: str, name: str, email: str, roles: Sequence[str], password: str
) -> Member:
    """Make an account that can sign in, as a member of a project. Raises `NameTaken`."""
    wanted = known_roles(roles)
    check_password(password)
    user = new_user(username=username, name=name, email=email, password="!")  # noqa: S106 (fits no password)
    user.set_password(password)
    user.save(update_fields=["password"])
    audit_command(project, "add_person", username, reason=f"roles: {', '.join(wanted)}")
    return Member.objects.create(project=project, user=user, roles=wanted)


@transaction.atomic(durable=True)
def switch_account(*, username: str, active: bool) -> User:
    """Close or open an account in all its projects. Raises `NotFound`, `LastAdmin`."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(Told("There is no account {username!r}.", username=username))
    lock_projects(Member.objects.filter(user=user).values_list("project", flat=True))
    _set_active(user, active=active)
    for project in Project.objects.filter(members__user=user):
        audit_command(project, "reactivate" if active else "deactivate", username)
    return user
