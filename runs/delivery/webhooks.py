"""One attempt of a webhook: sign, send, and say in one word what came of it."""

from __future__ import annotations

import ssl
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import httpcore

from runs.delivery import http, schedule, signing
from runs.engine import canonical
from runs.errors import ForbiddenTarget
from runs.store import Tried
from runs.wall import Resolver

AGENT: Final = "hitl-webhooks/1"
ANSWER_KEPT: Final = 2_000  # characters of what the other side said
GONE: Final = 410


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one attempt sends, and with which secrets it is signed."""

    url: str
    message: uuid.UUID
    body: bytes
    attempt: int
    secrets: list[bytes]


def send(parcel: Parcel, *, now: datetime, resolver: Resolver | None = None) -> Tried:
    """Send it, whatever happens. now: the time that the signature is for."""
    if not parcel.secrets:
        detail = "HITL_SECRET_KEY is another than the secret was made with: rotate the secret."
        return Tried("secret_unreadable", now, 0.0, detail=detail)
    began = time.monotonic()

    def tried(outcome: str, detail: str = "", answer: http.Answer | None = None) -> Tried:
        return Tried(
            outcome,
            now,
            time.monotonic() - began,
            http_status=answer.status if answer else None,
            detail=canonical.visible(detail[:500]),
            answer=_words(answer.body) if answer else "",
            retry_after=_retry_after(answer, now) if answer else None,
        )

    try:
        answer = http.post(parcel.url, parcel.body, _headers(parcel, now), resolver=resolver)
    except ForbiddenTarget as error:
        return tried("blocked", error.detail)
    except (TimeoutError, httpcore.TimeoutException):
        return tried("timeout", f"No answer within {http.SECONDS:g} s.")
    except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError) as error:
        return tried("connection_failed", f"{type(error).__name__}: {error}")
    return tried(_outcome(answer.status), "", answer)


def _headers(parcel: Parcel, now: datetime) -> dict[str, str]:
    identity, timestamp = signing.webhook_id(parcel.message), int(now.timestamp())
    return {
        "Content-Type": "application/json",
        "Content-Length": str(len(parcel.body)),
        "User-Agent": AGENT,
        "Webhook-Id": identity,
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": signing.signature(
            parcel.secrets, id=identity, timestamp=timestamp, body=parcel.body
        ),
        "Webhook-Attempt": str(parcel.attempt),
    }


def _outcome(status: int) -> str:
    if 200 <= status < 300:
        return "delivered"
    if 300 <= status < 400:
        return "redirect_refused"
    return "gone" if status == GONE else "refused"


def _retry_after(answer: http.Answer, now: datetime) -> float | None:
    if answer.status not in (429, 503):
        return None
    return schedule.retry_after(answer.headers.get("retry-after"), now=now.astimezone(UTC))


def _words(body: bytes) -> str:
    """The beginning of an answer as text that can be stored and shown."""
    return canonical.visible(body[: 4 * ANSWER_KEPT].decode("utf-8", "replace")[:ANSWER_KEPT])
