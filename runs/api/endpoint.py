"""What every endpoint of the API has in common: who may come in, JSON in and out, errors in one form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.urls.converters import register_converter
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs import policies
from runs.api import problems
from runs.api.authentication import BearerToken, Session
from runs.api.media import AlwaysJson, JsonParser, JsonRenderer
from runs.api.schema import Described
from runs.errors import Forbidden, NotFound, NotSignedIn
from runs.models import Run
from runs.operations import audit_denied
from runs.policies import Actor
from runs.queries import Page

Row = TypeVar("Row")


class AnyUuid:
    """An id in any spelling of the same number: with or without dashes, in capitals or not."""

    regex = "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}"

    def to_python(self, value: str) -> UUID:
        return UUID(value)

    def to_url(self, value: UUID | str) -> str:
        return str(value)


register_converter(AnyUuid, "any_uuid")


class SignedInMember(BasePermission):
    """A member of the project, with the scope that reading here takes. What else a verb takes, its operation checks."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        actor = actor_of(request)
        if isinstance(view, Endpoint):
            view.actor = actor
        if not actor.roles:
            raise Forbidden("You are no member of this project.")
        scope: str | None = getattr(view, "read_scope", None)
        if scope and request.method in ("GET", "HEAD"):
            policies.check_scope(actor, scope)
        return True


class Endpoint(APIView):
    """One address. Its methods get what the request says (`schema.described`), call one operation or query, and render.

    read_scope: the scope that GET takes. reads: verbs that only look, so that this door writes down a denied access
    (operations do it themselves). document: where pointers of errors about content start.
    """

    authentication_classes = [BearerToken, Session]
    permission_classes = [SignedInMember]
    parser_classes = [JsonParser]
    renderer_classes = [JsonRenderer]
    content_negotiation_class = AlwaysJson
    metadata_class = None
    http_method_names = [name for name in APIView.http_method_names if name != "options"]
    schema = Described()

    read_scope: ClassVar[str] = ""
    reads: ClassVar[frozenset[str]] = frozenset({"GET", "HEAD"})
    document: ClassVar[str] = ""
    actor: Actor | None = None

    def get_exception_handler(self) -> Any:
        return problems.answer

    def handle_exception(self, exc: Exception) -> Response:
        request: Request | None = getattr(self, "request", None)
        if isinstance(exc, Forbidden | NotFound) and request is not None and request.method in self.reads:
            self._note_denied(request, exc.code)
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        answer: Response = super().finalize_response(request, response, *args, **kwargs)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    @contextmanager
    def looking(self, request: Request) -> Iterator[None]:
        """A look before a verb: if that is denied, the verb never comes to write it down."""
        try:
            yield
        except (Forbidden, NotFound) as refusal:
            self._note_denied(request, refusal.code)
            raise

    def _note_denied(self, request: Request, code: str) -> None:
        if self.actor is not None:
            verb = f"read {self.__class__.__name__}"[:40]
            audit_denied(self.actor, verb, self.kwargs.get("id", request.path), code)


class Public(Endpoint):
    """An address that tells the same to everybody."""

    authentication_classes = []
    permission_classes = []

    def _note_denied(self, request: Request, code: str) -> None:
        """Nobody was denied anything."""


def actor_of(request: Request) -> Actor:
    """Who asks. Raises `NotSignedIn`."""
    actor = request.auth
    if not isinstance(actor, Actor):
        raise NotSignedIn()
    return actor


def etag(run: Run) -> str:
    """Changes with the run. Its first number is the version that `If-Match` compares."""
    return f'"{run.version}.{run.seq}.{run.status}"'


def rendered(document: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    """A response; `headers` with underscores for dashes."""
    return Response(
        document, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def paged(items: Sequence[Mapping[str, Any]], page: Page[Row], place: Callable[[Row], object]) -> Response:
    """A page of a list. place: of its last row, where the next page begins."""
    return rendered({"items": items, "next": place(page.rows[-1]) if page.more else None})
