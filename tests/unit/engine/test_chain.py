"""The hash chain of a history: vectors for other readers, and whatever is changed is found."""

from __future__ import annotations

import copy
import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import canonical, chain
from runs.engine.chain import GENESIS, Broken
from tests.sizes import size

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@dataclass
class Row:
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


def body_of(row: Row) -> bytes:
    return chain.body(
        kind=row.kind,
        node=row.node,
        address=row.address,
        branch=row.branch,
        epoch=row.epoch,
        actor=row.actor,
        payload_hash=bytes(row.payload_hash),
    )


def sealed(row: Row, before: bytes) -> Row:
    """The row with the hash that the engine gives it."""
    row.hash = chain.link(before, seq=row.seq, at=row.at, checkpoint=row.checkpoint, body=body_of(row))
    return row


def event(seq: int, *, before: bytes, payload: str = "{}", **more: Any) -> Row:
    salt = seq.to_bytes(16, "big")
    facts: dict[str, Any] = {
        "kind": "step_completed",
        "node": "pay",
        "address": "ab",
        "branch": 1,
        "epoch": 1,
        "checkpoint": seq - 1,
        "actor": "",
        "at": WHEN + timedelta(microseconds=seq),
        **more,
    }
    return sealed(
        Row(
            seq=seq,
            payload=payload,
            salt=salt,
            payload_hash=chain.payload_hash(salt, payload),
            hash=b"",
            **facts,
        ),
        before,
    )


NAMES = st.sampled_from(["", "pay", "confirm", "é", '"'])
FACTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["run_submitted", "step_completed", "approval_decided"]),
        "node": NAMES,
        "address": st.sampled_from(["", "a1", "ff"]),
        "branch": st.integers(1, 3),
        "epoch": st.integers(1, 3),
        "checkpoint": st.none() | st.integers(0, 2**31 - 1),
        "actor": st.sampled_from(["", '{"name":"frida"}']),
        "at": st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        "payload": st.sampled_from(["{}", "null", '{"amount":100}', '{"t":"é😀"}']),
    }
)


@st.composite
def histories(draw: st.DrawFn, least: int = 1) -> list[Row]:
    rows: list[Row] = []
    for facts in draw(st.lists(FACTS, min_size=least, max_size=6)):
        rows.append(event(len(rows) + 1, before=bytes(rows[-1].hash) if rows else GENESIS, **facts))
    return rows


def fault(rows: list[Row], *, of: list[Row] | None = None) -> Broken | None:
    """What a check says of these rows when the run's row still tells of the `of` ones."""
    told = of if of is not None else rows
    return chain.check(iter(rows), head=bytes(told[-1].hash) if told else GENESIS, seq=len(told))


def test_one_event_hashes_to_what_the_words_of_the_format_say() -> None:
    """Built here from bytes alone; whoever writes another verifier can start from this test."""
    row = event(7, before=GENESIS, payload='{"amount":100}', checkpoint=5)
    payload_hash = hashlib.sha256(bytes(15) + b"\7" + b'{"amount":100}').digest()
    facts = (
        '{"actor":"","address":"ab","branch":1,"epoch":1,"kind":"step_completed","node":"pay","payload":"'
        + payload_hash.hex()
        + '"}'
    )
    microseconds = 1_767_323_045_678_908
    numbers = struct.pack(">q", 7) + struct.pack(">q", microseconds) + struct.pack(">i", 5)
    expected = hashlib.sha256(bytes(32) + numbers + hashlib.sha256(facts.encode()).digest()).digest()
    assert row.payload_hash == payload_hash
    assert row.hash == expected


@pytest.mark.parametrize(
    ("seq", "checkpoint", "expected"),
    [
        (1, 0, "de7b01cd9d84857a98d50247b74f1499fb50bea89c67105f6e968489cea0cd2f"),
        (2, None, "9e0d039b46b26833bc7a057054a09f4241c95f92c7017cd8a22af92d63b97ffd"),
        (3, 2**31 - 1, "ee362b70f72981518bc9ec779b3f59caf762743acfa698c367caba0e1702b7e2"),
    ],
)
def test_the_vectors_of_the_chain_hold(seq: int, checkpoint: int | None, expected: str) -> None:
    assert event(seq, before=GENESIS, checkpoint=checkpoint).hash == bytes.fromhex(expected)


@given(histories())
def test_a_history_that_nobody_touched_holds(rows: list[Row]) -> None:
    assert fault(rows) is None


def test_a_run_without_events_holds_only_if_it_counts_none() -> None:
    assert fault([]) is None
    assert chain.check([], head=GENESIS, seq=1) == Broken(1, "the run counts 1 events, 0 are there")


