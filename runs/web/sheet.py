"""A page with one form about a run: GET shows it, POST does it, once, and leads back to the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from runs import store
from runs.errors import HitlError
from runs.web import once
from runs.web.banner import of_error
from runs.web.door import Request, View, page, see_other


def sheet(show: Callable[..., HttpResponse]) -> Callable[[Callable[..., str | HttpResponse]], View]:
    """A view of one form. show(request, run_id, error=…) draws it, also with the reason of a refusal.

    The function it wraps does what is sent and returns what to say about it, or a response where nothing was done yet.
    """

    def again(request: Request, error: HitlError, run_id: UUID, **more: Any) -> HttpResponse:
        return show(request, run_id, **more, error=error)

    def wrap(do: Callable[..., str | HttpResponse]) -> View:
        @page(methods="GET POST", refused=again)
        @wraps(do)
        def view(request: Request, run_id: UUID, **more: Any) -> HttpResponse:
            if request.method != "POST":
                return show(request, run_id, **more)
            seen = once.first_result(request)
            if seen:
                return see_other(seen)
            done = do(request, run_id, **more)
            if isinstance(done, HttpResponse):
                return done
            messages.success(request, done)
            return see_other(once.remember(request, reverse("run", args=[run_id])))

        return view

    return wrap


def draw(request: Request, template: str, shown: dict[str, Any], error: HitlError | None) -> HttpResponse:
    context = {
        "page": shown,
        "banner": of_error(error) if error else None,
        "form_token": once.token(request),
        "now": store.now(),
    }
    return render(request, template, context)
