"""Runs what a worker has to do for a step: a body, or one of the phases of a fan-out or a nested workflow.

A fan-out's own step lists the items (a recorded call) and, once all have their results, gathers them into one update. The
step around a nested workflow gives it its input and, once it has ended, takes over its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from runs.driver.body import Body, Completed, Outcome, StepScope, run_body, settled
from runs.engine import lanes
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.routing import output_of
from runs.engine.state import storable
from runs.engine.workflow import FanOut, Node, Subflow
from runs.errors import SchemaViolation

ITEMS: Final = "items"  # the call that lists the items


@dataclass(frozen=True, slots=True)
class Listed:
    """A fan-out knows its items."""

    count: int


@dataclass(frozen=True, slots=True)
class ItemDone:
    """An item's result, as JSON."""

    result: Json


@dataclass(frozen=True, slots=True)
class Entered:
    """A nested workflow begins with this state."""

    state: dict[str, Json]


def run_step(
    scope: StepScope, position: Mapping[str, Any], *, items: Callable[[], Sequence[Json]]
) -> Outcome | Listed | ItemDone | Entered:
    """Run a step at a position. items: reads what the fan-out around an item has listed."""
    node, document = scope.workflow.nodes[scope.step.node], dict(position)
    match at.phase(document, scope.step, node):
        case "list":
            return _listed(scope, _fan_out(node))
        case "item":
            return _item(scope, items)
        case "gather":
            return Completed({_fan_out(node).into: lanes.results(document, scope.step.lane)})
        case "enter":
            return _entered(scope, _subflow(node))
        case "leave":
            base = at.lane_at(document, scope.step.lane)["scope"]["base"]
            return _with(scope, _leaving(_subflow(node), base))
        case _:
            return run_body(scope)


def _with(scope: StepScope, body: Body) -> Outcome:
    return run_body(replace(scope, body=body))


def _listed(scope: StepScope, options: FanOut) -> Outcome | Listed:
    def read(state: Any) -> list[Any]:
        found = options.items(state)
        if not isinstance(found, (list, tuple)):
            raise SchemaViolation(
                f"items of {scope.step.node!r} gives a list; it gave {type(found).__name__}.", path=""
            )
        return list(found)

    outcome = _with(scope, lambda state, ctx: ctx.call(lambda: read(state), name=ITEMS))
    if not isinstance(outcome, Completed):
        return outcome
    return Listed(len(outcome.update)) if outcome.update else Completed({options.into: []})


def _item(scope: StepScope, items: Callable[[], Sequence[Json]]) -> Outcome | ItemDone:
    index = scope.step.item
    assert index is not None
    outcome = _with(replace(scope, extra=(items()[index],)), _storable_body(scope))
    return ItemDone(outcome.update) if isinstance(outcome, Completed) else outcome


def _storable_body(scope: StepScope) -> Body:
    """An item's body, whose result must be JSON."""
    body = scope.workflow.nodes[scope.step.node].body
    return lambda state, ctx, *item: storable(settled(body(state, ctx, *item), ctx))


def _entered(scope: StepScope, nested: Subflow) -> Outcome | Entered:
    outcome = _with(scope, partial(_first_state, nested))
    return Entered(outcome.update) if isinstance(outcome, Completed) else outcome


def _first_state(nested: Subflow, state: Any, ctx: Any) -> dict[str, Json]:
    flow = nested.workflow
    if nested.input:
        given = nested.input(state)
    else:
        given = {name: getattr(state, name) for name in flow.input_schema.fields if hasattr(state, name)}
    return flow.first_state(storable(given))


def _leaving(nested: Subflow, base: dict[str, Json]) -> Body:
    def leave(state: Any, ctx: Any) -> Any:
        output = output_of(nested.workflow, base, nested.workflow.schema.load(base))
        if nested.output:
            return nested.output(output)
        if not isinstance(output, dict):
            raise SchemaViolation(
                "The output of a nested workflow is an object, or subflow(output=) says more.", path=""
            )
        known = type(state).model_fields
        return {name: value for name, value in output.items() if name in known}

    return leave


def _fan_out(node: Node) -> FanOut:
    assert node.fan_out is not None
    return node.fan_out


def _subflow(node: Node) -> Subflow:
    assert node.subflow is not None
    return node.subflow
