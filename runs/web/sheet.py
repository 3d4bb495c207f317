"""Pages with forms: GET shows the page, POST does what is sent, once, and leads on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Done:
    """What a form has done: what to say about it (nothing, if the next page says it), and where it leads."""

    said: str
    url: str


Show = Callable[..., HttpResponse]


def forms(show: Show) -> Callable[[Callable[..., Done | HttpResponse]], View]:
    """A view of a page with forms. show(request, error=…, **ids) draws it, also with the reason of a refusal.

    The function it wraps does what is sent, or returns a response where nothing was done yet.
    """

    def again(request: Request, error: HitlError, **ids: Any) -> HttpResponse:
        return show(request, **ids, error=error)

    def wrap(do: Callable[..., Done | HttpResponse]) -> View:
        @page(methods="GET POST", refused=again)
        @wraps(do)
        def view(request: Request, **ids: Any) -> HttpResponse:
            if request.method != "POST":
                return show(request, **ids)
            seen = once.first_result(request)
            if seen:
                return see_other(seen)
            done = do(request, **ids)
            if isinstance(done, HttpResponse):
                return done
            if done.said:
                messages.success(request, done.said)
            return see_other(once.remember(request, done.url))

        return view

    return wrap


def sheet(show: Show) -> Callable[[Callable[..., str | HttpResponse]], View]:
    """The same with one form about a run, and leads back to the run: what is wrapped returns only what to say."""

    def wrap(do: Callable[..., str | HttpResponse]) -> View:
        @forms(show)
        @wraps(do)
        def done(request: Request, run_id: UUID, **more: Any) -> Done | HttpResponse:
            answer = do(request, run_id, **more)
            return Done(answer, reverse("run", args=[run_id])) if isinstance(answer, str) else answer

        return done

    return wrap


def fields_of(error: HitlError | None) -> dict[str, str]:
    """What is wrong, by field: where a refusal names fields, they say so and no banner does."""
    return {problem.path.strip("/"): problem.message for problem in error.errors} if error else {}


def draw(request: Request, template: str, shown: dict[str, Any], error: HitlError | None) -> HttpResponse:
    """The page, with the reason of a refusal if there is one."""
    context = {
        "page": shown,
        "banner": of_error(error) if error else None,
        "form_token": once.token(request),
        "now": store.now(),
    }
    return render(request, template, context)
