"""Where a node leads: edges, outcomes, routers; and what a workflow makes of its final state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from runs.engine.authored import contained
from runs.engine.canonical import Json
from runs.engine.position import LiveStep
from runs.engine.state import storable
from runs.engine.transition import Aggregate
from runs.engine.workflow import Node, Workflow
from runs.errors import (
    SchemaViolation,
)


def way_of(
    run: Aggregate, step: LiveStep, node: Node, outcome: str, decision: dict[str, Json]
) -> Sequence[str] | None:
    way, options = run.workflow.way(step.node), node.approval
    if way.router:
        view = run.workflow_of(step.lane).schema.view(run.values)
        return route(run, step, lambda: (view, decision))
    edges: dict[str, Sequence[str]] = {name: [target] for name, target in way.outcomes.items()}
    if way.edges:
        edges.setdefault("approve", way.edges)
    if outcome in edges:
        return edges[outcome]
    on_timeout = options.on_timeout if options else "reject"
    fallback = {
        "mixed": "reject",
        "respond": "approve",
        "timeout": {"approve": "approve", "reject": "reject", "escalate": "reject"}.get(on_timeout, ""),
    }.get(outcome, "")
    return edges.get(fallback)


def route(run: Aggregate, step: LiveStep, arguments: Callable[[], tuple[Any, ...]]) -> Sequence[str]:
    """All edges, or what the router answers: a target, or a list of them, taken in the order of declaration."""
    way = run.workflow.way(step.node)
    if way.edges:
        return way.edges
    if way.router is None:
        raise SchemaViolation(f"{step.node!r} has no way on.", node=step.node)
    with contained:
        answer = way.router(*arguments())
    workflow = run.workflow_of(step.lane)
    several = list(answer) if isinstance(answer, (list, tuple, set, frozenset)) else [answer]
    names = [workflow.name_of(t) if isinstance(t, str) or callable(t) else repr(t) for t in several]
    unknown = [name for name in names if name not in way.to]
    if unknown:
        raise SchemaViolation(
            f"The router of {step.node!r} answered {unknown[0]!r:.200}; it may answer {', '.join(way.to)}.",
            node=step.node,
        )
    return [target for target in dict.fromkeys(way.to) if target in names]


def output_of(workflow: Workflow, state: dict[str, Json], values: dict[str, Any]) -> Json:
    """The final state as it is stored, or what the workflow makes of it. Raises what the author's code raises."""
    output = workflow.output
    if output is None:
        return state
    with contained:
        if isinstance(output, type) and issubclass(output, BaseModel):
            known = {name: value for name, value in values.items() if name in output.model_fields}
            return storable(output.model_validate(known, by_alias=True, by_name=True), path="/output")
        function: Callable[[Any], Any] = output
        return storable(function(workflow.schema.view(values)), path="/output")
