"""Reads of saved views: a person's own, and those that are shared with a team of theirs."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from runs.errors import NotFound
from runs.models import SavedView
from runs.policies import Actor

MOST: Final = 50  # that one list shows


def of(actor: Actor, page: str) -> list[SavedView]:
    """What a person may open on a page, by name. One query."""
    return list(_seen(actor).filter(page=page).order_by("name", "pk")[:MOST])


def every(actor: Actor) -> list[SavedView]:
    """The same of every page. One query."""
    return list(_seen(actor).order_by("page", "name", "pk")[: 2 * MOST])


def view(actor: Actor, view_id: UUID, *, page: str = "") -> SavedView:
    """One of them; page: only of this one. One query; raises `NotFound`, also for what somebody keeps for themselves."""
    found = _seen(actor).filter(pk=view_id).first()
    if found is None or page not in ("", found.page):
        raise NotFound()
    return found


def _seen(actor: Actor) -> QuerySet[SavedView]:
    """Admins see whatever is shared: they keep house."""
    mine = Q(owner=actor.user) | Q(team__in=actor.user.teams.filter(project=actor.project).values("pk"))
    if "admin" in actor.roles:
        mine |= Q(team__isnull=False)
    return SavedView.objects.select_related("owner", "team").filter(mine, project=actor.project)
