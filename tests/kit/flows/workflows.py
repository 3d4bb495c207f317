"""Workflows whose nodes note in the ledger that they ran and wait at gates."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from runs.engine import Action, Workflow
from tests.kit.flows.control import blocked, branch, leaf, tree, trip
from tests.kit.flows.deployed import deployed
from tests.kit.flows.lanes import brittle, deep, fast_slow, rescued, two_starts, uneven
from tests.kit.flows.limited import by_name, on_card, single
from tests.kit.flows.mill import mill
from tests.kit.flows.night import chain, crew, deadly, pair, patient, rivals, tardy, thrice
from tests.kit.flows.waiting import waiter
from tests.kit.ledger import gate, stamp

__all__ = [
    "blocked",
    "branch",
    "brittle",
    "by_name",
    "chain",
    "crew",
    "deadly",
    "deep",
    "deployed",
    "echo",
    "fast_slow",
    "gated",
    "leaf",
    "mill",
    "on_card",
    "pair",
    "patient",
    "rescued",
    "rivals",
    "single",
    "tardy",
    "thrice",
    "tree",
    "trip",
    "two_starts",
    "uneven",
    "waiter",
]


class Note(BaseModel):
    name: str = "x"
    value: Any = None
    done: list[str] = []


echo = Workflow("echo", version=1, state=Note)


@echo.node(name="only")
def _echo(state: Note, ctx: Any) -> dict[str, Any]:
    return {"done": [*state.done, "only"]}


gated = Workflow("gated", version=1, state=Note)


@gated.node
def first(state: Note, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="first")
    return {"done": [*state.done, "first"]}


@gated.node
def second(state: Note, ctx: Any) -> dict[str, Any]:
    """Waits at the gate `NAME` in mid-step, after one journalled call."""
    ctx.call(stamp, kwargs={"name": state.name, "step": "call"}, name="stamp")
    stamp(name=state.name, step="second")
    gate(state.name)
    return {"done": [*state.done, "second"]}


@gated.approval(reviewers=["finance"], editor_may_approve=True)
def ask(state: Note, ctx: Any) -> Action:
    return Action("write", {"value": state.value}, editable=["value"])


@gated.node
def last(state: Note, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="last")
    return {"done": [*state.done, "last"], "value": ctx.approved("ask").args["value"]}


@gated.node
def refused(state: Note, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="refused")
    return {"done": [*state.done, "refused"]}


gated.edge("first", "second")
gated.edge("second", "ask")
gated.choose("ask", approve="last", reject="refused")
