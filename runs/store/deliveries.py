"""The outbox as those see it who empty it: take what is due under a lease, and write down what came of it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now

from runs.engine import telling
from runs.models import Attempt, Delivery, Endpoint, Message, Preference
from runs.models.delivery import CANCELLED, PENDING
from runs.store.clock import now

LEASE: Final = 60.0  # seconds; an attempt takes 15 s at most; who holds it longer is dead or frozen


@dataclass(frozen=True, slots=True)
class Leased:
    """A delivery that this sender tries now, and nobody else until its lease is over."""

    id: uuid.UUID
    token: uuid.UUID
    attempt: int
    earlier: int

    @property
    def round(self) -> int:
        """Which attempt it is since somebody sent it by hand."""
        return self.attempt - self.earlier


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of an attempt."""

    outcome: str
    at: datetime
    seconds: float
    http_status: int | None = None
    detail: str = ""
    answer: str = ""
    retry_after: float | None = None

    @property
    def delivered(self) -> bool:
        return self.outcome == "delivered"


# An endpoint that stalls or fails has only so many attempts under way: the others do not wait for it.
_LEASE_WEBHOOKS: Final = """
    WITH room AS MATERIALIZED (
      SELECT endpoint.id, %(each)s - (
        SELECT count(*) FROM runs_delivery busy
        WHERE busy.endpoint_id = endpoint.id AND busy.status = 'pending' AND busy.token IS NOT NULL AND busy.due_at > now()
      ) AS free
      FROM runs_endpoint endpoint
      WHERE EXISTS (
        SELECT 1 FROM runs_delivery due
        WHERE due.endpoint_id = endpoint.id AND due.status = 'pending' AND due.due_at <= now()
      )
      ORDER BY random()
    ), chosen AS MATERIALIZED (
      SELECT due.id FROM room CROSS JOIN LATERAL (
        SELECT delivery.id FROM runs_delivery delivery
        WHERE delivery.endpoint_id = room.id AND delivery.status = 'pending' AND delivery.due_at <= now()
        ORDER BY delivery.due_at, delivery.id LIMIT greatest(room.free, 0) FOR NO KEY UPDATE SKIP LOCKED
      ) due LIMIT %(limit)s
    )
"""
_LEASE_MAILS: Final = """
    WITH chosen AS MATERIALIZED (
      SELECT id FROM runs_delivery WHERE endpoint_id IS NULL AND status = 'pending' AND due_at <= now()
      ORDER BY due_at, id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    )
"""
_TAKE: Final = """
    UPDATE runs_delivery delivery
    SET token = gen_random_uuid(), attempt = attempt + 1, due_at = now() + make_interval(secs => %(lease)s)
    FROM chosen WHERE delivery.id = chosen.id
    RETURNING delivery.id, delivery.token, delivery.attempt, delivery.earlier
"""


def lease_webhooks(*, limit: int, each: int) -> list[Leased]:
    """Webhooks that are due, the oldest of each endpoint first; of one endpoint at most `each` at once. One statement."""
    return _lease(_LEASE_WEBHOOKS + _TAKE, limit=limit, each=each)


def lease_mails(*, limit: int) -> list[Leased]:
    """Mails that are due, oldest first. One statement."""
    return _lease(_LEASE_MAILS + _TAKE, limit=limit)


def _lease(text: str, **parameters: Any) -> list[Leased]:
    with connection.cursor() as cursor:
        cursor.execute(text, {**parameters, "lease": LEASE})
        return [Leased(*row) for row in cursor.fetchall()]


def settle(leased: Leased, tried: Tried | None, *, status: str, reason: str, delay: float = 0.0) -> bool:
    """Write down an attempt, and what becomes of its delivery. False if somebody else has taken it over by now.

    tried: None if there was no attempt, because nobody wants it any more.
    """
    with transaction.atomic():
        ended = None if status == PENDING else Now()
        due = now() + timedelta(seconds=delay)
        if not _held(leased).update(status=status, reason=reason, token=None, due_at=due, ended_at=ended):
            return False
        if tried is not None:
            Attempt.objects.create(
                delivery_id=leased.id,
                no=leased.attempt,
                at=tried.at,
                seconds=tried.seconds,
                outcome=tried.outcome,
                http_status=tried.http_status,
                detail=tried.detail,
                answer=tried.answer,
            )
        return True


