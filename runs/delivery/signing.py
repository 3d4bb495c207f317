"""Signatures as Standard Webhooks has them: HMAC-SHA256 over id, timestamp and body, one for every secret in force."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections.abc import Sequence


def webhook_id(message: uuid.UUID) -> str:
    """The id of a message: the same at every attempt, and when it is sent once more by hand."""
    return f"msg_{message.hex}"


def signature(secrets: Sequence[bytes], *, id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: a receiver accepts the message if one of them is right."""
    signed = f"{id}.{timestamp}.".encode() + body
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
