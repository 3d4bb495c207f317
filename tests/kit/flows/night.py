"""Workflows for what goes wrong at night: each stops at gates that the test names in `stops`, and notes what ran."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import BaseModel

from runs.engine import Action, Retry, Workflow
from tests.kit.ledger import gate, stamp


class Night(BaseModel):
    name: str
    stops: list[str] = []  # the points at which a node waits for the gate `NAME-POINT`
    deaths: int = 0  # how often the node that dies does so
    value: Any = None
    done: list[str] = []


def pause(state: Night, point: str) -> None:
    if point in state.stops:
        gate(f"{state.name}-{point}")


# ---- a step with two calls and something to do after each


def charge(name: str, idempotency_key: str) -> str:
    stamp(name=name, step="charge", key=idempotency_key)
    return f"receipt of {name}"


def mail(name: str) -> None:
    stamp(name=name, step="mail")


pair = Workflow("pair", version=1, state=Night)


@pair.node
def work(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="work", attempt=ctx.attempt)
    receipt = ctx.call(charge, state.name, idempotency_key=True)
    pause(state, "charged")
    ctx.call(mail, state.name)
    pause(state, "mailed")
    return {"done": ["work"], "value": receipt}


@pair.node
def settle(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="settle")
    pause(state, "settling")
    return {"done": [*state.done, "settle"]}


@pair.approval(reviewers=["finance"])
def confirm(state: Night, ctx: Any) -> Action:
    return Action("send", {"value": state.value})


@pair.node
def send(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="send")
    pause(state, "sending")
    return {"done": [*state.done, "send"]}


pair.edge("work", "settle")
pair.edge("settle", "confirm")
pair.edge("confirm", "send")


# ---- whose result is it: each attempt answers with its own number, at a gate of its own

rivals = Workflow("rivals", version=1, state=Night)


@rivals.node
def contested(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="contested", attempt=ctx.attempt)
    gate(f"{state.name}-{ctx.attempt}")
    ctx.call(stamp, kwargs={"name": state.name, "step": "afterwards", "attempt": ctx.attempt}, key="after")
    return {"value": ctx.attempt, "done": ["contested"]}


@rivals.node
def next_one(state: Night, ctx: Any) -> dict[str, Any]:
    return {"done": [*state.done, "next_one"]}


@rivals.approval(reviewers=["finance"])
def agree(state: Night, ctx: Any) -> Action:
    return Action("take", {"value": state.value})


@rivals.node
def take(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="take", value=ctx.approved("agree").args["value"])
    return {"done": [*state.done, "take"]}


rivals.edge("contested", "next_one")
rivals.edge("next_one", "agree")
rivals.edge("agree", "take")


# ---- one long step, a call before and after

patient = Workflow("patient", version=1, state=Night)


@patient.node
def endure(state: Night, ctx: Any) -> dict[str, Any]:
    ctx.call(stamp, kwargs={"name": state.name, "step": "before"}, key="before")
    stamp(name=state.name, step="start")
    pause(state, "middle")
    stamp(name=state.name, step="end")
    ctx.call(stamp, kwargs={"name": state.name, "step": "after"}, key="after")
    return {"done": ["endure"]}


@patient.node
def rest(state: Night, ctx: Any) -> dict[str, Any]:
    return {"done": [*state.done, "rest"]}


patient.edge("endure", "rest")


# ---- many quick steps

CHAIN = 10
chain = Workflow("chain", version=1, state=Night)
for _number in range(CHAIN):

    @chain.node(name=f"link{_number}")
    def _link(state: Night, ctx: Any) -> dict[str, Any]:
        pause(state, ctx.node)
        return {"done": [*state.done, ctx.node]}


for _number in range(CHAIN - 1):
    chain.edge(f"link{_number}", f"link{_number + 1}")


# ---- a step that ends its process

deadly = Workflow("deadly", version=1, state=Night)


@deadly.node
def die(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="die", attempt=ctx.attempt)
    if ctx.attempt <= state.deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"done": ["die"]}


# ---- three calls at once, each of which may wait at its gate

crew = Workflow("crew", version=1, state=Night)


def _errand(state: Night, what: str) -> str:
    stamp(name=state.name, step=what)
    pause(state, what)
    return what.upper()


@crew.node
def errands(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="errands", attempt=ctx.attempt)
    found = ctx.gather(*(ctx.later(partial(_errand, state), what, name=what) for what in ("a", "b", "c")))
    same = ctx.map(partial(_errand, state), ["x", "y", "z"], name="same")
    return {"value": found + same, "done": ["errands"]}


# ---- a step that takes too long, at its first attempt

tardy = Workflow("tardy", version=1, state=Night)


def _deaf_to_exceptions() -> None:
    while True:
        with suppress(Exception):
            time.sleep(0.01)


def _deaf_to_everything() -> None:
    while True:
        with suppress(BaseException):
            time.sleep(0.01)


def _in_c() -> None:
    """Code that holds no lock of the interpreter and looks at no signal."""
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)


HANGS: dict[str, Callable[[], None]] = {
    "sleeps": partial(time.sleep, 600),
    "catches every Exception": _deaf_to_exceptions,
    "catches everything": _deaf_to_everything,
    "computes in C": _in_c,
}


@tardy.node(timeout=1, retry=Retry(attempts=2, initial=0.1))
def hang(state: Night, ctx: Any) -> dict[str, Any]:
    stamp(name=state.name, step="hang", attempt=ctx.attempt)
    if ctx.attempt == 1:
        HANGS[state.value]()
    return {"done": ["hang"]}


# ---- three questions, one after the other

thrice = Workflow("thrice", version=1, state=Night)
for _number in (1, 2, 3):

    @thrice.approval(name=f"ask{_number}", reviewers=["finance"], editor_may_approve=True)
    def _ask(state: Night, ctx: Any) -> Action:
        return Action("note", {"number": 0}, editable=["number"])

    @thrice.node(name=f"use{_number}")
    def _use(state: Night, ctx: Any) -> dict[str, Any]:
        number = ctx.approved(ctx.node.replace("use", "ask")).args["number"]
        return {"done": [*state.done, str(number)]}


for _number in (1, 2, 3):
    thrice.edge(f"ask{_number}", f"use{_number}")
    if _number < 3:
        thrice.edge(f"use{_number}", f"ask{_number + 1}")
