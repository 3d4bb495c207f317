"""Taking positions to another version: every lane sees what became of what it saw, or it is refused by node or key."""

from __future__ import annotations

import copy
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from runs.engine import Action, Workflow, append, canonical, machine, migrating
from runs.engine import lanes as lanes_of
from runs.engine import position as at
from runs.engine.transition import Aggregate
from runs.engine.versions import Move as Moved
from runs.engine.versions import base_of, changes, order, stored_as, way
from runs.errors import AlreadyTerminal, MigrationFailed, StepExecuting, WorkflowError


class Old(BaseModel):
    log: Annotated[list[str], append] = []
    left: int = 0
    right: int = 0


class New(BaseModel):
    journal: Annotated[list[str], append] = []
    left: str = "0"
    right: str = "0"
    added: bool = False


def nothing(state: Any, ctx: Any) -> None:
    return None


def diamond(version: int, state: type[BaseModel], *, join: str = "join", names: str = "ab") -> Workflow:
    """start -> a, b -> join -> end."""
    flow = Workflow("diamond", version=version, state=state)
    for name in ("start", *names, join, "end"):
        flow.node(name=name)(nothing)
    for name in names:
        flow.edge("start", name)
        flow.edge(name, join)
    flow.edge(join, "end")
    return flow


def to_new(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "journal": [line.upper() for line in document["log"]],
        "left": str(document["left"]),
        "right": str(document["right"]),
    }


def newer(**options: Any) -> Workflow:
    flow = diamond(2, New, **options)
    flow.migrate(from_version=1)(to_new)
    return flow


def fresh(flow: Workflow, **state: Any) -> Aggregate:
    document = lanes_of.first(flow, flow.first_state(state))
    return Aggregate("run", flow, "running", 1, 1, document, {})


def complete(run: Aggregate, node: str, update: Any = None) -> None:
    """One step of a node, as if it had been executed."""
    step = next(step for step in at.live_steps(run.position) if step.node == node)
    run.values = run.workflow_of(step.lane).schema.load(at.lane_view(run.position, step.lane).state)
    run.rows = {one.address: "ready" for one in at.all_steps(run.position)}
    machine.complete(run, step, update)


def moved(run: Aggregate, flow: Workflow) -> Aggregate:
    carried = migrating.carry(run.position, flow.migrations, flow)
    return Aggregate("run", flow, run.status, 1, 1, carried.position, {})


def nodes(run: Aggregate) -> list[str]:
    return [step.node for step in at.live_steps(run.position)]


# ---- versions


def test_a_chain_leads_to_the_nearest_version_that_is_there() -> None:
    flow = Workflow("w", version=4, state=Old)
    for start in (1, 2, 3):
        flow.migrate(from_version=start, to=start + 1)(to_new)
    steps = way(flow.migrations, "1", ["4"])
    assert steps is not None
    assert [step.to_version for step in steps] == ["2", "3", "4"]
    nearer = way(flow.migrations, "1+dev.abc", ["3", "4"])
    assert nearer is not None
    assert nearer[-1].to_version == "3"
    assert way(flow.migrations, "9", ["4"]) is None
    assert way(flow.migrations, "4", ["4"]) is None


def test_migrations_in_a_circle_lead_nowhere_and_come_to_an_end() -> None:
    flow = Workflow("w", version=3, state=Old)
    flow.migrate(from_version=1, to=2)(to_new)
    flow.migrate(from_version=2, to=1)(to_new)
    assert way(flow.migrations, "1", ["3"]) is None


def test_c84_two_migrations_from_one_version_are_refused() -> None:
    flow = Workflow("w", version=3, state=Old)
    flow.migrate(from_version=1)(to_new)
    with pytest.raises(WorkflowError, match="two migrations lead on from version 1") as caught:
        flow.migrate(from_version=1, to=2)(to_new)
    assert caught.value.facts["reason"] == "migration_registered_twice"
    with pytest.raises(WorkflowError, match="to itself"):
        flow.migrate(from_version=3)(to_new)


def test_a_migration_leads_to_nodes_that_are_there() -> None:
    flow = diamond(2, New)
    flow.migrate(from_version=1, nodes={"a": "gone"})(to_new)
    with pytest.raises(WorkflowError, match="leads to 'gone', which is no node"):
        flow.validate()


def test_versions_are_ordered_by_their_numbers() -> None:
    assert order("10") > order("9")
    assert base_of("1+dev.0123") == "1"


