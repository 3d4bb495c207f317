"""Events as links of the run's chain."""

from __future__ import annotations

from runs.engine import chain
from runs.engine.machine import Event as EngineEvent


def event_body(event: EngineEvent, *, branch: int, epoch: int, actor: str, payload_hash: bytes) -> bytes:
    return chain.body(
        kind=event.kind,
        node=event.node,
        address=event.address,
        branch=branch,
        epoch=epoch,
        actor=actor,
        payload_hash=payload_hash,
    )
