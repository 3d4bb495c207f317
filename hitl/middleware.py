"""What every response carries: a content policy without inline script, and the request's id."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from hitl.logging import working

Next = Callable[[HttpRequest], HttpResponse]

POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
    ]
)
GIVEN_ID = re.compile(
    r"[A-Za-z0-9._\-]{1,64}"
)  # anything else from outside would be a way to write into our logs

PROBES = {"/healthz", "/readyz"}

log = logging.getLogger("hitl.request")


class RequestId:
    """Takes X-Request-Id from a proxy or makes one, answers with it, and puts it on every log line of the
    request.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        name = given if GIVEN_ID.fullmatch(given) else uuid.uuid4().hex
        started = time.monotonic()
        with working(request=name):
            response = self.get_response(request)
            took = (time.monotonic() - started) * 1000
            often = response.status_code == 304 or request.path in PROBES  # a client that waits; probes
            level = logging.DEBUG if often else logging.INFO
            log.log(level, "%s %s %s %.0f ms", request.method, request.path, response.status_code, took)
        response["X-Request-Id"] = name
        return response


class ContentPolicy:
    """A view that needs another policy sets its own header; it is left alone."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response