def flipped(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """The value with one bit or character changed."""
    if isinstance(value, bytes):
        place, bit = draw(st.integers(0, len(value) - 1)), draw(st.integers(0, 7))
        return value[:place] + bytes([value[place] ^ (1 << bit)]) + value[place + 1 :]
    if isinstance(value, str):
        place = draw(st.integers(0, len(value)))
        return value[:place] + "x" + value[place + draw(st.integers(0, 1)) :]
    if isinstance(value, datetime):
        return value + timedelta(microseconds=draw(st.sampled_from([-1, 1, 10**6])))
    if isinstance(value, int):
        return value ^ (1 << draw(st.integers(0, 30)))
    return draw(st.sampled_from([0, 1]))


@given(histories(), st.data())
def test_any_flipped_bit_is_found_where_it_is(rows: list[Row], data: st.DataObject) -> None:
    """I2."""
    changed = copy.deepcopy(rows)
    row = data.draw(st.sampled_from(changed))
    name = data.draw(st.sampled_from([field.name for field in fields(Row)]))
    before = getattr(row, name)
    setattr(row, name, flipped(before, data.draw))
    found = fault(changed, of=rows)
    if getattr(row, name) == before:
        assert found is None
    else:
        assert found is not None
        assert found.seq <= rows.index(next(r for r, c in zip(rows, changed, strict=True) if r != c)) + 1


@pytest.mark.parametrize(("stored", "changed"), [(None, 0), (0, None), (1, None)])
def test_a_checkpoint_that_comes_or_goes_is_found(stored: int | None, changed: int | None) -> None:
    row = event(1, before=GENESIS, checkpoint=stored)
    row.checkpoint = changed
    found = fault([row])
    assert found == Broken(1, "the hash does not follow from the event before")


@given(histories(least=2), st.data())
def test_an_event_that_is_missing_doubled_or_moved_is_found(rows: list[Row], data: st.DataObject) -> None:
    """I2."""
    place = data.draw(st.integers(0, len(rows) - 2))
    for changed in (
        rows[:place] + rows[place + 1 :],
        rows[: place + 1] + rows[place:],
        [*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]],
        rows[:-1],
        rows[1:],
    ):
        assert fault(changed, of=rows) is not None


@given(histories(least=2), st.data())
def test_an_event_rewritten_with_a_fitting_hash_is_found_at_the_next(
    rows: list[Row], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    changed = copy.deepcopy(rows)
    row = changed[place]
    row.payload = '{"amount":999}'
    row.payload_hash = chain.payload_hash(bytes(row.salt or b""), row.payload)
    sealed(row, bytes(changed[place - 1].hash) if place else GENESIS)
    found = fault(changed, of=rows)
    assert found is not None
    assert found.seq == min(place + 2, len(rows))


@given(histories(), st.data())
def test_a_payload_can_be_erased_with_its_salt_and_the_chain_still_holds(
    rows: list[Row], data: st.DataObject
) -> None:
    for row in rows:
        if data.draw(st.booleans()):
            row.payload = row.salt = None
    assert fault(rows) is None


def test_an_erased_payload_leaves_no_way_to_guess_it() -> None:
    """The salt goes with it: the hash alone of a short payload could be tried out."""
    one, other = event(1, before=GENESIS), event(2, before=GENESIS)
    assert one.payload == other.payload
    assert one.payload_hash != other.payload_hash


def test_bytes_as_a_database_gives_them_are_taken() -> None:
    row = event(1, before=GENESIS)
    head = bytes(row.hash)
    for name in ("salt", "payload_hash", "hash"):
        setattr(row, name, memoryview(getattr(row, name)))
    assert chain.check([row], head=head, seq=1) is None


def test_a_long_history_is_checked_without_holding_it() -> None:
    """I2: events are taken one by one."""

    def rows() -> Any:
        before = GENESIS
        for seq in range(1, size("history events") + 1):
            row = event(seq, before=before)
            before = bytes(row.hash)
            heads.append(before)
            yield row

    heads: list[bytes] = []
    length = size("history events")
    assert chain.check(rows(), head=b"other", seq=length) == Broken(
        length, "the run's head is not the last event"
    )
    assert len(heads) == length


def test_the_body_is_canonical_json() -> None:
    row = event(1, before=GENESIS, node='"é', actor="\\")
    facts = {
        "kind": row.kind,
        "node": row.node,
        "address": row.address,
        "branch": row.branch,
        "epoch": row.epoch,
        "actor": row.actor,
        "payload": bytes(row.payload_hash).hex(),
    }
    assert body_of(row) == bytes.fromhex(canonical.digest(facts))
