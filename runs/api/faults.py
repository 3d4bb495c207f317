"""Errors that only this door can have; all others are in `runs.errors`."""

from __future__ import annotations

from dataclasses import dataclass

from runs.errors import BadRequest, Forbidden, HitlError, Problem


@dataclass(frozen=True, slots=True)
class Placed(Problem):
    """A fault whose path does not start at the top of the body: in the document of this name, in `query` or in `header`."""

    within: str = ""

    def as_dict(self) -> dict[str, str]:
        told = {"path": self.path, "code": self.code, "message": self.message}
        return {**told, "in": self.within} if self.within else told


class InvalidParameter(BadRequest):
    """A parameter of the address has a value that it cannot have."""

    code = "invalid_parameter"


class CsrfFailed(Forbidden):
    """A request with a session needs the header X-CSRFToken with the value of the cookie."""

    code = "csrf_failed"


class MethodNotAllowed(HitlError):
    """This address does not answer to this method."""

    code = "method_not_allowed"
    http_status = 405


class UnsupportedMediaType(HitlError):
    """Send JSON, not compressed, with the header Content-Type: application/json."""

    code = "unsupported_media_type"
    http_status = 415


class InternalError(HitlError):
    """Something is broken on our side; it has been logged under the id in X-Request-Id."""

    code = "internal_error"
    http_status = 500
