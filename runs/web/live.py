"""What an open page would read now, in a few bytes: asked by the streams at every change and heartbeat.

`mark` says whether anything is different, `listen` which ids the stream wakes up for (what it
shows, and the person), `tell` what the page is told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import queries, runlists, store
from runs.dispatch import person_key
from runs.errors import HitlError, NotSignedIn
from runs.web import dashboard, inbox, run_page, runs
from runs.web.door import Request, enter

State = Callable[..., dict[str, Any]]


def _answers(state: State) -> Callable[..., HttpResponse]:
    """A view for the streams alone: no page and no redirect, only the status when something is refused."""

    @never_cache
    @require_safe
    @wraps(state)
    def view(request: Request, **kwargs: Any) -> HttpResponse:
        try:
            if not request.user.is_authenticated:
                raise NotSignedIn
            enter(request)
            told = state(request, **kwargs)
            told["listen"] = [told["listen"], person_key(request.user.pk)]
            bell = queries.bell(request.actor.project.pk, request.user)
            return JsonResponse({**told, "mark": f"{told['mark']}+{bell.mark}"})
        except HitlError as error:
            return JsonResponse({"code": error.code}, status=error.http_status)

    return view


@_answers
def run_state(request: Request, run_id: UUID) -> dict[str, Any]:
    run = queries.run_mark(request.actor.project.pk, run_id)
    return {
        "listen": str(run.pk),
        "mark": run_page.mark(run, queries.stir_of(run.pk) if run.status == "running" else ""),
        "tell": {"seq": run.seq, "status": run.status},
        "ended": run.is_terminal,
    }


@_answers
def runs_state(request: Request) -> dict[str, Any]:
    at = runs.At.of(request)
    return {
        "listen": str(request.actor.project.pk),
        "mark": runlists.mark(at.rows(request).rows),
        "tell": {},
    }


@_answers
def dashboard_state(request: Request) -> dict[str, Any]:
    """Counted twice a minute: only then, and when an approval opens or closes, is there something else to see."""
    project = request.actor.project.pk
    told = dashboard.mark(store.counted_until(), queries.approvals_mark(project))
    return {"listen": str(project), "mark": told, "tell": {}}


@_answers
def notices_state(request: Request) -> dict[str, Any]:
    """For pages that show nothing else which changes."""
    return {"listen": str(request.actor.project.pk), "mark": "", "tell": {}}


@_answers
def inbox_state(request: Request) -> dict[str, Any]:
    project = request.actor.project.pk
    return {"listen": str(project), "mark": inbox.mark(project), "tell": {}}
