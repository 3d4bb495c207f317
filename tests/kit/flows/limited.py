"""Workflows under limits: one run at a time; one at a time for each customer; work for a pool of its own."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from runs.engine import Concurrency, Workflow
from tests.kit.ledger import gate, stamp

KS = ("k1", "k2", "k3")


class Turn(BaseModel):
    """stops: steps that wait at the gate `NAME-STEP` before they do anything."""

    name: str = "x"
    stops: list[str] = []
    done: list[str] = []


def _steps(flow: Workflow) -> Workflow:
    for step in KS:
        flow.node(name=step)(_work)
    flow.edge("k1", "k2")
    flow.edge("k2", "k3")
    return flow


def _work(state: Turn, ctx: Any) -> dict[str, Any]:
    if ctx.node in state.stops:
        gate(f"{state.name}-{ctx.node}")
    stamp(name=state.name, step=ctx.node)
    return {"done": [*state.done, ctx.node]}


single = _steps(Workflow("single", version=1, state=Turn, max_concurrent_runs=1))
by_name = _steps(
    Workflow(
        "by_name",
        version=1,
        state=Turn,
        limits=[Concurrency(1, key=lambda turn: turn.name.partition("-")[0])],
    )
)
on_card = _steps(Workflow("on_card", version=1, state=Turn, queue="gpu"))
