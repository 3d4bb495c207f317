"""Random workflows under random interleavings: finish order, crashes at every boundary, late results, duplicates, failures
with Retry, rewinds, bodies that wait. Whatever happens, the same decisions end in the same state, nothing is committed twice.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from runs.engine import END, START, Action, Workflow, forking
from runs.engine import position as at
from runs.engine.status import RunStatus, StepStatus
from tests.sizes import size
from tests.unit.engine.graphs import Edges, sensible_graphs
from tests.unit.engine.simulation import LateResultError, Log, Simulation, Worker, finish_in_order, number

MANY = settings(
    max_examples=size("property examples") * 2,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
KINDS = ("plain", "plain", "plain", "approval", "fan_out", "subflow")


@st.composite
def workflows(draw: st.DrawFn, *, depth: int = 1, most: int = 6) -> Workflow:
    """A graph in which any node may split or choose, and be an approval, a fan-out or a nested workflow."""
    edges = draw(sensible_graphs(most))
    workflow = Workflow("random", state=Log)
    kinds = KINDS if depth else KINDS[:4]
    for name in edges:
        if name == START:
            continue
        kind = draw(st.sampled_from(kinds))
        if kind == "approval":
            workflow.approval(name=name, loop_limit=3)(lambda state, ctx: Action("go"))
        elif kind == "fan_out":
            workflow.fan_out(name, lambda *_: None, items=list, into="found", concurrency=2, loop_limit=3)
        elif kind == "subflow":
            workflow.subflow(name, draw(workflows(depth=0, most=3)), loop_limit=3)
        else:
            workflow.node(name=name, loop_limit=3)(
                lambda state, step: {"log": [f"{step.node}.{number(step.address) % 97}"]}
            )
    _connect(workflow, edges, {name: draw(st.booleans()) for name in edges})
    workflow.validate()
    return workflow


def _connect(workflow: Workflow, edges: Edges, splits: dict[str, bool]) -> None:
    for source, targets in edges.items():
        if splits[source] or source == START:
            for target in targets:
                workflow.edge(source, target, limit=None if source == START else END)
        elif workflow.nodes[source].approval:
            workflow.choose(source, _approval_router(source, targets), to=targets, limit=END)
        else:
            workflow.choose(source, _router(source, targets), to=targets, limit=END)


def _router(source: str, targets: Any) -> Any:
    return lambda state: _picked(f"{source}{len(state.log)}", targets)


def _approval_router(source: str, targets: Any) -> Any:
    return lambda state, decision: _picked(decision["approval"], targets)


def _picked(seed: str, targets: Any) -> list[str]:
    """Some of the targets, often one, sometimes none."""
    drawn = number(seed, "pick")
    if drawn % 4:
        return [targets[drawn // 4 % len(targets)]]
    return [target for place, target in enumerate(targets) if drawn >> (8 + place) & 1]


def reference(workflow: Workflow) -> Simulation:
    """The same run with everything in order and nothing going wrong."""
    simulation = Simulation(workflow)
    assume(finish_in_order(simulation, most=120))
    return simulation


@MANY
@given(workflows(), st.data())
def test_every_interleaving_ends_in_the_same_state(workflow: Workflow, data: st.DataObject) -> None:
    expected = reference(workflow)
    failing = data.draw(st.integers(0, 6), "one step in so many fails at first")
    waiting = data.draw(st.integers(0, 4), "one body in so many waits for a signal")
    simulation = Simulation(
        workflow,
        fails=lambda step, attempt: (
            bool(failing) and attempt == 1 and number(step.address, "fail") % failing == 0
        ),
        snapshot_every=data.draw(st.integers(1, 9)),
        waits=lambda step: bool(waiting) and number(step.address, "wait") % waiting == 0,
    )
    held: list[Worker] = []
    late: list[Worker] = []
    for _ in range(data.draw(st.integers(0, 250), "events before nothing goes wrong any more")):
        simulation.check()
        if simulation.status == RunStatus.COMPLETED:
            break
        _one_event(simulation, data, held, late)
    for worker in held:
        _finish_all(simulation, worker)
    assert finish_in_order(simulation, most=2_000), "the run does not end"
    event(f"lanes' own commits: {simulation.local_commits > 0}")
    event(f"checkpoints: {len(simulation.points) // 20 * 20}")
    assert simulation.output == expected.output
    for worker in late:
        _must_be_refused(simulation, worker)


@MANY
@given(workflows(), st.data())
def test_a_fork_from_any_checkpoint_ends_and_stands_on_no_decision(
    workflow: Workflow, data: st.DataObject
) -> None:
    """It starts where its origin stood, but for lanes directly behind an approval: these ask anew. Where nothing was
    decided, it ends as its origin did; and its origin does not change."""
    origin = reference(workflow)
    no = data.draw(st.integers(0, len(origin.points) - 1))
    document = origin.read(no)
    assume(at.live_steps(document))
    decided = forking.decisions(document)
    points = len(origin.points)
    fork = origin.fork(no)
    for lane in at.lanes(fork.document):
        for answer in at.answers(fork.document, str(lane["lane"])).values():
            assert isinstance(answer, dict)
            assert answer["void"] == forking.FORKED
            name = str(lane["node"])
            assert (
                lane["address"] != at.address_of(name, [str(answer["approval"])]) or lane["status"] != "live"
            )
    assert finish_in_order(fork, most=2_000), "the fork does not end"
    event(f"decided before: {bool(decided)}")
    if not decided:
        assert fork.output == origin.output
    assert len(origin.points) == points


def _finish_all(simulation: Simulation, worker: Worker | None) -> None:
    while worker is not None:
        worker = simulation.finish(worker)


def _one_event(simulation: Simulation, data: st.DataObject, held: list[Worker], late: list[Worker]) -> None:
    if simulation.status == RunStatus.FAILED:
        simulation.retry()
        held.clear()
        return
    ready = [row.step.address for row in simulation.live(StepStatus.READY)]
    choices = ["claim"] * bool(ready) + ["finish", "finish", "crash"] * bool(held)
    choices += ["answer"] * bool(simulation.opened) + ["late"] * bool(late)
    choices += ["wake"] * bool(simulation.parked)
    if simulation.points[-1].no < 60:
        choices += ["rewind"] * (data.draw(st.integers(0, 25)) == 0)
    match data.draw(st.sampled_from(choices)):
        case "claim":
            worker = simulation.claim(data.draw(st.sampled_from(ready)))
            if worker is not None:
                held.append(worker)
                assert simulation.claim(worker.step.address) is None, "a duplicate is taken"
            else:  # no room for another item, or the run drains: then somebody goes on
                assert simulation.live(StepStatus.EXECUTING)
        case "finish":
            worker = held.pop(data.draw(st.integers(0, len(held) - 1)))
            following = simulation.finish(worker)
            if following is not None:
                held.append(following)
        case "crash":
            worker = held.pop(data.draw(st.integers(0, len(held) - 1)))
            simulation.take_over(worker.step.address)
            late.append(worker)
        case "answer":
            simulation.answer(data.draw(st.sampled_from(simulation.opened)))
        case "wake":
            simulation.wake(data.draw(st.sampled_from(simulation.parked)))
        case "late":
            _must_be_refused(simulation, late.pop())
        case "rewind":
            no = data.draw(st.integers(0, len(simulation.points) - 1))
            _rewind(simulation, no, held, late)


def _rewind(simulation: Simulation, no: int, held: list[Worker], late: list[Worker]) -> None:
    if at.live_steps(simulation.read(no)):
        simulation.rewind(no)
        late += held
        held.clear()


def _must_be_refused(simulation: Simulation, worker: Worker) -> None:
    before = (simulation.head, simulation.status, len(simulation.points))
    try:
        simulation.finish(worker)
    except LateResultError:
        assert (simulation.head, simulation.status, len(simulation.points)) == before
        return
    raise AssertionError("a late result has landed")
