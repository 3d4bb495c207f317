"""Teams of the project: the list, and who is in one."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, roster
from runs.errors import HitlError
from runs.models import Team
from runs.web.door import Request
from runs.web.hours import said
from runs.web.sheet import Done, draw, forms

ROWS: Final = 100
CHOICES: Final = 1_000  # members to choose from
NAMED: Final = 12  # people of a team in the list of teams


def _teams(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    project = request.actor.project.pk
    found = roster.teams(project, after=request.GET.get("after", ""), limit=ROWS)
    asked = roster.asked_teams(project, [team.name for team in found.rows]) if found.rows else {}
    shown = {
        "rows": [_row(team, asked[team.name]) for team in found.rows],
        "more": f"?{urlencode({'after': found.rows[-1].name})}" if found.more else "",
        "administers": policies.can_administer(request.actor),
        "name": request.POST.get("name", ""),
    }
    return draw(request, "people/teams.html", shown, error)


def _row(team: Team, asked: int) -> dict[str, Any]:
    people = list(team.people.all())
    return {"team": team, "asked": asked, "people": people[:NAMED], "more": max(len(people) - NAMED, 0)}


@forms(_teams)
def index(request: Request) -> Done:
    made = operations.create_team(actor=request.actor, name=request.POST.get("name", "").strip())
    return Done("", reverse("team", args=[made.name]))


# ---- one team


def _team(request: Request, name: str, *, error: HitlError | None = None) -> HttpResponse:
    project = request.actor.project.pk
    found = roster.team(project, name)
    chosen = request.POST.getlist("people") or [user.username for user in found.people.all()]
    administers = policies.can_administer(request.actor)
    members = roster.members(project, limit=CHOICES).rows if administers else []
    hours, own_hours = queries.team_hours(project, name)
    shown = {
        "team": found,
        "asked": roster.asked_teams(project, [name])[name],
        "administers": administers,
        "hours": said(hours),
        "own_hours": own_hours,
        "choices": [{"member": member, "checked": member.user.username in chosen} for member in members],
    }
    return draw(request, "people/team.html", shown, error)


@forms(_team)
def show(request: Request, name: str) -> Done:
    if request.POST.get("verb") == "delete":
        operations.delete_team(actor=request.actor, team=name)
        return Done(gettext("The team {name} is dissolved.").format(name=name), reverse("teams"))
    operations.set_people(actor=request.actor, team=name, people=request.POST.getlist("people"))
    return Done(gettext("The team {name} is changed.").format(name=name), reverse("team", args=[name]))
