"""What a step and a call cost: counted at the wire, in messages to Postgres and answers from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from runs import operations, workflows
from runs.engine import Workflow
from tests.integration.store.conftest import Define, Hand, House, chain_of

STEPS = 20


@dataclass
class Traffic:
    """statements: executed. trips: answers that ended with "ready". open: how many of them inside a transaction."""

    statements: int = 0
    trips: int = 0
    open: int = 0

    @property
    def commits(self) -> int:
        return self.trips - self.open


@contextmanager
def watched(file: Path) -> Iterator[Traffic]:
    """Counts what goes over this thread's connection, as libpq writes it down."""
    connection.ensure_connection()
    traffic, raw = Traffic(), connection.connection.pgconn
    with file.open("wb") as out:
        raw.trace(out.fileno())
        try:
            yield traffic
        finally:
            raw.untrace()
    for line in file.read_text().splitlines():
        sender, _, rest = line.partition("\t")[2].partition("\t")
        message = rest.partition("\t")[2].split("\t")[0]
        if sender == "F" and message in ("Execute", "Query"):
            traffic.statements += 1
        elif sender == "B" and message == "ReadyForQuery":
            traffic.trips += 1
            traffic.open += not line.rstrip().endswith(" I")


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
    for steps in (3, 3 + STEPS):
        run = house.submit("looped", x=steps)
        with watched(tmp_path / "trace") as traffic:
            house.work(run)
        assert run.status == "completed"
        counted.append(traffic.trips)
    assert counted[1] - counted[0] == STEPS * (1 + calls)
