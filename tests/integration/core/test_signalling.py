"""Signals: kept until something waits, taken once and in order, given back by a rewind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from runs import operations, workflows
from runs.engine import Workflow
from runs.errors import (
    AlreadyTerminal,
    BadRequest,
    Forbidden,
    InvalidJson,
    NotFound,
    SignalReused,
    Unprocessable,
)
from runs.models import Checkpoint, Run, Signal, Step, Wait
from runs.operations import Signalled
from tests.integration.core.conftest import (
    House,
    by_sql,
    history_is_whole,
    kinds_of,
    make_house,
    state_of,
)
from tests.integration.core.test_sleeping import pass_time
from tests.kit.racing import at_once, blocked, holding

Define = Callable[..., Workflow]


def send(house: House, run: Run, name: str = "paid", payload: Any = None, **more: Any) -> Signalled:
    return operations.signal(actor=house.shop, run_id=run.pk, name=name, payload=payload, **more)


def waiting(define: Define, *, times: int = 1, **options: Any) -> None:
    """One node that waits for `paid`, so many times one after the other."""
    flow = define("buyer")

    @flow.node
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        found = [ctx.wait_signal("paid", **options) for _ in range(times)]
        return {"log": [[one.received, one.payload] for one in found]}

    workflows.register(flow)


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {}, {"n": 1}])
def test_what_came_is_what_the_body_gets(house: House, define: Define, payload: Any) -> None:
    """C09: null is received, and is not the same as nothing received."""
    waiting(define)
    run = house.work(house.submit("buyer"))
    assert run.waiting_for[0] | {"since": ""} == {
        "kind": "signal",
        "node": "only",
        "since": "",
        "due": None,
        "signal": "paid",
    }
    sent = send(house, run, payload=payload)
    assert (sent.replayed, sent.run.status) == (False, "queued")
    house.work(run)
    assert state_of(run)["log"] == [[True, payload]]
    assert history_is_whole(run)


def test_nothing_came_in_time(house: House, define: Define) -> None:
    """C09: a time-out is `received=False`, and no checkpoint."""
    waiting(define, timeout="30s")
    run = house.work(house.submit("buyer"))
    pass_time(run, seconds=31)
    assert house.sweep().woken == 1
    house.work(run)
    assert state_of(run)["log"] == [[False, None]]
    assert "wait_timed_out" in kinds_of(run)
    assert run.head == 1


def test_signals_that_came_first_are_kept_in_order(house: House, define: Define) -> None:
    """C70: no worker is there yet; the first wait gets the first, the second the second, nothing times out."""
    waiting(define, times=2, timeout="1h")
    run = house.submit("buyer")
    assert [send(house, run, payload={"n": n}).signal.no for n in (1, 2)] == [1, 2]
    house.work(run)
    assert run.status == "completed"
    assert state_of(run)["log"] == [[True, {"n": 1}], [True, {"n": 2}]]
    assert Step.objects.get(run=run).attempt == 1


def test_a_signal_that_comes_while_the_body_parks_is_not_missed(house: House, define: Define) -> None:
    """C70, C71: sent between the body's question and the commit of its wait: whoever has the run's row second sees the other."""
    waiting(define)
    run = house.submit("buyer")
    step = Step.objects.get(run=run)
    with holding(run.pk):
        worker = blocked(lambda: operations.advance(run_id=run.pk, branch=1, address=step.address))
        sender = blocked(lambda: send(house, run, payload=1))
    assert [one.end().error for one in (worker, sender)] == [None, None]
    house.work(run)
    assert state_of(run)["log"] == [[True, 1]]


def test_the_same_id_again_is_the_same_signal(house: House, define: Define) -> None:
    """C70: consumed once; also after the run has ended. Another payload is a conflict."""
    waiting(define, times=2)
    run = house.submit("buyer")
    first = send(house, run, payload={"n": 1, "m": 2}, signal_id="e1")
    again = send(house, run, payload={"m": 2, "n": 1}, signal_id="e1")
    assert (first.replayed, again.replayed) == (False, True)
    assert first.signal.pk == again.signal.pk
    for change in ({"payload": {"n": 2}}, {"name": "sent", "payload": {"n": 1, "m": 2}}):
        with pytest.raises(SignalReused):
            send(house, run, signal_id="e1", **change)
    house.work(run)
    assert (run.status, Signal.objects.filter(run=run).count()) == ("waiting", 1)
    send(house, run, payload=2)
    assert house.work(run).status == "completed"
    assert send(house, run, payload={"n": 1, "m": 2}, signal_id="e1").replayed
    with pytest.raises(AlreadyTerminal):
        send(house, run, payload=3)


def test_the_same_id_at_once_is_one_signal(house: House, define: Define) -> None:
    waiting(define)
    run = house.work(house.submit("buyer"))
    both = at_once(*[lambda: send(house, run, payload=1, signal_id="e1")] * 2)
    assert sorted(one.value.replayed for one in both) == [False, True]
    assert Signal.objects.count() == 1


def test_of_two_lanes_the_one_that_waited_first_takes_it(house: House, define: Define) -> None:
    flow = define("lanes")
    for name in ("start", "a", "b"):
        flow.node(name=name)(_wait if name != "start" else lambda state, ctx: None)
    flow.edge("start", "a")
    flow.edge("start", "b")
    workflows.register(flow)
    run = house.submit("lanes")
    start = Step.objects.get(run=run)
    operations.advance(run_id=run.pk, branch=1, address=start.address)
    for name in ("b", "a"):  # b is asked first, though a was declared first
        if step := Step.objects.filter(run=run, node=name, status="ready").first():
            operations.advance(run_id=run.pk, branch=1, address=step.address)
    first, second = Wait.objects.filter(run=run, closed_at=None).order_by("opened_at", "id")
    sent = send(house, run, name="go", payload="one")
    assert Wait.objects.get(pk=first.pk).closed_at is not None
    assert Wait.objects.get(pk=second.pk).closed_at is None
    assert Step.objects.get(run=run, address=first.address).status == "ready"
    send(house, run, name="go", payload="two")
    house.work(run)
    assert run.status == "completed", sent
    assert history_is_whole(run)


def _wait(state: Any, ctx: Any) -> None:
    ctx.wait_signal("go")


def test_a_rewind_gives_back_what_was_taken_after(house: House, define: Define) -> None:
    waiting(define, times=2)
    run = house.work(house.submit("buyer"))
    for n in (1, 2):
        send(house, run, payload=n)
        house.work(run)
    assert run.status == "completed"
    taken = list(
        Checkpoint.objects.filter(run=run, kind="signal").order_by("no").values_list("no", flat=True)
    )
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=taken[0], reason="again", calls="reuse")
    house.work(run)
    assert state_of(run)["log"] == [[True, 1], [True, 2]]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    house.work(run)
    assert state_of(run)["log"] == [[True, 1], [True, 2]]
    assert Signal.objects.filter(run=run).count() == 2
    assert history_is_whole(run)


def test_only_what_fits_the_schema_is_taken(house: House, define: Define) -> None:
    """C70: what does not fit stays in the mailbox; who sends it while it is waited for is told."""
    waiting(define, schema={"type": "object", "required": ["n"]})
    run = house.submit("buyer")
    early = send(house, run, payload="no object").signal
    house.work(run)
    assert run.status == "waiting"
    with pytest.raises(Unprocessable) as refused:
        send(house, run, payload={})
    assert refused.value.errors
    send(house, run, payload={"n": 1})
    house.work(run)
    assert state_of(run)["log"] == [[True, {"n": 1}]]
    assert Signal.objects.filter(pk=early.pk).exists()


def test_a_signal_commits_with_its_senders_transaction(house: House, define: Define) -> None:
    waiting(define)
    run = house.work(house.submit("buyer"))
    with transaction.atomic():
        send(house, run, payload=1)
        transaction.set_rollback(True)
    run.refresh_from_db()
    assert (run.status, Signal.objects.count()) == ("waiting", 0)


def test_who_may_send(house: House, define: Define) -> None:
    """The submitter to runs of their own, an operator to any; an outsider learns nothing."""
    waiting(define)
    run = house.submit("buyer")
    operations.signal(actor=house.olga, run_id=run.pk, name="paid")
    for actor in (house.frida, house.vera):
        with pytest.raises(Forbidden):
            operations.signal(actor=actor, run_id=run.pk, name="paid")
    with pytest.raises(NotFound):
        operations.signal(actor=make_house("other").olga, run_id=run.pk, name="paid")


@pytest.mark.parametrize("payload", ["a\0b", float("nan"), {"x": [float("inf")]}, "\ud800", 10**4_001])
def test_what_cannot_be_stored_is_refused(house: House, define: Define, payload: Any) -> None:
    """C01 (b), C02: K1 and K2 hold here too."""
    waiting(define)
    run = house.submit("buyer")
    with pytest.raises(InvalidJson):
        send(house, run, payload=payload)
    with pytest.raises(BadRequest):
        send(house, run, name="")
    assert Signal.objects.count() == 0


def test_the_mailbox_is_append_only(house: House, define: Define) -> None:
    waiting(define)
    run = house.submit("buyer")
    send(house, run)
    for statement in ("UPDATE runs_signal SET name = 'x'", "DELETE FROM runs_signal"):
        with pytest.raises(Exception, match="append-only"), transaction.atomic():
            by_sql(statement)


def test_a_time_out_that_is_over_wins_over_a_signal_that_comes_late(house: House, define: Define) -> None:
    """C73: the sweeper was away; the instant counts, not who looks first."""
    waiting(define, timeout="30s")
    run = house.work(house.submit("buyer"))
    pass_time(run, seconds=31)
    assert send(house, run, payload=1).run.status == "queued"
    house.work(run)
    assert state_of(run)["log"] == [[False, None]]
