"""The description of the API as a document and as pages, all of it served from here: no other host is asked."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from rest_framework.request import Request

from runs.api.endpoint import Public
from runs.api.parameters import NoQuery, query


class Schema(Public):
    schema: Any = None

    def get(self, request: Request) -> HttpResponse:
        query(request, NoQuery)
        return HttpResponse(document(), content_type="application/json")


def document() -> bytes:
    """The OpenAPI document. Made once: it depends on the code alone."""
    with _making:  # the generator keeps what it is at in globals
        return _made()


@cache
def _made() -> bytes:
    generator: Any = SchemaGenerator
    made = generator().get_schema(request=None, public=True)
    return bytes(OpenApiJsonRenderer().render(made))


_making = Lock()


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html")
