"""The picture of a workflow: nothing lies on anything else, and each node says what the run has done of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import BaseModel

from runs.engine import END, Workflow
from runs.models import Step, Wait
from runs.web import picture
from runs.web.picture import HEIGHT, WIDTH, Tally
from tests.unit.web.test_ways import SKIPPING, flow

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class State(BaseModel):
    x: Any = None


@st.composite
def forward_graphs(draw: st.DrawFn) -> Workflow:
    """Up to 40 nodes, each leading to some later ones, or to the end."""
    names = [f"n{place}" for place in range(draw(st.integers(1, 40)))]
    edges: dict[str, list[str]] = {}
    for place, name in enumerate(names):
        later = names[place + 1 : place + 9]
        targets = draw(st.lists(st.sampled_from(later), max_size=3, unique=True)) if later else []
        follows = [later[0]] if later else []  # every node has a way to it
        edges[name] = list(dict.fromkeys([*follows, *targets])) or [END]
    return flow(**edges)


@given(forward_graphs())
def test_nothing_lies_on_anything_else(workflow: Workflow) -> None:
    drawn = picture.build(workflow, {}, ended=False)
    assert [shape.name for shape in drawn.shapes] == list(workflow.nodes)
    for one, other in combinations(drawn.shapes, 2):
        assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT, (one.name, other.name)
    assert all(0 <= shape.x <= drawn.width - WIDTH for shape in drawn.shapes)
    assert all(0 <= shape.y <= drawn.height - HEIGHT for shape in drawn.shapes)
    places = picture.places_of(workflow)
    for (source, target), passed in places.routes.items():
        assert places.at[source][0] < places.at[target][0]
        for (x, y), (name, (at_x, at_y)) in ((p, n) for p in passed for n in places.at.items()):
            assert x != at_x or abs(y - at_y) > HEIGHT / 2, (source, target, name)


def test_a_loop_leads_back_below_everything() -> None:
    looping = Workflow("w", version=1, state=State)
    for name in ("draft", "ask", "send"):
        looping.node(name=name)(lambda state, ctx: None)
    looping.edge("draft", "ask")
    looping.choose("ask", lambda state: END, to=["draft", "send"], limit="send")
    looping.validate()
    drawn = picture.build(looping, {"draft": Tally("done", 2), "ask": Tally("done", 1)}, ended=False)
    back = drawn.wires[-1]
    assert back.been
    assert back.label_y > max(shape.y for shape in drawn.shapes) + HEIGHT
    assert [wire.label for wire in drawn.wires] == ["", "limit", ""]


def test_where_a_run_may_end_is_a_ring_that_is_full_once_it_has() -> None:
    [ring] = picture.build(SKIPPING, {"J": Tally("done", 1)}, ended=True).exits
    assert ring.been
    assert not picture.build(SKIPPING, {"J": Tally("done", 1)}, ended=False).exits[0].been


def test_lines_are_solid_where_a_run_came_by() -> None:
    tallies = {name: Tally("done", 1) for name in ("start", "A", "cond", "J")}
    taken = {("start", "A"): 1, ("start", "cond"): 1, ("A", "J"): 1}
    drawn = picture.build(SKIPPING, tallies, ended=False, taken=taken)
    routes = picture.places_of(SKIPPING).routes
    assert {edge for edge, wire in zip(routes, drawn.wires, strict=True) if wire.been} == set(taken)


def test_lines_are_solid_between_visited_nodes_where_nobody_knows() -> None:
    drawn = picture.build(SKIPPING, {"start": Tally("done", 1), "A": Tally("work", 1)}, ended=False)
    routes = picture.places_of(SKIPPING).routes
    assert [edge for edge, wire in zip(routes, drawn.wires, strict=True) if wire.been] == [("start", "A")]


def test_a_loop_says_how_often_each_of_its_edges_was_taken() -> None:
    looping = Workflow("w", version=1, state=State)
    for name in ("draft", "ask"):
        looping.node(name=name)(lambda state, ctx: None)
    looping.edge("draft", "ask")
    looping.choose("ask", lambda state: END, to=["draft", END])
    looping.validate()
    taken = {("draft", "ask"): 3, ("ask", "draft"): 2}
    tallies = {"draft": Tally("done", 3), "ask": Tally("done", 3)}
    drawn = picture.build(looping, tallies, ended=True, taken=taken)
    assert [wire.label for wire in drawn.wires] == ["3×", "2×"]
    assert [shape.leads_to for shape in drawn.shapes] == ["ask 3×", "draft 2×"]
    assert drawn.exits[0].been
    assert not picture.build(looping, tallies, ended=True, taken={**taken, ("ask", "draft"): 3}).exits[0].been


@given(st.integers(3, 40), st.data())
def test_a_long_workflow_is_a_straight_line_whatever_jumps_ahead(count: int, data: st.DataObject) -> None:
    names = [f"n{place}" for place in range(count)]
    edges = {one: [other] for one, other in pairwise(names)} | {names[-1]: [END]}
    for name in data.draw(st.sets(st.sampled_from(names[:-2]), max_size=6)):
        edges[name] = [*edges[name], names[-1]]
    edges = {name: list(dict.fromkeys(targets)) for name, targets in edges.items()}
    drawn = picture.build(flow(**edges), {}, ended=False)
    assert len({shape.y for shape in drawn.shapes}) == 1


def test_the_picture_is_told_in_words_too() -> None:
    tallies = {"start": Tally("done", 1), "cond": Tally("people", 1), "B": Tally("skipped")}
    assert picture.build(SKIPPING, tallies, ended=False).title == (
        "w, version 1: start done and cond waits for people"
    )
    assert picture.build(SKIPPING, {}, ended=False).title == "w, version 1: nothing has begun"


def step(**values: Any) -> Step:
    return Step(**{"node": "A", "address": "a", "status": "waiting", "created_at": NOW} | values)


def tally(live: list[Step], waits: list[Wait], done: dict[str, int] | None = None) -> Tally:
    found = picture.tallies(
        {"A": done or {"waiting": len(live)}}, steps=live, waits=waits, approvals=[], skipped=["B"], now=NOW
    )
    assert found["B"] == Tally("skipped")
    return found["A"]


@pytest.mark.parametrize(
    ("wait", "state", "said"),
    [
        ({"kind": "timer", "due_at": NOW + timedelta(hours=2)}, "time", "2 h left"),
        ({"kind": "timer", "due_at": NOW - timedelta(hours=2)}, "time", "0 ms left"),
        ({"kind": "signal", "name": "paid"}, "time", "for signal paid"),
        ({"kind": "child"}, "time", "for a child run"),
        ({"kind": "retry", "due_at": NOW + timedelta(seconds=40)}, "retry", "attempt 3, 40 s left"),
    ],
)
def test_a_node_says_what_it_waits_for(wait: dict[str, Any], state: str, said: str) -> None:
    waiting = step(failures=2)
    assert tally([waiting], [Wait(address="a", opened_at=NOW, **wait)]) == Tally(state, 1, said)


def test_of_several_live_steps_the_one_that_works_is_told() -> None:
    working = step(address="b", status="executing", entered_at=NOW - timedelta(seconds=20))
    waits = [Wait(address="a", kind="child", opened_at=NOW)]
    found = tally([step(), working], waits, {"waiting": 1, "executing": 1})
    assert found == Tally("work", 2, "since 20 s, 1 more")


def test_what_is_over_says_how_often_it_was_visited() -> None:
    assert tally([], [], {"completed": 3}) == Tally("done", 3, "3 visits")
    assert tally([], [], {"completed": 1, "failed": 1}) == Tally("failed", 2, "2 visits")


def test_a_step_inside_a_nested_workflow_counts_for_the_node_around_it() -> None:
    found = picture.tallies(
        {"A": {"executing": 1}},
        steps=[step(node="A/inner", status="executing", entered_at=NOW)],
        waits=[],
        approvals=[],
        skipped=[],
        now=NOW,
    )
    assert found["A"].state == "work"