def test_the_version_of_a_checkpoint_goes_by_the_line_it_is_on() -> None:
    moves = [Moved(1, 5, "1", "2"), Moved(2, 7, "1", "2"), Moved(2, 9, "2", "3")]
    assert stored_as([], {}, now="4") == "4"
    assert [stored_as(moves, {1: no}, now="3") for no in (0, 4, 5, 6)] == ["1", "1", "2", "2"]
    assert [stored_as(moves, {2: no, 1: 3}, now="3") for no in (6, 7, 8, 9)] == ["1", "2", "2", "3"]


def test_what_changed_in_a_graph_is_told_in_words() -> None:
    told = changes(diamond(1, Old).shape, diamond(1, New, join="meet").shape)
    assert "edge a -> join is gone" in told
    assert "node join is now meet (renamed?)" in told
    assert "state field log is gone" in told
    assert "state field added is new" in told
    assert "state field left is described differently" in told
    assert changes(diamond(1, Old).shape, diamond(2, Old).shape) == []


# ---- positions


def test_one_lane_is_carried_with_its_state() -> None:
    run = fresh(diamond(1, Old), left=3, log=["x"])
    before = copy.deepcopy(run.position)
    after = moved(run, newer())
    assert at.state(after.position) == {"journal": ["X"], "left": "3", "right": "0", "added": False}
    assert run.position == before
    assert nodes(after) == ["start"]


def test_lanes_see_what_became_of_what_they_saw() -> None:
    run = fresh(diamond(1, Old), log=["zero"])
    complete(run, "start", {"log": ["start"]})
    complete(run, "a", {"left": 1, "log": ["a"]})
    after = moved(run, newer())
    by_node = {lane["node"]: lane for lane in at.lanes(after.position)}
    assert by_node["a"]["state"]["left"] == "1"
    assert by_node["b"]["state"]["left"] == "0"
    assert by_node["b"]["state"]["journal"] == ["ZERO", "START"]
    complete(after, "b", {"right": "2", "journal": ["b"]})
    assert nodes(after) == ["join"]
    assert at.state(after.position)["journal"] == ["ZERO", "START", "A", "b"]
    assert (at.state(after.position)["left"], at.state(after.position)["right"]) == ("1", "2")


def test_a_key_that_is_worked_out_from_two_lanes_is_refused_by_its_name() -> None:
    class Summed(BaseModel):
        total: int = 0

    flow = diamond(2, Summed)
    flow.migrate(from_version=1)(lambda document: {"total": document["left"] + document["right"]})
    run = fresh(diamond(1, Old))
    complete(run, "start")
    complete(run, "a", {"left": 1})
    complete_alone = moved(run, flow)
    assert at.state(complete_alone.position) == {"total": 1}
    run = fresh(diamond(1, Old))
    complete(run, "start")
    step_a, step_b = at.live_steps(run.position)
    for step, update in ((step_a, {"left": 1}), (step_b, {"right": 2})):
        lane = run.position["root"]["lanes"][step.lane]
        key, value = next(iter(update.items()))
        run.position["root"]["segments"][lane["segment"]]["writes"][key] = [
            [step.node, step.address, "set", value]
        ]
    with pytest.raises(MigrationFailed, match="would both have written 'total'") as caught:
        moved(run, flow)
    assert caught.value.facts["nodes"] == ["a", "b"]
    assert caught.value.errors[0].path == "/total"


def test_a_lane_at_a_node_that_is_gone_is_refused_with_the_node() -> None:
    run = fresh(diamond(1, Old))
    complete(run, "start")
    with pytest.raises(MigrationFailed, match="stands at 'b'") as caught:
        moved(run, newer(names="ac"))
    assert (caught.value.facts["node"], caught.value.errors[0].code) == ("b", "node_not_mapped")
    assert caught.value.errors[0].path.startswith("/lanes/")


def test_renamed_nodes_keep_the_addresses_of_their_steps() -> None:
    run = fresh(diamond(1, Old))
    complete(run, "start")
    flow = diamond(2, New, names="xb")
    flow.migrate(from_version=1, nodes={"a": "x"})(to_new)
    carried = migrating.carry(run.position, flow.migrations, flow)
    before, after = at.live_steps(run.position), at.live_steps(carried.position)
    assert [step.address for step in before] == [step.address for step in after]
    assert carried.nodes == {before[0].address: "x"}
    assert [step.node for step in after] == ["x", "b"]


