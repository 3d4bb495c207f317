"""What the graph of a workflow says about a run that is looked at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from runs.engine import END, START, Workflow
from runs.engine.graph import node_of
from runs.engine.position import ARRIVED, address_of
from runs.store import Edge, Ways

MOST_TRIED: Final = 12  # lanes at a join of which any may be the ones that came; of more only all


def order_of(workflow: Workflow | None) -> dict[str, int]:
    """The place of each node as one comes to it, edge by edge in declaration order: so do lanes of one split stand."""
    if workflow is None:
        return {}
    return {name: place for place, name in enumerate(_names(workflow, ""))}


def skipped(workflow: Workflow | None, *, visited: Iterable[str], standing: Iterable[str]) -> list[str]:
    """Nodes that this run has not come to and will not come to: a way was not taken.

    visited: nodes that have had a step. standing: where lanes stand that have not ended.
    """
    if workflow is None:
        return []
    ways = workflow.graph.successors
    ahead = set(_reached(ways, [node.partition("/")[0] for node in standing]))
    been = {node.partition("/")[0] for node in visited}
    return [name for name in _reached(ways, [START]) if name not in (START, END) and name not in ahead | been]


# ---- the ways that a run has taken


def edges_of(workflow: Workflow) -> list[Edge]:
    """Every edge between two nodes, in declaration order."""
    return [
        (source, target)
        for source, targets in workflow.graph.successors.items()
        if source != START
        for target in targets
        if target != END
    ]


def joining(workflow: Workflow) -> dict[Edge, None]:
    """The edges at whose ends lanes are joined, in declaration order."""
    graph = workflow.graph
    return {edge: None for edge in edges_of(workflow) if graph.slot(*edge) in graph.joins}


def taken(workflow: Workflow, found: Ways, *, position: Mapping[str, Any] | None) -> dict[Edge, int]:
    """How often a run has taken each edge; those that it has not taken are not in it.

    position: of its head, for lanes that have arrived at a join and wait there. The address of a step is made of those of the
    steps that led to it, so what led to a join is found by trying who could have. Where that does not succeed (steps from before
    a migration that renamed their nodes) every edge between two visited nodes counts as taken.
    """
    counts = Counter(found.alone)
    counts.update(_joined(workflow, found.joining))
    counts.update(_arrived(workflow, position))
    reached = {target for _, target in counts}
    unknown = found.visits.keys() - reached - set(workflow.graph.successors[START])
    for edge in edges_of(workflow):
        if edge[1] in unknown and edge[0] in found.visits:
            counts[edge] = 1
    return dict(counts)


def _joined(workflow: Workflow, steps: Sequence[tuple[str, str]]) -> Iterator[Edge]:
    """The edges by which several lanes together came to a step. steps: node and address, in the order in which they were made."""
    places, edges = order_of(workflow), joining(workflow)
    newest: dict[str, str] = {}  # of each node that leads to a join, the step that may not have arrived yet
    for node, address in steps:
        sources = sorted((edge[0] for edge in edges if edge[1] == node), key=lambda name: places[name])
        came = [(name, newest[name]) for name in sources if name in newest]
        causes = _causes(node, address, came)
        yield from ((name, node) for name in causes)
        newest[node] = address


def _causes(node: str, address: str, came: Sequence[tuple[str, str]]) -> list[str]:
    """Which of these nodes' steps led to a step, if several did: nearly always all, so that is tried first."""
    fewest = 2 if len(came) <= MOST_TRIED else len(came)
    for count in range(len(came), fewest - 1, -1):
        for some in combinations(came, count):
            if address_of(node, [one for _, one in some]) == address:
                return [name for name, _ in some]
    return []


def _arrived(workflow: Workflow, position: Mapping[str, Any] | None) -> Iterator[Edge]:
    """The edges of lanes that have arrived at a join which still waits for others."""
    lanes = position["root"]["lanes"] if position else {}
    for lane in lanes.values():
        if lane.get("status") == ARRIVED and lane["slot"] in workflow.graph.joins:
            yield lane["node"], node_of(lane["slot"])


# ---- inside


def _names(workflow: Workflow, prefix: str) -> Iterator[str]:
    for name in _reached(workflow.graph.successors, [START]):
        yield prefix + name
        nested = workflow.nodes[name].subflow if name in workflow.nodes else None
        if nested:
            yield from _names(nested.workflow, f"{prefix}{name}/")


def _reached(ways: Mapping[str, Sequence[str]], start: Iterable[str]) -> list[str]:
    """Depth first, each node once, `start` first."""
    seen: dict[str, None] = {}
    work = list(start)[::-1]
    while work:
        node = work.pop()
        if node not in seen:
            seen[node] = None
            work.extend(reversed(ways.get(node, ())))
    return list(seen)
