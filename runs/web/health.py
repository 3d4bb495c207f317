"""How the house does: which parts answer, who works, what is stuck and why, and whether what must hold does."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from runs import policies, store, watching
from runs.web.door import Request, page


@page()
def health(request: Request) -> HttpResponse:
    policies.check_watch(request.actor)
    project = request.actor.project.pk
    shown = {
        "parts": watching.parts(),
        "workers": watching.workers(project),
        "stuck": watching.stuck(project),
        "rules": watching.RULES,
        "violations": watching.violations(project),
    }
    return render(request, "health/health.html", {"page": shown, "now": store.now()})