def test_a_join_that_need_not_wait_any_more_goes_on() -> None:
    run = fresh(diamond(1, Old))
    complete(run, "start")
    complete(run, "a", {"left": 1})
    apart = Workflow("diamond", version=2, state=New)
    for name in ("start", "a", "b", "join", "end"):
        apart.node(name=name)(nothing)
    apart.edge("start", "a")
    apart.edge("start", "b")
    apart.edge("a", "join")
    apart.edge("join", "end")
    apart.migrate(from_version=1)(to_new)
    carried = migrating.carry(run.position, apart.migrations, apart)
    assert [step.node for step in carried.begun] == ["join"]
    assert [step.node for step in at.live_steps(carried.position)] == ["join", "b"]


def fanned(version: int, name: str = "each") -> Workflow:
    flow = Workflow("fanned", version=version, state=Old)
    flow.fan_out(name, lambda state, ctx, item: None, items=lambda state: [1, 2, 3], into="left")
    return flow


def test_items_of_a_renamed_fan_out_keep_their_addresses() -> None:
    run = fresh(fanned(1))
    [step] = at.live_steps(run.position)
    machine.begin_items(run, step, 3)
    items = at.live_steps(run.position)
    flow = fanned(2, "every")
    flow.migrate(from_version=1, nodes={"each": "every"})(lambda document: document)
    after = moved(run, flow)
    assert [item.address for item in at.live_steps(after.position)] == [item.address for item in items]
    assert nodes(after) == ["every"] * 3
    for item in at.live_steps(after.position):
        after.rows = {one.address: "ready" for one in at.all_steps(after.position)}
        machine.complete_item(after, item, None)
    assert [step.node for step in at.live_steps(after.position)] == ["every"]


def test_items_need_a_fan_out() -> None:
    run = fresh(fanned(1))
    machine.begin_items(run, at.live_steps(run.position)[0], 3)
    flow = Workflow("fanned", version=2, state=Old)
    flow.node(name="each")(nothing)
    flow.migrate(from_version=1)(lambda document: document)
    with pytest.raises(MigrationFailed, match="has begun its items, and 'each' is no fan-out"):
        moved(run, flow)


def nested(version: int, state: type[BaseModel], inner: str) -> Workflow:
    inside = Workflow("inside", state=state)
    inside.node(name=inner)(nothing)
    inside.node(name="last")(nothing)
    inside.edge(inner, "last")
    flow = Workflow("outside", version=version, state=Old)
    flow.subflow("sub", inside)
    return flow


def test_a_nested_workflow_under_way_has_a_function_of_its_own() -> None:
    run = fresh(nested(1, Old, "one"), left=5)
    [step] = at.live_steps(run.position)
    machine.enter(run, step, {"log": [], "left": 5, "right": 0})
    flow = nested(2, New, "uno")
    flow.migrate(from_version=1, nodes={"sub/one": "sub/uno"}, inside={"sub": to_new})(
        lambda document: document
    )
    after = moved(run, flow)
    assert nodes(after) == ["sub/uno"]
    [outer, inner] = at.lanes(after.position)
    assert (outer["state"]["left"], inner["state"]["left"]) == (5, "5")
    without = nested(2, New, "uno")
    without.migrate(from_version=1, nodes={"sub/one": "sub/uno"})(lambda document: document)
    with pytest.raises(MigrationFailed) as caught:
        moved(run, without)
    assert {problem.path for problem in caught.value.errors} >= {"/log", "/left"}


def test_an_approval_that_waits_must_stay_one() -> None:
    def asking(version: int, *, asks: bool) -> Workflow:
        flow = Workflow("asking", version=version, state=Old)
        if asks:
            flow.approval(name="ask")(lambda state, ctx: Action("do"))
        else:
            flow.node(name="ask")(nothing)
        return flow

    run = fresh(asking(1, asks=True))
    [step] = at.live_steps(run.position)
    flow = asking(2, asks=False)
    flow.migrate(from_version=1)(lambda document: document)
    assert migrating.carry(run.position, flow.migrations, flow).nodes == {}
    with pytest.raises(MigrationFailed, match="waits for people, and 'ask' is no approval"):
        migrating.carry(run.position, flow.migrations, flow, asked=[step.address])


