"""Several approvals of the list claimed, released or snoozed: each by itself, and what was refused is told item by item."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, sights, store
from runs.errors import BadRequest, HitlError
from runs.models import Approval
from runs.operations import Together
from runs.templatetags import words
from runs.tongue import said as told
from runs.web import inbox
from runs.web.door import Request, identity, number, see_other
from runs.web.sheet import Done, forms


def _back(request: Request, error: HitlError | None = None) -> HttpResponse:
    """The address is that of a form; whoever reloads it is led to the list. A refusal has a page that only says why."""
    if error:
        raise error
    return see_other(_url(request))


@forms(_back)
def attend(request: Request) -> Done | HttpResponse:
    """Claim, release, snooze; deciding has a page of its own, where one looks first."""
    chosen = request.POST.getlist("only")
    if request.POST.get("do") == "decide":
        return see_other(f"{reverse('approvals-together')}?{urlencode({'only': chosen}, doseq=True)}")
    if not chosen:
        raise BadRequest("Choose approvals first.")
    do, until = _wanted(request)
    done = operations.attend_together(actor=request.actor, approval_ids=chosen, do=do, until=until)
    said, url = _said(do, until, len(done.items) - len(done.refused)), _url(request)
    return _told(request, done, said, url) if done.refused else Done(said, url)


def _wanted(request: Request) -> tuple[str, datetime | None]:
    """What is to be done, and until when what is snoozed is left out."""
    if "snooze" not in request.POST:
        return request.POST.get("do", ""), None
    hours = number(request.POST["snooze"])
    return "snooze", store.now() + timedelta(hours=hours) if hours else None


def _said(do: str, until: datetime | None, count: int) -> str:
    if not count:
        return gettext("Nothing has changed.")
    if do == "assign":
        return words.some(
            count,
            "You work on {count} approval; others cannot answer it meanwhile.",
            "You work on {count} approvals; others cannot answer them meanwhile.",
        )
    if do == "unassign":
        return words.some(count, "{count} approval released.", "{count} approvals released.")
    if until:
        return words.some(
            count, "{count} approval out of your list for now.", "{count} approvals out of your list for now."
        )
    return words.some(count, "{count} approval back in your list.", "{count} approvals back in your list.")


def _told(request: Request, done: Together, said: str, url: str) -> HttpResponse:
    rows = [
        {"why": told(item.error.detail) if item.error else "", "approval": _seen(request, item.approval)}
        for item in done.items
    ]
    refused = len(done.refused)
    page = {"said": said, "rows": rows, "done": len(rows) - refused, "refused": refused, "back": url}
    return render(request, "inbox/several_done.html", {"page": page, "now": store.now()})


def _seen(request: Request, approval: Approval | None) -> Approval | None:
    """As its reader may see it."""
    return sights.approval(approval, sights.of(request.actor, approval.run)) if approval else None


def _url(request: Request) -> str:
    """The list it was chosen in, without boxes; with the card that was open beside it."""
    here = inbox.place_of(request).settled.query
    card = identity(request.POST.get("open", ""))
    return (reverse("approval", args=[card]) if card else reverse("inbox")) + here
