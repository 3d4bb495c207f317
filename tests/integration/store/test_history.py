"""The history: append-only, hash-chained by SQL and by Python alike, and found out when somebody has been at it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from runs import operations, store
from runs.engine import chain
from runs.models import Event, Run
from tests.integration.store.conftest import Define, Hand, House, chain_of, pay_flow
from tests.kit.racing import blocked


def fault(run: Run) -> chain.Broken | None:
    run.refresh_from_db()
    events = Event.objects.filter(run=run).order_by("seq")
    return chain.check(events, head=bytes(run.head_hash), seq=run.seq)


def lived(house: House, define: Define) -> Run:
    """A run with events of both kinds: by the step statement, and under the run's lock."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1, log=["ä", 1.0, 10**30])
    house.answer(approval, "edit", args={"amount": 2}, comment="größer")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="noch einmal")
    return house.work(run)


def by_force(sql: str, *parameters: Any) -> None:
    """As somebody who can write the table and knows how to silence the trigger."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL hitl.retention = 'on'")
        cursor.execute(sql, parameters)


def test_sql_and_python_agree_on_the_chain(house: House, define: Define) -> None:
    run = lived(house, define)
    assert fault(run) is None
    events = list(Event.objects.filter(run=run).order_by("seq"))
    assert [event.seq for event in events] == list(range(1, run.seq + 1))
    assert bytes(run.head_hash) == bytes(events[-1].hash)
    assert bytes(run.prev_hash) == bytes(events[-2].hash)
    call_command("verify_history", verbosity=0)


def test_an_event_of_the_step_statement_is_what_python_would_have_written(
    house: House, define: Define
) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    before = bytes(Run.objects.get(pk=hand.run.pk).head_hash)
    hand.finish()
    event = Event.objects.get(run=hand.run, kind="step_completed")
    assert event.payload is not None
    assert event.salt is not None
    digest = chain.payload_hash(bytes(event.salt), event.payload)
    body = chain.body(
        kind="step_completed",
        node="n0",
        address=hand.held.step.address,
        branch=1,
        epoch=1,
        actor="",
        payload_hash=digest,
    )
    assert chain.link(before, seq=2, at=event.at, checkpoint=1, body=body) == bytes(event.hash)


REWRITES = [
    "UPDATE runs_event SET payload = '{}' WHERE seq = 1",
    "UPDATE runs_event SET kind = kind",
    "DELETE FROM runs_event WHERE seq = 2",
    "UPDATE runs_event SET seq = seq + 100",
    "DELETE FROM runs_event",
]


def test_the_history_is_append_only(house: House, define: Define) -> None:
    run = lived(house, define)
    for sql in REWRITES:
        refused = pytest.raises(DatabaseError, match="append-only")
        with refused, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run.delete()
    assert fault(run) is None


LAST = 8
ONE = "WHERE run_id = %s AND seq ="
TAMPERED: dict[str, tuple[str, int, str]] = {
    "a payload": (f"UPDATE runs_event SET payload = '{{\"x\":1}}' {ONE} 3", 3, "payload"),
    "a payload and its hash": (
        f"UPDATE runs_event SET payload = '{{}}', salt = '\\x00', payload_hash = sha256('\\x007b7d') {ONE} 3",
        3,
        "hash",
    ),
    "an actor": (f"UPDATE runs_event SET actor = 'nobody' {ONE} 4", 4, "hash"),
    "a time": (f"UPDATE runs_event SET at = at + interval '1 us' {ONE} 2", 2, "hash"),
    "a checkpoint": (f"UPDATE runs_event SET checkpoint = 9 {ONE} 2", 2, "hash"),
    "an event in the middle": (f"DELETE FROM runs_event {ONE} 3", 3, "missing"),
    "the last event": (f"DELETE FROM runs_event {ONE} {LAST}", LAST, "counts"),
    "the head": ("UPDATE runs_run SET head_hash = prev_hash WHERE id = %s", LAST, "head"),
}


def test_who_changes_the_history_is_found_out(house: House, define: Define) -> None:
    run = lived(house, define)
    assert run.seq == LAST
    for what, (sql, seq, reason) in TAMPERED.items():
        with transaction.atomic():
            by_force(sql, run.pk)
            found = fault(run)
            assert found is not None, what
            assert (found.seq, reason in found.reason) == (seq, True), what
            with pytest.raises(CommandError):
                call_command("verify_history", verbosity=0)
            transaction.set_rollback(True)
    assert fault(run) is None


def test_an_erased_payload_is_no_break(house: House, define: Define) -> None:
    run = lived(house, define)
    by_force("UPDATE runs_event SET payload = NULL, salt = NULL WHERE run_id = %s AND seq = 1", run.pk)
    assert fault(run) is None


def test_the_time_of_the_history_never_goes_back(house: House, define: Define) -> None:
    """A statement that waited for the run began before the one it waited for; its event is later all the same."""
    chain_of(define("links"))
    hand = Hand(house.submit("links"))

    with transaction.atomic():
        store.lock_run(hand.run.pk)
        waits = blocked(hand.finish)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE runs_run SET updated_at = clock_timestamp() + interval '1 s' WHERE id = %s",
                [hand.run.pk],
            )
    assert waits.end().error is None
    run = Run.objects.get(pk=hand.run.pk)
    event = Event.objects.get(run=run, seq=run.seq)
    assert event.at == run.updated_at
    operations.cancel(actor=house.olga, run_id=run.pk, reason="enough")
    times = list(Event.objects.filter(run=run).order_by("seq").values_list("at", flat=True))
    assert times == sorted(times)
    assert times[-1] == times[-2]
    assert fault(run) is None
