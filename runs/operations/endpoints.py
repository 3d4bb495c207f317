"""Where a project's webhooks go, their secrets, and sending something once more."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import F, Q

from runs import policies, store, wall
from runs.engine import canonical, telling
from runs.errors import BadRequest, EndpointOff, NotFound, StillPending, Told
from runs.models import Delivery, Endpoint, Message
from runs.models.delivery import PENDING
from runs.operations.door import as_uuid, verb
from runs.policies import Actor

PREFIX: Final = "whsec_"
GRACE: Final = timedelta(hours=24)  # for which the secret before signs as well
MOST: Final = 50  # endpoints of a project
MAX_DESCRIPTION: Final = 200


# ---- secrets


def secret_of(endpoint: Endpoint, salt: bytes | memoryview) -> bytes:
    """A secret as it signs. It is kept nowhere: the installation's key and the salt make it anew each time."""
    return hmac.new(
        settings.SECRET_KEY.encode(), b"webhook|" + endpoint.pk.bytes + bytes(salt), hashlib.sha256
    ).digest()


def secrets_in_force(endpoint: Endpoint) -> list[bytes]:
    """The secrets that sign now, the newest first. Empty if the installation's key is another than they were made with."""
    if endpoint.key_print != key_print():
        return []
    found = [secret_of(endpoint, endpoint.salt)]
    if endpoint.earlier_salt is not None and endpoint.earlier_until and endpoint.earlier_until > store.now():
        found.append(secret_of(endpoint, endpoint.earlier_salt))
    return found


def key_print() -> str:
    """Tells one key of an installation from another, and nothing about it."""
    return hmac.new(settings.SECRET_KEY.encode(), b"webhook key", hashlib.sha256).hexdigest()[:16]


def _shown(endpoint: Endpoint) -> str:
    return PREFIX + base64.b64encode(secret_of(endpoint, endpoint.salt)).decode()


# ---- endpoints


def create_endpoint(
    *, actor: Actor, url: str, events: Sequence[str], description: str = ""
) -> tuple[Endpoint, str]:
    """Let events of a project be sent to an address. Returns the endpoint and its secret, which is shown this once.

    Raises `ForbiddenTarget`.
    """
    policies.check_webhooks(actor)
    chosen = _chosen(events)
    _check(url, description)
    with verb(actor, "create_endpoint", url):
        policies.check_webhooks(actor)
        if Endpoint.objects.filter(project=actor.project, deleted_at=None).count() >= MOST:
            raise BadRequest(Told("A project has at most {most} endpoints.", most=MOST))
        endpoint = Endpoint.objects.create(
            project=actor.project,
            url=url,
            events=chosen,
            description=description,
            salt=secrets.token_bytes(32),
            key_print=key_print(),
            author=actor.user,
        )
        return endpoint, _shown(endpoint)


def change_endpoint(
    *,
    actor: Actor,
    endpoint_id: uuid.UUID | str,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = None,
    enabled: bool | None = None,
) -> Endpoint:
    """Change what is told, and switch an endpoint off or on; what stands in line is sent to the new address.

    What was cancelled while it was off stays cancelled, until somebody sends it again.
    """
    policies.check_webhooks(actor)
    chosen = None if events is None else _chosen(events)
    _check(url, description)
    with verb(actor, "change_endpoint", endpoint_id):
        endpoint = _locked(actor, endpoint_id)
        if url is not None:
            endpoint.url = url
        if chosen is not None:
            endpoint.events = chosen
        if description is not None:
            endpoint.description = description
        if enabled is False and endpoint.disabled_at is None:
            _switch_off(endpoint, "by_hand")
        if enabled:
            endpoint.disabled_at, endpoint.disabled_reason = None, ""
        endpoint.save()
        return endpoint


def delete_endpoint(*, actor: Actor, endpoint_id: uuid.UUID | str) -> Endpoint:
    """Nothing more goes there; what stands in line is cancelled. What was sent can still be looked up."""
    with verb(actor, "delete_endpoint", endpoint_id):
        endpoint = _locked(actor, endpoint_id)
        endpoint.deleted_at = store.now()
        endpoint.save(update_fields=["deleted_at"])
        store.cancel_pending(endpoint, "endpoint_deleted")
        return endpoint


