"""What somebody on call is told: nothing while all is well, and each thing that is wrong with what puts it right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import invariants, operations, watching, workflows
from runs.engine import Action, Workflow
from runs.invariants import Look
from runs.models import Run
from tests.integration.core.conftest import House, by_sql, make_house, pay_flow

Define = Callable[..., Workflow]


@pytest.fixture
def flow(define: Define) -> Workflow:
    return pay_flow(define("pay"))


def rules_broken(house: House) -> list[str]:
    return [found.rule.key for found in invariants.violations(Look(house.project.pk))]


def asks_within(define: Define) -> None:
    """A node that asks, sleeps or waits for a signal in the middle of its code."""
    flow = define("inside")

    @flow.node
    def body(state: Any, ctx: Any) -> None:
        if state.x == "ask":
            ctx.ask("sure", Action("go"))
        elif state.x == "sleep":
            ctx.sleep("1h")
        else:
            ctx.wait_signal("paid")

    workflows.register(flow)


def test_nothing_is_said_of_runs_that_park_work_and_end(house: House, flow: Workflow, define: Define) -> None:
    asks_within(define)
    for what in ("ask", "sleep", "signal"):
        house.work(house.submit("inside", x=what))
    house.parked("pay", x=1)
    _, approval = house.parked("pay", x=2)
    house.answer(approval, "approve")
    house.work(house.parked("pay", x=3)[0])
    house.submit("pay", x=4)
    operations.cancel(actor=house.olga, run_id=house.submit("pay", x=5).pk, reason="no need")
    assert rules_broken(house) == []
    assert watching.stuck(house.project.pk) == []


def aged(run: Run) -> None:
    by_sql("UPDATE runs_step SET created_at = created_at - interval '1 hour' WHERE run_id = %s", run.pk)
    by_sql("UPDATE runs_run SET updated_at = updated_at - interval '1 hour' WHERE id = %s", run.pk)


def test_a_step_that_no_worker_takes_is_stuck(house: House, flow: Workflow) -> None:
    run = house.submit("pay", x=1)
    assert watching.stuck(house.project.pk) == []
    aged(run)
    [found] = watching.stuck(house.project.pk)
    assert (found.run, found.node, found.reason) == (run, "before", "no worker takes it")


def test_what_is_due_and_does_not_happen_is_stuck(house: House, define: Define) -> None:
    asks_within(define)
    run = house.work(house.submit("inside", x="sleep"))
    assert watching.stuck(house.project.pk) == []
    by_sql("UPDATE runs_wait SET due_at = now() - interval '1 hour' WHERE run_id = %s", run.pk)
    [found] = watching.stuck(house.project.pk)
    assert (found.run, found.reason) == (run, "its timer is due and nothing happens")


def test_nobody_sees_what_is_stuck_elsewhere(house: House, flow: Workflow) -> None:
    run = house.submit("pay", x=1)
    aged(run)
    by_sql("UPDATE runs_run SET status = 'waiting', waiting_for = '[]' WHERE id = %s", run.pk)
    other = make_house("other")
    assert watching.stuck(other.project.pk) == []
    assert invariants.violations(Look(other.project.pk)) == []


def test_parts_say_what_is_missing_and_how_it_is_started(house: House) -> None:
    parts = {part.name: part for part in watching.parts()}
    assert parts["Postgres"].well
    assert not parts["Sweeper"].well
    assert "manage.py sweeper" in parts["Sweeper"].help
    house.sweep()
    assert {part.name: part.well for part in watching.parts()}["Sweeper"]


def test_redis_may_be_away(house: House, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    redis = next(part for part in watching.parts() if part.name == "Redis")
    assert not redis.well
    assert "Runs go on" in redis.help
