"""Saved views: lists that people keep by name, for themselves or for a team."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from runs import inboxes, policies, runlists, saved
from runs.engine import canonical
from runs.errors import BadRequest, NameTaken, NotFound, Problem, Told, Unprocessable
from runs.models import SavedView, Team
from runs.models.views import PAGES
from runs.operations.door import as_uuid, verb
from runs.policies import Actor

MAX_NAME: Final = 60
MOST: Final = 100  # of one person in a project


def save_view(*, actor: Actor, page: str, name: str, query: Mapping[str, str], team: str = "") -> SavedView:
    """Keep a list by name. query: what its address says. team: whose people have it too; one of the actor's own.

    Raises `NameTaken` if they have one of this name on the page, `Unprocessable` for a query that the page does not know.
    """
    with verb(actor, "save_view", name[:MAX_NAME]):
        policies.check_views(actor, page)
        _check_room(actor)
        made = SavedView(
            project=actor.project,
            owner=actor.user,
            page=_page(page),
            name=_name(name),
            query=_query(page, query),
            team=_team(actor, team),
        )
        _store(made)
        return made


def change_view(
    *,
    actor: Actor,
    view_id: uuid.UUID | str,
    name: str | None = None,
    query: Mapping[str, str] | None = None,
    team: str | None = None,
) -> SavedView:
    """Rename a view, let it ask something else, share it or share it no more (team: empty). Its owner alone; None: as it is."""
    with verb(actor, "change_view", view_id):
        found = _own(actor, view_id)
        if name is not None:
            found.name = _name(name)
        if query is not None:
            found.query = _query(found.page, query)
        if team is not None:
            found.team = _team(actor, team)
        _store(found)
        return found


def delete_view(*, actor: Actor, view_id: uuid.UUID | str) -> None:
    """Keep a view no longer. Its owner; admins also those that are shared."""
    with verb(actor, "delete_view", view_id):
        found = _locked(actor, view_id)
        policies.check_views(actor, found.page)
        policies.check_delete_view(actor, found)
        found.delete()


# ---- inside


def _own(actor: Actor, view_id: uuid.UUID | str) -> SavedView:
    found = _locked(actor, view_id)
    policies.check_views(actor, found.page)
    policies.check_own_view(actor, found)
    return found


def _locked(actor: Actor, view_id: uuid.UUID | str) -> SavedView:
    found = saved.view(actor, as_uuid(view_id))  # what one may not see is not there
    locked = SavedView.objects.select_for_update(of=("self",)).select_related("owner", "team")
    again = locked.filter(pk=found.pk).first() if actor.roles else None
    if again is None:
        raise NotFound()
    return again


def _store(view: SavedView) -> None:
    try:
        with transaction.atomic():
            view.changed_at = Now()
            view.save()
    except IntegrityError:
        raise NameTaken(
            Told("You have a view {view!r} there already.", view=view.name),
            errors=[Problem("/name", "name_taken", "is taken")],
        ) from None
    view.refresh_from_db(fields=["created_at", "changed_at"])


def _check_room(actor: Actor) -> None:
    if SavedView.objects.filter(project=actor.project, owner=actor.user).count() >= MOST:
        raise Unprocessable(Told("You keep {most} views already; delete one first.", most=MOST))


def _page(page: str) -> str:
    if page not in PAGES:
        raise BadRequest(Told("Views are of {choices}.", choices=" or ".join(PAGES)))
    return page


def _name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        message = Told("a name has 1 to {max_name} printable characters", max_name=MAX_NAME)
        raise Unprocessable("This is no name.", errors=[Problem("/name", "name", message)])
    return name


def _query(page: str, query: Mapping[str, str]) -> dict[str, str]:
    """Without what says nothing. Raises `Unprocessable`."""
    told = {name: value for name, value in query.items() if value}
    canonical.check(told)
    wrong = faults(_page(page), told)
    if wrong:
        first = wrong[0]
        raise Unprocessable(
            f"{first.path[1:]}: {first.message}.",
            errors=[Problem(f"/query{one.path}", one.code, one.message) for one in wrong],
        )
    return told


def faults(page: str, told: Mapping[str, str]) -> list[Problem]:
    """What nobody knows of a query that is to be kept."""
    names, fault = _LISTS[page]
    unknown = [
        Problem(f"/{name}", "unknown_field", Told("known here: {choices}", choices=", ".join(names)))
        for name in told
        if name not in names
    ]
    wrong = [(name, fault(name, value)) for name, value in told.items() if name in names]
    return unknown + [Problem(f"/{name}", "invalid_value", why) for name, why in wrong if why]


def _team(actor: Actor, name: str) -> Team | None:
    if not name:
        return None
    found = Team.objects.filter(project=actor.project, name=name, people=actor.user).first()
    if found is None:
        told = Told("share it with a team that you are in")
        raise Unprocessable(f"{told.capitalize()}.", errors=[Problem("/team", "unknown_team", told)])
    return found


_LISTS: Final[Mapping[str, tuple[Sequence[str], Callable[[str, str], str]]]] = {
    "inbox": (inboxes.NAMES, inboxes.fault),
    "runs": (runlists.NAMES, runlists.fault),
}
