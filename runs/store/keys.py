"""Idempotency keys."""

from __future__ import annotations

import uuid
from typing import Final

from django.db import (
    connection,
)

from runs.errors import (
    IdempotencyInProgress,
)
from runs.store.connection import refusing, set_lock_timeout

KEY_SECONDS: Final = 5.0  # how long a request waits for the first one with the same idempotency key


def take_key(project_id: uuid.UUID, endpoint: str, key: str, fingerprint: str, run_id: uuid.UUID) -> bool:
    """Take an idempotency key for a run; False if it is taken (24 h).

    Waits for a transaction that is just taking it. Raises `IdempotencyInProgress` after five seconds.
    """
    before = set_lock_timeout(f"{KEY_SECONDS:.0f}s")
    with refusing(IdempotencyInProgress), connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_idempotencyrecord (project_id, endpoint, key, fingerprint, run_id)
            VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT ON CONSTRAINT idempotency_key_once DO UPDATE
              SET fingerprint = excluded.fingerprint, run_id = excluded.run_id, created_at = now()
              WHERE runs_idempotencyrecord.created_at < now() - interval '24 hours'
            RETURNING id
            """,
            [project_id, endpoint, key, fingerprint, run_id],
        )
        taken = cursor.fetchone() is not None
    set_lock_timeout(before)  # the transaction is the caller's
    return taken
