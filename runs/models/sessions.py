"""Sessions of browsers, with whose they are: so that a person can see and end their own."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, Final

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils.crypto import salted_hmac

from runs.models.people import User

CAME: Final = "came"  # the key in a session's data of when, from where and with what somebody came in


class Session(AbstractBaseSession):
    """One browser that somebody has signed in with. user: none before they have."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="sessions")

    @classmethod
    def get_session_store_class(cls) -> type[SessionStore]:
        return SessionStore

    def __str__(self) -> str:
        return f"session of {self.user}"

    @property
    def handle(self) -> uuid.UUID:
        return handle_of(self.session_key)


class SessionStore(DatabaseStore):
    """Django's sessions in the database; a row names its person."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        assert isinstance(row, Session)
        row.user_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
        return row


def handle_of(key: str) -> uuid.UUID:
    """What a page calls a session by: who reads it there does not come in by it."""
    return uuid.UUID(bytes=salted_hmac("runs.session", key, algorithm="sha256").digest()[:16])


def came(*, at: datetime, address: str, agent: str) -> dict[str, str]:
    """What a session keeps of how somebody came in."""
    return {"at": at.isoformat(), "address": address[:64], "agent": agent[:300]}
