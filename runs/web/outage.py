"""What a page says while the database is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from runs import store
from runs.web.reader import MACHINES

AGAIN: Final = "1"  # seconds until it is worth another try

log = logging.getLogger("runs.web")


class Outage:
    """A view that the database left alone is answered with 503: a page that asks the database nothing, or, to htmx, a
    word at the foot of the page, which stays as it is with all that was typed.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not store.is_away(error) or request.path_info.startswith(MACHINES):
            return None
        log.warning("the database does not answer: %s", error)
        headers = {"Retry-After": AGAIN, "Cache-Control": "no-store"}
        if getattr(request, "htmx", False):
            return HttpResponse(status=503, headers={**headers, "HX-Reswap": "none", "HX-Trigger": "away"})
        return HttpResponse(render_to_string("503.html"), status=503, headers=headers)
