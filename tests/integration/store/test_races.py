"""Two connections at one run: the late one changes nothing, nobody waits for what is not his, nothing locks up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from runs import operations, store
from runs.engine import machine
from runs.engine import position as at
from runs.errors import IdempotencyInProgress, LateResult
from runs.models import Checkpoint, Event, IdempotencyRecord, JournalEntry, Run, Step
from runs.store import keys, stepping
from tests.integration.store.conftest import Define, Hand, House, chain_of, rows
from tests.kit.racing import at_once, blocked, holding, in_order
from tests.sizes import size

# ---- what may come between a worker and its commit, each as a transaction that is still open


def cancelled(hand: Hand) -> None:
    run = store.lock_run(hand.run.pk)
    store.commit(run, machine.cancel(run.status, reason="enough"))


def rewound(hand: Hand) -> None:
    run = store.lock_run(hand.run.pk)
    position = store.read_position(run.pk, 0)
    facts = hand.facts()
    transition = machine.rewind(facts, position, facts.values, {}, {"checkpoint": 0})
    store.commit(run, transition, position=position, branch=store.NewBranch(0, "reuse", None, "again"))


def taken_over(hand: Hand) -> None:
    run = store.lock_run(hand.run.pk)
    live = at.live_steps(hand.position)[0]
    store.commit(
        run,
        machine.take_over(hand.facts(), live, reason="lease_expired", crashes=1, limit=3, worker="1"),
    )


BETWEEN = [cancelled, rewound, taken_over]


def _park(hand: Hand) -> None:
    """A commit of the other kind: under the run's lock, fenced by the token."""
    with transaction.atomic():
        transition = machine.fail(hand.facts(), hand.held.step, {"code": "x"}, attempt=1, delay=1.0)
        store.commit(store.lock_run(hand.run.pk, patience=None), transition, held=hand.held)


WRITES: dict[str, Callable[[Hand], Any]] = {"step": Hand.finish, "call": Hand.call, "park": _park}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("between", BETWEEN)
def test_who_commits_late_changes_nothing(
    house: House, define: Define, between: Callable[[Hand], None], write: str
) -> None:
    """C33, K5. The late one's statement began before the other transaction ended, so its snapshot shows it its lease."""
    chain_of(define("links"))
    hand = Hand(house.submit("links")).go_on()
    with transaction.atomic():
        between(hand)
        late = blocked(partial(WRITES[write], hand))
        there = rows(hand.run)
    assert isinstance(late.end().error, LateResult)
    assert rows(hand.run) == there


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("between", BETWEEN)
def test_who_commits_long_after_changes_nothing(
    house: House, define: Define, between: Callable[[Hand], None], write: str
) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links")).go_on()
    with transaction.atomic():
        between(hand)
    there = rows(hand.run)
    with pytest.raises(LateResult):
        WRITES[write](hand)
    assert rows(hand.run) == there


def test_a_zombie_does_not_disturb_the_worker_that_took_over(house: House, define: Define) -> None:
    """C33: both have the same step; only the new token's result lands."""
    chain_of(define("links"))
    old = Hand(house.submit("links"))
    with transaction.atomic():
        taken_over(old)
    new = Hand(old.run, worker=2)
    with pytest.raises(LateResult):
        old.finish({"x": "old"})
    with pytest.raises(LateResult):
        old.call()
    new.finish({"x": "new"})
    with pytest.raises(LateResult):
        old.finish({"x": "old"})
    assert store.read_position(old.run.pk, 1)["root"]["base"]["x"] == "new"
    assert (new.held.attempt, new.held.crashes) == (2, 1)


def test_the_same_commit_sent_twice_lands_once(house: House, define: Define) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    first, second = in_order(hand.run.pk, hand.finish, hand.finish)
    assert first.error is None
    assert isinstance(second.error, LateResult)
    assert Checkpoint.objects.filter(run=hand.run).count() == 2


