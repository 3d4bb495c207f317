"""Loops, calls, lists that grow, a question in between: each node notes when it began, and does nothing else."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel

from runs.engine import Action, Workflow, append

MANY: Final = 200_000  # passes that no measurement comes near
STAMPS: Final = "BENCH_STAMPS"  # a file to which the first line after a decision writes when it began
begun: list[float] = []  # of the steps and calls of this process, in seconds of time.perf_counter()


class Count(BaseModel):
    """The tiniest state there is."""

    left: int


class Grown(BaseModel):
    left: int
    log: Annotated[list[str], append] = []


class Asked(BaseModel):
    left: int
    log: Annotated[list[str], append] = []
    kib: int = 0


def again_or(last: str) -> Any:
    return lambda state: last if state.left <= 0 else "again"


def looped(name: str, state: type[BaseModel], body: Any) -> Workflow:
    """A node that comes back to itself as long as `left` says."""
    flow = Workflow(name, version=1, state=state, max_steps=MANY)
    flow.node(name="again", loop_limit=MANY)(body)
    flow.node(name="last")(lambda state, ctx: None)
    flow.choose("again", again_or("last"), to=["again", "last"])
    return flow


def count_down(state: Count, ctx: Any) -> dict[str, Any]:
    begun.append(time.perf_counter())
    return {"left": state.left - 1}


def call_often(state: Count, ctx: Any) -> dict[str, Any]:
    for number in range(state.left):
        begun.append(time.perf_counter())
        ctx.call(abs, number)
    return {"left": 0}


def grow(state: Grown, ctx: Any) -> dict[str, Any]:
    begun.append(time.perf_counter())
    return {"left": state.left - 1, "log": [noise(1024)]}


def noise(size: int) -> str:
    """Text that no compression makes smaller than half."""
    return os.urandom(size // 2).hex()


steps = looped("bench_steps", Count, count_down)
grown = looped("bench_grown", Grown, grow)

calls = Workflow("bench_calls", version=1, state=Count)
calls.node(name="again")(call_often)

asked = looped(
    "bench_asked", Asked, lambda state, ctx: {"left": state.left - 1, "log": ["x" * 1024] * state.kib}
)


@asked.approval(reviewers=["bench"], requester_may_decide=True)
def confirm(state: Asked, ctx: Any) -> Action:
    return Action("pay", {"amount": 1})


@asked.node
def after(state: Asked, ctx: Any) -> None:
    stamp()


asked.edge("last", "confirm")
asked.edge("confirm", "after")


def stamp() -> None:
    """Says to whoever decided when this process began; both read the machine's one clock."""
    at = time.clock_gettime(time.CLOCK_MONOTONIC)
    with Path(os.environ[STAMPS]).open("a") as file:
        file.write(json.dumps(at) + "\n")


class Lanes(BaseModel):
    log: Annotated[list[str], append] = []


def spread(lanes: int, *, length: int = 10) -> Workflow:
    """A start, lanes of so many nodes each, a join."""
    flow = Workflow(f"bench_lanes_{lanes}", version=1, state=Lanes)
    for name in ("start", "join"):
        flow.node(name=name)(lambda state, ctx: None)
    for lane in range(lanes):
        before = "start"
        for place in range(length):
            name = f"n{lane}_{place}"
            flow.node(name=name)(lambda state, ctx: {"log": ["x"]})
            flow.edge(before, name)
            before = name
        flow.edge(before, "join")
    return flow


two, four, sixteen = spread(2), spread(4), spread(16)


lingering = Workflow("bench_lingering", version=1, state=Count)


@lingering.node
def linger(state: Count, ctx: Any) -> None:
    """Stays until its process is killed; whoever takes it over goes on at once."""
    stamp()
    if ctx.attempt == 1:
        threading.Event().wait()
