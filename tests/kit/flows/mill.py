"""A workflow that moves in every way there is: a split, a call, a sleep, a join, items, a question in code, a child run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from runs.engine import Action, Workflow, append
from tests.kit.flows.night import charge
from tests.kit.ledger import stamp


class Mill(BaseModel):
    name: str
    trace: Annotated[list[str], append] = []
    parts: list[Any] = []


mill = Workflow("mill", version=1, state=Mill)


@mill.node
def start(state: Mill, ctx: Any) -> dict[str, Any]:
    return _been(state, ctx)


@mill.node
def left(state: Mill, ctx: Any) -> dict[str, Any]:
    ctx.call(charge, state.name, idempotency_key=True)
    ctx.sleep(0.2)
    return _been(state, ctx)


@mill.node
def right(state: Mill, ctx: Any) -> dict[str, Any]:
    return _been(state, ctx)


@mill.fan_out(items=lambda state: [1, 2, 3], into="parts", concurrency=2)
def grind(state: Mill, ctx: Any, item: int) -> int:
    stamp(name=state.name, step=f"grind{item}")
    return item * item


@mill.node
def buy(state: Mill, ctx: Any) -> dict[str, Any]:
    bought = ctx.run_child("echo", {"name": state.name})["done"]
    answer = ctx.ask(Action("buy", {"parts": state.parts}), reviewers=["finance"])
    return {"trace": [*bought, answer.outcome, *_been(state, ctx)["trace"]]}


def _been(state: Mill, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step=ctx.node)
    return {"trace": [ctx.node]}


mill.edge("start", "left")
mill.edge("start", "right")
mill.edge("left", "grind")
mill.edge("right", "grind")
mill.edge("grind", "buy")
