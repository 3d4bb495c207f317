"""What a step, a call, a rewind and a fork cost: counted at the wire, in messages to Postgres and answers from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from psycopg.pq import TransactionStatus

from runs import operations, workflows
from runs.engine import Workflow
from runs.models import Run
from runs.operations.working import Slice
from runs.store.connection import plan_by_keys
from runs.store.surroundings import surroundings
from runs.store.weights import BESIDE_LEAST, Weights
from tests.integration.store.conftest import Define, Hand, House, chain_of
from tests.integration.store.test_lanes_at_once import Trace, split, spread
from tests.kit.racing import at_once
from tests.kit.wire import watched

STEPS = 20


def looped(define: Define, body: Any) -> Workflow:
    """A node that comes back to itself."""
    workflow = define("looped")
    workflow.node(name="again", loop_limit=1_000)(body)
    workflow.node(name="last")(lambda state, ctx: None)
    workflow.choose("again", lambda state: "last" if state.x == 0 else "again", to=["again", "last"])
    workflows.register(workflow)
    return workflow


def test_a_step_is_one_statement_one_trip_one_commit(house: House, define: Define, tmp_path: Path) -> None:
    chain_of(define("links"), STEPS + 2)
    hand = Hand(house.submit("links")).go_on()  # the first time the statement is prepared
    with watched(tmp_path / "trace") as traffic:
        for _ in range(STEPS):
            hand.go_on()
    assert (traffic.statements, traffic.trips, traffic.commits) == (STEPS, STEPS, STEPS)
    assert traffic.parsed == 0


def test_what_was_let_go_of_is_prepared_again(house: House, define: Define) -> None:
    """Whoever shares the connection may let go of every statement."""
    chain_of(define("links"), 3)
    hand = Hand(house.submit("links")).go_on()
    connection.connection.execute("DEALLOCATE ALL")
    hand.go_on()
    assert Run.objects.get(pk=hand.run.pk).checkpoint_no == 2


def test_a_rollback_lets_go_of_nothing(house: House, define: Define, tmp_path: Path) -> None:
    chain_of(define("links"), 3)
    hand = Hand(house.submit("links")).go_on()
    with transaction.atomic():
        surroundings(hand.run.pk)  # the first in its transaction, which it begins
        assert connection.connection.info.transaction_status == TransactionStatus.INTRANS
        transaction.set_rollback(True)
    with watched(tmp_path / "trace") as traffic:
        hand.go_on()
    assert traffic.parsed == 0


def test_behind_a_pooler_nothing_is_prepared(
    house: House, define: Define, tmp_path: Path, settings: Any
) -> None:
    settings.HITL_PREPARE = False
    connection.close()
    chain_of(define("links"), 3)
    hand = Hand(house.submit("links")).go_on()
    with watched(tmp_path / "trace") as traffic:
        hand.go_on()
    connection.close()  # the next test's connection is its own
    assert (traffic.trips, traffic.parsed) == (1, 1)


def test_a_call_is_one_statement_one_trip_one_commit(house: House, define: Define, tmp_path: Path) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    hand.call(occurrence="first")
    with watched(tmp_path / "trace") as traffic:
        for number in range(STEPS):
            hand.call(occurrence=str(number), ordinal=number + 1)
    assert (traffic.statements, traffic.trips, traffic.commits) == (STEPS, STEPS, STEPS)
    assert traffic.parsed == 0


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_worker_adds_nothing_to_it(house: House, define: Define, tmp_path: Path, calls: int) -> None:
    """A lane of steps costs each step's commit and its calls'; more steps cost nothing else."""

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        for _ in range(calls):
            ctx.call(int)
        return {"x": state.x - 1}

    looped(define, body)
    operations.worker()
    counted = []
    house.work(house.submit("looped", x=1))  # the first time the connection is told how to plan
    for steps in (3, 3 + STEPS):
        run = house.submit("looped", x=steps)
        with watched(tmp_path / "trace") as traffic:
            house.work(run)
        assert run.status == "completed"
        counted.append(traffic.trips)
    assert counted[1] - counted[0] == STEPS * (1 + calls)


@pytest.mark.parametrize(
    ("verb", "statements", "trips"), [(operations.rewind, 12, 7), (operations.fork, 15, 10)]
)
def test_to_go_back_costs_the_same_however_far(
    house: House, define: Define, tmp_path: Path, verb: Callable[..., Any], statements: int, trips: int
) -> None:
    """Of what most runs have none (waits, children, calls taken back, migrations) it is asked once, not one by one; what is
    written goes with the next question."""
    looped(define, lambda state, ctx: {"x": state.x - 1})
    counted = []
    for steps in (2, 2 + STEPS):
        run = house.work(house.submit("looped", x=steps))
        told = {"actor": house.olga, "run_id": run.pk, "checkpoint": steps, "reason": "measured"}
        verb(**told)  # the first time its statements are prepared
        with watched(tmp_path / "trace") as traffic:
            verb(**told)
        counted.append(traffic)
    assert [(traffic.statements, traffic.trips) for traffic in counted] == [(statements, trips)] * 2
    assert all(traffic.commits == 1 for traffic in counted)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_lanes_that_commit_at_once_cost_a_trip_each(
    house: House, define: Define, tmp_path: Path, lanes: int
) -> None:
    """Whoever waits for the run's row waits inside its statement, and lands: nobody has to come again."""
    run, slices = split(house, spread(define("spread", state=Trace), lanes, length=6))
    run.refresh_from_db()
    before = run.checkpoint_no

    def drive(one: Slice) -> int:
        connection.ensure_connection()
        plan_by_keys(connection.connection)
        one.steps_left = 4
        with watched(tmp_path / str(id(one))) as traffic:
            one.drive()
        return (
            traffic.trips - traffic.parsed
        )  # each of these connections is new, and prepares its statements once

    trips = [contender.value for contender in at_once(*(partial(drive, one) for one in slices))]
    run.refresh_from_db()
    assert run.checkpoint_no - before == 4 * lanes
    assert sum(trips) == 4 * lanes


def test_of_many_lanes_one_writes_the_snapshot() -> None:
    """The one whose commit made the patches outweigh it. The others see the same sum, and go on."""
    crossed, behind = (Weights(patches=0, snapshot=10, fresh=False) for _ in range(2))
    crossed.see(patches=BESIDE_LEAST + 5, snapshot=10, own=700)
    behind.see(patches=BESIDE_LEAST + 705, snapshot=10, own=700)
    assert crossed.wants_snapshot(1, beside=True)
    assert not behind.wants_snapshot(1, beside=True)
    behind.see(
        patches=2 * BESIDE_LEAST, snapshot=10, own=1
    )  # nobody did: whoever crosses the next multiple does
    assert behind.wants_snapshot(1, beside=True)
    crossed.note(patch_size=1, snapshot_size=50)
    assert not crossed.wants_snapshot(1, beside=True)
