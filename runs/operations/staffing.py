"""Who is away, who answers in their place, and when the people of a team work."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from runs import policies, store
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.hours import hours_from
from runs.errors import NotFound, Problem, Told, Unprocessable
from runs.models import Absence, Project, Team, TeamHours, User
from runs.operations.door import as_uuid, verb
from runs.policies import Actor

LONGEST_ABSENCE: Final = timedelta(days=366)
MAX_NOTE: Final = 1_000


def be_away(
    *,
    actor: Actor,
    substitute: str,
    starts_at: datetime,
    ends_at: datetime,
    note: str = "",
    user: str | None = None,
) -> Absence:
    """Name who answers while one is away (usernames); an admin may do so for somebody else. Raises `Unprocessable`.

    The substitute answers in that person's place, and must be somebody who decides. A substitute has no substitute: what
    falls to them in somebody's place goes no further.
    """
    with verb(actor, "be_away", user or actor.user.username, reason=note[:MAX_NOTE]):
        person = actor.user if user is None else _member(actor, user, "user")
        policies.check_absence(actor, person)
        canonical.check({"note": note})
        other = _member(actor, substitute, "substitute")
        _check(person, other, starts_at, ends_at, note)
        taken = Absence.objects.filter(project=actor.project, user=person, ended_at=None)
        if taken.filter(starts_at__lt=ends_at, ends_at__gt=starts_at).exists():
            raise _refused("/starts_at", "overlaps", Told("there is an absence in this time already"))
        return Absence.objects.create(
            project=actor.project,
            user=person,
            substitute=other,
            starts_at=starts_at,
            ends_at=ends_at,
            note=note,
        )


def be_back(*, actor: Actor, absence_id: uuid.UUID | str) -> Absence:
    """Take an absence back, or end it now. What the substitute has said counts on."""
    with verb(actor, "be_back", absence_id):
        rows = Absence.objects.select_for_update(of=("self",)).select_related("user", "substitute")
        found = rows.filter(pk=as_uuid(absence_id), project=actor.project).first()
        if found is None or not actor.roles:
            raise NotFound()
        policies.check_absence(actor, found.user)
        if found.ended_at is None:
            found.ended_at = store.now()
            found.save(update_fields=["ended_at"])
        return found


def set_hours(*, actor: Actor, team: str, hours: Json) -> None:
    """Say when the people of a team work (see `runs.engine.hours.Hours.as_dict`); None: as the project says.

    An empty team: the people of all teams that say nothing, and whoever is asked without a team. Counts for what is asked
    from now on.
    """
    told = None if hours is None else hours_from(hours)
    with verb(actor, "set_hours", team or "project", reason=str(told or "as is usual")):
        policies.check_hours(actor)
        if not team:
            Project.objects.filter(pk=actor.project.pk).update(hours=told and told.as_dict())
            return
        found = Team.objects.filter(project=actor.project, name=team).first()
        if found is None:
            raise NotFound()
        if told is None:
            TeamHours.objects.filter(team=found).delete()
            return
        TeamHours.objects.update_or_create(
            team=found, defaults={"document": told.as_dict(), "changed_at": store.now()}
        )


def _member(actor: Actor, username: str, name: str) -> User:
    canonical.check({name: username})
    members = Q(memberships__project=actor.project)
    found = User.objects.filter(members, username=username, is_active=True).first()
    if found is None:
        raise _refused(
            f"/{name}",
            "unknown_person",
            Told("{username!r} is no member of this project", username=username[:150]),
        )
    return found


def _check(person: User, other: User, starts_at: datetime, ends_at: datetime, note: str) -> None:
    if person.pk == other.pk:
        raise _refused("/substitute", "same_person", Told("somebody else answers while one is away"))
    if starts_at.utcoffset() is None or ends_at.utcoffset() is None:
        raise _refused("/starts_at", "no_zone", Told("an instant has a time zone"))
    if not starts_at < ends_at or ends_at <= store.now():
        raise _refused("/ends_at", "invalid_instant", Told("later than the beginning, and than now"))
    if ends_at - starts_at > LONGEST_ABSENCE:
        raise _refused("/ends_at", "too_long", Told("at most {days} days", days=LONGEST_ABSENCE.days))
    if len(note) > MAX_NOTE:
        raise _refused("/note", "too_long", Told("at most {max_note:,} characters", max_note=MAX_NOTE))


def _refused(path: str, code: str, message: str) -> Unprocessable:
    return Unprocessable(f"{path[1:]}: {message}.", errors=[Problem(path, code, message)])
