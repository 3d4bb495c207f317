"""People at work on runs with lanes and nested workflows: rewinds into them, edits inside them, Retry after a rejection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runs import operations, store, workflows
from runs.engine import END, Action, Workflow, append
from runs.engine import position as at
from runs.models import Approval, Checkpoint, Run, Step
from tests.integration.core.conftest import House, open_approval
from tests.integration.core.test_lanes import Trace, chain, node, output, whole

Define = Callable[..., Workflow]


class Inner(BaseModel):
    log: Annotated[list[str], append] = []
    x: Any = None


def counting(ran: list[str], flow: Workflow, *names: str) -> None:
    """Nodes that note each execution, and what they saw of the log."""

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        ran.append(ctx.node)
        return {"log": [ctx.node]}

    for name in names:
        flow.node(name=name)(body)


@pytest.fixture
def nest(define: Define) -> list[str]:
    """p1 -> sub(a, b, deep(u, v), ask, c) -> p2. Returns the names of the nodes that ran, in order."""
    ran: list[str] = []
    deep = Workflow("deep", state=Inner)
    counting(ran, deep, "u", "v")
    chain(deep, "u", "v")
    sub = Workflow("sub", state=Inner)
    counting(ran, sub, "a", "b", "c")
    sub.subflow("deep", deep, input=lambda state: {}, output=lambda result: {"log": result["log"]})
    sub.approval(name="ask")(lambda state, ctx: Action("do", {"log": state.log, "x": state.x}))
    chain(sub, "a", "b", "deep", "ask", "c")
    flow = define("nest", state=Inner)
    counting(ran, flow, "p1", "p2")
    flow.subflow(
        "sub", sub, input=lambda state: {}, output=lambda result: {"log": result["log"], "x": result["x"]}
    )
    chain(flow, "p1", "sub", "p2")
    workflows.register(flow)
    return ran


def completed(house: House) -> Run:
    run, approval = house.parked("nest")
    house.answer(approval, "approve")
    return house.work(run)


def after(run: Run, node: str) -> int:
    """The checkpoint behind a node, on the first branch."""
    return Checkpoint.objects.filter(run=run, node=node, branch=1).order_by("no")[0].no


def rewound(house: House, run: Run, checkpoint: int, **more: Any) -> Run:
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=checkpoint, reason="r", **more)
    return house.work(run)


WHOLE = ["p1", "sub/a", "sub/b", "sub/deep/u", "sub/deep/v", "sub/c", "p2"]


def test_a_rewind_into_a_nested_workflow_runs_only_what_follows(house: House, nest: list[str]) -> None:
    """C45, first: behind b the innermost workflow runs again, and people are asked again."""
    run = completed(house)
    assert nest == WHOLE
    nest.clear()
    rewound(house, run, after(run, "sub/b"))
    assert nest == ["sub/deep/u", "sub/deep/v"]
    asked = open_approval(run)
    assert asked.content["actions"][0]["args"]["log"] == ["sub/a", "sub/b", "sub/deep/u", "sub/deep/v"]
    house.answer(asked, "approve")
    house.work(run)
    assert nest == ["sub/deep/u", "sub/deep/v", "sub/c", "p2"]
    assert output(run)["log"] == WHOLE
    whole(run)


def test_a_rewind_into_the_innermost_workflow(house: House, nest: list[str]) -> None:
    """C45, second: only v and what follows."""
    run = completed(house)
    nest.clear()
    rewound(house, run, after(run, "sub/deep/u"))
    assert nest == ["sub/deep/v"]
    house.answer(open_approval(run), "approve")
    house.work(run)
    assert nest == ["sub/deep/v", "sub/c", "p2"]
    assert output(run)["log"] == WHOLE
    whole(run)


def test_a_rewind_to_before_a_nested_workflow_begins_it_anew(house: House, nest: list[str]) -> None:
    """C45, third: with an empty state of its own; what it held at a checkpoint is what is read there."""
    run = completed(house)
    point = after(run, "sub/b")
    held = {row["node"]: row["state"] for row in at.lanes(store.read_position(run.pk, point))}
    assert (held["sub"]["log"], held["sub/deep"]["log"]) == (["p1"], ["sub/a", "sub/b"])
    nest.clear()
    rewound(house, run, after(run, "p1"))
    assert nest == ["sub/a", "sub/b", "sub/deep/u", "sub/deep/v"]
    assert open_approval(run).content["actions"][0]["args"]["log"] == nest
    assert {row["node"]: row["state"] for row in at.lanes(store.read_position(run.pk, point))} == held


def test_an_edit_inside_a_nested_workflow_goes_on_inside_it(house: House, nest: list[str]) -> None:
    """C47 d."""
    run, approval = house.parked("nest")
    operations.edit_state(actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 7}, reason="r")
    house.work(run)
    approval.refresh_from_db()
    assert approval.status == "superseded"
    asked = open_approval(run)
    assert asked.content["actions"][0]["args"]["x"] == 7
    house.answer(asked, "approve")
    position = store.read_position(run.pk, Run.objects.get(pk=run.pk).head)
    assert [step.node for step in at.live_steps(position)] == ["sub/c"]
    house.work(run)
    assert (output(run)["x"], output(run)["log"]) == (7, WHOLE)
    whole(run)


@pytest.fixture
def two_lanes(define: Define) -> Workflow:
    """X and Y each ask, then J."""
    flow = define("two_lanes", state=Trace)
    node(flow, "start", "J")
    for name in "XY":
        flow.approval(name=name)(lambda state, ctx: Action("do", {"x": state.x}, editable=["x"]))
        flow.node(name=f"after_{name}")(
            lambda state, ctx: {"trace": [f"{ctx.node} {ctx.approved(ctx.node[-1]).args['x']}"]}
        )
        chain(flow, "start", name, f"after_{name}", "J")
    workflows.register(flow)
    return flow


def test_an_edited_approval_of_one_lane_leaves_the_other_parked(house: House, two_lanes: Workflow) -> None:
    """C47 e."""
    run = house.work(house.submit("two_lanes"))
    x, y = Approval.objects.filter(run=run).order_by("node")
    house.answer(x, "edit", args={"x": 5})
    house.work(run)
    assert run.status == "waiting"
    position = store.read_position(run.pk, run.head)
    assert [step.node for step in at.live_steps(position)] == ["Y"]
    y.refresh_from_db()
    assert (y.status, y.version) == ("open", 1)
    house.answer(y, "approve")
    house.work(run)
    assert output(run)["trace"] == ["start", "after_X 5", "after_Y None", "J"]
    whole(run)


def test_what_a_sibling_commits_does_not_touch_an_open_approval(house: House, two_lanes: Workflow) -> None:
    """C62 (5), C57: version and digest that were seen before still count."""
    run = house.work(house.submit("two_lanes"))
    x, y = Approval.objects.filter(run=run).order_by("node")
    house.answer(x, "approve")
    house.work(run)
    assert Step.objects.get(run=run, node="after_X").status == "completed"
    decided = house.answer(y, "approve", version=y.version, digest=y.digest)
    assert decided.approval is not None
    assert decided.approval.status == "decided"
    house.work(run)
    assert run.status == "completed"


def test_a_retry_of_a_rejected_run_asks_again_and_runs_nothing_else(house: House, define: Define) -> None:
    """C61: the step behind the gate does not run."""
    flow = define("gate", state=Trace)
    node(flow, "s2", "s3")
    flow.approval(name="ask")(lambda state, ctx: Action("do", {}))
    chain(flow, "s2", "ask", "s3")
    workflows.register(flow)
    run, approval = house.parked("gate")
    house.answer(approval, "reject", message="no")
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "rejected", "ask")
    preview = operations.preview_retry(actor=house.olga, run_id=run.pk)
    assert ([step.node for step in preview.failed], preview.not_run, preview.kept) == (["ask"], [], 1)
    operations.retry(actor=house.olga, run_id=run.pk, reason="we talked")
    house.work(run)
    asked = open_approval(run)
    assert asked.pk != approval.pk
    assert not Step.objects.filter(run=run, node="s3").exists()
    house.answer(asked, "approve")
    house.work(run)
    assert output(run)["trace"] == ["s2", "s3"]
    assert Step.objects.get(run=run, node="s2").entries == 1
    whole(run)


@pytest.mark.parametrize("b2_last", [True, False])
def test_a_join_waits_for_both_whichever_comes_last(house: House, define: Define, b2_last: bool) -> None:
    """C15."""
    flow = define("either", state=Trace)
    node(flow, "start", "A", "cond", "B", "B2", "J")
    chain(flow, "start", "A", "J")
    flow.edge("start", "cond")
    flow.choose("cond", lambda state: "B", to=["B", "J", END])
    chain(flow, "B", "B2", "J")
    workflows.register(flow)
    run = house.submit("either")
    for name in ("start", "cond", "B"):
        house.advance(run, name)
    for name in ("A", "B2") if b2_last else ("B2", "A"):
        assert not Step.objects.filter(run=run, node="J").exists()
        house.advance(run, name)
    house.work(run)
    assert output(run)["trace"] == ["start", "A", "cond", "B", "B2", "J"]
    whole(run)


def test_a_run_that_was_stopped_by_its_step_limit_goes_on_once_that_is_raised(
    house: House, define: Define
) -> None:
    """C79, the run's limit: the state of the last commit is kept and readable."""
    flow = define("endless", state=Trace, max_steps=5)
    flow.node(name="again", loop_limit=100)(lambda state, ctx: {"trace": [str(len(state.trace))]})
    flow.choose("again", lambda state: "again" if len(state.trace) < 8 else END, to=["again", END])
    workflows.register(flow)
    run = house.work(house.submit("endless"))
    assert run.error is not None
    assert (run.status, run.error["code"], run.head) == ("failed", "step_limit", 5)
    assert at.state(store.read_position(run.pk, 5))["trace"] == list("01234")
    flow.max_steps = 50
    operations.retry(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert output(run)["trace"] == list("01234567")
    assert run.head == 8
    whole(run)
