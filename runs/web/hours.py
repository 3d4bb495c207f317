"""When the people of a team, or of the whole project, work: said, tried out, and given back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext

from runs import operations, policies, queries, store
from runs.engine.canonical import Json
from runs.engine.hours import DAYS, Business, Hours, business, hours_from, zone_named
from runs.errors import HitlError, Problem, Told, Unprocessable
from runs.templatetags import words
from runs.tongue import Words, speak
from runs.web import clocks
from runs.web.door import Request
from runs.web.sheet import Done, draw, fields_of, forms

WEEKDAYS: Final = Words(
    {
        "mon": "Monday",
        "tue": "Tuesday",
        "wed": "Wednesday",
        "thu": "Thursday",
        "fri": "Friday",
        "sat": "Saturday",
        "sun": "Sunday",
    }
)
SHORT_DAYS: Final = Words(
    {"mon": "Mon", "tue": "Tue", "wed": "Wed", "thu": "Thu", "fri": "Fri", "sat": "Sat", "sun": "Sun"}
)
FRIDAY: Final = 4
TRIED: Final = "4 business hours"
LONGEST: Final = 10_000  # hours or days that are tried out


def said(hours: Hours) -> str:
    """ "Mon to Fri 09:00 to 17:00, Europe/Berlin, 2 holidays"."""
    told = []
    for first, last, begin, end in hours.stretches():
        one, span = gettext("{first} {begin} to {end}"), gettext("{first} to {last} {begin} to {end}")
        days = {"first": SHORT_DAYS[first], "last": SHORT_DAYS[last]}
        told.append((one if first == last else span).format(**days, begin=begin, end=end))
    free = len(hours.holidays)
    holidays = [words.some(free, "{count} holiday", "{count} holidays")] if free else []
    return ", ".join([*told, hours.zone, *holidays])


def _of_team(request: Request, name: str, *, error: HitlError | None = None) -> HttpResponse:
    hours, told = queries.team_hours(request.actor.project.pk, name)
    return _page(request, hours, told=told, team=name, error=error)


@forms(_of_team)
def of_team(request: Request, name: str) -> Done | HttpResponse:
    # A team that is not there has no hours to try out either.
    queries.team_hours(request.actor.project.pk, name)
    return _do(request, team=name, here=reverse("team-hours", args=[name]))


def _of_project(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    hours, told = queries.project_hours(request.actor.project.pk)
    return _page(request, hours, told=told, team="", error=error)


@forms(_of_project)
def of_project(request: Request) -> Done | HttpResponse:
    return _do(request, team="", here=reverse("settings-hours"))


def _do(request: Request, *, team: str, here: str) -> Done | HttpResponse:
    """Save, give back, or only say what a length of time comes to under what was typed."""
    if request.POST.get("verb") == "drop":
        operations.set_hours(actor=request.actor, team=team, hours=None)
        whose = gettext("The team {team} works as usual.") if team else gettext("The project works as usual.")
        return Done(whose.format(team=team), here)
    typed = _typed(request.POST)
    if request.POST.get("verb") == "try":
        policies.check_hours(request.actor)
        hours = hours_from(typed)
        return _page(request, hours, told=True, team=team, error=None)
    operations.set_hours(actor=request.actor, team=team, hours=typed)
    return Done(gettext("Saved. It counts for what is asked from now on."), here)


def _page(request: Request, hours: Hours, *, told: bool, team: str, error: HitlError | None) -> HttpResponse:
    post = request.POST
    wrong = fields_of(error)
    shown: dict[str, Any] = {
        "team": team,
        "told": told,
        "words": said(hours),
        "holidays": post.get("holidays", "\n".join(str(day) for day in sorted(hours.holidays))),
        "holidays_wrong": next((said for path, said in wrong.items() if path.startswith("holidays")), ""),
        "zone": post.get("zone", hours.zone),
        "days": _days(hours, post, wrong),
        "errors": wrong,
        "administers": policies.can_hours(request.actor),
        "tried": _tried(hours, post, error),
    }
    shown["zones"] = clocks.zone_choices(shown["zone"])
    return draw(request, "people/hours.html", shown, None if wrong else error)


def _days(hours: Hours, post: QueryDict, wrong: dict[str, str]) -> list[dict[str, str]]:
    said: Any = hours.as_dict()["week"]
    return [
        {
            "name": name,
            "words": word,
            "start": post.get(f"from-{name}", (said.get(name) or [""])[0]),
            "end": post.get(f"until-{name}", (said.get(name) or ["", ""])[1]),
            "wrong": wrong.get(f"week/{name}", ""),
        }
        for name, word in WEEKDAYS.items()
    ]


def _typed(post: QueryDict) -> Json:
    """Working time as a form says it: a day without both ends is free."""
    both = {
        name: [post.get(f"from-{name}", "").strip(), post.get(f"until-{name}", "").strip()] for name in DAYS
    }
    return {
        "zone": post.get("zone", ""),
        "week": {name: _window(window) for name, window in both.items() if any(window)},
        "holidays": post.get("holidays", "").replace(",", " ").split(),
    }


def _window(window: list[str]) -> Json:
    """Nine is 09:00, as people write it."""
    return [f"0{clock}" if clock[1:2] == ":" else clock for clock in window]


def _tried(hours: Hours, post: QueryDict, error: HitlError | None) -> dict[str, Any]:
    """What a length of time comes to that is asked for at a moment; on Friday at four, unless another was typed."""
    length = post.get("length", TRIED)
    zone = zone_named(hours.zone)
    asked = post.get("asked") or clocks.in_field(_friday(store.now().astimezone(zone)), zone)
    shown = {"length": length, "asked": asked, "said": "", "wrong": ""}
    if error is not None:
        return shown
    try:
        at = clocks.instant(asked, zone, path="/asked")
        due = hours.after(at, _length(length))
    except HitlError as refusal:
        speak(refusal)
        return {**shown, "wrong": refusal.errors[0].message if refusal.errors else refusal.detail}
    return {
        **shown,
        "said": gettext("{length}, asked {asked}: due {due}").format(
            length=length.strip(), asked=_wall(at, hours), due=_wall(due, hours)
        ),
    }


def _length(text: str) -> Business:
    found = business(text)
    if found is None or found.amount > LONGEST:
        message = Told("such as {length}, or 2 business days", length=TRIED)
        raise Unprocessable("This is no working time.", errors=[Problem("/length", "length", message)])
    return found


def _friday(now: datetime) -> datetime:
    """The next Friday, at four in the afternoon."""
    day = now + timedelta(days=(FRIDAY - now.weekday()) % 7)
    return day.replace(hour=16, minute=0, second=0, microsecond=0)


def _wall(at: datetime, hours: Hours) -> str:
    return date_format(at.astimezone(zone_named(hours.zone)), gettext("l j M H:i"))
