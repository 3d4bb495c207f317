"""Signing in and out, and one's API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpResponse
from django.urls import reverse

from runs import operations, policies, queries, roster, store
from runs.errors import HitlError, Problem, Unprocessable
from runs.live.presence import last_uses
from runs.models.people import SCOPES
from runs.web import once
from runs.web.door import Request, page, see_other
from runs.web.sheet import Done, draw, fields_of, forms

MEANS: Final = {
    "runs:read": "see runs, history and checkpoints",
    "runs:submit": "submit runs, and cancel its own",
    "runs:submit_for_others": "submit runs for other people, who count as having asked",
    "runs:operate": "rewind, edit state, cancel",
    "approvals:read": "see approvals",
    "approvals:decide": "answer approvals, as you",
    "admin": "members, teams, tokens and settings, where you are an admin",
}


class SignIn(LoginView):
    template_name = "account/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "demo": settings.DEBUG}


class SignOut(LogoutView):
    pass


def _of_others(request: Request) -> list[dict[str, Any]]:
    """Every token of the project but one's own: who administers it may end them."""
    found = [token for token in roster.tokens(request.actor.project.pk) if token.user_id != request.user.pk]
    used = last_uses(token.pk for token in found)
    return [{"token": token, "used": used.get(token.pk)} for token in found]


def _tokens(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    post, wrong = request.POST, fields_of(error)
    mine = queries.tokens_of(request.actor.project.pk, request.user)
    used = last_uses(token.pk for token in mine)
    shown = {
        "tokens": [{"token": token, "used": used.get(token.pk)} for token in mine],
        "secret": once.take(request, "new_token"),
        "typed": {"name": post.get("name", ""), "days": post.get("days", "")},
        "errors": wrong,
        "scopes": [{"name": s, "words": MEANS[s], "checked": s in post.getlist("scopes")} for s in SCOPES],
    }
    if policies.can_administer(request.actor):
        shown["others"] = _of_others(request)
    return draw(request, "account/tokens.html", shown, None if wrong else error)


@forms(_tokens)
def tokens(request: Request) -> Done:
    name, scopes = request.POST.get("name", "").strip(), request.POST.getlist("scopes")
    days = _days(request.POST.get("days", "").strip(), name=name, scopes=scopes)
    expires_at = store.now() + timedelta(days=days) if days else None
    _, secret = operations.create_token(actor=request.actor, name=name, scopes=scopes, expires_at=expires_at)
    once.keep(request, "new_token", secret)
    return Done("", reverse("tokens"))


@page(methods="POST")
def revoke(request: Request, token_id: UUID) -> HttpResponse:
    operations.revoke_token(actor=request.actor, token_id=token_id)
    return see_other(reverse("tokens"))


def _days(text: str, *, name: str, scopes: list[str]) -> int:
    problems = [
        Problem(path, "required", message)
        for path, missing, message in (
            ("/name", not name, "Give it a name."),
            ("/scopes", not scopes, "Choose at least one."),
            (
                "/days",
                not (text == "" or (text.isascii() and text.isdigit() and 0 < int(text) < 10_000)),
                "A whole number.",
            ),
        )
        if missing
    ]
    if problems:
        raise Unprocessable("The token cannot be made like this.", errors=problems)
    return int(text or 0)
