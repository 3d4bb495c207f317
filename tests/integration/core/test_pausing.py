"""Pause and resume: what executes is finished, nothing new begins, what is due becomes ready, and it all goes on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from runs import operations, store, workflows
from runs.engine import Action, Retry, Workflow
from runs.engine.limits import DEFAULT_QUEUE
from runs.errors import AlreadyTerminal, EventNotAllowed, Forbidden, PausedAbove
from runs.models import Approval, Run, Step
from tests.integration.core.conftest import House, by_sql, error_of, history_is_whole, kinds_of, state_of
from tests.kit.racing import at_once

Define = Callable[..., Workflow]


def line(define: Define, *bodies: Callable[[Any, Any], Any], **options: Any) -> None:
    """Nodes in a row: one, two, three and so on."""
    flow, names = define("line", **options), ("one", "two", "three", "four")[: len(bodies)]
    for name, body in zip(names, bodies, strict=True):
        flow.node(name=name)(body)
    for before, after in pairwise(names):
        flow.edge(before, after)
    workflows.register(flow)


def notes(name: str) -> Callable[[Any, Any], Any]:
    return lambda state, ctx: {"log": [*state.log, name]}


def pausing(house: House, name: str, **how: Any) -> Callable[[Any, Any], Any]:
    def body(state: Any, ctx: Any) -> Any:
        operations.pause(actor=house.olga, run_id=ctx.run_id, reason="wait", **how)
        return {"log": [*state.log, name]}

    return body


def pause(house: House, run: Run, **how: Any) -> Run:
    return operations.pause(actor=house.olga, run_id=run.pk, reason="wait", **how)


def resume(house: House, run: Run) -> Run:
    return operations.resume(actor=house.olga, run_id=run.pk, reason="on")


def test_a_step_that_executes_is_finished_and_committed_and_the_next_is_left(
    house: House, define: Define
) -> None:
    """In the one statement of a lane alone the run's status says no; then it is done under the lock, without the body."""
    line(define, notes("one"), pausing(house, "two"), notes("three"), notes("four"))
    run = house.work(house.submit("line"))
    assert (run.status, state_of(run)["log"]) == ("paused", ["one", "two"])
    assert (run.paused or {})["reason"] == "wait"
    assert list(Step.objects.filter(run=run).order_by("created_at").values_list("node", "status")) == [
        ("one", "completed"),
        ("two", "completed"),
        ("three", "ready"),
    ]
    third = Step.objects.get(run=run, node="three")
    operations.advance(run_id=run.pk, branch=1, address=third.address)
    assert store.unhinted_steps(DEFAULT_QUEUE, limit=5) == []
    assert Step.objects.get(run=run, node="three").entries == 0
    assert resume(house, run).status == "queued"
    assert house.work(run).status == "completed"
    assert (state_of(run)["log"], run.paused) == (["one", "two", "three", "four"], None)
    assert [kind for kind in kinds_of(run) if "_paused" in kind or "resumed" in kind] == [
        "run_paused",
        "run_resumed",
    ]
    assert history_is_whole(run)
    assert Step.objects.get(run=run, node="two").entries == 1


def test_the_last_step_of_a_paused_run_ends_it(house: House, define: Define) -> None:
    line(define, notes("one"), pausing(house, "two"))
    run = house.work(house.submit("line"))
    assert (run.status, run.paused) == ("completed", None)


@pytest.mark.parametrize("kind", ["fails", "waits", "sleeps", "again"])
def test_whatever_the_step_comes_to_the_run_stays_paused(house: House, define: Define, kind: str) -> None:
    def body(state: Any, ctx: Any) -> Any:
        if ctx.attempt == 1:
            operations.pause(actor=house.olga, run_id=ctx.run_id)
        if kind == "fails":
            raise ValueError("no")
        if kind == "again" and ctx.attempt == 1:
            raise OSError("once")
        if kind == "waits":
            return ctx.wait_signal("go") and None
        if kind == "sleeps":
            ctx.sleep(0.05)
        return None

    flow = define("one")
    flow.node(name="one", retry=Retry(attempts=2, initial=0.0) if kind == "again" else Retry(attempts=1))(
        body
    )
    workflows.register(flow)
    run = house.work(house.submit("one"))
    if kind == "fails":
        assert (run.status, error_of(run)["message"]) == ("failed", "no")
        return
    assert run.status == "paused"
    if kind == "waits":
        operations.signal(actor=house.olga, run_id=run.pk, name="go", payload=1)
    by_sql("UPDATE runs_wait SET due_at = now() - interval '1 second' WHERE due_at IS NOT NULL")
    house.sweep()
    run.refresh_from_db()
    assert (run.status, Step.objects.get(run=run).status) == ("paused", "ready")
    assert resume(house, run).status == "queued"
    assert house.work(run).status == "completed"
    assert history_is_whole(run)


def test_people_decide_a_paused_run_and_it_goes_on_when_it_is_resumed(house: House, define: Define) -> None:
    flow = define("asks")
    flow.approval(name="sure", reviewers=["finance"])(lambda state, ctx: Action("go"))
    flow.node(name="after")(notes("after"))
    flow.edge("sure", "after")
    workflows.register(flow)
    run, approval = house.parked("asks")
    pause(house, run)
    assert Approval.objects.get(pk=approval.pk).status == "open"
    house.answer(approval, "approve")
    run.refresh_from_db()
    assert (run.status, Step.objects.get(run=run, node="after").status) == ("paused", "ready")
    resume(house, run)
    assert house.work(run).status == "completed"
    run, approval = house.parked("asks")
    pause(house, run)
    assert resume(house, run).status == "waiting"


