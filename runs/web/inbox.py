"""The inbox: the list, the frame that list and card share, and what opens after an answer."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext

from runs import dispatch, inboxes, policies, queries, saved, sights, workflows
from runs.inboxes import Wanted, asked
from runs.live import onlooking
from runs.models import Approval
from runs.web import once, queue
from runs.web.attending import SNOOZES
from runs.web.door import Request, page
from runs.web.queue import Found, Place

ROWS: Final = 50


@page()
def inbox(request: Request) -> HttpResponse:
    if wants(request, "live"):
        return live(request, listed(request))
    if wants(request, "_queue"):
        return render(request, "inbox/_queue.html", listed(request))
    return desk(request)


def wants(request: Request, target: str) -> bool:
    """Whether htmx asks for this fragment alone."""
    return bool(request.htmx) and request.htmx.target == target


def live(request: Request, context: dict[str, Any]) -> HttpResponse:
    """What an open page takes in when something has changed; the card itself is never among it."""
    return render(request, "inbox/_live.html", context)


# ---- the frame


def desk(request: Request, **card: Any) -> HttpResponse:
    """List and pane, with the card if there is one; for htmx only them, with the title, the counts and what is said."""
    everything = {
        "mark": mark(request.actor.project.pk),
        **(card or listed(request)),
    }
    if not request.htmx or request.htmx.history_restore_request:
        return render(request, "inbox/inbox.html", everything)
    parts = [
        title(request, card["card"].title if card else gettext("Inbox")),
        render_to_string("inbox/_inbox.html", everything, request),
    ]
    parts += [
        render_to_string(name, {**everything, "swap": True}, request)
        for name in ("parts/_inbox_count.html", "inbox/_views.html", "parts/toasts.html")
    ]
    return HttpResponse("".join(parts))


def mark(project_id: UUID) -> str:
    """Changes whenever the inbox of a project would read otherwise. One query."""
    return f"{queries.approvals_mark(project_id)}{onlooking.mark(project_id)}"


def title(request: Request, text: str) -> str:
    return render_to_string("parts/title.html", {"text": text}, request)


def listed(request: Request, *, current: UUID | None = None) -> dict[str, Any]:
    """The list, with the row of what is open marked as current, and the moment by the database's clock."""
    place = place_of(request)
    found = _found(request, place)
    request.inbox_count = found.counts["mine"]  # for the badge of the frame: the same number, asked once
    built = queue.build(
        found,
        place,
        url=reverse("inbox"),
        current=current,
        operator="operator" in request.actor.roles,
        answers=policies.can_answer(request.actor),
        names={
            "workflow": sorted({flow.name for flow in workflows.every()}),
            "team": asked(request.actor).teams,
        },
    )
    return {"queue": built, "now": found.now, "snoozes": SNOOZES, "form_token": once.token(request)}


def _found(request: Request, place: Place) -> Found:
    project, who = request.actor.project.pk, asked(request.actor)
    counted = {view: Wanted(view=view) for view in queue.COUNTED}
    counts = inboxes.counts(project, who, {**counted, "here": place.wanted})
    listing, here = _listing(request, place), counts.by["here"]
    return Found(
        approvals=_seen(request, listing.rows),
        next=listing.next,
        counts=counts.by,
        here=len(listing.rows) if place.stuck else here,
        saved=saved.of(request.actor, "inbox"),
        onlookers=onlookers(request),
        now=counts.moment,
    )


def _listing(request: Request, place: Place) -> inboxes.Listing:
    project, who = request.actor.project.pk, asked(request.actor)
    if place.stuck:
        return inboxes.Listing([row for row, _ in queries.unanswerable(project, limit=ROWS)])
    return inboxes.items(project, place.wanted, who, after=place.after, limit=ROWS)


def _seen(request: Request, rows: list[Approval]) -> list[Approval]:
    """What is hidden from the reader is taken out of what was read. The documents of those are read in which something may be;
    one that has gone since is left out."""
    sight_of = sights.of_many(request.actor, [row.run for row in rows])
    apart = {row.pk for row in rows if inboxes.may_hide(row) or sight_of(row.run).narrow}
    whole = queries.approvals(request.actor.project.pk, apart) if apart else []
    seen = {row.pk: sights.approval(row, sight_of(row.run)) for row in whole}
    return [seen.get(row.pk, row) for row in rows if row.pk not in apart or row.pk in seen]


# ---- who looks at what


@page(methods="POST")
def looking(request: Request, approval_id: UUID) -> HttpResponse:
    """An open card says every few seconds that it is looked at, and once that it is no more."""
    project = request.actor.project.pk
    queries.approval(project, approval_id)
    if request.POST.get("leave"):
        onlooking.leave(project, approval_id, request.user.pk)
        dispatch.announce(project, project)
    elif onlooking.look(project, approval_id, request.user.pk, str(request.user)):
        dispatch.announce(project, project)
    return HttpResponse(status=204)


def onlookers(request: Request) -> dict[UUID, list[onlooking.Onlooker]]:
    """Who looks at what, beside the person who asks."""
    found = onlooking.onlookers(request.actor.project.pk)
    return {
        approval: others
        for approval, people in found.items()
        if (others := [one for one in people if one.user != request.user.pk])
    }


# ---- between two approvals


def onward(request: Request, approval_id: UUID) -> str:
    """What opens when an approval is answered: the next one of the same list, or the list if there is no other."""
    place = place_of(request)
    if place.stuck or place.wanted.view == "decided":
        return reverse("inbox") + place.query
    following = inboxes.following(request.actor.project.pk, place.wanted, asked(request.actor), approval_id)
    return (reverse("approval", args=[following]) if following else reverse("inbox")) + place.query


# ---- the request


def place_of(request: Request) -> Place:
    """Which list the address asks for. What it cannot mean is left out: a link of yesterday still leads somewhere."""
    told = {name: request.GET[name] for name in request.GET}
    if told.get("view") == queue.STUCK and "operator" in request.actor.roles:
        return Place(stuck=True)
    wanted = Wanted.of(told)
    after = told.get("after", "")
    return Place(
        wanted,
        after if inboxes.is_cursor(after, wanted.order) else "",
        choosing=told.get("choose") == "yes",
    )


def view_query(request: Request) -> str:
    return place_of(request).query
