"""The inbox: the list, and the frame that list and card share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse

from runs import queries, sights, store
from runs.web import once, queue
from runs.web.context import asked
from runs.web.door import Request, page

ROWS: Final = 200


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
    """List and pane, with the card if there is one; for htmx only them, with the title, the count and what is said."""
    everything = {
        "form_token": once.token(request),
        "mark": queries.approvals_mark(request.actor.project.pk),
        **(card or listed(request)),
    }
    if not request.htmx or request.htmx.history_restore_request:
        return render(request, "inbox/inbox.html", everything)
    parts = [
        title(request, card["card"].title if card else "Inbox"),
        render_to_string("inbox/_inbox.html", everything, request),
    ]
    parts += [
        render_to_string(name, {**everything, "swap": True}, request)
        for name in ("parts/_inbox_count.html", "parts/toasts.html")
    ]
    return HttpResponse("".join(parts))


def listed(request: Request, *, current: UUID | None = None) -> dict[str, Any]:
    """The list, with the row of what is open marked as current."""
    now = store.now()
    return {"queue": rows_of(request, now, current=current), "now": now}


def title(request: Request, text: str) -> str:
    return render_to_string("parts/title.html", {"text": text}, request)


def rows_of(request: Request, now: datetime, *, current: UUID | None = None) -> queue.Queue:
    view = view_of(request)
    project = request.actor.project.pk
    if view == "decided":
        found = queries.closed_approvals(project, after=_before(request), limit=ROWS)
    elif view == queue.STUCK:
        stuck = queries.unanswerable(project, limit=ROWS)
        found = queries.Page([approval for approval, _ in stuck], more=False)
    else:
        whose = asked(request.actor) if view in ("mine", "unclaimed") else None
        found = queries.inbox(project, whose, unclaimed=view == "unclaimed", limit=ROWS)
    for row in found.rows:
        sights.approval(row, sights.of(request.actor, row.run))
    return queue.build(
        found.rows,
        view=view,
        now=now,
        url=reverse("inbox"),
        current=current,
        more=found.more,
        operator="operator" in request.actor.roles,
    )


# ---- the request


def view_of(request: Request) -> str:
    wanted = request.GET.get("view", "mine")
    if wanted == queue.STUCK and "operator" in request.actor.roles:
        return wanted
    return wanted if wanted in queue.VIEWS else "mine"


def view_query(request: Request) -> str:
    view = view_of(request)
    return "" if view == "mine" else f"?view={view}"


def _before(request: Request) -> tuple[datetime, UUID] | None:
    try:
        moment = datetime.fromtimestamp(float(request.GET["before"]), UTC)
        return moment, UUID(request.GET["id"])
    except (KeyError, ValueError, OverflowError):
        return None
