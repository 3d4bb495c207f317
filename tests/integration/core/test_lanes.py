"""Lanes on real Postgres: joins, parked lanes, failures with siblings, retry, fan-outs, nested workflows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runs import operations, store, workflows
from runs.driver import Context
from runs.engine import END, START, Action, Retry, Workflow, append, canonical
from runs.engine import position as at
from runs.errors import AmbiguousTarget, NotFound, StepExecuting
from runs.models import Approval, Checkpoint, Event, Run, Step, Wait
from runs.operations import ActionDecision, Answer, Worker
from runs.operations.working import Slice
from tests.integration.core.conftest import House
from tests.integration.core.test_main_job import history_is_whole

Define = Callable[..., Workflow]


class Trace(BaseModel):
    trace: Annotated[list[str], append] = []
    x: Any = None
    y: Any = None
    found: list[Any] = []


def node(flow: Workflow, *names: str) -> None:
    for name in names:
        flow.node(name=name)(lambda state, ctx: {"trace": [ctx.node]})


def chain(flow: Workflow, *names: str) -> None:
    for source, target in itertools.pairwise(names):
        flow.edge(source, target)


def output(run: Run) -> Any:
    run.refresh_from_db()
    assert run.output is not None
    return canonical.loads(run.output)


def whole(run: Run) -> None:
    """I1, I2, I7, and the folded patches are the documents."""
    assert history_is_whole(run)
    seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    numbers = list(Checkpoint.objects.filter(run=run).order_by("no").values_list("no", flat=True))
    assert numbers == list(range(len(numbers)))
    for no in numbers:
        store.read_position(run.pk, no)
    if run.is_terminal:
        assert not Approval.objects.filter(run=run, status="open").exists()
        assert not Wait.objects.filter(run=run, closed_at=None).exists()
        assert not Step.objects.filter(run=run, status__in=["ready", "executing", "waiting"]).exists()


@pytest.fixture
def unequal(define: Define) -> Workflow:
    flow = define("unequal", state=Trace)
    node(flow, "start", "a", "b", "c", "d", "e", "J", "end")
    chain(flow, "start", "a", "b", "J", "end")
    chain(flow, "start", "c", "d", "e", "J")
    workflows.register(flow)
    return flow


@pytest.mark.parametrize("last_first", [False, True])
def test_branches_of_unequal_length_are_joined_once(
    house: House, unequal: Workflow, last_first: bool
) -> None:
    """C14: the same trace whichever lane is faster."""
    run = house.submit("unequal")
    order = "-created_at" if last_first else "created_at"
    while step := Step.objects.filter(run=run, status="ready").order_by(order, "address").first():
        operations.advance(run_id=run.pk, branch=1, address=step.address)
    assert output(run)["trace"] == ["start", "a", "b", "c", "d", "e", "J", "end"]
    assert Step.objects.filter(run=run, node="J").count() == 1
    assert run.status == "completed"
    whole(run)


@pytest.fixture
def skipping(define: Define) -> Workflow:
    flow = define("skipping", state=Trace)
    node(flow, "start", "A", "cond", "B2", "J")

    @flow.node
    def B(state: Any, ctx: Any) -> dict[str, Any]:  # noqa: N802
        if state.x == "fail":
            raise RuntimeError("B cannot")
        return {"trace": ["B"]}

    flow.edge("start", "A")
    flow.edge("start", "cond")
    flow.edge("A", "J")
    flow.choose("cond", lambda state: "B" if state.x else "J", to=["B", "J"])
    chain(flow, "B", "B2", "J")
    workflows.register(flow)
    return flow


@pytest.mark.parametrize(
    ("taken", "trace"),
    [(False, ["start", "A", "cond", "J"]), (True, ["start", "A", "cond", "B", "B2", "J"])],
)
def test_a_join_waits_for_what_was_taken(
    house: House, skipping: Workflow, taken: bool, trace: list[str]
) -> None:
    """C15."""
    run = house.work(house.submit("skipping", x=taken))
    assert (run.status, output(run)["trace"]) == ("completed", trace)
    assert Step.objects.filter(run=run, node__in=["B", "B2"]).count() == 2 * taken
    whole(run)


def test_a_join_behind_a_failed_lane_does_not_run(house: House, skipping: Workflow) -> None:
    """C15: failed and naming B."""
    run = house.work(house.submit("skipping", x="fail"))
    assert run.error is not None
    assert (run.status, run.error["step"]) == ("failed", "B")
    assert not Step.objects.filter(run=run, node="J").exists()
    whole(run)


@pytest.fixture
def two_gates(define: Define) -> Workflow:
    """X: x1 then x2; Y: y1 then y2; then J."""
    flow = define("gates", state=Trace)
    node(flow, "start", "J")
    for name in ("x1", "x2", "y1", "y2"):
        flow.approval(name=name)(lambda state, ctx: Action("do", {"at": ctx.node}))
    chain(flow, "start", "x1", "x2", "J")
    chain(flow, "start", "y1", "y2", "J")
    workflows.register(flow)
    return flow


def opened(run: Run) -> set[str]:
    return set(Approval.objects.filter(run=run, status="open").values_list("node", flat=True))


def approve(house: House, run: Run, name: str) -> None:
    house.answer(Approval.objects.get(run=run, node=name, status="open"), "approve")


def test_answering_one_lane_leaves_the_questions_of_the_other(house: House, two_gates: Workflow) -> None:
    """C17, with approvals as nodes."""
    run = house.work(house.submit("gates"))
    seen = [opened(run)]
    assert run.status == "waiting"
    assert sorted(reason["node"] for reason in run.waiting_for) == ["x1", "y1"]
    for name in ("x1", "y1", "x2", "y2"):
        approve(house, run, name)
        house.work(run)
        seen.append(opened(run))
    assert seen == [{"x1", "y1"}, {"x2", "y1"}, {"x2", "y2"}, {"y2"}, set()]
    assert Approval.objects.filter(run=run).count() == 4
    assert set(Step.objects.filter(run=run).values_list("entries", "failures")) == {(1, 0)}
    assert run.status == "completed"
    whole(run)


def test_unknown_and_ambiguous_targets_are_refused_and_change_nothing(
    house: House, two_gates: Workflow
) -> None:
    """C19, at the operations."""
    run = house.work(house.submit("gates"))
    first, second = Approval.objects.filter(run=run).order_by("node")

    def answer(approval_id: Any, version: int, digest: str, kind: str) -> Answer:
        return Answer(approval_id, version, digest, [ActionDecision("do", kind)])

    good = answer(first.pk, 1, first.digest, "approve")
    unknown = answer("00000000-0000-0000-0000-000000000000", 1, "", "approve")
    before = (run.seq, run.version)
    with pytest.raises(AmbiguousTarget) as ambiguous:
        operations.only_approval(actor=house.frida, run_id=run.pk)
    assert ambiguous.value.facts["approvals"] == [str(first.pk), str(second.pk)]
    with pytest.raises(NotFound):
        operations.decide(actor=house.frida, answers=[unknown])
    with pytest.raises(NotFound) as missing:
        operations.decide(actor=house.frida, answers=[good, unknown])
    assert missing.value.facts == {"approval": "00000000-0000-0000-0000-000000000000"}
    run.refresh_from_db()
    assert (run.seq, run.version) == before
    assert opened(run) == {"x1", "y1"}
    both = [good, answer(second.pk, 1, second.digest, "reject")]
    decided = operations.decide(actor=house.frida, answers=both)
    assert [one.approval.outcome for one in decided if one.approval] == ["approve", "reject"]
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "rejected", "y1")
    whole(run)


def begun(run: Run) -> tuple[Run, Worker]:
    """A run whose first step has split it, and a worker that has gone no further."""
    me = operations.worker()
    me.stopping = True
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run).address)
    me.stopping = False
    return run, me


def test_a_sibling_that_executes_is_waited_for_after_a_crash(house: House, unequal: Workflow) -> None:
    """C21, without processes: the fast lane is committed, the slow one is taken over; the join is not listed before."""
    run, me = begun(house.submit("unequal"))
    slow = Step.objects.get(run=run, node="c")
    claimed = store.claim(run_id=run.pk, branch=1, address=slow.address, worker=me.id)
    assert claimed is not None
    fast = Step.objects.get(run=run, node="a")
    operations.advance(run_id=run.pk, branch=1, address=fast.address)
    run.refresh_from_db()
    assert [step.node for step in at.live_steps(store.read_position(run.pk, run.head))] == ["c"]
    Step.objects.filter(run=run, node="c").update(lease_until="2000-01-01T00:00:00Z")
    with store.own_connection() as lock:
        swept = operations.sweep(lock)
    assert swept is not None
    assert swept.taken_over == 1
    house.work(run)
    assert output(run)["trace"] == ["start", "a", "b", "c", "d", "e", "J", "end"]
    assert list(Step.objects.filter(run=run, node="c").values_list("entries", "crashes")) == [(2, 1)]
    whole(run)


@pytest.fixture
def fragile(define: Define) -> tuple[Workflow, dict[str, bool]]:
    """A, B (fails while the flag is set), C; then J."""
    broken = {"B": True}
    flow = define("fragile", state=Trace)
    node(flow, "start", "A", "C", "J")

    @flow.node(retry=Retry(attempts=3, initial=0))
    def B(state: Any, ctx: Any) -> dict[str, Any]:  # noqa: N802
        if broken["B"]:
            raise RuntimeError("not yet")
        return {"trace": [f"B{ctx.attempt}"]}

    for name in "ABC":
        chain(flow, "start", name, "J")
    workflows.register(flow)
    return flow, broken


def sweep_until(house: House, run: Run, status: str) -> None:
    for _ in range(20):
        house.work(run)
        if run.status == status:
            return
        with store.own_connection() as lock:
            operations.sweep(lock)
    raise AssertionError(run.status)


def test_retry_runs_only_what_failed(house: House, fragile: tuple[Workflow, dict[str, bool]]) -> None:
    """C22, second half: siblings keep their results, attempts are numbered on."""
    _, broken = fragile
    run = house.submit("fragile")
    sweep_until(house, run, "failed")
    assert run.error is not None
    assert run.error["step"] == "B"
    assert Step.objects.get(run=run, node="B").failures == 3
    whole(run)
    broken["B"] = False
    operations.retry(actor=house.olga, run_id=run.pk, reason="the flag is set")
    house.work(run)
    assert output(run)["trace"] == ["start", "A", "B4", "C", "J"]
    entries = dict(Step.objects.filter(run=run).values_list("node", "entries"))
    assert entries == {"start": 1, "A": 1, "B": 4, "C": 1, "J": 1}
    whole(run)


def test_a_retry_has_its_attempts_anew(house: House, fragile: tuple[Workflow, dict[str, bool]]) -> None:
    run = house.submit("fragile")
    sweep_until(house, run, "failed")
    operations.retry(actor=house.olga, run_id=run.pk)
    sweep_until(house, run, "failed")
    step = Step.objects.get(run=run, node="B")
    assert (step.earlier, step.failures, step.entries) == (3, 3, 6)
    whole(run)


def test_a_failing_run_drains(house: House, fragile: tuple[Workflow, dict[str, bool]]) -> None:
    """What executes may commit, nothing new begins, then the run has failed; Retry runs the rest."""
    _, broken = fragile
    run, me = begun(house.submit("fragile"))
    slow = Step.objects.get(run=run, node="A")
    claimed = store.claim(run_id=run.pk, branch=1, address=slow.address, worker=me.id)
    assert claimed is not None
    failing = Step.objects.get(run=run, node="B")
    Step.objects.filter(run=run, node="B").update(failures=2)
    operations.advance(run_id=run.pk, branch=1, address=failing.address)
    run.refresh_from_db()
    assert (run.status, (run.error or {}).get("step")) == ("running", "B")
    waiting = Step.objects.get(run=run, node="C")
    operations.advance(run_id=run.pk, branch=1, address=waiting.address)
    assert Step.objects.get(run=run, node="C").status == "ready"
    Slice(claimed, me).drive()
    run.refresh_from_db()
    assert run.status == "failed"
    statuses = dict(Step.objects.filter(run=run).values_list("node", "status"))
    assert statuses == {"start": "completed", "A": "completed", "B": "failed", "C": "cancelled"}
    whole(run)
    broken["B"] = False
    operations.retry(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert output(run)["trace"] == ["start", "A", "B4", "C", "J"]
    whole(run)


def test_a_handler_runs_once_and_the_others_go_on(house: House, define: Define) -> None:
    """C22, first half."""
    flow = define("handled", state=Trace)
    node(flow, "start", "A", "C", "J")

    @flow.node
    def B(state: Any, ctx: Any) -> None:  # noqa: N802
        raise RuntimeError("no")

    @flow.node
    def H(state: Any, ctx: Context) -> dict[str, Any]:  # noqa: N802
        failure = ctx.failure("B")
        assert failure is not None
        return {"trace": [f"H: {failure['message']}"]}

    for name in "ABC":
        chain(flow, "start", name, "J")
    flow.edge("H", "J")
    flow.on_error("B", "H")
    workflows.register(flow)
    run = house.work(house.submit("handled"))
    assert output(run)["trace"] == ["start", "A", "H: no", "C", "J"]
    assert Step.objects.get(run=run, node="B").status == "failed"
    whole(run)


def test_two_lanes_that_write_one_key_conflict_at_their_join(house: House, define: Define) -> None:
    flow = define("conflict", state=Trace)
    node(flow, "start", "J")
    flow.node(name="one")(lambda state, ctx: {"x": 1})
    flow.node(name="two")(lambda state, ctx: {"x": 2})
    for name in ("one", "two"):
        chain(flow, "start", name, "J")
    workflows.register(flow)
    run = house.work(house.submit("conflict"))
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["step"], run.error["key"]) == (
        "failed", "merge_conflict", "J", "x",
    )  # fmt: skip
    steps = run.error["conflicts"][0]["steps"]
    assert [(step["node"], step["value"]) for step in steps] == [("one", 1), ("two", 2)]
    position = store.read_position(run.pk, run.head)
    assert at.state(position)["x"] is None
    assert [conflict.key for conflict in at.conflicts(position)] == ["x"]
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 2}, reason="two wins"
    )
    operations.retry(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert (run.status, output(run)["x"]) == ("completed", 2)
    whole(run)


def test_a_conflict_of_ended_lanes_fails_the_end_and_can_be_resolved(house: House, define: Define) -> None:
    flow = define("ends", state=Trace)
    node(flow, "start")
    flow.node(name="one")(lambda state, ctx: {"x": 1})
    flow.node(name="two")(lambda state, ctx: {"x": 2})
    flow.edge("start", "one")
    flow.edge("start", "two")
    workflows.register(flow)
    run = house.work(house.submit("ends"))
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "merge_conflict", END)
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 3}, reason="neither"
    )
    operations.retry(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert (run.status, output(run)["x"]) == ("completed", 3)
    whole(run)


def test_an_edit_names_its_lane_and_asks_that_lane_anew(house: House, two_gates: Workflow) -> None:
    run = house.work(house.submit("gates"))
    before = Approval.objects.get(run=run, node="y1")
    with pytest.raises(AmbiguousTarget) as ambiguous:
        operations.edit_state(
            actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 1}, reason="r"
        )
    lane = Step.objects.get(run=run, node="x1").lane
    assert lane in ambiguous.value.facts["lanes"]
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 1}, reason="r", lane=lane
    )
    house.work(run)
    assert Approval.objects.filter(run=run, node="x1").count() == 2
    before.refresh_from_db()
    assert before.status == "open"
    states = {row["node"]: row["state"]["x"] for row in at.lanes(store.read_position(run.pk, run.head))}
    assert states == {"x1": 1, "y1": None}
    for name in ("x1", "y1", "x2", "y2"):
        approve(house, run, name)
        house.work(run)
    assert (run.status, output(run)["x"]) == ("completed", 1)


def test_an_edit_is_refused_while_its_own_lane_executes_only(house: House, two_gates: Workflow) -> None:
    run, _ = begun(house.submit("gates"))
    x, y = (Step.objects.get(run=run, node=name) for name in ("x1", "y1"))
    store.claim(run_id=run.pk, branch=1, address=x.address, worker=operations.worker().id)
    run.refresh_from_db()
    edit = {"actor": house.olga, "run_id": run.pk, "version": run.version, "changes": {"x": 1}, "reason": "r"}
    with pytest.raises(StepExecuting):
        operations.edit_state(**edit, lane=x.lane)  # type: ignore[arg-type]
    assert operations.edit_state(**edit, lane=y.lane).status == "running"  # type: ignore[arg-type]


def test_a_rewind_into_lanes_asks_all_of_them_again(house: House, two_gates: Workflow) -> None:
    run = house.work(house.submit("gates"))
    for name in ("x1", "y1"):
        approve(house, run, name)
        house.work(run)
    split = Checkpoint.objects.get(run=run, node="start").no
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=split, reason="again")
    house.work(run)
    assert opened(run) == {"x1", "y1"}
    for name in ("y1", "x1", "y2", "x2"):
        approve(house, run, name)
        house.work(run)
    assert (run.status, output(run)["trace"]) == ("completed", ["start", "J"])
    parents = list(Checkpoint.objects.filter(run=run, branch=2).order_by("no").values_list("no", "parent"))
    assert parents[0][1] == split
    assert all(parent == no - 1 for no, parent in parents[1:])
    whole(run)


def test_cancelling_ends_every_lane(house: House, two_gates: Workflow) -> None:
    run = house.work(house.submit("gates"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    run.refresh_from_db()
    assert (run.status, opened(run)) == ("cancelled", set())
    whole(run)


# ---- fan-outs and nested workflows


def test_a_fan_out_gives_its_results_in_item_order(house: House, define: Define) -> None:
    flow = define("fan", state=Trace)
    node(flow, "start", "end")

    @flow.fan_out(items=lambda state: state.x, into="found", concurrency=2)
    def fetch(state: Any, ctx: Any, item: Any) -> Any:
        return {"item": item, "seen": len(state.trace), "called": ctx.call(len, [1] * item)}

    chain(flow, "start", "fetch", "end")
    workflows.register(flow)
    run, _ = begun(house.submit("fan", x=[3, 1, 2]))
    while step := Step.objects.filter(run=run, status="ready").order_by("-created_at").first():
        items = Step.objects.filter(run=run, lane__contains="#")
        assert items.filter(status__in=["ready", "executing"]).count() <= 2
        operations.advance(run_id=run.pk, branch=1, address=step.address)
    assert output(run)["found"] == [{"item": n, "seen": 1, "called": n} for n in (3, 1, 2)]
    assert (run.status, output(run)["trace"]) == ("completed", ["start", "end"])
    whole(run)


def test_a_hint_for_an_item_that_comes_when_its_fan_out_is_over_is_nothing(
    house: House, define: Define
) -> None:
    """Hints may come late, and twice."""
    flow = define("fan", state=Trace)
    flow.fan_out("fetch", lambda state, ctx, item: item, items=lambda state: [1, 2], into="found")
    taken: list[Any] = []

    @flow.node
    def end(state: Any, ctx: Any) -> None:
        taken.extend(
            store.claim(run_id=item.run_id, branch=1, address=item.address, worker=1)
            for item in Step.objects.filter(run=ctx.run_id, lane__contains="#")
        )

    flow.edge("fetch", "end")
    workflows.register(flow)
    assert house.work(house.submit("fan")).status == "completed"
    assert taken == [None, None]


def test_a_fan_out_over_nothing_completes_at_once(house: House, define: Define) -> None:
    flow = define("fan", state=Trace)
    flow.fan_out("fetch", lambda state, ctx, item: item, items=lambda state: [], into="found")
    workflows.register(flow)
    run = house.work(house.submit("fan"))
    assert (run.status, output(run)["found"]) == ("completed", [])
    assert Step.objects.filter(run=run).count() == 1


@pytest.mark.parametrize("collect", [True, False])
def test_a_failed_item_fails_the_step_or_is_collected(house: House, define: Define, collect: bool) -> None:
    broken = {"b"}
    flow = define("fan", state=Trace)

    @flow.fan_out(
        items=lambda state: ["a", "b", "c"], into="found", on_item_error="collect" if collect else "fail"
    )
    def fetch(state: Any, ctx: Any, item: str) -> str:
        if item in broken:
            raise RuntimeError(f"no {item}")
        return item.upper()

    workflows.register(flow)
    run = house.work(house.submit("fan"))
    if collect:
        error = {"code": "node_error", "message": "no b", "type": "RuntimeError"}
        assert (run.status, output(run)["found"]) == ("completed", ["A", {"error": error}, "C"])
    else:
        assert run.error is not None
        assert (run.status, run.error["step"]) == ("failed", "fetch")
        broken.clear()
        operations.retry(actor=house.olga, run_id=run.pk)
        house.work(run)
        assert (run.status, output(run)["found"]) == ("completed", ["A", "B", "C"])
        assert sorted(Step.objects.filter(run=run, lane__contains="#").values_list("entries", flat=True)) == [
            1,
            1,
            2,
        ]
    whole(run)


class Inner(BaseModel):
    x: Any = None
    log: Annotated[list[str], append] = []


def test_a_nested_workflow_has_a_state_and_lanes_of_its_own(house: House, define: Define) -> None:
    inner = Workflow("inner", state=Inner)
    inner.node(name="begin")(lambda state, ctx: {"log": [f"begin {state.x}"]})
    inner.node(name="left")(lambda state, ctx: {"log": ["left"]})
    inner.approval(name="ask")(lambda state, ctx: Action("do", {"x": state.x}))
    inner.node(name="meet")(lambda state, ctx: {"log": ["meet"], "x": ctx.decision("ask").outcome})
    for name in ("left", "ask"):
        inner.edge("begin", name)
        inner.edge(name, "meet")
    flow = define("outer", state=Trace)
    node(flow, "start", "beside", "J")
    flow.subflow("nested", inner, output=lambda result: {"y": result["log"], "x": result["x"]})
    for name in ("nested", "beside"):
        chain(flow, "start", name, "J")
    workflows.register(flow)
    run = house.work(house.submit("outer", x=7))
    (approval,) = Approval.objects.filter(run=run)
    assert (run.status, approval.node, approval.content["actions"][0]["args"]) == (
        "waiting",
        "nested/ask",
        {"x": 7},
    )
    house.answer(approval, "approve")
    house.work(run)
    assert run.status == "completed"
    assert output(run)["y"] == ["begin 7", "left", "meet"]
    assert (output(run)["x"], output(run)["trace"]) == ("approve", ["start", "beside", "J"])
    whole(run)


def test_an_error_inside_a_nested_workflow_can_be_caught_around_it(house: House, define: Define) -> None:
    inner = Workflow("inner", state=Inner)

    @inner.node
    def breaks(state: Any, ctx: Any) -> None:
        raise RuntimeError("inside")

    flow = define("outer", state=Trace)
    flow.subflow("nested", inner)
    flow.node(name="rescue")(lambda state, ctx: {"trace": [ctx.failure("nested")["step"]]})
    flow.on_error("nested", "rescue")
    workflows.register(flow)
    run = house.work(house.submit("outer"))
    assert (run.status, output(run)["trace"]) == ("completed", ["nested/breaks"])
    whole(run)


def test_a_nested_workflow_that_ends_by_an_error_lets_the_run_go_on(house: House, define: Define) -> None:
    inner = Workflow("inner", state=Inner)

    @inner.node
    def breaks(state: Any, ctx: Any) -> None:
        raise RuntimeError("inside")

    inner.on_error(breaks, END)
    flow = define("outer", state=Trace)
    flow.subflow("nested", inner)
    node(flow, "after")
    flow.edge("nested", "after")
    workflows.register(flow)
    run = house.work(house.submit("outer"))
    assert (run.status, output(run)["trace"]) == ("completed", ["after"])
    whole(run)


def test_a_run_may_begin_with_several_lanes(house: House, define: Define) -> None:
    """C21, two entry points with no common ancestor."""
    flow = define("two", state=Trace)
    node(flow, "a", "b", "J")
    for name in "ab":
        flow.edge(START, name)
        flow.edge(name, "J")
    workflows.register(flow)
    run = house.work(house.submit("two"))
    assert (run.status, output(run)["trace"]) == ("completed", ["a", "b", "J"])
    whole(run)
