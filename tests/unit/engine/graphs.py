"""Random graphs of workflows, as Hypothesis draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from runs.engine import END, START, Workflow

Edges = Mapping[str, Sequence[str]]


class Empty(BaseModel):
    """A state with nothing in it."""


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> dict[str, list[str]]:
    """Targets of every node, the entry under START; nothing promises that it makes sense."""
    nodes = [f"n{number}" for number in range(draw(st.integers(1, most)))]
    edges = {
        node: draw(st.lists(st.sampled_from([*nodes, END]), min_size=1, max_size=3, unique=True))
        for node in nodes
    }
    return {START: [draw(st.sampled_from(nodes[:2]))], **edges}


@st.composite
def sensible_graphs(draw: st.DrawFn, most: int = 6) -> dict[str, list[str]]:
    """Graphs that can be registered: a chain to the end, with short cuts and with ways back to a node that is passed
    on every way to where they leave (so that each loop has one entrance)."""
    nodes = [f"n{number}" for number in range(draw(st.integers(1, most)))]
    edges = {node: [following] for node, following in zip(nodes, [*nodes[1:], END], strict=True)}
    for source, target in draw(
        st.lists(st.tuples(st.sampled_from(nodes), st.sampled_from([*nodes, END])), max_size=6)
    ):
        more = {**edges, source: [*edges[source], target]}
        if target not in edges[source] and _one_entrance_each({START: nodes[:1], **more}):
            edges = more
    order = {source: draw(st.permutations(targets)) for source, targets in edges.items()}
    return {START: nodes[:1], **order}


def _one_entrance_each(edges: Edges) -> bool:
    """Reducible: nodes without predecessors but one fold into it until a single one is left (T1 and T2)."""
    into = {
        node: {source for source in edges if node in edges[source]} - {node}
        for node in edges
        if node != START
    }
    while into:
        found = next((node for node, sources in into.items() if len(sources) == 1), None)
        if found is None:
            return False
        (only,) = into.pop(found)
        into = {node: {only if s == found else s for s in sources} - {node} for node, sources in into.items()}
    return True


def workflow_of(edges: Edges) -> Workflow:
    """A workflow with this graph: every node has a router that could answer any of its targets."""
    workflow = Workflow("random", state=Empty)

    def body(state: Any, ctx: Any) -> None:
        return None

    def router(state: Any) -> str:
        return END

    for node in edges:
        if node != START:
            workflow.node(name=node)(body)
    for source, targets in edges.items():
        if source == START:
            workflow.edge(START, targets[0])
        else:
            workflow.choose(source, router, to=targets)
    return workflow
