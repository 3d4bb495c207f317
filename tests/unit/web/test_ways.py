from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from runs.engine import END, Workflow
from runs.web import ways


class State(BaseModel):
    x: Any = None


def flow(**edges: list[str]) -> Workflow:
    """A single target is an edge; of several one is chosen, but that `start` takes all."""
    made = Workflow("w", version=1, state=State)
    for name in edges:
        made.node(name=name)(lambda state, ctx: None)
    for source, targets in edges.items():
        if len(targets) == 1 or source == "start":
            for target in targets:
                made.edge(source, target)
        else:
            made.choose(source, lambda state: END, to=targets)
    made.validate()
    return made


SKIPPING = flow(start=["A", "cond"], J=[END], A=["J"], B2=["J"], cond=["B", "J"], B=["B2"])


def test_nodes_stand_in_the_order_of_the_edges_that_lead_to_them() -> None:
    order = ways.order_of(SKIPPING)
    assert sorted((name for name in SKIPPING.nodes), key=order.__getitem__) == [
        "start",
        "A",
        "J",
        "cond",
        "B",
        "B2",
    ]
    assert ways.order_of(None) == {}


def test_nodes_of_a_nested_workflow_stand_under_the_node_around_it() -> None:
    outer = Workflow("outer", version=1, state=State)
    outer.subflow("nested", SKIPPING)
    outer.validate()
    assert "nested/cond" in ways.order_of(outer)


@pytest.mark.parametrize(
    ("visited", "standing", "skipped"),
    [
        (["start", "A", "cond"], ["A", "cond"], []),
        (["start", "A", "cond"], ["A"], ["B", "B2"]),  # cond has arrived at J
        (["start", "A", "cond", "J"], [], ["B", "B2"]),
        (["start", "A", "cond", "B", "B2", "J"], [], []),
    ],
)
def test_skipped_is_what_no_lane_came_to_or_can_still_come_to(
    visited: list[str], standing: list[str], skipped: list[str]
) -> None:
    """C15."""
    assert ways.skipped(SKIPPING, visited=visited, standing=standing) == skipped


def test_a_workflow_that_is_gone_skips_nothing() -> None:
    assert ways.skipped(None, visited=["a"], standing=[]) == []


def test_a_step_inside_a_nested_workflow_stands_at_the_node_around_it() -> None:
    assert ways.skipped(SKIPPING, visited=["start", "A/x"], standing=["cond/y"]) == []