def test_an_approval_that_is_due_is_decided_also_in_a_paused_run(house: House, define: Define) -> None:
    flow = define("asks")
    flow.approval(name="sure", due="1h", on_timeout="approve")(lambda state, ctx: Action("go"))
    flow.node(name="after")(notes("after"))
    flow.edge("sure", "after")
    workflows.register(flow)
    run, _ = house.parked("asks")
    pause(house, run)
    for table in ("runs_wait", "runs_approval"):
        by_sql(f"UPDATE {table} SET due_at = now() - interval '1 second'")
    assert house.sweep().expired == 1
    run.refresh_from_db()
    assert (run.status, Step.objects.get(run=run, node="after").status) == ("paused", "ready")


def test_a_dead_workers_step_is_taken_over_and_left(house: House, define: Define, short_lease: None) -> None:
    line(define, notes("one"))
    run = house.submit("line")
    step = Step.objects.get(run=run)
    store.claim(run_id=run.pk, branch=1, address=step.address, worker=operations.worker().id)
    pause(house, run)
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 minute'")
    assert house.sweep().taken_over == 1
    run.refresh_from_db()
    assert (run.status, Step.objects.get(run=run).status) == ("paused", "ready")


def test_a_run_resumed_while_its_step_executes_is_running(house: House, define: Define) -> None:
    seen = []

    def body(state: Any, ctx: Any) -> None:
        operations.pause(actor=house.olga, run_id=ctx.run_id)
        seen.append(operations.resume(actor=house.olga, run_id=ctx.run_id).status)

    line(define, body, notes("two"))
    run = house.work(house.submit("line"))
    assert (seen, run.status) == (["running"], "completed")


def test_lanes_of_a_paused_run_finish_and_join_later(house: House, define: Define) -> None:
    flow = define("fork")
    flow.node(name="start")(lambda state, ctx: None)
    flow.node(name="left")(pausing(house, "left"))
    flow.node(name="right")(lambda state, ctx: {"x": "right"})
    flow.node(name="both")(lambda state, ctx: None)
    for before, after in (("start", "left"), ("start", "right"), ("left", "both"), ("right", "both")):
        flow.edge(before, after)
    workflows.register(flow)
    run = house.work(house.submit("fork"))
    assert run.status == "paused"
    assert resume(house, run).status == "queued"
    assert house.work(run).status == "completed"
    assert state_of(run) == {"x": "right", "log": ["left"]}


def test_the_deadline_stands_while_it_is_paused(house: House, define: Define) -> None:
    line(define, notes("one"), deadline="1h")
    run = pause(house, house.submit("line"))
    assert run.deadline_at is None
    assert 3500 < (run.time_left or 0) <= 3600
    assert resume(house, run).deadline_at is not None


def test_pause_and_resume_again_change_nothing_and_what_has_ended_refuses(
    house: House, define: Define
) -> None:
    line(define, notes("one"))
    run = house.submit("line")
    at_once(*[lambda: pause(house, run)] * 3)
    at_once(*[lambda: resume(house, run)] * 3)
    assert kinds_of(run) == ["run_submitted", "run_paused", "run_resumed"]
    pause(house, run)
    with pytest.raises(EventNotAllowed):
        operations.retry(actor=house.olga, run_id=run.pk)
    with pytest.raises(Forbidden):
        operations.pause(actor=house.shop, run_id=run.pk)
    assert operations.cancel(actor=house.olga, run_id=run.pk).status == "cancelled"
    for verb in (pause, resume):
        with pytest.raises(AlreadyTerminal):
            verb(house, run)


def test_a_rewind_an_edit_and_a_fork_of_a_paused_run(house: House, define: Define) -> None:
    line(define, notes("one"), pausing(house, "two"), notes("three"))
    run = house.work(house.submit("line"))
    run = operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"log": ["edited"]}, reason="so"
    )
    assert run.status == "paused"
    copy = operations.fork(actor=house.olga, run_id=run.pk, checkpoint=run.head, reason="look").run
    assert house.work(copy).status == "completed"
    rewound = operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="again")
    assert (rewound.status, rewound.paused) == ("queued", None)


def test_a_tree_is_paused_as_it_grows_and_goes_on_with_its_top(house: House, define: Define) -> None:
    """The sweeper does it level by level; what was paused by itself stays so."""
    inner = define("inner")
    inner.node(name="work")(lambda state, ctx: ctx.run_child("leaf", {}) and None)
    leaf = define("leaf")
    leaf.node(name="work")(lambda state, ctx: None)
    outer = define("outer")
    outer.node(name="only")(lambda state, ctx: ctx.run_child("inner", {}) and None)
    for flow in (leaf, inner, outer):
        workflows.register(flow)
    run = house.work(house.submit("outer"))
    child = Run.objects.get(parent=run)
    operations.pause(actor=house.olga, run_id=run.pk, reason="wait", children=True)
    house.work(child)  # it was under way, and starts another
    grandchild = Run.objects.get(parent=child)
    assert house.sweep().held == 2
    for one in (child, grandchild):
        one.refresh_from_db()
        assert (one.status, (one.paused or {})["reason"]) == ("paused", "wait")
    with pytest.raises(PausedAbove):
        resume(house, grandchild)
    assert house.sweep().held == 0
    resume(house, run)
    assert house.sweep().held == 2
    assert house.work(grandchild).status == "completed"
    pause(house, child)
    assert house.sweep().held == 0
    child.refresh_from_db()
    assert child.status == "paused"