def test_loops_are_counted_on_under_their_new_names() -> None:
    def looping(version: int, header: str) -> Workflow:
        flow = Workflow("looping", version=version, state=Old)
        for name in (header, "again"):
            flow.node(name=name, loop_limit=3)(nothing)
        flow.edge(header, "again")
        flow.choose("again", lambda state: header, to=[header, "END"])
        return flow

    run = fresh(looping(1, "head"))
    complete(run, "head")
    complete(run, "again")
    flow = looping(2, "top")
    flow.migrate(from_version=1, nodes={"head": "top"})(lambda document: document)
    after = moved(run, flow)
    assert after.position["root"]["lanes"]["0"]["loops"] == {"top": 1}
    assert nodes(after) == ["top"]


def test_the_transition_refuses_what_is_over_or_executes() -> None:
    flow = newer()
    run = fresh(diamond(1, Old))
    carried = migrating.carry(run.position, flow.migrations, flow)
    after = Aggregate("run", flow, "running", 1, 1, run.position, {}, executing=frozenset({"x"}))
    with pytest.raises(StepExecuting):
        migrating.migrate(after, carried, flow.migrations, version="2", reason="")
    for status in ("completed", "cancelled"):
        ended = Aggregate("run", flow, status, 1, 1, run.position, {})
        with pytest.raises(AlreadyTerminal):
            migrating.migrate(ended, carried, flow.migrations, version="2", reason="")
    failed = Aggregate("run", flow, "failed", 1, 1, run.position, {})
    transition = migrating.migrate(failed, carried, flow.migrations, version="2", reason="mended")
    assert (transition.status, transition.next_steps) == (None, [])
    assert transition.events[0].payload["way"] == ["1", "2"]


# ---- at any moment


class Six(BaseModel):
    log: Annotated[list[str], append] = []
    k0: int = 0
    k1: int = 0
    k2: int = 0
    k3: int = 0
    k4: int = 0
    k5: int = 0


class SixTexts(BaseModel):
    journal: Annotated[list[str], append] = []
    k0: str = ""
    k1: str = ""
    k2: str = ""
    k3: str = ""
    k4: str = ""
    k5: str = ""


def to_texts(document: dict[str, Any]) -> dict[str, Any]:
    keys = {key: str(value) for key, value in document.items() if key != "log"}
    return {**keys, "journal": [line.upper() for line in document["log"]]}


def grown(version: int, state: type[BaseModel], edges: list[tuple[int, int]], count: int) -> Workflow:
    """A graph without loops: nodes n0 to n(count-1), an edge from the smaller to the larger number."""
    flow = Workflow("grown", version=version, state=state)
    for number in range(count):
        flow.node(name=f"n{number}")(nothing)
    for before, after in edges:
        flow.edge(f"n{before}", f"n{after}")
    return flow


def step_on(run: Aggregate, data: st.DataObject, *, new: bool) -> bool:
    """Complete one step, whichever; each node writes its own key, and a line."""
    live = at.live_steps(run.position)
    if not live:
        return False
    node = data.draw(st.sampled_from([step.node for step in live]))
    number = int(node[1:])
    update = (
        {f"k{number}": str(number + 1), "journal": [node.upper()]}
        if new
        else {f"k{number}": number + 1, "log": [node]}
    )
    complete(run, node, update)
    return True


@given(st.data())
def test_at_whatever_moment_a_run_is_migrated_it_comes_to_the_same(data: st.DataObject) -> None:
    """Every lane sees what became of what it saw, and the end is what would have become of the end."""
    count = data.draw(st.integers(2, 6))
    edges = [(data.draw(st.integers(0, after - 1)), after) for after in range(1, count)]
    pairs = st.tuples(st.integers(0, count - 2), st.integers(1, count - 1))
    edges += [pair for pair in data.draw(st.lists(pairs, max_size=4)) if pair[0] < pair[1]]
    edges = list(dict.fromkeys(edges))
    new = grown(2, SixTexts, edges, count)
    new.migrate(from_version=1)(to_texts)
    straight = fresh(grown(1, Six, edges, count))
    while step_on(straight, data, new=False):
        pass
    run = fresh(grown(1, Six, edges, count))
    for _ in range(data.draw(st.integers(0, 3 * count))):
        if not step_on(run, data, new=False):
            break
    after = moved(run, new)
    assert canonical.same(at.state(after.position), new.schema.adopt(to_texts(at.state(run.position))))
    for before, now in zip(at.lanes(run.position), at.lanes(after.position), strict=True):
        assert (before["lane"], before["address"]) == (now["lane"], now["address"])
        assert canonical.same(now["state"], new.schema.adopt(to_texts(before["state"])))
    while step_on(after, data, new=True):
        pass
    assert canonical.same(at.state(after.position), new.schema.adopt(to_texts(at.state(straight.position))))
