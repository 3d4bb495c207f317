"""`/join/<secret>/`: where an invitation leads. Looking uses it up for nobody; a button does."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from runs import operations
from runs.errors import HitlError
from runs.models import Invitation, User
from runs.operations import NewAccount
from runs.web.account import remember_arrival
from runs.web.banner import of_error
from runs.web.door import answering, error_page, see_other
from runs.web.sheet import fields_of


def _over(request: HttpRequest, error: HitlError, secret: str) -> HttpResponse:
    return error_page(request, error)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@answering(_over)
def join(request: HttpRequest, secret: str) -> HttpResponse:
    """Come in with the account one is signed in with, or with a new one."""
    found = operations.invitation(secret)
    if request.method != "POST":
        return _page(request, found)
    return _come_in(request, secret=secret, found=found)


def _again(request: HttpRequest, error: HitlError, *, secret: str, found: Invitation) -> HttpResponse:
    if error.http_status in (404, 410):
        return error_page(request, error)
    response = _page(request, found, error=error)
    response.status_code = error.http_status
    return response


@answering(_again)
def _come_in(request: HttpRequest, *, secret: str, found: Invitation) -> HttpResponse:
    address = request.META.get("REMOTE_ADDR", "")
    if isinstance(request.user, User):
        operations.accept_invitation(user=request.user, secret=secret, address=address)
    else:
        told = {name: request.POST.get(name, "") for name in ("username", "name", "email")}
        account = NewAccount(
            **{key: value.strip() for key, value in told.items()}, password=request.POST.get("password", "")
        )
        joined = operations.join_by_invitation(secret=secret, account=account, address=address)
        login(request, joined.user)
        remember_arrival(request)
    request.session["project"] = found.project.slug
    return see_other(reverse("inbox"))


def _page(request: HttpRequest, found: Invitation, *, error: HitlError | None = None) -> HttpResponse:
    user = request.user if isinstance(request.user, User) else None
    wrong = fields_of(error)
    shown: dict[str, Any] = {
        "invitation": found,
        "user": user,
        "fits": user is not None and (not found.email or user.email.lower() == found.email),
        "typed": {name: request.POST.get(name, "") for name in ("username", "name", "email")},
        "errors": wrong,
        "here": request.path,
    }
    context = {"page": shown, "banner": of_error(error) if error and not wrong else None}
    return render(request, "people/join.html", context)
