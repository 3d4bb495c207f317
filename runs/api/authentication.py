"""Who is asking: an API token in the header, or a signed-in session with its CSRF token. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from runs import queries, store
from runs.api.faults import CsrfFailed
from runs.errors import Forbidden, NotFound, NotSignedIn
from runs.live.presence import note_use
from runs.models import ApiToken, Project, User
from runs.operations.tokens import token_digest
from runs.policies import Actor

CHALLENGE: Final = 'Bearer realm="hitl"'
_TOKEN, _USER, _PROJECT = store.Part(ApiToken), store.Part(User, "user"), store.Part(Project, "project")
NEVER_IN_ADDRESS: Final = ("token", "access_token", "api_token", "api_key", "authorization")


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer <token>`. A header that is there but no good is refused, whatever the session says."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        _refuse_in_address(request)
        header: str | None = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        token = _token(_secret(header))
        note_use(token.pk)
        return token.user, Actor(token.user, token.project, "token", _address(request), token)

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class Session(BaseAuthentication):
    """The session of the pages, in the project that they are in; the header `Hitl-Project` names another."""

    def authenticate(self, request: Request) -> tuple[User, Actor] | None:
        inner: HttpRequest = request._request  # noqa: SLF001  # as DRF's own session authentication does
        user: Any = getattr(inner, "user", None)
        if not isinstance(user, User) or not user.is_active:
            return None
        _check_csrf(inner)
        project = _project(user, request.META.get("HTTP_HITL_PROJECT"), inner.session.get("project"))
        return user, Actor(user, project, "session", _address(request))


def _project(user: User, named: str | None, current: str | None) -> Project:
    try:
        return queries.project_of(user, named or current)
    except NotFound:
        if current and not named:
            return _project(user, None, None)  # they are in that one no more
        raise Forbidden("You are no member of this project.") from None


def _refuse_in_address(request: Request) -> None:
    # Addresses end up in logs and histories: a token that stood there is no secret any more.
    if any(name in request.query_params for name in NEVER_IN_ADDRESS):
        raise NotSignedIn("Send the token in the header Authorization, never in the address; make a new one.")


def _secret(header: str) -> str:
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise NotSignedIn("The header Authorization has the form: Bearer <token>.")
    return secret.strip()


def _token(secret: str) -> ApiToken:
    """The valid token of this secret. One query; one message for all that is wrong, lest a guess learns something."""
    rows = store.answers("token", _tokens, digest=token_digest(secret))
    found = _read(rows[0]) if rows else None
    if found is None or not _is_valid(found, timezone.now()):
        raise NotSignedIn("The API token is unknown, expired or revoked.", reason="invalid_token")
    return found


def _tokens() -> QuerySet[ApiToken, Any]:
    known = ApiToken.objects.filter(digest=store.Given("digest"))
    return known.values_list(*_TOKEN.names, *_USER.names, *_PROJECT.names)


def _read(row: Sequence[Any]) -> ApiToken:
    token: ApiToken
    token, token.user, token.project = store.instances(row, _TOKEN, _USER, _PROJECT)
    return token


def _is_valid(token: ApiToken, moment: datetime) -> bool:
    unexpired = token.expires_at is None or token.expires_at > moment
    return unexpired and token.revoked_at is None and token.user.is_active


def _check_csrf(request: HttpRequest) -> None:
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]  # it only checks, no view comes after it
    check.process_request(request)
    reason = check.process_view(request, lambda: None, (), {})  # type: ignore[arg-type,return-value]
    if reason:
        raise CsrfFailed(f"{CsrfFailed.__doc__} {reason}")


def _address(request: Request) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
