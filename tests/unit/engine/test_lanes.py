"""Lanes: splits, joins, loops and merges, by example. The random ones are in test_interleavings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runs.engine import END, START, Workflow, canonical, machine
from runs.engine import position as at
from runs.engine.status import StepStatus
from runs.engine.workflow import ApprovalOptions
from tests.unit.engine.simulation import Log, Simulation, finish_in_order


def flow(
    edges: dict[str, list[str]], *, choices: dict[str, list[Any]] | None = None, **options: Any
) -> Workflow:
    """Nodes that write their name into the log. choices: what a node's router answers, visit by visit, of its edges."""
    workflow = Workflow("lanes", state=Log, **options)
    told = {node: iter(answers) for node, answers in (choices or {}).items()}
    for name in edges:
        if name != START:
            workflow.node(name=name)(lambda state, step: {"log": [step.node]})
    for source, targets in edges.items():
        if source in told:
            workflow.choose(source, lambda state, source=source: next(told[source]), to=targets)
        else:
            for target in targets:
                workflow.edge(source, target)
    workflow.validate()
    return workflow


def played(workflow: Workflow, **options: Any) -> Simulation:
    simulation = Simulation(workflow, **options)
    assert finish_in_order(simulation)
    return simulation


COUNTER_EXAMPLE = {
    "plan": ["search", "read"],
    "J": ["plan", END],
    "search": ["check"],
    "check": ["search", "J"],
    "read": ["J"],
}


def test_a_join_waits_for_a_sibling_with_a_loop_of_its_own_and_not_for_the_next_round() -> None:
    """By the obvious rule J would run three times in two rounds."""
    workflow = flow(
        COUNTER_EXAMPLE,
        choices={"check": ["search", "J", "J"], "J": ["plan", END]},
    )
    simulation = played(workflow)
    assert simulation.output["log"] == [
        "plan", "search", "check", "search", "check", "read", "J", "plan", "search", "check", "read", "J",
    ]  # fmt: skip


def test_branches_of_unequal_length_are_joined_once() -> None:
    """C14."""
    edges = {
        "start": ["a", "c"],
        "a": ["b"],
        "b": ["J"],
        "c": ["d"],
        "d": ["e"],
        "e": ["J"],
        "J": ["end"],
        "end": [END],
    }
    assert played(flow(edges)).output["log"] == ["start", "a", "b", "c", "d", "e", "J", "end"]


@pytest.mark.parametrize(
    ("answer", "log"), [("B", ["start", "A", "cond", "B", "J"]), ("J", ["start", "A", "cond", "J"])]
)
def test_a_join_does_not_wait_for_a_lane_that_was_not_taken(answer: str, log: list[str]) -> None:
    """C15."""
    edges = {"start": ["A", "cond"], "A": ["J"], "cond": ["B", "J"], "B": ["J"], "J": [END]}
    assert played(flow(edges, choices={"cond": [answer]})).output["log"] == log


def test_a_lane_that_ends_lets_the_join_go_on() -> None:
    """C15: skipping to the end."""
    edges = {"start": ["A", "cond"], "A": ["J"], "cond": ["B", END], "B": ["J"], "J": [END]}
    simulation = played(flow(edges, choices={"cond": [END]}))
    assert simulation.output["log"] == ["start", "A", "J", "cond"]


def test_a_lane_that_turns_away_lets_the_join_go_on_at_once() -> None:
    """Its move concerns a sibling, so it is no commit of the lane's own."""
    edges = {
        "start": ["A", "cond"],
        "A": ["J"],
        "cond": ["J", "away"],
        "away": ["far"],
        "far": [END],
        "J": [END],
    }
    workflow = flow(edges, choices={"cond": ["away"]})
    assert ("cond", "away") in workflow.graph.narrowing
    simulation = Simulation(workflow)
    for node in ("start", "A", "cond"):
        worker = claimed(simulation, node)
        while worker is not None and worker.step.node == node:
            worker = simulation.finish(worker)
    assert {row.step.node for row in simulation.live()} == {"away", "J"}


def claimed(simulation: Simulation, node: str) -> Any:
    step = next(row.step for row in simulation.live() if row.step.node == node)
    worker = simulation.claim(step.address)
    assert worker is not None
    return worker


def test_a_loop_whose_lanes_all_come_back_is_joined_at_its_latch() -> None:
    edges = {"head": ["a", "b"], "a": ["head", END], "b": ["head", END]}
    workflow = flow(edges, choices={"a": ["head", END], "b": ["head", END]})
    assert "head^" in workflow.graph.joins
    assert played(workflow).output["log"] == ["head", "a", "b", "head", "a", "b"]


def test_a_join_takes_the_place_of_its_first_part_and_nothing_is_merged_twice() -> None:
    """A partial join across nesting: what was before the inner split is behind both parts, and counts once."""
    edges = {
        "start": ["x", "y"], "x": ["x1", "x2"], "x1": ["P"], "y": ["P", "Q"], "P": ["Z"], "x2": ["Z"], "Q": ["Z"], "Z": [END],
    }  # fmt: skip
    log = played(flow(edges)).output["log"]
    assert log == ["start", "x", "x1", "y", "P", "x2", "Q", "Z"]


def test_a_router_may_take_several_or_none() -> None:
    edges = {"start": ["a", "b", "c"], "a": ["J"], "b": ["J"], "c": ["J"], "J": [END]}
    some: list[Any] = [["c", "a"]]
    assert played(flow(edges, choices={"start": some})).output["log"] == ["start", "a", "c", "J"]
    none: list[Any] = [[]]
    assert played(flow(edges, choices={"start": none})).output["log"] == ["start"]


