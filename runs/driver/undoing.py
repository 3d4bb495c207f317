"""Takes a call back: by the function that was written down with it, as a journalled call of a step of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from runs.driver.body import Completed, Failed, StepScope, run_body
from runs.driver.calls import function_named, is_async
from runs.driver.context import Context
from runs.engine import canonical
from runs.engine.failures import error_of
from runs.engine.position import LiveStep
from runs.engine.retry import ONCE
from runs.engine.workflow import Node, Workflow
from runs.errors import InvalidCall


def take_back(
    workflow: Workflow, step: LiveStep, context: Context, *, undo: str, result: str
) -> Completed | Failed:
    """Call what takes a call back: with its result, then its arguments. undo: as the journal has it; result: JSON text.

    A function with a parameter named `ctx` is given the context, one named `idempotency_key` a key that is the same for every
    attempt. Its own result is journalled: what was taken back once is not taken back again. It may not wait.
    """
    told = canonical.loads(undo)
    node = Node(step.node, partial(_body, told, canonical.loads(result)), ONCE, 1)
    outcome = run_body(StepScope(workflow, step, None, context, node=node))
    if isinstance(outcome, Completed | Failed):
        return outcome
    error = InvalidCall(f"{told['function']!r} takes a call back, so it cannot wait for anything.")
    return Failed(error, error_of(error), ONCE)


def _body(undo: Mapping[str, Any], result: Any, state: object, ctx: Context) -> Any:
    function = function_named(str(undo["function"]))
    asks = _parameters(function)
    given = {"ctx": ctx} if "ctx" in asks else {}
    options: dict[str, Any] = {"name": _name(function), "idempotency_key": "idempotency_key" in asks}
    call = partial(function, **given)
    kwargs = dict(undo["kwargs"])
    if is_async(function):
        return _awaited(call, ctx, (result, *undo["args"]), kwargs, options)
    ctx.call(call, result, *undo["args"], kwargs=kwargs, **options)
    return None


async def _awaited(
    call: Callable[..., Any],
    ctx: Context,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: dict[str, Any],
) -> None:
    async def made(*given: Any, **named: Any) -> Any:
        return await call(*given, **named)

    await ctx.acall(made, *args, kwargs=kwargs, **options)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()
