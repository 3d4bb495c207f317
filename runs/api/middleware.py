"""What is refused before a view is reached (a host that is not ours, a fault in a middleware) is a problem under /api/ too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from runs.api.faults import InternalError, MethodNotAllowed
from runs.api.problems import CONTENT_TYPE, problem
from runs.engine import canonical
from runs.errors import BadRequest, Forbidden, HitlError, NotFound, TooLarge

ERRORS: Final[Mapping[int, HitlError]] = {
    400: BadRequest("The request cannot be understood: its host or its address is not one of ours."),
    403: Forbidden(),
    404: NotFound("The API has no such address; its addresses are described at /api/v1/docs."),
    405: MethodNotAllowed(),
    413: TooLarge(),
}


class ProblemPages:
    """Turns error pages of Django under /api/ into `application/problem+json`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        page = response.headers.get("Content-Type", "").startswith("text/")
        if response.status_code < 400 or not page or not request.path.startswith("/api/"):
            return response
        error = ERRORS.get(response.status_code, InternalError())
        status = response.status_code if response.status_code in ERRORS else error.http_status
        body = canonical.dumps(problem(error, status=status))
        headers = {"Cache-Control": "no-store", "Content-Length": str(len(body.encode()))}
        return HttpResponse(body, status=status, content_type=CONTENT_TYPE, headers=headers)
