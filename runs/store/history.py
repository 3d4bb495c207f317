"""Events as links of the run's chain."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from datetime import datetime

from runs.engine import canonical, chain
from runs.engine.transition import Event as EngineEvent
from runs.models import Event


@dataclass(frozen=True, slots=True)
class Sealed:
    """An event's payload as it is stored, and what of it goes into the chain: `body` holds the salted hash alone."""

    payload: str
    salt: bytes
    payload_hash: bytes
    body: bytes


def seal(event: EngineEvent, *, branch: int, epoch: int, actor: str) -> Sealed:
    """actor: canonical JSON text, empty for a worker."""
    payload, salt = canonical.dumps(event.payload), os.urandom(16)
    payload_hash = chain.payload_hash(salt, payload)
    body = chain.body(
        kind=event.kind,
        node=event.node,
        address=event.address,
        branch=branch,
        epoch=epoch,
        actor=actor,
        payload_hash=payload_hash,
    )
    return Sealed(payload, salt, payload_hash, body)


def linked(
    event: EngineEvent,
    *,
    run_id: uuid.UUID,
    branch: int,
    epoch: int,
    actor: str,
    seq: int,
    at: datetime,
    before: bytes,
    checkpoint: int | None = None,
) -> Event:
    """The row of an event that follows the link `before`."""
    sealed = seal(event, branch=branch, epoch=epoch, actor=actor)
    return Event(
        run_id=run_id,
        seq=seq,
        kind=event.kind,
        branch=branch,
        epoch=epoch,
        checkpoint=checkpoint,
        node=event.node,
        address=event.address,
        actor=actor,
        at=at,
        payload=sealed.payload,
        salt=sealed.salt,
        payload_hash=sealed.payload_hash,
        hash=chain.link(before, seq=seq, at=at, checkpoint=checkpoint, body=sealed.body),
    )