@pytest.mark.usefixtures("short_lease")
def test_a_commit_that_is_first_leaves_nothing_to_take_over(house: House, define: Define) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    _lapse(hand)

    def sweep() -> Any:
        with store.own_connection() as lock:
            return operations.sweep(lock)

    commit, swept = in_order(hand.run.pk, hand.finish, sweep)
    assert commit.error is None
    assert swept.value.taken_over == 0
    assert Step.objects.get(run=hand.run, status="executing").token == commit.value.next.token


def test_a_call_can_be_committed_while_a_person_holds_the_run(house: House, define: Define) -> None:
    """The journal's foreign key looks at the run's row; if it waited there, holding its step, whoever holds the run and
    wants the step would be its deadlock."""
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    with transaction.atomic():
        run = store.lock_run(hand.run.pk)
        assert _done(at_once(hand.call))
        store.commit(run, machine.cancel(run.status, reason="enough"))
    assert JournalEntry.objects.filter(run=hand.run).count() == 1


def test_steps_of_different_runs_do_not_wait_for_each_other(house: House, define: Define) -> None:
    chain_of(define("links"))
    one, other = Hand(house.submit("links")), Hand(house.submit("links"))
    with holding(one.run.pk):
        waits = blocked(one.finish)
        assert _done(at_once(other.finish))
    assert waits.end().error is None


def test_of_many_claims_one_gets_the_step(house: House, define: Define) -> None:
    chain_of(define("links"))
    for _ in range(size("race rounds")):
        run = house.submit("links")
        step = Step.objects.get(run=run)
        claims = at_once(
            *(
                partial(store.claim, run_id=run.pk, branch=1, address=step.address, worker=worker)
                for worker in range(1, 5)
            )
        )
        assert _done(claims)
        got = [claim.value for claim in claims if claim.value is not None]
        assert len(got) == 1
        step.refresh_from_db()
        assert (step.token, step.worker, step.entries) == (got[0].held.token, got[0].held.worker, 1)


def test_the_next_step_is_born_claimed(house: House, define: Define) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    committed = hand.finish()
    assert committed.next is not None
    following = Step.objects.get(run=hand.run, node="n1")
    assert (following.status, following.token, following.worker) == (
        "executing",
        committed.next.token,
        hand.held.worker,
    )
    assert following.lease_until is not None
    assert following.lease_until > store.now()
    for worker in (1, 2):
        assert store.claim(run_id=hand.run.pk, branch=1, address=following.address, worker=worker) is None


def test_a_yielded_lane_leaves_its_next_step_to_anybody(house: House, define: Define) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    assert hand.finish(go_on=False).next is None
    following = Step.objects.get(run=hand.run, node="n1")
    assert (following.status, following.token, following.lease_until, following.entries) == (
        "ready",
        None,
        None,
        0,
    )
    assert Hand(hand.run, worker=2).held.step.node == "n1"


def test_a_lease_is_ended_by_its_holder_only(house: House, define: Define) -> None:
    chain_of(define("links"))
    old = Hand(house.submit("links"))
    with transaction.atomic():
        taken_over(old)
    new = Hand(old.run, worker=2)
    before = rows(old.run)
    store.lapse(old.held)
    assert rows(old.run) == before
    store.lapse(new.held)
    step = Step.objects.get(run=old.run)
    assert step.token == new.held.token
    assert step.lease_until is not None
    assert step.lease_until <= store.now()


def test_a_late_commit_is_late_even_if_its_connection_was_lost_first(house: House, define: Define) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    with transaction.atomic():
        taken_over(hand)
    there = rows(hand.run)
    _end_own_backend()
    with pytest.raises(LateResult):
        hand.finish()
    assert rows(hand.run) == there


# ---- a lost connection


