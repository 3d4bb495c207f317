"""Random workflows under random verbs, played and in Postgres: both come to the same, refusals included."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runs import workflows
from runs.engine import START, Action, Child, Question, Retry, Signal, Timer, Workflow, append
from runs.errors import ChildFailed, HitlError
from runs.testing import Played, approve, edit, play, reject, respond
from runs.testing.book import ApprovalRow
from tests.integration.core.conftest import House
from tests.integration.testing.real import Real
from tests.integration.testing.test_same_as_real import alike, told
from tests.sizes import size

# Lengths of waits that no sum of others equals: what is due at one instant here is due milliseconds apart there.
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
Act = tuple[str, tuple[Any, ...]]


class Log(BaseModel):
    log: Annotated[list[Any], append] = []
    made: list[Any] = []
    seen: Any = None


def length(number: int) -> float:
    return 3600 * math.sqrt(PRIMES[number % len(PRIMES)])


UNDO = Retry(attempts=2, initial=length(9) / 13, jitter=0)


# ---- bodies; what they do depends on node and attempt alone


def plain(number: int) -> Callable[..., Any]:
    return lambda state, ctx: {"log": [ctx.call(str, number)]}


def give_back(given: Any, number: int) -> None:
    """What takes `undoing`'s call back; of every third nobody can."""
    if number % 3 == 0:
        raise RuntimeError(f"stays {number}")


def undoing(number: int) -> Callable[..., Any]:
    return lambda state, ctx: {"log": [ctx.call(str, number, effect="reversible", undo=give_back)]}


