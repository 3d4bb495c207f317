"""Loops, dominance and ends of a graph, against the definitions worked out the slow way."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings

from runs.engine import END, START
from runs.errors import WorkflowError
from tests.sizes import size
from tests.unit.engine.graphs import Edges, graphs, sensible_graphs, workflow_of

MANY = settings(max_examples=size("property examples") * 2)


def reached(edges: Edges, start: str, *, without: str | None = None) -> set[str]:
    """Every node on some way from `start`, itself included."""
    seen, work = {start}, [start]
    while work:
        for target in edges.get(work.pop(), ()):
            if target not in seen and target != without:
                seen.add(target)
                work.append(target)
    return seen


def dominates(edges: Edges, header: str, node: str) -> bool:
    """Whether every way from the start to `node` goes through `header`."""
    return node == header or node not in reached(edges, START, without=header)


def proper_back_edges(edges: Edges) -> set[tuple[str, str]]:
    return {
        (source, target) for source in edges for target in edges[source] if dominates(edges, target, source)
    }


def has_a_circle(edges: Edges) -> bool:
    return any(node in reached(edges, target) for node in edges for target in edges[node])


def without(edges: Edges, taken: set[tuple[str, str]]) -> dict[str, list[str]]:
    return {source: [t for t in targets if (source, t) not in taken] for source, targets in edges.items()}


def makes_sense(edges: Edges) -> bool:
    """Everything is reached, everything can end, and every loop has one entrance."""
    nodes = set(edges)
    return (
        reached(edges, START) - {END} == nodes
        and all(END in reached(edges, node) for node in nodes)
        and not has_a_circle(without(edges, proper_back_edges(edges)))
    )


@MANY
@given(graphs())
def test_a_graph_is_accepted_exactly_if_it_makes_sense_and_else_a_node_is_named(edges: Edges) -> None:
    workflow = workflow_of(edges)
    event(f"makes sense: {makes_sense(edges)}")
    if makes_sense(edges):
        workflow.validate()
        assert workflow.graph.successors == {node: tuple(targets) for node, targets in edges.items()}
    else:
        with pytest.raises(WorkflowError) as caught:
            workflow.validate()
        assert caught.value.facts["node"] in edges
        assert repr(caught.value.facts["node"]) in caught.value.detail


@MANY
@given(sensible_graphs())
def test_the_loops_of_an_accepted_graph_are_its_natural_loops(edges: Edges) -> None:
    graph, back = workflow_of(edges).graph, proper_back_edges(edges)
    event(f"loops: {len(graph.headers)}")
    assert graph.back == back
    assert graph.headers.keys() == {header for _, header in back}
    for header, members in graph.headers.items():
        latches = {source for source, target in back if target == header}
        expected = {header} | {
            node for node in edges if node != header and latches & reached(edges, node, without=header)
        }
        assert members == expected
        assert all(dominates(edges, header, member) for member in members)
    for members in graph.headers.values():
        for others in graph.headers.values():
            assert members <= others or others <= members or not members & others


def test_a_loop_with_two_entrances_is_named_as_such() -> None:
    workflow = workflow_of({START: ["a"], "a": ["b", "c"], "b": ["c"], "c": ["b", END]})
    with pytest.raises(WorkflowError) as caught:
        workflow.validate()
    assert caught.value.facts == {"node": "b", "reason": "loop_with_two_entrances"}


def test_nested_loops_keep_their_own_nodes() -> None:
    """The counter-example to going by what can be reached: the inner loop would get lost."""
    edges = {
        START: ["plan"],
        "plan": ["search"],
        "search": ["check"],
        "check": ["search", "join"],
        "join": ["plan", END],
    }
    graph = workflow_of(edges).graph
    assert graph.back == {("check", "search"), ("join", "plan")}
    assert graph.headers == {
        "search": frozenset({"search", "check"}),
        "plan": frozenset({"plan", "search", "check", "join"}),
    }


def test_a_node_that_leads_to_itself_is_a_loop() -> None:
    graph = workflow_of({START: ["a"], "a": ["a", END]}).graph
    assert graph.back == {("a", "a")}
    assert graph.headers == {"a": frozenset({"a"})}


def test_a_graph_without_loops_has_none() -> None:
    graph = workflow_of({START: ["a"], "a": ["b", "c"], "b": ["c"], "c": [END]}).graph
    assert (graph.back, graph.headers) == (frozenset(), {})
    assert graph.successors == {START: ("a",), "a": ("b", "c"), "b": ("c",), "c": (END,)}


def test_a_long_chain_is_checked_without_recursion() -> None:
    length = 1_200
    edges = {START: ["n0"], **{f"n{i}": [f"n{i + 1}" if i < length - 1 else END] for i in range(length)}}
    assert len(workflow_of(edges).graph.successors) == length + 1
