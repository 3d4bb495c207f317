"""What the API answers about webhooks: where they go, what was sent there or by mail, and how that went."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from runs import policies
from runs.api.shapes import Cursor, Id, PersonDocument, Time, exact, maybe_id, maybe_time, person, time_text
from runs.engine import canonical
from runs.models import Delivery, Endpoint
from runs.policies import Actor


@exact
class EndpointDocument(TypedDict):
    """Where webhooks go. The secret is told when it is made, and never again."""

    id: Id
    url: str
    description: str
    events: list[str]
    created_at: Time
    disabled_at: Annotated[Time | None, Field(description="Nothing is sent there since.")]
    disabled_reason: Annotated[
        str, Field(description="`by_hand`, or `gone` if the receiver has answered 410.")
    ]
    earlier_secret_until: Annotated[
        Time | None, Field(description="Until then the secret before the last rotation signs as well.")
    ]


@exact
class EndpointSecret(TypedDict):
    """An endpoint with its secret, which is told this once."""

    endpoint: EndpointDocument
    secret: Annotated[
        str, Field(description="As libraries for Standard Webhooks take it.", examples=["whsec_MfKQ…"])
    ]


@exact
class EndpointList(TypedDict):
    items: list[EndpointDocument]


@exact
class AttemptDocument(TypedDict):
    """One attempt of a delivery."""

    no: Annotated[int, Field(description="As in the header Webhook-Attempt.")]
    at: Time
    seconds: float
    outcome: Annotated[
        str,
        Field(
            description="delivered, refused, redirect_refused, gone, timeout, connection_failed, blocked,"
            " secret_unreadable, mailbox_refused or error."
        ),
    ]
    http_status: int | None
    detail: str
    answer: Annotated[
        str | None, Field(description="The beginning of what the receiver said; null for who is no admin.")
    ]


@exact
class DeliverySummary(TypedDict):
    """A message on its way to an endpoint, or by mail to a person."""

    id: Id
    message: Annotated[str, Field(description="As in the header Webhook-Id.")]
    type: Annotated[str, Field(description="What happened.", examples=["run.completed"])]
    channel: Literal["webhook", "mail"]
    endpoint: Id | None
    recipient: Annotated[PersonDocument | None, Field(description="Of a mail.")]
    run: Id | None
    seq: Annotated[int | None, Field(description="The event of the run's history that it tells of.")]
    status: Literal["pending", "delivered", "dead", "blocked", "cancelled"]
    reason: Annotated[str, Field(description="What came of the last attempt, or why there is none.")]
    attempts: Annotated[int, Field(description="How many were begun.")]
    next_attempt_at: Time | None
    created_at: Time
    ended_at: Time | None


@exact
class DeliveryDocument(DeliverySummary):
    """A delivery with every attempt, and the body as it is sent."""

    body: Annotated[Any, Field(description="What is sent; the same at every attempt. Null for a mail.")]
    tried: list[AttemptDocument]


@exact
class DeliveryPage(TypedDict):
    items: list[DeliverySummary]
    next: Cursor


def endpoint_document(endpoint: Endpoint) -> EndpointDocument:
    return {
        "id": str(endpoint.pk),
        "url": endpoint.url,
        "description": endpoint.description,
        "events": list(endpoint.events),
        "created_at": time_text(endpoint.created_at),
        "disabled_at": maybe_time(endpoint.disabled_at),
        "disabled_reason": endpoint.disabled_reason,
        "earlier_secret_until": maybe_time(endpoint.earlier_until),
    }


def delivery_summary(delivery: Delivery) -> DeliverySummary:
    message, is_mail = delivery.message, delivery.channel == "mail"
    return {
        "id": str(delivery.pk),
        "message": f"msg_{message.pk.hex}",
        "type": message.type,
        "channel": "mail" if is_mail else "webhook",
        "endpoint": maybe_id(delivery.endpoint_id),
        "recipient": person(delivery.user) if delivery.user else None,
        "run": maybe_id(message.run_id),
        "seq": message.seq,
        "status": delivery.status,  # type: ignore[typeddict-item]  # a constraint of the table says so
        "reason": delivery.reason,
        "attempts": delivery.attempt,
        "next_attempt_at": time_text(delivery.due_at) if delivery.status == "pending" else None,
        "created_at": time_text(delivery.created_at),
        "ended_at": maybe_time(delivery.ended_at),
    }


def delivery_document(delivery: Delivery, *, actor: Actor) -> DeliveryDocument:
    full = policies.can_webhooks(actor)
    return {
        **delivery_summary(delivery),
        "body": canonical.loads(delivery.message.body) if delivery.channel == "webhook" else None,
        "tried": [
            {
                "no": attempt.no,
                "at": time_text(attempt.at),
                "seconds": attempt.seconds,
                "outcome": attempt.outcome,
                "http_status": attempt.http_status,
                "detail": attempt.detail,
                "answer": attempt.answer if full else None,
            }
            for attempt in delivery.attempts.all()
        ],
    }
