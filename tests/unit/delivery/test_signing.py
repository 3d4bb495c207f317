"""Signatures, held against the library that receivers use."""

from __future__ import annotations

import base64
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.exceptions import WebhookVerificationError
from standardwebhooks.webhooks import Webhook

from runs.delivery import signing

MESSAGE = uuid.UUID(int=7)
SECRETS = [b"n" * 32, b"o" * 32]


def headers(body: bytes, *secrets: bytes) -> dict[str, str]:
    identity, now = signing.webhook_id(MESSAGE), int(time.time())
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(now),
        "webhook-signature": signing.signature(secrets, id=identity, timestamp=now, body=body),
    }


@given(st.text(max_size=200))
def test_every_secret_in_force_verifies(text: str) -> None:
    body = b'{"x":"' + base64.b64encode(text.encode("utf-8", "replace")) + b'"}'
    told = headers(body, *SECRETS)
    for secret in SECRETS:
        Webhook(base64.b64encode(secret).decode()).verify(body, told)


def test_another_secret_or_another_body_does_not() -> None:
    told = headers(b'{"x":1}', *SECRETS)
    with pytest.raises(WebhookVerificationError):
        Webhook(base64.b64encode(b"z" * 32).decode()).verify(b'{"x":1}', told)
    with pytest.raises(WebhookVerificationError):
        Webhook(base64.b64encode(SECRETS[0]).decode()).verify(b'{"x":2}', told)