def test_the_limit_of_an_edge_is_taken_when_the_loop_is_used_up() -> None:
    workflow = Workflow("limited", state=Log)
    for name in ("a", "b", "out"):
        workflow.node(name=name, loop_limit=3)(lambda state, step: {"log": [step.node]})
    workflow.edge("a", "b")
    workflow.edge("b", "a", limit="out")
    workflow.validate()
    assert played(workflow).output["log"] == ["a", "b"] * 3 + ["out"]


def test_counters_of_a_join_are_the_highest_of_its_parts() -> None:
    edges = {"head": ["a", "b"], "a": ["J"], "b": ["J"], "J": ["head", END]}
    workflow = flow(edges, choices={"J": ["head", "head", END]})
    simulation = played(workflow)
    assert simulation.output["log"].count("J") == 3
    visits = simulation.document["visits"]
    assert visits == {"head": 3, "a": 3, "b": 3, "J": 3}
    assert simulation.document["commits"] == 12


def test_a_lane_that_can_end_inside_a_loop_is_warned_of() -> None:
    edges = {"head": ["a", "note"], "a": ["head", END], "note": [END]}
    workflow = flow(edges, choices={"a": [END]})
    assert any("over 'note' can end inside the loop of 'head'" in text for text in workflow.graph.warnings)
    assert flow(COUNTER_EXAMPLE, choices={"check": ["J"], "J": [END]}).graph.warnings == ()


def test_an_edge_that_leaves_a_split_sideways_is_warned_of() -> None:
    edges = {"F": ["a", "b"], "a": ["J"], "b": ["F", "J"], "J": [END]}
    workflow = flow(edges, choices={"b": ["J"]})
    assert any("'b' leads back to 'F' beside the lanes" in text for text in workflow.graph.warnings)


def test_a_linear_run_has_no_logs_and_its_patches_are_as_small_as_ever() -> None:
    simulation = played(flow({"a": ["b"], "b": ["c"], "c": [END]}), snapshot_every=99)
    patches = [canonical.loads(point.patch or "[]") for point in simulation.points]
    assert [op["path"] for op in patches[1]] == [
        "/root/base/log/-", "/commits", "/root/lanes/0/node", "/root/lanes/0/step", "/visits/b",
    ]  # fmt: skip
    assert "segments" not in canonical.dumps(simulation.document)


def test_a_split_and_a_join_cost_the_same_whatever_was_written() -> None:
    def sizes(text: str) -> dict[str, int]:
        workflow = Workflow("sized", state=Log)
        for name in ("start", "a", "b", "c", "J"):
            workflow.node(name=name)(lambda state, step: {"log": [text]} if step.node in "ab" else None)
        for source, target in (("start", "a"), ("start", "b"), ("a", "c"), ("b", "J"), ("c", "J")):
            workflow.edge(source, target)
        workflow.validate()
        simulation = Simulation(workflow, snapshot_every=99)
        while not any(row.step.node == "J" for row in simulation.live()):
            worker = simulation.claim(simulation.live(StepStatus.READY)[0].step.address)
            while worker is not None:
                worker = simulation.finish(worker)
        return {
            "split": len(simulation.points[1].patch or ""),
            "all": sum(len(p.patch or "") for p in simulation.points),
        }

    small, large = sizes("x"), sizes("x" * 1_000)
    assert small["split"] == large["split"]
    # Each text is written twice: by its lane, and when the one lane that is left is folded into the base.
    assert large["all"] - small["all"] == 4 * 999


# ---- edits and conflicts at a merge


def edited(simulation: Simulation, node: str, **changes: Any) -> None:
    lane = next(row.step.lane for row in simulation.live() if row.step.node == node)
    run = simulation.aggregate(lane)
    simulation.commit(machine.edit_state(run, lane, changes, reason=""), run.position)


def at_the_gates() -> Simulation:
    """Two lanes that have each written into the log and wait for people."""
    workflow = flow({"start": ["a", "b"], "a": ["x"], "b": ["y"], "J": [END]} | {"x": ["J"], "y": ["J"]})
    for name in ("x", "y"):
        workflow.nodes[name] = replace(workflow.nodes[name], approval=ApprovalOptions())
    simulation = Simulation(workflow)
    while ready := simulation.live(StepStatus.READY):
        worker = simulation.claim(ready[0].step.address)
        while worker is not None:
            worker = simulation.finish(worker)
    return simulation


def test_an_edit_replaces_what_its_lane_had_and_siblings_appends_come_after_it() -> None:
    simulation = at_the_gates()
    edited(simulation, "y", log=["edited"])
    assert at.state(simulation.document)["log"] == ["edited", "a"]
    assert finish_in_order(simulation)
    assert simulation.output["log"] == ["edited", "a", "J"]


def test_two_edits_of_one_key_conflict_and_a_third_at_the_join_resolves_it() -> None:
    simulation = at_the_gates()
    edited(simulation, "x", log=["one"])
    edited(simulation, "y", log=["two"])
    assert [conflict.key for conflict in at.conflicts(simulation.document)] == ["log"]
    assert at.state(simulation.document)["log"] == ["start"]
    for address in list(simulation.opened):
        simulation.answer(address)
    while ready := simulation.live(StepStatus.READY):
        worker = simulation.claim(ready[0].step.address)
        while worker is not None:
            worker = simulation.finish(worker)
    for address in list(simulation.opened):
        simulation.answer(address)
    worker = claimed(simulation, "J")
    simulation.finish(worker)
    assert simulation.status == "failed"
    assert simulation.error["code"] == "merge_conflict"
    run = simulation.aggregate(simulation.row(worker.step.address).step.lane)
    simulation.commit(machine.edit_state(run, worker.step.lane, {"log": ["both"]}, reason=""), run.position)
    assert "segments" not in simulation.document["root"]
    assert finish_in_order(simulation)
    assert simulation.output["log"] == ["both", "J"]
