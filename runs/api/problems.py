"""Every error of the API as `application/problem+json` (RFC 9457), in one place.

`errors` names each fault by JSON Pointer; `in` says where the pointer starts if that is not the body: in its document
(`input`, `args`, `changes`, `state`), in the `query`, or in a `header`. Other facts (who won, the version that is there
now) are members of the problem itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import Error as DatabaseFault
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from runs import store
from runs.api.authentication import CHALLENGE
from runs.api.faults import InternalError, MethodNotAllowed, Placed, UnsupportedMediaType
from runs.errors import (
    BadRequest,
    Busy,
    Forbidden,
    HitlError,
    IdempotencyInProgress,
    InvalidJson,
    NotFound,
    NotSignedIn,
    PreconditionFailed,
    Problem,
    StaleVersion,
    StepError,
    TooLarge,
    Unavailable,
    Unprocessable,
    WorkflowError,
)

CONTENT_TYPE: Final = "application/problem+json"
TYPES: Final = "/api/v1/problems/"
RETRY_AFTER: Final[Mapping[type[HitlError], int]] = {Unavailable: 1, Busy: 1, IdempotencyInProgress: 1}
MEMBERS: Final = frozenset({"type", "title", "status", "detail", "code", "errors", "instance"})

log = logging.getLogger("runs.api")


def answer(fault: Exception, context: Mapping[str, Any]) -> Response:
    """The response to anything that was raised while a request was answered."""
    error = _understood(fault, context.get("view"))
    if store.is_away(fault):
        log.warning("the database does not answer: %s", fault)
    elif error.http_status >= 500:
        log.error("%s: %s", error.code, fault, exc_info=fault)
    status = _status(error, context)
    document = problem(error, status=status, document=getattr(context.get("view"), "document", ""))
    return Response(document, status=status, headers=_headers(error, context), content_type=CONTENT_TYPE)


def problem(error: HitlError, *, status: int, document: str = "") -> dict[str, Any]:
    """The document of a problem. `document`: where the pointers of errors about content start."""
    told: dict[str, Any] = {
        "type": TYPES + error.code,
        "title": title(type(error)),
        "status": status,
        "detail": error.detail,
        "code": error.code,
    }
    if error.errors:
        told["errors"] = [_fault(fault, error, document) for fault in error.errors]
    for name, value in error.facts.items():
        told[f"current_{name}" if name in MEMBERS else name] = plain(value)
    return told


def title(kind: type[HitlError]) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


def plain(value: Any) -> Any:
    """A fact as JSON."""
    match value:
        case datetime() | date():
            return value.isoformat()
        case UUID():
            return str(value)
        case Enum():
            return value.value
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return value


def kinds() -> dict[str, type[HitlError]]:
    """Every error that a request can be answered with, by code."""
    found = sorted(_walk(HitlError), key=lambda kind: len(kind.__mro__), reverse=True)
    return dict(sorted({kind.code: kind for kind in found if kind is not HitlError}.items()))


def _walk(kind: type[HitlError]) -> Iterator[type[HitlError]]:
    if issubclass(kind, StepError | WorkflowError):  # these never answer a request
        return
    yield kind
    for narrower in kind.__subclasses__():
        yield from _walk(narrower)


def _understood(fault: Exception, view: Any) -> HitlError:
    """What was raised, as one of our own errors."""
    match fault:
        case StepError():
            return InternalError()
        case HitlError():
            return fault
        case DatabaseFault():
            return Unavailable()
        case Http404():
            return NotFound()
        case exceptions.MethodNotAllowed():
            allowed = list(getattr(view, "allowed_methods", []))
            return MethodNotAllowed(f"This address answers to {', '.join(allowed)}.", allowed=allowed)
        case exceptions.UnsupportedMediaType():
            return UnsupportedMediaType()
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return NotSignedIn()
        case PermissionDenied() | exceptions.PermissionDenied():
            return Forbidden()
        case RequestDataTooBig():
            return TooLarge()
        case SuspiciousOperation():
            return BadRequest()
        case exceptions.APIException() if fault.status_code < 500:
            return BadRequest(str(fault.detail))
        case _:
            return InternalError()


def _status(error: HitlError, context: Mapping[str, Any]) -> int:
    request = context.get("request")
    if isinstance(error, StaleVersion) and request is not None and "HTTP_IF_MATCH" in request.META:
        return PreconditionFailed.http_status  # the version came as a condition
    return error.http_status


def _headers(error: HitlError, context: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    if isinstance(error, NotSignedIn):
        invalid = error.facts.get("reason") == "invalid_token"
        headers["WWW-Authenticate"] = f'{CHALLENGE}, error="invalid_token"' if invalid else CHALLENGE
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.facts["allowed"])
    if type(error) in RETRY_AFTER:
        headers["Retry-After"] = str(RETRY_AFTER[type(error)])
    return headers


def _fault(fault: Problem, error: HitlError, document: str) -> dict[str, str]:
    # Checks of content (schema, exactness) tell places from the top of the document that they were given.
    if document and isinstance(error, Unprocessable | InvalidJson) and not isinstance(fault, Placed):
        return Placed(fault.path, fault.code, fault.message, document).as_dict()
    return fault.as_dict()
