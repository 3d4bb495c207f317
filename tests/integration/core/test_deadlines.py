"""Time that runs out: of an attempt, of a run; and workers that are asked to end in the middle of a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, store, workflows
from runs.driver import watchdog
from runs.engine import END, START, Action, Retry, Workflow
from runs.errors import BadRequest, StepTimeout
from runs.models import Approval, Run, Step, Wait
from tests.integration.core.conftest import (
    House,
    Killed,
    by_sql,
    history_is_whole,
    kinds_of,
    open_approval,
    state_of,
)

Define = Callable[..., Workflow]
pytestmark = pytest.mark.usefixtures("short_lease")


def due(house: House, run: Run) -> Run:
    assert by_sql("UPDATE runs_wait SET due_at = now() WHERE run_id = %s AND closed_at IS NULL", run.pk)
    house.sweep()
    return house.work(run)


def killed_in(house: House, run: Run) -> None:
    with pytest.raises(Killed):
        house.work(run)


# ---- an attempt


def test_an_attempt_that_takes_too_long_is_retried_by_the_nodes_policy(house: House, define: Define) -> None:
    workflow = define("slow")

    @workflow.node(timeout=0.05, retry=Retry(attempts=2, initial=60))
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        if ctx.attempt == 1:
            time.sleep(60)
        return {"x": ctx.attempt}

    workflows.register(workflow)
    run = house.work(house.submit("slow"))
    step = Step.objects.get(run=run)
    assert (run.status, step.failures, step.crashes) == ("waiting", 1, 0)
    assert step.error is not None
    assert (step.error["code"], step.error["timeout"]) == ("step_timeout", 0.05)
    assert "time.sleep(60)" in step.error["traceback"]
    run = due(house, run)
    assert (run.status, state_of(run)["x"]) == ("completed", 2)
    assert kinds_of(run)[1:3] == ["step_retry_scheduled", "step_completed"]


@pytest.mark.parametrize("policy", [Retry(attempts=1), Retry(attempts=9, give_up_on=(StepTimeout,))])
def test_without_another_attempt_the_run_fails_as_timed_out(
    house: House, define: Define, policy: Retry
) -> None:
    workflow = define("hasty")
    workflow.node(name="work", timeout=0.05, retry=policy)(lambda state, ctx: time.sleep(60))
    workflows.register(workflow)
    run = house.work(house.submit("hasty"))
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "step_timeout", "work")


def test_what_held_out_against_the_watchdog_is_booked_as_timed_out_and_not_as_a_crash(
    house: House, define: Define
) -> None:
    """The watchdog writes down why, then its process ends; the retry policy counts it, the poison guard does not."""
    workflow = define("stubborn")

    @workflow.node(timeout="5m", retry=Retry(attempts=3, initial=60))
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        if ctx.attempt < 3:
            ctx._watch._guard.at_end()  # the last words of the watchdog
            raise Killed
        return {"x": ctx.attempt}

    workflows.register(workflow)
    run = house.submit("stubborn")
    for failures in (1, 2):
        killed_in(house, run)
        house.sweep()
        step = Step.objects.get(run=run)
        assert (step.status, step.failures, step.crashes) == ("waiting", failures, 0)
        assert step.error is not None
        assert (step.error["code"], step.error["process_ended"]) == ("step_timeout", True)
        by_sql("UPDATE runs_wait SET due_at = now() WHERE run_id = %s AND closed_at IS NULL", run.pk)
        house.sweep()
    run = house.work(run)
    assert (run.status, state_of(run)["x"]) == ("completed", 3)
    assert "step_taken_over" not in kinds_of(run)
    assert history_is_whole(run)


def test_a_call_that_held_out_names_itself(house: House, define: Define) -> None:
    workflow = define("held_out")

    def forever() -> None:
        watchdog.current()._guards[-1].at_end()
        raise Killed

    workflow.node(name="work")(lambda state, ctx: ctx.call(forever, timeout=60))
    workflows.register(workflow)
    run = house.submit("held_out")
    killed_in(house, run)
    house.sweep()
    run.refresh_from_db()
    assert run.error is not None
    assert (run.error["code"], run.error["call"]) == ("call_timeout", "forever")


def test_an_item_of_a_fan_out_has_the_limit_for_itself(house: House, define: Define) -> None:
    workflow = define("items")

    @workflow.fan_out("work", into="log", items=lambda state: [0, 1, 2], timeout=0.2, on_item_error="collect")  # type: ignore[call-overload,untyped-decorator,unused-ignore]
    def work(state: Any, ctx: Any, item: int) -> int:
        if item == 1:
            time.sleep(60)
        return item

    workflows.register(workflow)
    run = house.work(house.submit("items"))
    assert run.status == "completed", run.error
    first, second, third = state_of(run)["log"]
    assert (first, second["error"]["code"], third) == (0, "step_timeout", 2)


def test_time_that_a_step_waits_is_no_work_and_the_next_attempt_begins_with_nothing(
    house: House, define: Define
) -> None:
    """C69: only the entries of one attempt add up."""
    workflow = define("worked")

    @workflow.node(timeout=60, retry=Retry(attempts=2, initial=60))
    def work(state: Any, ctx: Any) -> None:
        seen.append(Step.objects.get().worked)
        if ctx.attempt == 1:
            raise OSError

    @workflow.approval
    def ask(state: Any, ctx: Any) -> Action:
        return Action("go")

    seen: list[float] = []
    workflow.edge(work, ask)
    workflows.register(workflow)
    run = house.submit("worked")
    by_sql("UPDATE runs_step SET worked = 7")
    run = due(house, house.work(run))
    assert seen == [7, 0]
    asked = Step.objects.get(run=run, node="ask")
    assert asked.entered_at is not None
    opened = Wait.objects.get(run=run, kind="approval").opened_at
    assert asked.worked == pytest.approx((opened - asked.entered_at).total_seconds(), abs=1e-6)
    by_sql("UPDATE runs_wait SET opened_at = now() - interval '1 hour'")
    assert Step.objects.get(run=run, node="ask").worked < 60


def test_what_was_worked_before_a_wait_is_taken_from_the_limit(house: House, define: Define) -> None:
    workflow = define("rest")
    workflow.node(name="work", timeout=60)(lambda state, ctx: time.sleep(30))
    workflows.register(workflow)
    run = house.submit("rest")
    by_sql("UPDATE runs_step SET worked = 59.95")
    run = house.work(run)
    assert run.error is not None
    assert run.error["code"] == "step_timeout"


# ---- a run


def asking(define: Define, name: str, **options: Any) -> Workflow:
    workflow = define(name, **options)

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("go")

    @workflow.node(retry=Retry(attempts=2, initial=3_600))
    def work(state: Any, ctx: Any) -> None:
        raise OSError

    workflow.edge(ask, work)
    workflows.register(workflow)
    return workflow


def left(run: Run) -> float:
    """Seconds until the deadline; the clock runs."""
    run.refresh_from_db()
    assert run.deadline_at is not None
    assert run.time_left is None
    return (run.deadline_at - store.now()).total_seconds()


def test_the_clock_of_a_run_stands_while_people_decide(house: House, define: Define) -> None:
    """C69: whatever they take, the run has what it had."""
    asking(define, "decided", deadline="2h")
    run = house.submit("decided")
    assert 7_190 < left(run) <= 7_200
    by_sql("UPDATE runs_run SET deadline_at = now() + interval '100 seconds'")
    run = house.work(run)
    assert (run.status, run.deadline_at) == ("waiting", None)
    assert run.time_left is not None
    assert 90 < run.time_left <= 100
    house.sweep()
    house.answer(open_approval(run), "approve")
    assert 90 < left(run) <= 100
    run = house.work(run)
    assert run.waiting_for[0]["kind"] == "retry"
    assert 90 < left(run) <= 100, "waiting for a retry is the run's own time"


def test_the_sweeper_fails_a_run_whose_time_is_over_and_closes_everything(
    house: House, define: Define
) -> None:
    """K14, I7. One lane asks people, another one works."""
    workflow = define("over", deadline=3_600)

    @workflow.approval
    def ask(state: Any, ctx: Any) -> Action:
        return Action("go")

    @workflow.node(retry=Retry(attempts=2, initial=3_600))
    def work(state: Any, ctx: Any) -> None:
        raise OSError

    @workflow.node
    def rest(state: Any, ctx: Any) -> None:
        ran.append("rest")

    ran: list[str] = []
    workflow.edge(START, ask)
    workflow.edge(START, work)
    workflow.edge(START, rest)
    workflow.edge(ask, END)
    workflows.register(workflow)
    run = house.submit("over")
    asked = Step.objects.get(run=run, node="ask")
    operations.advance(run_id=run.pk, branch=1, address=asked.address)
    left(run)
    by_sql("UPDATE runs_run SET deadline_at = now()")
    assert house.sweep().run_out == 1
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["deadline"]) == ("failed", "deadline_exceeded", 3_600)
    assert (run.deadline_at, run.time_left) == (None, None)
    assert not Approval.objects.filter(run=run, status="open").exists()
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    assert set(Step.objects.filter(run=run).values_list("status", flat=True)) == {"cancelled"}
    house.work(run)
    assert ran == []
    assert house.sweep().run_out == 0
    assert history_is_whole(run)


def test_what_a_worker_does_when_time_is_over_comes_too_late(house: House, define: Define) -> None:
    workflow = define("late", deadline=3_600)

    @workflow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        by_sql("UPDATE runs_run SET deadline_at = now()")
        house.sweep()
        return {"x": 1}

    workflows.register(workflow)
    run = house.work(house.submit("late"))
    assert (run.status, state_of(run)["x"]) == ("failed", None)


def test_retry_and_rewind_wind_the_clock_up_anew(house: House, define: Define) -> None:
    asking(define, "anew", deadline=3_600)
    run = house.submit("anew")
    by_sql("UPDATE runs_run SET deadline_at = now()")
    house.sweep()
    operations.retry(actor=house.olga, run_id=run.pk, reason="more time")
    assert 3_590 < left(run) <= 3_600
    run = house.work(run)
    by_sql("UPDATE runs_run SET time_left = 5")
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    assert 3_590 < left(run) <= 3_600
    operations.cancel(actor=house.olga, run_id=run.pk)
    run.refresh_from_db()
    assert (run.deadline_at, run.time_left) == (None, None)


def test_a_submitter_may_say_another_deadline(house: House, define: Define) -> None:
    asking(define, "own", deadline=3_600)
    run = operations.submit(actor=house.shop, workflow="own", input={}, deadline="30s").run
    assert 20 < left(run) <= 30
    for odd in ("soon", 0, -1, float("nan"), float("inf"), "0s"):
        with pytest.raises(BadRequest):
            operations.submit(actor=house.shop, workflow="own", input={}, deadline=odd)


# ---- deploys


def test_any_number_of_deploys_within_one_step_do_not_poison_it(house: House, define: Define) -> None:
    """A worker that was asked to end and had to be killed has handed its step over: no crash, no attempt."""
    workflow = define("long")

    @workflow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        seen.append(ctx.attempt)
        if len(seen) <= 5:
            operations.process.store.say_leaving(operations.process.FAMILY)  # type: ignore[attr-defined]
            raise Killed
        return {"x": ctx.attempt}

    seen: list[int] = []
    workflows.register(workflow)
    run = house.submit("long")
    for _ in range(5):
        killed_in(house, run)
        house.sweep()
        operations.leave()
    run = house.work(run)
    assert (run.status, seen) == ("completed", [1] * 6)
    step = Step.objects.get(run=run)
    assert (step.crashes, step.entries) == (0, 6)
    assert kinds_of(run).count("step_handed_over") == 5
    assert history_is_whole(run)


def test_a_worker_that_dies_by_itself_still_counts(house: House, define: Define) -> None:
    workflow = define("dying")

    @workflow.node
    def work(state: Any, ctx: Any) -> None:
        raise Killed

    workflows.register(workflow)
    run = house.submit("dying")
    for _ in range(3):
        killed_in(house, run)
        house.sweep()
        operations.leave()
    run.refresh_from_db()
    assert run.error is not None
    assert run.error["code"] == "poisoned"
