"""The hash chain of a run's history: how an event's hash is made, and how a whole history is checked.

    body = SHA-256(canonical JSON of kind, node, address, branch, epoch, actor, payload hash)
    hash = SHA-256(hash before || seq as int8 || microseconds as int8 || checkpoint as int4, -1 if it made none || body)

The payload itself is only in there through SHA-256(salt || payload), so it can be erased (its salt with it) while the
chain stays valid. A chain alone proves nothing against who can write the whole table.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from runs.engine import canonical

GENESIS: Final = bytes(32)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Link(Protocol):
    """An event as it is stored."""

    seq: int
    kind: str
    node: str
    address: str
    branch: int
    epoch: int
    checkpoint: int | None
    actor: str
    at: datetime
    payload: str | None
    salt: bytes | memoryview | None
    payload_hash: bytes | memoryview
    hash: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Broken:
    """Where a history does not hold, and why."""

    seq: int
    reason: str


def payload_hash(salt: bytes, payload: str) -> bytes:
    return hashlib.sha256(salt + payload.encode()).digest()


def body(
    *, kind: str, node: str, address: str, branch: int, epoch: int, actor: str, payload_hash: bytes
) -> bytes:
    facts = {
        "kind": kind,
        "node": node,
        "address": address,
        "branch": branch,
        "epoch": epoch,
        "actor": actor,
        "payload": payload_hash.hex(),
    }
    return hashlib.sha256(canonical.dumps(facts).encode()).digest()


def link(before: bytes, *, seq: int, at: datetime, checkpoint: int | None, body: bytes) -> bytes:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    numbers = struct.pack(">qqi", seq, micros, -1 if checkpoint is None else checkpoint)
    return hashlib.sha256(before + numbers + body).digest()


def check(events: Iterable[Link], *, head: bytes, seq: int) -> Broken | None:
    """The first fault of a whole history in order, or None. `head` and `seq` are what the run row says."""
    before, expected = GENESIS, 0
    for event in events:
        expected += 1
        if event.seq != expected:
            return Broken(expected, f"event {expected} is missing")
        stored = bytes(event.payload_hash)
        if event.payload is not None and payload_hash(bytes(event.salt or b""), event.payload) != stored:
            return Broken(event.seq, "the payload is not the one that was written")
        content = body(
            kind=event.kind,
            node=event.node,
            address=event.address,
            branch=event.branch,
            epoch=event.epoch,
            actor=event.actor,
            payload_hash=stored,
        )
        before = link(before, seq=event.seq, at=event.at, checkpoint=event.checkpoint, body=content)
        if before != bytes(event.hash):
            return Broken(event.seq, "the hash does not follow from the event before")
    if expected != seq:
        return Broken(expected + 1, f"the run counts {seq} events, {expected} are there")
    return None if before == bytes(head) else Broken(expected, "the run's head is not the last event")