def rotate_secret(*, actor: Actor, endpoint_id: uuid.UUID | str) -> tuple[Endpoint, str]:
    """A new secret, shown this once. The one before signs as well for a day, so that receivers can change in between."""
    with verb(actor, "rotate_secret", endpoint_id):
        endpoint = _locked(actor, endpoint_id)
        same_key = endpoint.key_print == key_print()
        endpoint.earlier_salt = endpoint.salt if same_key else None
        endpoint.earlier_until = store.now() + GRACE if same_key else None
        endpoint.salt, endpoint.key_print = secrets.token_bytes(32), key_print()
        endpoint.save(update_fields=["salt", "key_print", "earlier_salt", "earlier_until"])
        return endpoint, _shown(endpoint)


def test_endpoint(*, actor: Actor, endpoint_id: uuid.UUID | str) -> Delivery:
    """Send a message that says nothing, by the same way as all others. Raises `EndpointOff`."""
    with verb(actor, "test_endpoint", endpoint_id):
        endpoint = _locked(actor, endpoint_id)
        _check_on(endpoint)
        moment = store.now()
        body = {
            "type": telling.TEST,
            "timestamp": moment.isoformat(),
            "data": {"project": str(actor.project.pk), "endpoint": str(endpoint.pk)},
        }
        message = Message.objects.create(
            project=actor.project, type=telling.TEST, title="A test", body=canonical.dumps(body)
        )
        return _fresh(Delivery.objects.create(project=actor.project, message=message, endpoint=endpoint))


def redeliver(*, actor: Actor, delivery_id: uuid.UUID | str) -> Delivery:
    """Send something once more from the start of the schedule: the same message, under the same id.

    Raises `StillPending` while it is on its way, `EndpointOff` if there is nowhere to send it.
    """
    with verb(actor, "redeliver", delivery_id):
        policies.check_redeliver(actor)
        delivery = (
            Delivery.objects.select_for_update(of=("self",))
            .select_related("endpoint", "message")
            .filter(pk=as_uuid(delivery_id), project=actor.project)
            .first()
        )
        if delivery is None:
            raise NotFound()
        if delivery.status == PENDING:
            raise StillPending()
        if delivery.endpoint is not None:
            _check_on(delivery.endpoint)
        if delivery.reason == "erased":
            raise NotFound("What was to be sent has been erased.")
        Delivery.objects.filter(pk=delivery.pk).update(
            status=PENDING, reason="", ended_at=None, earlier=F("attempt"), due_at=store.now()
        )
        return _fresh(delivery)


# ---- inside


def _fresh(delivery: Delivery) -> Delivery:
    return Delivery.objects.select_related("endpoint", "message", "user").get(pk=delivery.pk)


def _locked(actor: Actor, endpoint_id: uuid.UUID | str) -> Endpoint:
    policies.check_webhooks(actor)
    found = (
        Endpoint.objects.select_for_update()
        .filter(Q(deleted_at=None), pk=as_uuid(endpoint_id), project=actor.project)
        .first()
    )
    if found is None:
        raise NotFound()
    return found


def _switch_off(endpoint: Endpoint, reason: str) -> None:
    endpoint.disabled_at, endpoint.disabled_reason = store.now(), reason
    store.cancel_pending(endpoint, "endpoint_disabled")


def _check_on(endpoint: Endpoint) -> None:
    if endpoint.deleted_at is not None or endpoint.disabled_at is not None:
        raise EndpointOff(endpoint=str(endpoint.pk))


def _chosen(events: Sequence[str]) -> list[str]:
    unknown = sorted(set(events) - set(telling.TYPES))
    if unknown or not events:
        raise BadRequest(
            Told("Choose at least one of the events: {choices}.", choices=", ".join(telling.TYPES)),
            unknown=unknown,
        )
    return [name for name in telling.TYPES if name in events]


def _check(url: str | None, description: str | None) -> None:
    """Whether what is to be stored can be, and leads somewhere allowed. Looks the address up: never in a transaction."""
    canonical.check({"description": description or "", "url": url or ""})
    if description is not None and len(description) > MAX_DESCRIPTION:
        raise BadRequest(
            Told("A description has at most {max_description} characters.", max_description=MAX_DESCRIPTION)
        )
    if url is not None:
        wall.check_url(url)