def _held(leased: Leased) -> Any:
    return Delivery.objects.filter(pk=leased.id, token=leased.token, status=PENDING)


def cancel_pending(endpoint: Endpoint, reason: str) -> int:
    """Nothing of what stands in line for an endpoint is sent; what is under way just now is left to its sender."""
    waiting = Delivery.objects.filter(Q(token=None) | Q(due_at__lte=Now()), endpoint=endpoint, status=PENDING)
    return waiting.update(status=CANCELLED, reason=reason, token=None, ended_at=Now())


def disable_gone(endpoint: Endpoint) -> None:
    """The other side has said that nothing lives there any more: switch the endpoint off, and tell the project's admins."""
    with transaction.atomic():
        fresh = Endpoint.objects.filter(pk=endpoint.pk, disabled_at=None, deleted_at=None)
        if not fresh.update(disabled_at=Now(), disabled_reason="gone"):
            return
        cancel_pending(endpoint, "endpoint_disabled")
        message = Message.objects.create(
            project_id=endpoint.project_id,
            type=telling.DISABLED,
            title=f"Webhook switched off, its receiver is gone: {endpoint.url}",
            body="{}",
        )
        with connection.cursor() as cursor:
            cursor.execute(_TELL_ADMINS, {"project": endpoint.project_id, "message": message.pk})


_TELL_ADMINS: Final = """
    INSERT INTO runs_notice (project_id, user_id, message_id, topic, shown, digest)
    SELECT member.project_id, person.id, %(message)s, 'failed', true, false
    FROM runs_member member JOIN runs_user person ON person.id = member.user_id
    WHERE member.project_id = %(project)s AND 'admin' = ANY(member.roles) AND person.is_active AND NOT person.is_service
"""

_DIGEST: Final = """
    WITH due AS (
      UPDATE runs_preference SET digested_at = now()
      WHERE id IN (
        SELECT id FROM runs_preference
        WHERE id = ANY(%(due)s) AND digest AND digested_at < %(before)s
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
      )
      RETURNING user_id, project_id
    ), taken AS (
      UPDATE runs_notice notice SET digest = false FROM due
      WHERE notice.project_id = due.project_id AND notice.digest AND (
        notice.user_id = due.user_id
        OR due.user_id IS NULL AND NOT EXISTS ( -- who has said nothing hears what the project says
          SELECT 1 FROM runs_preference own
          WHERE own.user_id = notice.user_id AND own.project_id = notice.project_id
        )
      )
      RETURNING notice.user_id, notice.project_id, notice.message_id, notice.read_at, notice.id
    ), gathered AS MATERIALIZED (
      SELECT gen_random_uuid() AS id, user_id, project_id,
        jsonb_build_object('messages', jsonb_agg(message_id ORDER BY taken.id)) AS body
      FROM taken WHERE read_at IS NULL GROUP BY user_id, project_id
    ), message AS (
      INSERT INTO runs_message (id, project_id, type, title, body)
      SELECT id, project_id, 'digest', 'Open since yesterday', body::text FROM gathered
    )
    INSERT INTO runs_delivery (id, project_id, message_id, user_id, status)
    SELECT gen_random_uuid(), project_id, id, user_id, 'pending' FROM gathered
"""


def gather_digests(*, limit: int = 200) -> int:
    """Put together what waits for a daily mail, for those whose hour has come since their last one. Two statements."""
    daily = (
        Preference.objects.filter(digest=True).select_related("user").annotate(moment=Now()).order_by("pk")
    )
    due = [row for row in daily if row.digested_at < row.hour_before(row.moment)][:limit]
    if not due:
        return 0
    told: dict[str, Any] = {
        "due": [row.pk for row in due],
        "before": max(row.hour_before(row.moment) for row in due),
    }
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, told)
        made: int = cursor.rowcount
    return made
