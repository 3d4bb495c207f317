"""Workflows that are stopped: bodies that are told, calls that are taken back, trees that grow meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

from pydantic import BaseModel

from runs.driver import StepLost
from runs.engine import Retry, Workflow
from tests.kit.ledger import gate, stamp

LONG = 100.0  # seconds that a body would take if nobody told it


class Stopped(BaseModel):
    name: str
    how: str = ""
    many: int = 0
    grown: list[Any] = []


# ---- told while it runs

blocked = Workflow("blocked", version=1, state=Stopped)


@blocked.node
def hang(state: Stopped, ctx: Any) -> None:
    stamp(name=state.name, step="begun", how=state.how)
    try:
        _hang(state.how)
    except StepLost:
        stamp(name=state.name, step="told", how=state.how)
        raise
    ctx.call(stamp, kwargs={"name": state.name, "step": "went on"}, name="stamp")


def _hang(how: str) -> None:
    if how == "sleeps":
        time.sleep(LONG)
    elif how == "reads a socket":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.recv(1)
    else:
        asyncio.run(asyncio.sleep(LONG))


# ---- taken back

trip = Workflow("trip", version=1, state=Stopped, undo_retry=Retry(attempts=3, initial=0.1))


def book(name: str, what: str, *, idempotency_key: str) -> dict[str, str]:
    stamp(name=name, step="book", what=what, key=idempotency_key)
    return {"receipt": what}


def unbook(receipt: dict[str, str], name: str, what: str, *, idempotency_key: str) -> None:
    stamp(name=name, step="unbook", what=receipt["receipt"], key=idempotency_key)
    if what == "hotel":
        gate(f"{name}-unbook")


@trip.node
def travel(state: Stopped, ctx: Any) -> None:
    for what in ("flight", "hotel", "car"):
        ctx.call(book, state.name, what, undo=unbook, effect="reversible", idempotency_key=True)
    ctx.wait_signal("home")


# ---- a tree that grows

tree = Workflow("tree", version=1, state=Stopped)
branch = Workflow("tree_branch", version=1, state=Stopped)
leaf = Workflow("tree_leaf", version=1, state=Stopped)


@tree.fan_out("branches", items=lambda state: list(range(state.many)), into="grown", concurrency=20)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def grow(state: Stopped, ctx: Any, number: int) -> None:
    ctx.run_child("tree_branch", {"name": state.name, "many": 2})


@branch.node
def sprout(state: Stopped, ctx: Any) -> None:
    """One leaf after the other, each as soon as the one before has ended."""
    for number in range(state.many):
        ctx.run_child("tree_leaf", {"name": state.name}, key=str(number))


@leaf.node
def live(state: Stopped, ctx: Any) -> None:
    stamp(name=state.name, step="leaf")
