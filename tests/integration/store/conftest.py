"""Steps in a test's hand: claimed as a worker would, and committed when the test says so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from django.db import connection

from runs import store, workflows
from runs.driver import Call
from runs.engine import Workflow, canonical, machine
from runs.engine import position as at
from runs.engine.transition import Aggregate
from runs.models import Run, Step
from runs.store import Committed, Weights
from tests.integration.core.conftest import (
    House,
    database,
    define,
    house,
    open_approval,
    pay_flow,
    short_lease,
    without_flush,
)

__all__ = [
    "Hand",
    "House",
    "chain_of",
    "database",
    "define",
    "house",
    "open_approval",
    "pay_flow",
    "rows",
    "short_lease",
    "without_flush",
]

TABLES = {
    "runs_run": "id",
    "runs_branch": "run_id",
    "runs_checkpoint": "run_id",
    "runs_event": "run_id",
    "runs_step": "run_id",
    "runs_journalentry": "run_id",
    "runs_wait": "run_id",
    "runs_approval": "run_id",
}


class Hand:
    """A claimed step, with what a worker keeps in memory. `finish` and `call` may be done late, twice, or by a thread."""

    def __init__(self, run: Run, *, worker: int = 1) -> None:
        step = Step.objects.get(run=run, status="ready")
        claimed = store.claim(run_id=run.pk, branch=step.branch, address=step.address, worker=worker)
        assert claimed is not None
        self.held = claimed.held
        self.run = claimed.run
        self.position = claimed.position
        self.head = claimed.run.head
        self.weights = Weights.of(claimed.run)
        self.workflow = workflows.get(run.workflow, run.workflow_version)

    def facts(self) -> Aggregate:
        position = copy.deepcopy(self.position)
        values = self.workflow.schema.load(at.state(position))
        return Aggregate(
            str(self.run.pk), self.workflow, "running", self.held.epoch, self.held.branch, position, values
        )

    def finish(self, update: Any = None, *, go_on: bool = True) -> Committed:
        """Commit the step, as a worker does whose body has returned."""
        facts = self.facts()
        transition = machine.complete(facts, self.held.step, update)
        return store.commit_step(
            self.held,
            transition,
            position=facts.position,
            head=self.head,
            weights=copy.copy(self.weights),
            go_on=go_on,
        )

    def go_on(self, update: Any = None) -> Hand:
        """Commit the step and hold the next one."""
        facts = self.facts()
        transition = machine.complete(facts, self.held.step, update)
        committed = store.commit_step(
            self.held, transition, position=facts.position, head=self.head, weights=self.weights, go_on=True
        )
        assert committed.next is not None
        self.held, self.head, self.position = committed.next, committed.checkpoint, facts.position
        return self

    def call(self, name: str = "charge", result: Any = 1, *, ordinal: int = 0, occurrence: str = "0") -> None:
        """Commit the result of a call."""
        call = Call(name, occurrence, "digest", canonical.dumps(result), "reversible", "key", 0.0)
        store.commit_call(self.held, call, ordinal=ordinal)


def chain_of(workflow: Workflow, nodes: int = 5) -> Workflow:
    """n0 -> n1 -> ...: nodes that do nothing."""
    for index in range(nodes):
        workflow.node(name=f"n{index}")(_nothing)
    for index in range(nodes - 1):
        workflow.edge(f"n{index}", f"n{index + 1}")
    workflows.register(workflow)
    return workflow


def _nothing(state: Any, ctx: Any) -> None:
    return None


def rows(run: Run) -> dict[str, list[str]]:
    """Every row of a run, as Postgres writes it."""
    found = {}
    with connection.cursor() as cursor:
        for table, column in TABLES.items():
            cursor.execute(f"SELECT t::text FROM {table} t WHERE {column} = %s ORDER BY 1", [run.pk])
            found[table] = [row[0] for row in cursor.fetchall()]
    return found


Define = Callable[..., Workflow]
