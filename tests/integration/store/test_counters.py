"""What a step and a call cost: counted at the wire, in messages to Postgres and answers from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import Workflow
from tests.integration.store.conftest import Define, Hand, House, chain_of
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


def test_a_call_is_one_statement_one_trip_one_commit(house: House, define: Define, tmp_path: Path) -> None:
    chain_of(define("links"))
    hand = Hand(house.submit("links"))
    hand.call(occurrence="first")
    with watched(tmp_path / "trace") as traffic:
        for number in range(STEPS):
            hand.call(occurrence=str(number), ordinal=number + 1)
    assert (traffic.statements, traffic.trips, traffic.commits) == (STEPS, STEPS, STEPS)


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
