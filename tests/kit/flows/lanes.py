"""Workflows with lanes: each node notes that it ran with what it saw, and stops at the gates that the test names."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel

from runs.engine import START, Retry, Workflow, append
from tests.kit.ledger import gate, stamp


class Trace(BaseModel):
    name: str
    stops: list[str] = []  # the nodes that wait for the gate `NAME-NODE`
    failures: int = 0  # how many attempts of B fail
    trace: Annotated[list[str], append] = []


def note(state: Trace, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step=ctx.node, attempt=ctx.attempt, saw=state.trace)
    if ctx.node in state.stops:
        gate(f"{state.name}-{ctx.node}")
    return {"trace": [ctx.node]}


def fail_first(state: Trace, ctx: Any) -> dict[str, Any]:
    found = note(state, ctx)
    if ctx.attempt <= state.failures:
        raise RuntimeError("not yet")
    return found


def noting(name: str, *nodes: str) -> Workflow:
    flow = Workflow(name, version=1, state=Trace)
    for node in nodes:
        flow.node(name=node)(note)
    return flow


def chain(flow: Workflow, *nodes: str) -> None:
    for source, target in pairwise(nodes):
        flow.edge(source, target)


# ---- lanes of unequal length

uneven = noting("uneven", "start", "a", "b", "c", "d", "e", "J", "end")
chain(uneven, "start", "a", "b", "J", "end")
chain(uneven, "start", "c", "d", "e", "J")

# ---- a fast lane and a slow one: plain, with a split inside, and with no common beginning

fast_slow = noting("fast_slow", "start", "F", "S", "J")
chain(fast_slow, "start", "F", "J")
chain(fast_slow, "start", "S", "J")

deep = noting("deep", "start", "F", "middle", "S", "T", "K", "J")
chain(deep, "start", "F", "J")
chain(deep, "start", "middle", "S", "K", "J")
chain(deep, "middle", "T", "K")

two_starts = noting("two_starts", "F", "S", "J")
chain(two_starts, START, "F", "J")
chain(two_starts, START, "S", "J")

# ---- one lane fails: with a handler, and without

rescued = noting("rescued", "start", "A", "H", "C", "J")
rescued.node(name="B")(fail_first)
brittle = noting("brittle", "start", "A", "C", "J")
brittle.node(name="B", retry=Retry(attempts=3, initial=0))(fail_first)
for _flow in (rescued, brittle):
    for _lane in "ABC":
        chain(_flow, "start", _lane, "J")
rescued.edge("H", "J")
rescued.on_error("B", "H")
