"""Who reads: on whose clock a page tells its times, and in which language it speaks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers

from runs import store

Next = Callable[[HttpRequest], HttpResponse]

# What programs read is a contract, and the same whoever asks.
MACHINES: Final = ("/api/", "/healthz", "/readyz")
MACHINES_LANGUAGE: Final = "en"


class Reader:
    """Whatever is made for a person meanwhile is in their zone and language.

    Who has chosen no language, or is not signed in, is answered in the one that the browser asks for.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(MACHINES):
            with translation.override(MACHINES_LANGUAGE):
                return self.get_response(request)
        chosen, clock = self._wishes(request)
        language = chosen or translation.get_language_from_request(request)
        with timezone.override(clock), translation.override(language):
            response = self.get_response(request)
        if not chosen:
            patch_vary_headers(response, ["Accept-Language"])
        return response

    def _wishes(self, request: HttpRequest) -> tuple[str, tzinfo]:
        """Language and clock of whoever is signed in. While the database is away nobody is known, and the view says so."""
        try:
            person = request.user if request.user.is_authenticated else None
        except store.LOST:
            person = None
        return (person.language, person.clock) if person else ("", UTC)
