"""The bell, what a person was told, what they want to hear, and the links that mails bring."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from runs import operations, policies, queries, store
from runs.engine import telling
from runs.errors import HitlError, LinkRefused, LinkSpent
from runs.models import Notice, Preference
from runs.tongue import Words
from runs.web.deciding import by_link
from runs.web.door import (
    Request,
    enter,
    error_page,
    is_signed_in,
    number,
    page,
    see_other,
    to_sign_in,
)
from runs.web.sheet import Done, draw, forms

ROWS: Final = 100
TOPICS: Final = Words(
    {
        telling.ASKED: "You are asked",
        telling.DECIDED: "Decided",
        telling.ENDED: "Ended",
        telling.FAILED: "Trouble",
    }
)
HINTS: Final = Words(
    {
        telling.ASKED: "An approval is open for you, a reminder of it, or it was passed on to you.",
        telling.DECIDED: "Somebody, or the clock, has answered what a run of yours asked.",
        telling.ENDED: "A run that you requested has completed, failed or was cancelled.",
        telling.FAILED: "A run has failed or needs somebody, a webhook was switched off. For operators and admins.",
    }
)


@page(methods="GET POST")
def notices(request: Request) -> HttpResponse:
    """A person's notices, newest first. POST counts one, or all that were on the page, as read."""
    if request.method == "POST":
        up_to = number(request.POST.get("up_to")) or 0
        operations.mark_read(actor=request.actor, up_to=up_to, only=number(request.POST.get("only")))
        return see_other(reverse("notifications"))
    found = queries.notices(
        request.actor.project.pk, request.user, before=number(request.GET.get("before")), limit=ROWS
    )
    context = {
        "rows": [{"notice": notice, "url": place_of(notice)} for notice in found.rows],
        "newest": found.rows[0].pk if found.rows else 0,
        "older": found.rows[-1].pk if found.more else None,
        "now": store.now(),
    }
    if request.htmx and request.htmx.target == "live":
        return render(request, "notices/_live.html", context)
    return render(request, "notices/notices.html", context)


def place_of(notice: Notice) -> str:
    """Where a notice leads."""
    message = notice.message
    if message.approval_id is not None and notice.topic == telling.ASKED:
        return reverse("approval", args=[message.approval_id])
    if message.run_id is not None:
        return reverse("run", args=[message.run_id])
    return reverse("webhooks")


@page()
def bell(request: Request) -> HttpResponse:
    """The bell and the count alone: what a page without a stream of its own asks for when something is new."""
    return render(request, "notices/_bell_live.html", {})


def _own(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    told = queries.preference(request.actor.project.pk, request.user)
    return _hearing(request, told, own=True, said=told.user_id is not None, error=error)


@forms(_own)
def preferences(request: Request) -> Done:
    if request.POST.get("verb") == "drop":
        operations.drop_preference(actor=request.actor)
        return Done(gettext("You hear what the project says."), reverse("notification-settings"))
    operations.set_preference(actor=request.actor, **_wanted(request))
    return Done(gettext("Saved. It holds for what happens from now on."), reverse("notification-settings"))


def _projects(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    told = queries.project_preference(request.actor.project.pk)
    return _hearing(request, told, own=False, said=told.pk is not None, error=error)


@forms(_projects)
def of_project(request: Request) -> Done:
    operations.set_project_preference(actor=request.actor, **_wanted(request))
    return Done(gettext("Saved. It holds for whoever has said nothing."), reverse("settings-hearing"))


def _wanted(request: Request) -> dict[str, Any]:
    hour = number(request.POST.get("hour"))
    return {
        "app": request.POST.getlist("app"),
        "mail": request.POST.getlist("mail"),
        "digest": request.POST.get("when") == "daily",
        "hour": 7 if hour is None else hour,
    }


def _hearing(
    request: Request, told: Preference, *, own: bool, said: bool, error: HitlError | None
) -> HttpResponse:
    """What somebody hears of. own: a person; else who has said nothing. said: it was said, and is not as it is everywhere."""
    shown = {
        "topics": [
            {
                "name": name,
                "words": words,
                "hint": HINTS[name],
                "app": name in told.app,
                "mail": name in told.mail,
            }
            for name, words in TOPICS.items()
        ],
        "daily": told.digest,
        "hours": [(hour, hour == told.hour) for hour in range(24)],
        "mails": settings.HITL_MAIL,
        "address": request.user.email,
        "own": own,
        "said": said,
        "changes": own or policies.can_administer(request.actor),
        "administers": policies.can_administer(request.actor),
    }
    return draw(request, "notices/settings.html", shown, error)


@never_cache
@require_safe
def link(request: Request, token: str) -> HttpResponse:
    """Where a mail leads: what is asked, for the person it was sent to. Reading it changes nothing; the answer is a POST.

    Not behind `page`: whose link it is, and in which project, must be known before anybody is asked to sign in.
    """
    try:
        found = operations.find_link(token)
        if not is_signed_in(request):
            return to_sign_in(request)
        enter(request, found.approval.project)
        operations.follow_link(actor=request.actor, token=token)
        return by_link(request, found, token)
    except LinkSpent as error:
        return error_page(request, error)
    except HitlError as error:
        return error_page(request, error if isinstance(error, LinkRefused) else LinkRefused(error.detail))
