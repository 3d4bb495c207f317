"""Teams of the project: the list, and who is in one."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse

from runs import operations, policies, roster
from runs.errors import HitlError
from runs.web import once
from runs.web.door import Request, page, see_other
from runs.web.members import drawn

ROWS: Final = 100
CHOICES: Final = 1_000  # members to choose from


def teams_again(request: Request, error: HitlError) -> HttpResponse:
    return _teams(request, error=error)


@page(methods="GET POST", refused=teams_again)
def index(request: Request) -> HttpResponse:
    if request.method != "POST":
        return _teams(request)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    made = operations.create_team(actor=request.actor, name=request.POST.get("name", "").strip())
    return see_other(once.remember(request, reverse("team", args=[made.name])))


def _teams(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    project = request.actor.project.pk
    found = roster.teams(project, after=request.GET.get("after", ""), limit=ROWS)
    asked = roster.asked_teams(project, [team.name for team in found.rows]) if found.rows else {}
    shown = {
        "rows": [{"team": team, "asked": asked[team.name]} for team in found.rows],
        "more": f"?{urlencode({'after': found.rows[-1].name})}" if found.more else "",
        "administers": policies.can_administer(request.actor),
        "name": request.POST.get("name", ""),
    }
    return drawn(request, "people/teams.html", shown, error)


def team_again(request: Request, error: HitlError, name: str) -> HttpResponse:
    return _team(request, name, error=error)


@page(methods="GET POST", refused=team_again)
def show(request: Request, name: str) -> HttpResponse:
    if request.method != "POST":
        return _team(request, name)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    if request.POST.get("verb") == "delete":
        operations.delete_team(actor=request.actor, team=name)
        messages.success(request, f"The team {name} is dissolved.")
        return see_other(once.remember(request, reverse("teams")))
    operations.set_people(actor=request.actor, team=name, people=request.POST.getlist("people"))
    messages.success(request, f"The team {name} is changed.")
    return see_other(once.remember(request, reverse("team", args=[name])))


def _team(request: Request, name: str, *, error: HitlError | None = None) -> HttpResponse:
    project = request.actor.project.pk
    found = roster.team(project, name)
    chosen = request.POST.getlist("people") or [user.username for user in found.people.all()]
    administers = policies.can_administer(request.actor)
    members = roster.members(project, limit=CHOICES).rows if administers else []
    shown = {
        "team": found,
        "asked": roster.asked_teams(project, [name])[name],
        "administers": administers,
        "choices": [{"member": member, "checked": member.user.username in chosen} for member in members],
    }
    return drawn(request, "people/team.html", shown, error)
