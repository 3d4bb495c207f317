"""Teams: people who are asked together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from django.db import IntegrityError, transaction

from runs import dispatch
from runs.engine.status import ApprovalStatus
from runs.errors import NameTaken, NotFound, Problem, TeamInUse, Told, Unprocessable
from runs.models import Approval, Team, User
from runs.operations.administering import administration
from runs.policies import Actor

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")


def create_team(*, actor: Actor, name: str, people: Sequence[str] = ()) -> Team:
    """A team of members, by their account names. Raises `NameTaken`."""
    if not _NAME.match(name):
        message = "1 to 63 letters, digits, - or _"
        raise Unprocessable("This is no name of a team.", errors=[Problem("/name", "name", message)])
    with administration(
        actor, "create_team", name, what="make teams", said=f"people: {', '.join(people) or 'nobody'}"
    ):
        members = _members(actor, people)
        try:
            with transaction.atomic():
                team = Team.objects.create(project=actor.project, name=name)
        except IntegrityError:
            raise NameTaken(
                Told("There is a team {name!r} already.", name=name),
                errors=[Problem("/name", "name_taken", "is taken")],
            ) from None
        team.people.set(members)
        return team


def set_people(*, actor: Actor, team: str, people: Sequence[str]) -> Team:
    """Say who is in a team: these members, nobody else. Open approvals ask whoever is in it then."""
    with administration(
        actor, "set_people", team, what="change teams", said=f"people: {', '.join(people) or 'nobody'}"
    ):
        found = _locked(actor, team)
        found.people.set(_members(actor, people))
        dispatch.announce(actor.project.pk, actor.project.pk)
        return found


def delete_team(*, actor: Actor, team: str) -> None:
    """Dissolve a team. Raises `TeamInUse` while open approvals ask it."""
    with administration(actor, "delete_team", team, what="dissolve teams"):
        found = _locked(actor, team)
        asked = Approval.objects.filter(
            project=actor.project, status=ApprovalStatus.OPEN, teams__contains=[team]
        ).count()
        if asked:
            told = (
                Told("1 open approval asks the team {team!r}; have them answered first.", team=team)
                if asked == 1
                else Told(
                    "{asked} open approvals ask the team {team!r}; have them answered first.",
                    asked=asked,
                    team=team,
                )
            )
            raise TeamInUse(told, approvals=asked)
        found.delete()


def _locked(actor: Actor, name: str) -> Team:
    found = Team.objects.select_for_update().filter(project=actor.project, name=name).first()
    if found is None:
        raise NotFound()
    return found


def _members(actor: Actor, names: Sequence[str]) -> list[User]:
    """Accounts by name, in one query. Raises `Unprocessable` for who is no member."""
    found = {
        user.username: user
        for user in User.objects.filter(memberships__project=actor.project, username__in=list(names))
    }
    missing = [name for name in names if name not in found]
    if missing:
        message = Told("no members of this project: {choices}", choices=", ".join(missing[:20]))
        raise Unprocessable(
            "Only members can be in a team.", errors=[Problem("/people", "no_member", message)]
        )
    return list(found.values())
