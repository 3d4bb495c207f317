"""What the graph of a workflow says about a run that is looked at. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from runs.engine import END, START, Workflow


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
