"""For admins: where webhooks go. For them and operators: what was sent to whom, and how that went."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, watching
from runs.engine import canonical, telling
from runs.errors import BadRequest, HitlError
from runs.models import Delivery, Endpoint
from runs.models.delivery import STATUSES
from runs.web import once
from runs.web.door import Request, identity, page
from runs.web.sheet import Done, draw, fields_of, forms

ROWS: Final = 100


# ---- endpoints


def _endpoints(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    policies.check_webhooks(request.actor)
    wrong = fields_of(error)
    shown = {
        "endpoints": queries.endpoints(request.actor.project.pk),
        "form": _form(request.POST, None),
        "errors": wrong,
    }
    return draw(request, "webhooks/endpoints.html", shown, None if wrong else error)


@forms(_endpoints)
def endpoints(request: Request) -> Done:
    endpoint, secret = operations.create_endpoint(actor=request.actor, **_told(request))
    once.keep(request, _secret_of(endpoint.pk), secret)
    return Done("", reverse("webhook", args=[endpoint.pk]))


def _told(request: Request) -> dict[str, Any]:
    return {
        "url": request.POST.get("url", "").strip(),
        "events": request.POST.getlist("events"),
        "description": request.POST.get("description", "").strip(),
    }


# ---- one endpoint


def _endpoint(request: Request, endpoint_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    found = queries.endpoint(
        request.actor.project.pk, endpoint_id
    )  # what is not theirs is not there, whatever their role
    policies.check_webhooks(request.actor)
    wrong = fields_of(error)
    sent = queries.deliveries(request.actor.project.pk, endpoint=found.pk, limit=20)
    shown = {
        "endpoint": found,
        "secret": once.take(request, _secret_of(endpoint_id)),
        "form": _form(request.POST, found),
        "errors": wrong,
        "deliveries": sent.rows,
        "more": sent.more,
    }
    return draw(request, "webhooks/endpoint.html", shown, None if wrong else error)


@forms(_endpoint)
def endpoint(request: Request, endpoint_id: UUID) -> Done:
    verb = VERBS.get(request.POST.get("verb", ""))
    if verb is None:
        raise BadRequest("Choose what is to be done.")
    return verb(request, endpoint_id)


def _change(request: Request, endpoint_id: UUID) -> Done:
    operations.change_endpoint(actor=request.actor, endpoint_id=endpoint_id, **_told(request))
    return _here(endpoint_id, gettext("Saved."))


def _enable(request: Request, endpoint_id: UUID) -> Done:
    operations.change_endpoint(actor=request.actor, endpoint_id=endpoint_id, enabled=True)
    return _here(endpoint_id, gettext("Switched on."))


def _disable(request: Request, endpoint_id: UUID) -> Done:
    operations.change_endpoint(actor=request.actor, endpoint_id=endpoint_id, enabled=False)
    return _here(endpoint_id, gettext("Switched off; what stood in line is cancelled."))


def _rotate(request: Request, endpoint_id: UUID) -> Done:
    _, secret = operations.rotate_secret(actor=request.actor, endpoint_id=endpoint_id)
    once.keep(request, _secret_of(endpoint_id), secret)
    return _here(endpoint_id)


def _test(request: Request, endpoint_id: UUID) -> Done:
    operations.test_endpoint(actor=request.actor, endpoint_id=endpoint_id)
    return _here(endpoint_id, gettext("A test is on its way; its delivery is below."))


def _delete(request: Request, endpoint_id: UUID) -> Done:
    operations.delete_endpoint(actor=request.actor, endpoint_id=endpoint_id)
    return Done(
        gettext("The endpoint is deleted; what stood in line for it is cancelled."), reverse("webhooks")
    )


VERBS: Final = {
    "change": _change,
    "enable": _enable,
    "disable": _disable,
    "rotate": _rotate,
    "test": _test,
    "delete": _delete,
}


def _here(endpoint_id: UUID, said: str = "") -> Done:
    return Done(said, reverse("webhook", args=[endpoint_id]))


def _secret_of(endpoint_id: UUID) -> str:
    return f"secret of {endpoint_id}"


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
    last = found.rows[-1] if found.more else None
    shown = {
        "deliveries": found.rows,
        "older": _older(request, last) if last else "",
        "status": status,
        "statuses": STATUSES,
        "endpoints": queries.endpoints(project),
        "endpoint": request.GET.get("endpoint", ""),
        "run": request.GET.get("run", ""),
        "sender": watching.look(watching.SENDER),
    }
    return draw(request, "webhooks/deliveries.html", shown, None)


def _delivery(request: Request, delivery_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    found = queries.delivery(request.actor.project.pk, delivery_id)
    policies.check_deliveries(request.actor)
    body = canonical.loads(found.message.body)
    shown = {
        "delivery": found,
        "attempts": found.attempts.all(),
        "body": canonical.dumps(body, indent=2) if found.channel == "webhook" else "",
        "full": policies.can_webhooks(request.actor),
        "may_redeliver": policies.can_redeliver(request.actor) and found.status != "pending",
    }
    return draw(request, "webhooks/delivery.html", shown, error)


@forms(_delivery)
def delivery(request: Request, delivery_id: UUID) -> Done:
    """One delivery with every attempt. POST sends it once more."""
    operations.redeliver(actor=request.actor, delivery_id=delivery_id)
    return Done(gettext("It is sent once more, under the same id."), reverse("delivery", args=[delivery_id]))


def _id(text: str | None) -> UUID | None:
    return (identity(text) or UUID(int=0)) if text else None  # of zeros there is nothing


def _after(request: Request) -> tuple[datetime, UUID] | None:
    try:
        return datetime.fromtimestamp(float(request.GET["before"]), UTC), UUID(request.GET["id"])
    except (KeyError, ValueError, OverflowError):
        return None


def _older(request: Request, last: Delivery) -> str:
    query = request.GET.copy()
    query["before"], query["id"] = repr(last.created_at.timestamp()), str(last.pk)
    return query.urlencode()
