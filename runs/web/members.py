"""Members of the project: the list with its ways in, and one member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, roster
from runs.errors import HitlError
from runs.live.presence import last_uses
from runs.models.people import ROLES, SCOPES
from runs.operations.inviting import DAYS, LONGEST
from runs.tongue import Words
from runs.web import once
from runs.web.door import Request, number, page, see_other
from runs.web.sheet import Done, draw, forms

ROWS: Final = 100
STRANDED: Final = 50
MAY: Final = Words(
    {
        "viewer": "reads runs, approvals and who is here",
        "submitter": "submits runs, signals and cancels their own",
        "reviewer": "decides what they are asked; edits and rewinds there",
        "operator": "does everything to runs; decides only what they are asked",
        "admin": "members, teams, tokens, settings; no runs",
    }
)


def role_choices(chosen: Sequence[str]) -> list[dict[str, Any]]:
    return [{"name": role, "words": MAY[role], "checked": role in chosen} for role in ROLES]


# ---- the list


def _members(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    project, post = request.actor.project, request.POST
    administers = policies.can_administer(request.actor)
    found = roster.members(project.pk, after=request.GET.get("after", ""), limit=ROWS)
    shown = {
        "rows": found.rows,
        "more": f"?{urlencode({'after': found.rows[-1].user.username})}" if found.more else "",
        "administers": administers,
        "invitations": roster.invitations(project.pk) if administers else [],
        "stranded": queries.unanswerable(project.pk, limit=STRANDED)
        if "operator" in request.actor.roles or administers
        else [],
        "link": once.take(request, "new_link"),
        "email": post.get("email", ""),
        "days": post.get("days", str(DAYS)),
        "longest": LONGEST,
        "username": post.get("username", ""),
        "name": post.get("name", ""),
        "service": post.get("verb") == "service",
        "roles": role_choices(post.getlist("roles")),
    }
    return draw(request, "people/members.html", shown, error)


@forms(_members)
def index(request: Request) -> Done:
    if request.POST.get("verb") == "service":
        made = operations.create_service_account(
            actor=request.actor,
            username=request.POST.get("username", "").strip(),
            name=request.POST.get("name", ""),
            roles=request.POST.getlist("roles"),
        )
        return Done("", reverse("member", args=[made.user.username]))
    _, link = operations.invite(
        actor=request.actor,
        roles=request.POST.getlist("roles"),
        email=request.POST.get("email", ""),
        days=number(request.POST.get("days", "").strip()) or 0,
        link=lambda secret: join_address(request, secret),
    )
    once.keep(request, "new_link", link)
    return Done("", reverse("members"))


def join_address(request: Request, secret: str) -> str:
    return request.build_absolute_uri(reverse("join", args=[secret]))


def invitations_again(request: Request, error: HitlError, **_: Any) -> HttpResponse:
    return _members(request, error=error)


@page(methods="POST", refused=invitations_again)
def withdraw(request: Request, invitation_id: UUID) -> HttpResponse:
    operations.withdraw_invitation(actor=request.actor, invitation_id=invitation_id)
    messages.success(request, gettext("The invitation is withdrawn; its link works no more."))
    return see_other(reverse("members"))


# ---- one member


def _member(request: Request, username: str, *, error: HitlError | None = None) -> HttpResponse:
    project, post = request.actor.project, request.POST
    member = roster.member(project.pk, username)
    administers = policies.can_administer(request.actor)
    tokens = roster.tokens(project.pk, user=member.user) if administers and member.user.is_service else []
    used = last_uses(token.pk for token in tokens)
    shown = {
        "member": member,
        "self": member.user_id == request.actor.user.pk,
        "administers": administers,
        "roles": role_choices(post.getlist("roles") or member.roles),
        "asked": roster.asked_by_name(project.pk, member.user.username),
        "tokens": [{"token": token, "used": used.get(token.pk)} for token in tokens],
        "secret": once.take(request, "new_service_token"),
        "scopes": [{"name": scope, "checked": scope in post.getlist("scopes")} for scope in SCOPES],
        "token_name": post.get("name", ""),
    }
    return draw(request, "people/member.html", shown, error)


@forms(_member)
def show(request: Request, username: str) -> Done:
    member = roster.member(request.actor.project.pk, username)
    actor, verb = request.actor, request.POST.get("verb", "")
    here = reverse("member", args=[username])
    if verb == "remove":
        operations.remove_member(actor=actor, username=username)
        left = username == actor.user.username
        return Done(
            gettext("{user} is no member any more.").format(user=member.user),
            reverse("inbox" if left else "members"),
        )
    if verb == "deactivate":
        operations.deactivate(actor=actor, username=username)
        return Done(gettext("{user} is deactivated.").format(user=member.user), here)
    if verb == "reactivate":
        operations.reactivate(actor=actor, username=username)
        return Done(gettext("{user} is active again.").format(user=member.user), here)
    if verb == "token":
        _, secret = operations.create_token(
            actor=actor,
            user=member.user,
            name=request.POST.get("name", ""),
            scopes=request.POST.getlist("scopes"),
        )
        once.keep(request, "new_service_token", secret)
        return Done("", here)
    operations.set_roles(actor=actor, username=username, roles=request.POST.getlist("roles"))
    return Done(gettext("The roles of {user} are changed.").format(user=member.user), here)
