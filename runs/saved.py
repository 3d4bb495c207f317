"""Reads of saved views: a person's own, and those that are shared with a team of theirs."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from runs.errors import NotFound
from runs.models import SavedView, Team, User
from runs.policies import Actor
from runs.store import Given, Part, answers, instances

MOST: Final = 50  # that one list shows
_VIEW: Final = Part(SavedView)
_OWNER: Final = Part(User, "owner")
_TEAM: Final = Part(Team, "team")


def of(actor: Actor, page: str) -> list[SavedView]:
    """What a person may open on a page, by name. One query."""

    def query() -> QuerySet[SavedView, Any]:
        told = _seen(Given("user"), Given("project"), admin="admin" in actor.roles)
        some = told.filter(page=Given("page")).order_by("name", "pk")
        return some.values_list(*_VIEW.names, *_OWNER.names, *_TEAM.names)[:MOST]

    found = []
    name = "saved views of an admin" if "admin" in actor.roles else "saved views"
    for row in answers(name, query, user=actor.user.pk, project=actor.project.pk, page=page):
        view, view.owner, view.team = instances(row, _VIEW, _OWNER, _TEAM)
        found.append(view)
    return found


def every(actor: Actor) -> list[SavedView]:
    """The same of every page. One query."""
    return list(_seen_by(actor).order_by("page", "name", "pk")[: 2 * MOST])


def view(actor: Actor, view_id: UUID, *, page: str = "") -> SavedView:
    """One of them; page: only of this one. One query; raises `NotFound`, also for what somebody keeps for themselves."""
    found = _seen_by(actor).filter(pk=view_id).first()
    if found is None or page not in ("", found.page):
        raise NotFound()
    return found


def _seen_by(actor: Actor) -> QuerySet[SavedView]:
    seen = _seen(actor.user.pk, actor.project.pk, admin="admin" in actor.roles)
    return seen.select_related("owner", "team")


def _seen(user: int | Given, project: UUID | Given, *, admin: bool) -> QuerySet[SavedView]:
    """Admins see whatever is shared: they keep house."""
    teams = Team.objects.filter(people=user, project=project)
    mine = Q(owner=user) | Q(team__in=teams.values("pk"))
    if admin:
        mine |= Q(team__isnull=False)
    return SavedView.objects.filter(mine, project=project)