def _end_own_backend() -> None:
    """What a restart of the database, or a proxy that reaps idle connections, does to us."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        mine = cursor.fetchone()[0]
    with store.own_connection() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [mine])


@pytest.mark.parametrize("write", WRITES)
def test_a_result_survives_the_loss_of_its_connection(house: House, define: Define, write: str) -> None:
    """C38: the backend is gone when the body returns; the commit is made through another one."""
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    _end_own_backend()
    if write == "park":
        store.persistently(partial(_park, hand))
    else:
        WRITES[write](hand)
    assert Event.objects.filter(run=hand.run).count() == (1 if write == "call" else 2)


@pytest.mark.parametrize("write", ["step", "call"])
def test_a_commit_whose_answer_was_lost_is_recognised(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """The connection ends between the commit and its answer: the second try finds its own work, and says so."""
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    send, lost = stepping._run_fenced, iter([True])

    def lose_the_first(name: str, parameters: dict[str, Any]) -> Any:
        row = send(name, parameters)
        if next(lost, False):
            raise OperationalError("the connection is lost")
        return row

    monkeypatch.setattr(stepping, "_run_fenced", lose_the_first)
    if write == "call":
        hand.call()
        assert JournalEntry.objects.filter(run=hand.run).count() == 1
    else:
        committed = hand.finish()
        assert committed.checkpoint == 1
        assert committed.next is not None
        assert Step.objects.get(run=hand.run, node="n1").token == committed.next.token
        assert Event.objects.filter(run=hand.run, kind="step_completed").count() == 1


# ---- idempotency keys


def _key(run: Run, **more: str) -> bool:
    given = {"endpoint": "runs", "key": "k", "fingerprint": "f", **more}
    return store.take_key(run.project_id, given["endpoint"], given["key"], given["fingerprint"], run.pk)


def test_of_many_takers_one_gets_the_key(house: House, define: Define) -> None:
    """C105."""
    chain_of(define("links"))
    runs = [house.submit("links") for _ in range(6)]
    taken = at_once(*(partial(_key, run) for run in runs))
    assert _done(taken)
    assert sorted(taker.value for taker in taken) == [False] * 5 + [True]
    winner = runs[[taker.value for taker in taken].index(True)]
    assert IdempotencyRecord.objects.get().run_id == winner.pk


def test_a_key_is_free_again_if_whoever_took_it_rolls_back(house: House, define: Define) -> None:
    chain_of(define("links"))
    one, other = house.submit("links"), house.submit("links")
    with transaction.atomic():
        assert _key(one)
        waits = blocked(partial(_key, other))
        transaction.set_rollback(True)
    assert waits.end().value is True
    assert IdempotencyRecord.objects.get().run_id == other.pk


def test_who_waits_too_long_for_a_key_is_told_to_come_again(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C105: 409 in_progress, and the repeat gets the answer."""
    monkeypatch.setattr(keys, "KEY_SECONDS", 1)
    chain_of(define("links"))
    one, other = house.submit("links"), house.submit("links")
    with transaction.atomic():
        assert _key(one)
        (waits,) = at_once(partial(_in_transaction, partial(_key, other)))
    assert isinstance(waits.error, IdempotencyInProgress)
    assert _key(other) is False


def test_an_expired_key_can_be_taken_again(house: House, define: Define) -> None:
    chain_of(define("links"))
    one, other = house.submit("links"), house.submit("links")
    assert _key(one)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runs_idempotencyrecord SET created_at = now() - interval '24 hours 1 second'")
    assert _key(other)
    assert _key(one) is False


def test_taking_a_key_leaves_the_callers_patience_as_it_was(house: House, define: Define) -> None:
    chain_of(define("links"))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '7s'")
        assert _key(house.submit("links"))
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone()[0] == "7s"


def _in_transaction(work: Callable[[], Any]) -> Any:
    with transaction.atomic():
        return work()


def _lapse(hand: Hand) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_step SET lease_until = now() - interval '1 s' WHERE run_id = %s", [hand.run.pk]
        )


def _done(contenders: list[Any]) -> bool:
    for contender in contenders:
        if contender.error is not None:
            raise contender.error
    return True
