"""The position: where a lane stands, how it moves, what its loops have counted; and the addresses of its steps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from runs.engine import END, START, Workflow, canonical, patch
from runs.engine import position as at
from runs.engine.lanes import Lanes, first
from runs.engine.patch import Recorder
from runs.engine.position import LiveStep
from runs.engine.state import Write
from runs.errors import LoopLimit, StepLimit
from tests.sizes import size
from tests.unit.engine.graphs import Edges, Empty, sensible_graphs, workflow_of

MANY = settings(max_examples=size("property examples") * 2)


def looping(edges: Edges, *, limits: dict[str, int], ways_out: dict[str, str] | None = None) -> Workflow:
    """The graph with limits of its loops, and `limit=` targets of some nodes."""
    workflow = Workflow("random", state=Empty, max_steps=10_000)
    for node in edges:
        if node != START:
            workflow.node(name=node, loop_limit=limits.get(node, 100))(lambda state, ctx: None)
    for source, targets in edges.items():
        if source == START:
            workflow.edge(START, targets[0])
        else:
            out = (ways_out or {}).get(source)
            workflow.choose(source, lambda state: END, to=targets, limit=out)
    workflow.validate()
    return workflow


def go(
    workflow: Workflow, position: dict[str, Any], target: str, recorder: Recorder | None = None
) -> LiveStep | None:
    lanes = Lanes(workflow, recorder or Recorder(position), at.ROOT_LANE)
    lanes.go(at.ROOT_LANE, lanes.plan(at.ROOT_LANE, [target]))
    return lanes.begun[0] if lanes.begun else None


def node_of(position: dict[str, Any]) -> str:
    return str(position["root"]["lanes"][at.ROOT_LANE]["node"])


def test_a_run_begins_at_the_entry_with_its_state() -> None:
    workflow = workflow_of({START: ["b"], "a": [END], "b": ["a"]})
    position = first(workflow, {"n": 1})
    (step,) = at.live_steps(position)
    assert (step.lane, step.node, step.visit) == ("0", "b", 1)
    assert (at.state(position), position["commits"], position["visits"]) == ({"n": 1}, 0, {"b": 1})
    canonical.check(position)


SHAPE = first(workflow_of({START: ["a"], "a": [END]}), {"n": 1})
LANE = SHAPE["root"]["lanes"]["0"]


def test_a_position_is_known_by_its_shape_with_and_without_a_lane() -> None:
    ended = copy.deepcopy(SHAPE)
    go(workflow_of({START: ["a"], "a": [END]}), ended, END)
    for position in (SHAPE, ended):
        assert at.is_position(canonical.loads(canonical.dumps(position)))


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        "oops",
        [],
        {},
        5,
        {**SHAPE, "root": None},
        {**SHAPE, "visits": None},
        {**SHAPE, "commits": "1"},
        {**SHAPE, "commits": None},
        {**SHAPE, "root": {**SHAPE["root"], "base": None}},
        {**SHAPE, "root": {**SHAPE["root"], "base": []}},
        {**SHAPE, "root": {**SHAPE["root"], "order": []}},
        {**SHAPE, "root": {**SHAPE["root"], "order": ["1"]}},
        {**SHAPE, "root": {**SHAPE["root"], "lanes": {}}},
        *({**SHAPE, "root": {**SHAPE["root"], "lanes": {"0": {**LANE, name: None}}}} for name in LANE),
        {**SHAPE, "root": {**SHAPE["root"], "lanes": {"0": {}}}},
        {**SHAPE, "root": {**SHAPE["root"], "lanes": {"0": "oops"}}},
        *({name: value for name, value in SHAPE.items() if name != missing} for missing in SHAPE),
    ],
)
def test_a_damaged_position_is_told_from_one(damaged: Any) -> None:
    """C07: never an empty state instead."""
    assert not at.is_position(damaged)


def test_a_lane_that_ends_is_gone() -> None:
    workflow = workflow_of({START: ["a"], "a": [END]})
    position = first(workflow, {})
    assert go(workflow, position, END) is None
    assert at.live_steps(position) == []
    assert position["root"] == {"base": {}, "lanes": {}, "order": []}
    assert position["commits"] == 1


def test_writes_set_keys_and_add_items() -> None:
    workflow = workflow_of({START: ["a"], "a": [END]})
    position = first(workflow, {"n": 1, "log": ["a"]})
    before, recorder = copy.deepcopy(position), Recorder(position)
    Lanes(workflow, recorder, "0").write("0", [Write("n", "set", None), Write("log", "append", ["b", "c"])])
    assert at.state(position) == {"n": None, "log": ["a", "b", "c"]}
    assert [op["op"] for op in recorder.ops] == ["replace", "add", "add"]
    assert patch.apply(before, recorder.ops) == position


@given(
    st.lists(st.sampled_from(["a", "b", "a\nb", "b\na"]), min_size=1, max_size=4), st.text("ab\n", max_size=3)
)
def test_an_address_tells_node_and_causes(causes: list[str], node: str) -> None:
    address = at.address_of(node, causes)
    assert len(address) == 32
    assert at.address_of(node, list(causes)) == address
    assert at.address_of(node + "x", causes) != address
    assert at.address_of(node, [*causes, "x"]) != address


# ---- walks


def taken(edges: Edges, data: st.DataObject, *, steps: int) -> list[int]:
    return data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=steps))


@MANY
@given(sensible_graphs(), st.data())
def test_addresses_are_unique_in_a_line_and_equal_on_every_branch(edges: Edges, data: st.DataObject) -> None:
    workflow = looping(edges, limits={})
    choices = taken(edges, data, steps=12)
    split = data.draw(st.integers(0, len(choices)))

    def walk(position: dict[str, Any], choices: list[int]) -> list[str]:
        addresses = []
        for choice in choices:
            targets = [target for target in edges[node_of(position)] if target != END] or [END]
            step = go(workflow, position, targets[choice % len(targets)])
            if step is None:
                break
            addresses.append(step.address)
        return addresses

    whole = walk(first(workflow, {}), choices)
    assert len(set(whole)) == len(whole)
    other = first(workflow, {})
    again = walk(other, choices[:split])
    if at.live_steps(other):
        branch = canonical.loads(canonical.dumps(other))
        again += walk(branch, choices[split:])
    assert again == whole


@MANY
@given(sensible_graphs(), st.data())
def test_two_ways_to_a_node_are_two_addresses(edges: Edges, data: st.DataObject) -> None:
    """Else a branch that came another way would take the results of the calls of the one it left."""
    workflow, walks = looping(edges, limits={}), []
    for _ in range(2):
        position, way = first(workflow, {}), []
        for choice in taken(edges, data, steps=6):
            targets = edges[node_of(position)]
            step = go(workflow, position, targets[choice % len(targets)])
            if step is None:
                break
            way.append((step.node, step.address))
        walks.append(way)
    one, other = (
        {tuple(node for node, _ in way[: n + 1]): way[n][1] for n in range(len(way))} for way in walks
    )
    for path, address in one.items():
        for another, same in other.items():
            assert (address == same) == (path == another)


@MANY
@given(sensible_graphs(), st.data())
def test_passes_are_counted_from_the_entrance_of_each_loop_and_stay_below_its_limit(
    edges: Edges, data: st.DataObject
) -> None:
    """C79."""
    limits = {node: data.draw(st.integers(1, 4)) for node in edges if node != START}
    outs = {
        node: data.draw(st.sampled_from(targets))
        for node, targets in edges.items()
        if data.draw(st.booleans())
    }
    outs.pop(START, None)
    workflow = looping(edges, limits=limits, ways_out=outs)
    loops, back = workflow.graph.headers, workflow.graph.back
    position, counted = first(workflow, {}), dict.fromkeys(loops, 0)
    for choice in taken(edges, data, steps=30):
        source, targets = node_of(position), edges[node_of(position)]
        wish = targets[choice % len(targets)]

        def used_up(target: str, source: str = source) -> bool:
            return (source, target) in back and counted[target] + 1 >= limits[target]

        target = wish
        if used_up(wish):
            event("a loop is used up")
            target = outs.get(source, wish)
            if used_up(target):
                with pytest.raises(LoopLimit) as caught:
                    go(workflow, position, wish)
                assert caught.value.facts == {"limit": limits[wish], "node": wish}
                return
        go(workflow, position, wish)
        for header, members in loops.items():
            if (source, target) in back and target == header:
                counted[header] += 1
            elif source not in members or target not in members:
                counted[header] = 0
        if target == END:
            assert at.live_steps(position) == []
            return
        assert node_of(position) == target
        told = position["root"]["lanes"][at.ROOT_LANE]["loops"]
        assert told == {header: passes for header, passes in counted.items() if passes}
        assert all(passes < limits[header] for header, passes in counted.items())


@MANY
@given(sensible_graphs(), st.data())
def test_visits_and_commits_are_counted_over_the_whole_line(edges: Edges, data: st.DataObject) -> None:
    workflow = looping(edges, limits={})
    position = first(workflow, {})
    before = copy.deepcopy(position)
    recorder = Recorder(position)
    visited = [node_of(position)]
    for choice in taken(edges, data, steps=15):
        targets = edges[node_of(position)]
        step = go(workflow, position, targets[choice % len(targets)], recorder)
        assert position["commits"] == len(visited)
        if step is None:
            break
        visited.append(step.node)
        assert step.visit == visited.count(step.node)
        assert at.live_steps(position) == [step]
    assert position["visits"] == {node: visited.count(node) for node in visited}
    assert canonical.same(patch.apply(before, canonical.loads(canonical.dumps(recorder.ops))), position)


def test_a_loop_of_four_passes_visits_its_header_four_times() -> None:
    """C79."""
    workflow = looping({START: ["a"], "a": ["a", "b"], "b": [END]}, limits={"a": 4}, ways_out={"a": "b"})
    position, nodes = first(workflow, {}), ["a"]
    while node_of(position) == "a":
        go(workflow, position, "a")
        nodes.append(node_of(position))
    assert nodes == ["a", "a", "a", "a", "b"]


def test_an_inner_loop_begins_anew_in_every_round_of_the_outer_one() -> None:
    edges = {START: ["outer"], "outer": ["inner"], "inner": ["inner", "outer", END]}
    workflow = looping(edges, limits={"outer": 3, "inner": 3})
    position = first(workflow, {})
    visits = []
    for _ in range(3):
        go(workflow, position, "inner")
        go(workflow, position, "inner")
        go(workflow, position, "inner")
        with pytest.raises(LoopLimit, match="'inner' has made its 3 passes"):
            go(workflow, position, "inner")
        visits.append(position["visits"])
        if position["visits"]["outer"] < 3:
            go(workflow, position, "outer")
    with pytest.raises(LoopLimit, match="'outer' has made its 3 passes"):
        go(workflow, position, "outer")
    assert position["visits"] == {"outer": 3, "inner": 9}


def test_a_limit_that_leads_round_an_outer_loop_uses_that_up_too() -> None:
    """C79: else the outer loop would go round for as long as the run may make steps."""
    edges = {START: ["outer"], "outer": ["inner"], "inner": ["inner", "outer", END]}
    workflow = looping(edges, limits={"outer": 2, "inner": 2}, ways_out={"inner": "outer"})
    position = first(workflow, {})
    for wish in ("inner", "inner", "inner", "inner", "inner"):
        go(workflow, position, wish)
    assert position["visits"] == {"outer": 2, "inner": 4}
    with pytest.raises(LoopLimit):
        go(workflow, position, "inner")


def test_a_limit_that_leads_round_the_same_loop_ends_it_nonetheless() -> None:
    workflow = looping({START: ["a"], "a": ["a", END]}, limits={"a": 2}, ways_out={"a": "a"})
    position = first(workflow, {})
    go(workflow, position, "a")
    with pytest.raises(LoopLimit):
        go(workflow, position, "a")


def test_a_run_makes_as_many_commits_as_it_may_and_keeps_the_last() -> None:
    """C79: the limit of the whole run, for a loop that does not pause."""
    workflow = looping({START: ["a"], "a": ["a", END]}, limits={"a": 10_000})
    workflow.max_steps = 50
    position = first(workflow, {})
    for _ in range(50):
        go(workflow, position, "a")
    before = copy.deepcopy(position)
    for target in ("a", END):
        with pytest.raises(StepLimit, match="50 steps"):
            go(workflow, position, target)
    assert position == before
    workflow.max_steps = 51
    assert go(workflow, position, END) is None


def test_going_back_without_an_edge_keeps_the_counters_of_loops_around_both() -> None:
    """C79: being asked again is no way round a limit."""
    edges = {START: ["plan"], "plan": ["ask"], "ask": ["pay"], "pay": ["pay", "plan", END]}
    workflow = looping(edges, limits={"plan": 5, "pay": 5})
    position = first(workflow, {})
    for target in ("ask", "pay", "plan", "ask", "pay", "pay"):
        go(workflow, position, target)
    assert position["root"]["lanes"]["0"]["loops"] == {"plan": 1, "pay": 1}
    Lanes(workflow, Recorder(position), "0").go_back("0", "ask")
    assert position["root"]["lanes"]["0"]["loops"] == {"plan": 1}
