"""Saved views: keep the list one is looking at, rename, share and delete."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, saved
from runs.errors import HitlError
from runs.models import SavedView
from runs.models.views import PAGES
from runs.web.door import Request
from runs.web.sheet import Done, draw, fields_of, forms

PLACES: Final = {"inbox": "inbox", "runs": "runs"}  # the list that each is a view of
NOT_KEPT: Final = (
    "page",
    "after",
    "choose",
    "older_than",
    "newer_than",
)  # where one is in a list is no part of it


def _index(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    page, query = _page(request), _query(request)
    shown = {
        "page": page,
        "query": query,
        "place": url_of(page, query),
        "back": url_of(page, query) if query else reverse(PLACES[page]),
        "name": request.POST.get("name", ""),
        "team": request.POST.get("team", ""),
        "teams": _teams(request),
        "wrong": fields_of(error),
        "rows": [_row(request, view) for view in saved.every(request.actor)],
    }
    return draw(request, "views/views.html", shown, error)


@forms(_index)
def index(request: Request) -> Done:
    made = operations.save_view(
        actor=request.actor,
        page=_page(request),
        name=request.POST.get("name", ""),
        query=_query(request),
        team=request.POST.get("team", ""),
    )
    return Done(gettext("{name} is saved.").format(name=made.name), url_of(made.page, made.query))


def _show(request: Request, view_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    view = saved.view(request.actor, view_id)
    shown = {
        "view": view,
        "place": url_of(view.page, view.query),
        "name": request.POST.get("name", view.name),
        "team": request.POST.get("team", view.team.name if view.team else ""),
        "teams": _teams(request),
        "mine": view.owner_id == request.user.pk,
        "may_delete": policies.can_delete_view(request.actor, view),
        "wrong": fields_of(error),
    }
    return draw(request, "views/view.html", shown, error)


@forms(_show)
def show(request: Request, view_id: UUID) -> Done:
    view = saved.view(request.actor, view_id)
    back = f"{reverse('views')}?{urlencode({'page': view.page})}"
    if request.POST.get("do") == "delete":
        operations.delete_view(actor=request.actor, view_id=view_id)
        return Done(gettext("{name} is deleted.").format(name=view.name), back)
    changed = operations.change_view(
        actor=request.actor,
        view_id=view_id,
        name=request.POST.get("name", ""),
        team=request.POST.get("team", ""),
    )
    return Done(gettext("{name} is changed.").format(name=changed.name), back)


def url_of(page: str, query: dict[str, str]) -> str:
    """The list that a view is of."""
    return reverse(PLACES[page]) + (f"?{urlencode(query)}" if query else "")


def _row(request: Request, view: SavedView) -> dict[str, Any]:
    return {
        "view": view,
        "place": url_of(view.page, view.query),
        "said": ", ".join(f"{name} {value}" for name, value in view.query.items()) or gettext("everything"),
        "mine": view.owner_id == request.user.pk,
        "may_delete": policies.can_delete_view(request.actor, view),
    }


def _teams(request: Request) -> list[str]:
    """Those that one may share with: one's own."""
    return sorted({team for seat in request.actor.seats if seat.own for team in seat.teams})


def _page(request: Request) -> str:
    wanted = request.POST.get("page") or request.GET.get("page", "")
    return wanted if wanted in PAGES else PAGES[0]


def _query(request: Request) -> dict[str, str]:
    """What the address says beside the page; a form carries it along in its own."""
    return {name: request.GET[name] for name in request.GET if name not in NOT_KEPT and request.GET[name]}
