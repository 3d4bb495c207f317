"""How a page answers: whole, or the part of it that was asked for."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from runs.web.door import Request


def drawn(request: Request, context: dict[str, Any], whole: str, fragment: str) -> HttpResponse:
    """The page; for htmx its fragment, and with it the count for a page that has heard of a change."""
    if not request.htmx or request.htmx.history_restore_request:
        return render(request, whole, context)
    if request.htmx.target == "live":
        return render(request, "runs/_live.html", {**context, "fragment": fragment})
    return render(request, fragment, context)
