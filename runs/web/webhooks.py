"""For admins: where webhooks go. For them and operators: what was sent to whom, and how that went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from runs import operations, policies, queries, store
from runs.engine import canonical, telling
from runs.errors import BadRequest, HitlError
from runs.models import Delivery, Endpoint
from runs.models.delivery import STATUSES
from runs.web import once
from runs.web.banner import of_error
from runs.web.door import Request, page, see_other

ROWS: Final = 100
LATE: Final = timedelta(seconds=30)  # the sender looks once a second, and says so every five


# ---- endpoints


def endpoints_again(request: Request, error: HitlError) -> HttpResponse:
    wrong = {problem.path.strip("/"): problem.message for problem in error.errors}
    return _endpoints(request, wrong=wrong, banner=None if wrong else of_error(error))


@page(methods="GET POST", refused=endpoints_again)
def endpoints(request: Request) -> HttpResponse:
    policies.check_webhooks(request.actor)
    if request.method != "POST":
        return _endpoints(request)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    endpoint, secret = operations.create_endpoint(
        actor=request.actor,
        url=request.POST.get("url", "").strip(),
        events=request.POST.getlist("events"),
        description=request.POST.get("description", "").strip(),
    )
    _keep_secret(request, endpoint, secret)
    return see_other(once.remember(request, reverse("webhook", args=[endpoint.pk])))


def _endpoints(request: Request, *, wrong: dict[str, str] | None = None, banner: Any = None) -> HttpResponse:
    context = {
        "endpoints": queries.endpoints(request.actor.project.pk),
        "form": _form(request.POST, None),
        "errors": wrong or {},
        "banner": banner,
        "form_token": once.token(request),
        "now": store.now(),
    }
    return render(request, "webhooks/endpoints.html", context)


def endpoint_again(request: Request, error: HitlError, endpoint_id: UUID) -> HttpResponse:
    wrong = {problem.path.strip("/"): problem.message for problem in error.errors}
    return _endpoint(request, endpoint_id, wrong=wrong, banner=None if wrong else of_error(error))


@page(methods="GET POST", refused=endpoint_again)
def endpoint(request: Request, endpoint_id: UUID) -> HttpResponse:
    queries.endpoint(
        request.actor.project.pk, endpoint_id
    )  # what is not theirs is not there, whatever their role
    policies.check_webhooks(request.actor)
    if request.method != "POST":
        return _endpoint(request, endpoint_id)
    return VERBS[_verb(request)](request, endpoint_id)


def _verb(request: Request) -> str:
    wanted = request.POST.get("verb", "")
    if wanted not in VERBS:
        raise BadRequest("Choose what is to be done.")
    return wanted


def _change(request: Request, endpoint_id: UUID) -> HttpResponse:
    operations.change_endpoint(
        actor=request.actor,
        endpoint_id=endpoint_id,
        url=request.POST.get("url", "").strip(),
        events=request.POST.getlist("events"),
        description=request.POST.get("description", "").strip(),
    )
    return _said(request, endpoint_id, "Saved.")


def _switch(request: Request, endpoint_id: UUID) -> HttpResponse:
    on = request.POST.get("verb") == "enable"
    operations.change_endpoint(actor=request.actor, endpoint_id=endpoint_id, enabled=on)
    return _said(
        request, endpoint_id, "Switched on." if on else "Switched off; what stood in line is cancelled."
    )


def _rotate(request: Request, endpoint_id: UUID) -> HttpResponse:
    changed, secret = operations.rotate_secret(actor=request.actor, endpoint_id=endpoint_id)
    _keep_secret(request, changed, secret)
    return see_other(reverse("webhook", args=[endpoint_id]))


def _test(request: Request, endpoint_id: UUID) -> HttpResponse:
    operations.test_endpoint(actor=request.actor, endpoint_id=endpoint_id)
    return _said(request, endpoint_id, "A test is on its way; its delivery is below.")


def _delete(request: Request, endpoint_id: UUID) -> HttpResponse:
    operations.delete_endpoint(actor=request.actor, endpoint_id=endpoint_id)
    messages.success(request, "The endpoint is deleted; what stood in line for it is cancelled.")
    return see_other(reverse("webhooks"))


VERBS: Final = {
    "change": _change,
    "enable": _switch,
    "disable": _switch,
    "rotate": _rotate,
    "test": _test,
    "delete": _delete,
}


def _said(request: Request, endpoint_id: UUID, text: str) -> HttpResponse:
    messages.success(request, text)
    return see_other(reverse("webhook", args=[endpoint_id]))


def _endpoint(
    request: Request, endpoint_id: UUID, *, wrong: dict[str, str] | None = None, banner: Any = None
) -> HttpResponse:
    found = queries.endpoint(request.actor.project.pk, endpoint_id)
    sent = queries.deliveries(request.actor.project.pk, endpoint=found.pk, limit=20)
    secret = request.session.pop(f"secret of {endpoint_id}", "") if request.method == "GET" else ""
    context = {
        "endpoint": found,
        "secret": secret,
        "form": _form(request.POST, found),
        "errors": wrong or {},
        "banner": banner,
        "deliveries": sent.rows,
        "more": sent.more,
        "now": store.now(),
    }
    return render(request, "webhooks/endpoint.html", context)


def _keep_secret(request: Request, endpoint: Endpoint, secret: str) -> None:
    """For the one page that follows the redirect."""
    request.session[f"secret of {endpoint.pk}"] = secret


def _form(post: QueryDict, endpoint: Endpoint | None) -> dict[str, Any]:
    """What the fields hold: what was typed, or what is there."""
    typed = "url" in post
    chosen = post.getlist("events") if typed else (endpoint.events if endpoint else [])
    return {
        "url": post.get("url", "") if typed else (endpoint.url if endpoint else ""),
        "description": post.get("description", "") if typed else (endpoint.description if endpoint else ""),
        "events": [{"name": name, "checked": name in chosen} for name in telling.TYPES],
    }


# ---- deliveries


@page()
def deliveries(request: Request) -> HttpResponse:
    policies.check_deliveries(request.actor)
    project = request.actor.project.pk
    status = request.GET.get("status", "")
    found = queries.deliveries(
        project,
        status=status if status in STATUSES else None,
        endpoint=_id(request.GET.get("endpoint")),
        run=_id(request.GET.get("run")),
        after=_after(request),
        limit=ROWS,
    )
    now, last = store.now(), found.rows[-1] if found.more else None
    beat = queries.beat_of("deliver")
    context = {
        "deliveries": found.rows,
        "older": _older(request, last) if last else "",
        "status": status,
        "statuses": STATUSES,
        "endpoints": queries.endpoints(project),
        "endpoint": request.GET.get("endpoint", ""),
        "run": request.GET.get("run", ""),
        "late": beat is None or beat.at < now - LATE,
        "beat": beat,
        "now": now,
    }
    return render(request, "webhooks/deliveries.html", context)


def delivery_again(request: Request, error: HitlError, delivery_id: UUID) -> HttpResponse:
    return _delivery(request, delivery_id, banner=of_error(error))


@page(methods="GET POST", refused=delivery_again)
def delivery(request: Request, delivery_id: UUID) -> HttpResponse:
    """One delivery with every attempt. POST sends it once more."""
    queries.delivery(request.actor.project.pk, delivery_id)
    policies.check_deliveries(request.actor)
    if request.method != "POST":
        return _delivery(request, delivery_id)
    operations.redeliver(actor=request.actor, delivery_id=delivery_id)
    messages.success(request, "It is sent once more, under the same id.")
    return see_other(reverse("delivery", args=[delivery_id]))


def _delivery(request: Request, delivery_id: UUID, *, banner: Any = None) -> HttpResponse:
    found = queries.delivery(request.actor.project.pk, delivery_id)
    body = canonical.loads(found.message.body)
    context = {
        "delivery": found,
        "attempts": found.attempts.all(),
        "body": canonical.dumps(body, indent=2) if found.channel == "webhook" else "",
        "full": policies.can_webhooks(request.actor),
        "may_redeliver": policies.can_redeliver(request.actor) and found.status != "pending",
        "banner": banner,
        "now": store.now(),
    }
    return render(request, "webhooks/delivery.html", context)


def _id(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return UUID(int=0)  # of which there is nothing


def _after(request: Request) -> tuple[datetime, UUID] | None:
    try:
        return datetime.fromtimestamp(float(request.GET["before"]), UTC), UUID(request.GET["id"])
    except (KeyError, ValueError, OverflowError):
        return None


def _older(request: Request, last: Delivery) -> str:
    query = request.GET.copy()
    query["before"], query["id"] = repr(last.created_at.timestamp()), str(last.pk)
    return query.urlencode()