def shaky(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        ctx.call(str, number)
        if ctx.attempt < 2:
            raise RuntimeError(f"shaky {number}")
        return {"log": [f"attempt {ctx.attempt}"]}

    return body


def broken(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        if ctx.attempt < 4:
            raise RuntimeError(f"broken {number}")
        return {"log": [number]}

    return body


def sleeping(number: int) -> Callable[..., Any]:
    return lambda state, ctx: ctx.sleep(length(number)) or {"log": [number]}


def asking(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        answer = ctx.ask(Action("use", {"n": number}, editable=["n"]), due=length(number))
        return {"log": [[answer.outcome, answer.edited, answer.comment[:9]]]}

    return body


def racing(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        first = ctx.first_of(
            go=Signal("go"), late=Timer(length(number)), ask=Question(Action("win", {"n": number}))
        )
        return {"log": [first.winner]}

    return body


def listening(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        return {"log": [ctx.wait_signal("go", timeout=length(number), schema={"type": "integer"}).payload]}

    return body


def raising(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        try:
            return {"log": [ctx.run_child("inner", {"seen": number})["seen"]]}
        except ChildFailed as error:
            return {"log": [error.facts["status"]]}

    return body


def with_child(number: int) -> Callable[..., Any]:
    def body(state: Any, ctx: Any) -> Any:
        found = ctx.first_of(child=Child("inner", {"seen": number}), late=Timer(length(number) / 7))
        return {"log": [found.winner]}

    return body


BODIES = (plain, undoing, undoing, shaky, broken, sleeping, asking, racing, listening, raising, with_child)


def inner_flow() -> Workflow:
    flow = Workflow("inner", state=Log, undo_retry=UNDO)

    @flow.node
    def first(state: Log, ctx: Any) -> Any:
        ctx.call(str, state.seen or 0, undo=give_back)
        if state.seen is not None and state.seen % 2:
            ctx.sleep(length(state.seen + 5))
        if state.seen is not None and state.seen % 3 == 0 and ctx.attempt < 3:
            raise RuntimeError("inner")

    @flow.approval
    def agree(state: Log, ctx: Any) -> Action:
        return Action("agree", {"seen": state.seen})

    flow.edge(first, agree)
    return flow


def random_flow(draw: random.Random, inner: Workflow) -> Workflow:
    """A graph that goes forward: splits, joins, lanes that end; nodes of every kind."""
    flow = Workflow("random", state=Log, undo_retry=UNDO, compensate=draw.random() < 0.5)
    count = draw.randint(3, 7)
    names = [f"n{number}" for number in range(count)]
    for number, name in enumerate(names):
        add_node(flow, name, number, draw, inner)
    for number, name in enumerate(names[:-1]):
        later = names[number + 1 :]
        if flow.nodes[name].approval and draw.random() < 0.5:
            flow.choose(name, approve=later[0], reject=draw.choice(later))
            continue
        more = draw.sample(later, min(len(later), draw.choice((0, 0, 1, 2))))
        for target in sorted({later[0], *more}):
            flow.edge(name, target)
    for name in names[:-2]:
        if draw.random() < 0.3:
            flow.on_error(name, names[-1])
    if draw.random() < 0.4:
        flow.edge(START, names[0])
        flow.edge(START, names[1])
    return flow


def add_node(flow: Workflow, name: str, number: int, draw: random.Random, inner: Workflow) -> None:
    kind = draw.choice(("body", "body", "body", "body", "approval", "fan_out", "subflow"))
    body = draw.choice(BODIES)(number)
    retry = Retry(attempts=draw.choice((1, 2)), initial=length(number) / 11, jitter=0)
    match kind:
        case "body":
            flow.node(name=name, retry=retry)(body)
        case "approval":
            flow.approval(
                name=name,
                due=length(number + 3),
                quorum=draw.choice((1, 2)),
                on_timeout=draw.choice(("approve", "reject", "fail")),
            )(lambda state, ctx: Action("go", {"n": number}, editable=["n"]))
        case "fan_out":
            at_once, count = draw.choice((1, 2, 5)), draw.randint(0, 4)
            asked = draw.random() < 0.5

            def item(state: Any, ctx: Any, one: int) -> Any:
                if one == 2:
                    raise RuntimeError("two")
                return ctx.ask(Action("item", {"one": one})).outcome if asked else one

            flow.fan_out(
                name,
                item,
                items=lambda state: list(range(count)),
                into="made",
                concurrency=at_once,
                on_item_error=draw.choice(("collect", "fail")),
            )
        case _:
            flow.subflow(
                name, inner, input=lambda state: {"seen": number}, output=lambda told: {"log": ["in"]}
            )


# ---- verbs


def next_act(draw: random.Random, played: Played) -> Act:
    """Something a person might do now, or should be refused."""
    dice = draw.random()
    opened = played.world.book.find(ApprovalRow, status="open")
    if dice < 0.1:
        return "rewind", (draw.randint(0, len(played.checkpoints)), None, draw.choice(("reuse", "again")))
    if dice < 0.15:
        return "edit_state", ({"log": [f"edit {draw.randint(0, 9)}"]},)
    if played.status == "failed":
        return "retry", ()
    if dice < 0.3:
        return "signal", ("go", draw.choice((1, 2, "no integer")))
    if dice < 0.36:
        return "cancel", ()
    if dice < 0.42:
        return ("pause", "pause with children")[draw.random() < 0.5], ()
    if dice < 0.45 or (played.status == "paused" and dice < 0.75):
        return "resume", ()
    if opened:
        kinds = [w for w in ("approve", "edit", "reject", "respond") if _offers(opened[0], w)]
        by = draw.choice(("frida", "felix"))
        told = {
            "approve": approve(by=by),
            "edit": edit(n=draw.randint(100, 999), by=by),
            "reject": reject("no", by=by),
            "respond": respond("hm", by=by),
        }
        return "decide", (opened[0].node, told[draw.choice(kinds)])
    return "rewind", (draw.randint(0, len(played.checkpoints) - 1),)


def _offers(row: Any, word: str) -> bool:
    return all(word in action["allowed"] for action in row.document["actions"])


def done(side: Any, act: Act) -> str:
    """Do it; what it was refused as."""
    verb, arguments = act
    try:
        if verb == "pause with children":
            side.pause(children=True)
        else:
            getattr(side, verb)(*arguments)
    except HitlError as error:
        return error.code
    return ""


@pytest.fixture
def inner() -> Iterator[Workflow]:
    flow = inner_flow()
    workflows.register(flow)
    yield flow
    for name in ("inner", "random"):
        workflows.unregister(name)


@pytest.mark.parametrize("seed", range(size("race rounds") * 2))
def test_both_come_to_the_same(house: House, inner: Workflow, seed: int) -> None:
    draw = random.Random(seed)
    flow = random_flow(draw, inner)
    flow.validate()
    played = play(flow, {}, children=[inner])
    acts: list[Act] = []
    refusals: list[str] = []
    for _ in range(size("lanes") * 2):
        acts.append(next_act(draw, played))
        refusals.append(done(played, acts[-1]))
    workflows.register(flow)
    real = Real.play(house, flow, {}, ())
    assert [done(real, act) for act in acts] == refusals, acts
    for here, there in zip(told(played), real.told(), strict=True):
        assert here["kinds"] == there["kinds"], acts
        assert alike(here) == alike(there), acts
