"""The project as a whole: its settings, who administered what, and the way to another project."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from runs import operations, policies, queries, roster
from runs.errors import HitlError
from runs.web import once
from runs.web.door import Request, number, page, see_other
from runs.web.members import drawn

ROWS: Final = 50


def settings_again(request: Request, error: HitlError) -> HttpResponse:
    return _settings(request, error=error)


@page(methods="GET POST", refused=settings_again)
def settings(request: Request) -> HttpResponse:
    if request.method != "POST":
        return _settings(request)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    operations.rename_project(actor=request.actor, name=request.POST.get("name", ""))
    messages.success(request, "The project has its new name.")
    return see_other(once.remember(request, reverse("settings")))


def _settings(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    project = request.actor.project
    shown = {
        "project": project,
        "name": request.POST.get("name", project.name),
        "administers": policies.can_administer(request.actor),
        "projects": request.projects,
    }
    return drawn(request, "people/settings.html", shown, error)


@page()
def audit(request: Request) -> HttpResponse:
    policies.check_administer(request.actor, "read who administered what")
    found = roster.administered(
        request.actor.project.pk, before=number(request.GET.get("before")), limit=ROWS
    )
    shown = {"rows": found.rows, "older": f"?before={found.rows[-1].pk}" if found.more else ""}
    return drawn(request, "people/audit.html", shown, None)


@page(methods="POST")
def switch(request: Request) -> HttpResponse:
    """Go on in another of one's projects: it is the session's from now on, on every page and in every list."""
    project = queries.project_of(request.user, request.POST.get("project", ""))
    request.session["project"] = project.slug
    target = request.POST.get("next", "")
    own = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return see_other(target if own else reverse("inbox"))
