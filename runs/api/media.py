"""JSON in and out. What comes in stays bytes until its reader knows which document it is (`runs.api.bodies`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from runs.engine import canonical
from runs.errors import TooLarge

ENVELOPE: Final = 64 * 1024  # what a body may have around its document
MOST: Final = canonical.STATE_LIMIT + ENVELOPE


class JsonParser(BaseParser):
    """Takes the body as it is, up to the largest that any endpoint reads."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        body: bytes = stream.read(MOST + 1)
        if len(body) > MOST:
            raise TooLarge(f"The body has more than {MOST:,} bytes.", limit=MOST)
        return body


class JsonRenderer(BaseRenderer):
    """Canonical JSON: every integer with all its digits, floats as floats, never NaN."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else canonical.dumps(data).encode()


class AlwaysJson(BaseContentNegotiation):
    """There is one form of every answer, so `Accept` and `?format=` have nothing to choose."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        if request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() != "identity":
            return None
        essence = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == essence), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        only = next(iter(renderers))
        return only, str(only.media_type)
