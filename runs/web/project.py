"""The project as a whole: its settings, who administered what, and the way to another project."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext

from runs import operations, policies, queries, roster
from runs.errors import HitlError
from runs.web import hours
from runs.web.door import Request, number, page, see_other
from runs.web.sheet import Done, draw, forms

ROWS: Final = 50


def _settings(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    project = request.actor.project
    shown = {
        "project": project,
        "name": request.POST.get("name", project.name),
        "administers": policies.can_administer(request.actor),
        "projects": request.projects,
        "hours": hours.said(queries.project_hours(project.pk)[0]),
    }
    return draw(request, "people/settings.html", shown, error)


@forms(_settings)
def settings(request: Request) -> Done:
    operations.rename_project(actor=request.actor, name=request.POST.get("name", ""))
    return Done(gettext("The project has its new name."), reverse("settings"))


@page()
def audit(request: Request) -> HttpResponse:
    policies.check_administer(request.actor, "read who administered what")
    found = roster.administered(
        request.actor.project.pk, before=number(request.GET.get("before")), limit=ROWS
    )
    shown = {"rows": found.rows, "older": f"?before={found.rows[-1].pk}" if found.more else ""}
    return draw(request, "people/audit.html", shown, None)


@page(methods="POST")
def switch(request: Request) -> HttpResponse:
    """Go on in another of one's projects: it is the session's from now on, on every page and in every list."""
    project = queries.project_of(request.user, request.POST.get("project", ""))
    request.session["project"] = project.slug
    target = request.POST.get("next", "")
    own = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return see_other(target if own else reverse("inbox"))
