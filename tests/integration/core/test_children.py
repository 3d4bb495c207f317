"""`ctx.run_child`: a run that is started once, whose end wakes its parent, and that ends with it by policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, store, workflows
from runs.engine import START, Action, Workflow
from runs.errors import ChildFailed, ResultConsumed
from runs.models import Child, Event, JournalEntry, Run, Step, Stop, Wait
from runs.operations import working
from tests.integration.core.conftest import (
    House,
    Killed,
    error_of,
    history_is_whole,
    kinds_of,
    open_approval,
    state_of,
)
from tests.kit.racing import holding

Define = Callable[..., Workflow]


def parent(define: Define, body: Callable[[Any, Any], Any] | None = None, name: str = "outer") -> None:
    flow = define(name)
    flow.node(name="only")(
        body or (lambda state, ctx: {"log": [ctx.run_child("inner", {"x": state.x})["x"]]})
    )
    workflows.register(flow)


def inner(define: Define, body: Callable[[Any, Any], Any], name: str = "inner") -> None:
    flow = define(name)
    flow.node(name="work")(body)
    workflows.register(flow)


def parked_child(define: Define) -> None:
    """A child that waits for people."""
    flow = define("inner")
    flow.approval(name="sure", reviewers=["finance"])(lambda state, ctx: Action("go"))
    flow.node(name="work")(lambda state, ctx: {"x": 42})
    flow.edge("sure", "work")
    workflows.register(flow)


def work(house: House, *runs: Run) -> None:
    """Everything that is ready anywhere, and rounds of the sweeper, until nothing moves."""
    while True:
        moved = 0
        for step in Step.objects.filter(status="ready").select_related("run").order_by("created_at"):
            if step.run.status in ("queued", "running") and step.branch == step.run.branch:
                operations.advance(run_id=step.run_id, branch=step.branch, address=step.address)
                moved += 1
        swept = house.sweep()
        if not moved and not swept.woken and not swept.stopped:
            break
    for run in runs:
        run.refresh_from_db()


def child_of(run: Run) -> Run:
    return Run.objects.get(parent=run)


def test_a_child_runs_and_its_output_comes_back(house: House, define: Define) -> None:
    inner(define, lambda state, ctx: {"x": state.x + 1})
    parent(define)
    run = house.work(house.submit("outer", x=1))
    child = child_of(run)
    assert (run.status, run.waiting_for[0]["child"]) == ("waiting", str(child.pk))
    assert (child.root_id, child.requester_id, child.project_id, child.token_id) == (
        run.pk,
        run.requester_id,
        run.project_id,
        run.token_id,
    )
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", [2])
    assert kinds_of(run) == ["run_submitted", "wait_opened", "child_ended", "step_completed", "run_completed"]
    assert Step.objects.get(run=run).attempt == 1
    assert all(history_is_whole(one) for one in (run, child))


def test_the_message_that_a_child_has_ended_may_be_lost(house: House, define: Define) -> None:
    """C71: the task wakes the parent, and the sweeper does if it never came; the second of them finds nothing to do."""
    inner(define, lambda state, ctx: {"x": 5})
    parent(define)
    run = house.work(house.submit("outer", x=1))
    house.work(child_of(run))
    operations.wake_parent(run_id=child_of(run).pk)
    run.refresh_from_db()
    assert run.status == "queued"
    assert house.sweep().woken == 0
    house.work(run)
    assert state_of(run)["log"] == [5]


def test_a_crash_while_it_parks_starts_one_child(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch, short_lease: None
) -> None:
    """C35: the child is there exactly if the wait is; a commit that fails leaves no orphan."""
    inner(define, lambda state, ctx: {"x": 5})
    parent(define)
    run = house.submit("outer", x=1)
    step = Step.objects.get(run=run)

    def killed(*_: Any) -> int:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(working, "settle", killed)
        with pytest.raises(Killed):
            operations.advance(run_id=run.pk, branch=1, address=step.address)
    assert not Run.objects.filter(parent=run).exists()
    house.sweep()
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", [5])
    assert Run.objects.filter(parent=run).count() == 1


def test_a_child_that_fails_is_an_error_that_code_can_catch(house: House, define: Define) -> None:
    def fails(state: Any, ctx: Any) -> None:
        raise RuntimeError("out of tea")

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        try:
            ctx.run_child("inner")
        except ChildFailed as error:
            return {"log": [error.facts["status"], error.facts["error"]["message"]]}
        return {}

    inner(define, fails)
    parent(define, body)
    parent(define, lambda state, ctx: ctx.run_child("inner"), name="careless")
    run, other = house.submit("outer"), house.submit("careless")
    work(house, run, other)
    assert (run.status, state_of(run)["log"]) == ("completed", ["failed", "out of tea"])
    assert (other.status, error_of(other)["code"]) == ("failed", "child_failed")
    assert "out of tea" in error_of(other)["message"]


def test_what_cannot_be_started_fails_the_step(house: House, define: Define) -> None:
    inner(define, lambda state, ctx: None)
    parent(define, lambda state, ctx: ctx.run_child("nowhere"))
    parent(define, lambda state, ctx: ctx.run_child("inner", {"unknown": 1}), name="wrong")
    nowhere, wrong = house.work(house.submit("outer")), house.work(house.submit("wrong"))
    assert (nowhere.status, error_of(nowhere)["code"]) == ("failed", "invalid_call")
    assert "nowhere" in error_of(nowhere)["message"]
    assert (wrong.status, error_of(wrong)["code"]) == ("failed", "schema_violation")
    assert not Run.objects.exclude(parent=None).exists()


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("abandon", "waiting")])
def test_cancelling_reaches_the_whole_tree(house: House, define: Define, policy: str, status: str) -> None:
    """C77: children and grandchildren by policy, completed ones untouched; again changes nothing."""
    parked_child(define)
    middle = define("middle")
    middle.node(name="only")(lambda state, ctx: ctx.run_child("inner"))
    workflows.register(middle)

    def body(state: Any, ctx: Any) -> None:
        ctx.run_child("quick")
        ctx.run_child("middle", on_parent_cancel=policy)

    inner(define, lambda state, ctx: {"x": 1}, name="quick")
    parent(define, body)
    run = house.submit("outer")
    work(house, run)
    operations.cancel(actor=house.olga, run_id=run.pk)
    operations.cancel(actor=house.olga, run_id=run.pk)
    work(house)
    tree = {one.workflow: one.status for one in Run.objects.filter(root=run)}
    assert tree == {"quick": "completed", "middle": status, "inner": status}
    for one in Run.objects.filter(root=run, status="cancelled"):
        (event,) = Event.objects.filter(run=one, kind="run_cancelled")
        assert '"reason":"parent_cancelled"' in (event.payload or "")
        assert history_is_whole(one)
    assert not Stop.objects.exists()


def test_a_cancelled_parent_starts_no_more_children(house: House, define: Define) -> None:
    """C77: nothing is started under a run that is to be cancelled with its parent, though the sweeper has not come yet."""
    inner(define, lambda state, ctx: None)
    middle = define("middle")
    middle.node(name="only")(lambda state, ctx: ctx.run_child("inner"))
    workflows.register(middle)
    parent(define, lambda state, ctx: ctx.run_child("middle"))
    run = house.work(house.submit("outer"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    child = house.work(child_of(run))
    assert not Run.objects.filter(parent=child).exists()
    assert error_of(Step.objects.get(run=child))["code"] == "run_cancelled"
    work(house, child)
    assert child.status == "cancelled"


def test_a_failing_parent_lets_its_children_run(house: House, define: Define) -> None:
    """K14, C50: what came out meanwhile is there for Retry, and the child is started once."""
    parked_child(define)
    flow = define("outer")
    broken = [True]

    @flow.node
    def other(state: Any, ctx: Any) -> None:
        if broken:
            raise RuntimeError("not yet")

    flow.node(name="start")(lambda state, ctx: None)
    flow.node(name="only")(lambda state, ctx: {"x": ctx.run_child("inner")["x"]})
    flow.edge("start", "only")
    flow.edge("start", other)
    flow.edge(START, "start")
    workflows.register(flow)
    run = house.submit("outer")
    steps = house.work(run)
    assert steps.status == "failed"
    child = child_of(run)
    work(house, child)
    assert child.status == "waiting"
    house.answer(open_approval(child), "approve")
    work(house)
    broken.clear()
    operations.retry(actor=house.olga, run_id=run.pk)
    work(house, run)
    assert (run.status, state_of(run)["x"]) == ("completed", 42)
    assert Run.objects.filter(parent=run).count() == 1


def three(define: Define, broken: list[bool]) -> None:
    """A parent that runs three children one after the other, the second of which may fail."""

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.run_child("inner", {"x": f"c{i}"}, key=f"c{i}")["x"] for i in range(3)]}

    def child(state: Any, ctx: Any) -> dict[str, Any]:
        if state.x == "c1" and broken:
            raise RuntimeError("not yet")
        return {"x": state.x.upper()}

    inner(define, child)
    parent(define, body)


def test_a_rewind_reuses_completed_children_and_starts_failed_ones_anew(house: House, define: Define) -> None:
    """C52: c0 is served from what was left behind, c1 is started once more, c2 once."""
    broken = [True]
    three(define, broken)
    run = house.submit("outer")
    work(house, run)
    assert run.status == "failed"
    broken.clear()
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="fixed")
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["C0", "C1", "C2"])
    started = [child.name + child.occurrence for child in Child.objects.filter(parent=run)]
    assert sorted(started) == ["innerc0", "innerc1", "innerc1", "innerc2"]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="all again", calls="again")
    work(house, run)
    assert (run.status, Child.objects.filter(parent=run).count()) == ("completed", 7)


def test_a_rewind_cancels_a_child_that_is_under_way(house: House, define: Define) -> None:
    """C52, variation A: the old one is cancelled before the new one starts; one child at a time under one place."""
    parked_child(define)
    parent(define)
    run = house.work(house.submit("outer", x=1))
    first = child_of(run)
    work(house, first)
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=0)
    assert [one.pk for one in preview.stopped] == [first.pk]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    house.work(run)
    first.refresh_from_db()
    assert first.status == "cancelled"
    second = Run.objects.get(parent=run, finished_at=None)
    work(house)
    house.answer(open_approval(second), "approve")
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", [42])
    assert history_is_whole(run)


def test_a_child_that_is_rewound_while_it_is_waited_for_is_no_news(house: House, define: Define) -> None:
    """C51: the parent gets what comes out in the end, once; after that a rewind says that it changes nothing there."""
    parked_child(define)
    parent(define)
    run = house.work(house.submit("outer", x=1))
    child = child_of(run)
    house.work(child)
    operations.rewind(actor=house.olga, run_id=child.pk, checkpoint=0, reason="again")
    house.work(child)
    house.answer(open_approval(child), "approve")
    work(house, run, child)
    assert (run.status, state_of(run)["log"]) == ("completed", [42])
    assert JournalEntry.objects.filter(run=run, kind="child").count() == 1
    with pytest.raises(ResultConsumed):
        operations.rewind(actor=house.olga, run_id=child.pk, checkpoint=0, reason="too late")
    operations.rewind(actor=house.olga, run_id=child.pk, checkpoint=0, reason="by itself", detach=True)
    run.refresh_from_db()
    assert run.status == "completed"


def test_another_input_for_a_child_that_runs_is_a_mismatch(house: House, define: Define) -> None:
    parked_child(define)
    parent(define)
    run = house.work(house.submit("outer", x=1))
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 2}, reason="other"
    )
    house.work(run)
    assert (run.status, error_of(run)["code"]) == ("failed", "journal_mismatch")
    assert error_of(run)["asked"] == {"x": 2}


def test_a_deep_tree_needs_no_lock_of_two_runs_from_below(house: House, define: Define) -> None:
    """A child that ends touches no row of its parent: its own commit cannot wait for whoever holds that."""
    inner(define, lambda state, ctx: {"x": 5})
    parent(define)
    run = house.work(house.submit("outer", x=1))
    with holding(run.pk):
        child = house.work(child_of(run))
    assert child.status == "completed"
    assert store.ended_children()[0].child_id == child.pk
    assert Wait.objects.filter(child=child, closed_at=None).exists()


@pytest.mark.parametrize("mended", [False, True])
def test_a_retry_of_the_parent_gives_a_failed_child_another_chance(
    house: House, define: Define, mended: bool
) -> None:
    """It is started anew; or, if somebody has retried the child itself meanwhile, its result is taken."""
    broken = [True]
    three(define, broken)
    run = house.submit("outer")
    work(house, run)
    assert (run.status, error_of(run)["code"]) == ("failed", "child_failed")
    broken.clear()
    if mended:
        operations.retry(actor=house.olga, run_id=Run.objects.get(parent=run, status="failed").pk)
        work(house)
    operations.retry(actor=house.olga, run_id=run.pk)
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["C0", "C1", "C2"])
    assert Child.objects.filter(parent=run).count() == (3 if mended else 4)
    assert history_is_whole(run)
