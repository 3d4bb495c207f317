"""Workflows that ask exactly what a test tells them to ask."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, Field

from runs.engine import Action, Ask, Workflow, append
from tests.kit.ledger import gate


class Asking(BaseModel):
    """args, parameters of the schema, what may be edited, and every text that people read."""

    args: Any = {}
    properties: dict[str, Any] | None = None
    schema_: Any = Field(None, alias="schema")  # all of it, in place of properties
    editable: list[str] = []
    allowed: list[str] | None = None
    title: str = "Do it"
    reason: str = ""
    note: str = ""
    facts: dict[str, Any] = {}
    told: Any = None
    seen: Any = None


def question(state: Asking) -> Ask:
    parts = {"type": "object", "properties": state.properties} if state.properties is not None else None
    schema = parts if state.schema_ is None else state.schema_
    action = Action(
        "write",
        state.args,
        schema=schema,
        editable=state.editable,
        allowed=state.allowed,
        effect="irreversible",
        risk="high",
    )
    return Ask(
        action,
        title=state.title,
        facts=dict(state.facts),
        reason=state.reason,
        agent_note=state.note,
    )


def asking(name: str, **options: Any) -> Workflow:
    """draft -> confirm -> apply; a reject goes to `refuse`, an answer to `hear`."""
    flow = Workflow(name, version=1, state=Asking)

    @flow.node
    def draft(state: Asking, ctx: Any) -> dict[str, Any]:
        return {"told": ctx.call(len, str(state.args), name="measure")}

    @flow.approval(reviewers=["finance"], editor_may_approve=True, **options)
    def confirm(state: Asking, ctx: Any) -> Ask:
        return question(state)

    @flow.node(name="apply")
    def apply_(state: Asking, ctx: Any) -> dict[str, Any]:
        return {"seen": ctx.approved("confirm").args}

    @flow.node
    def refuse(state: Asking, ctx: Any) -> dict[str, Any]:
        return {"told": ctx.decision("confirm").comment}

    @flow.node
    def hear(state: Asking, ctx: Any) -> dict[str, Any]:
        return {"told": ctx.decision("confirm").message}

    flow.edge("draft", "confirm")
    flow.choose("confirm", approve="apply", reject="refuse", respond="hear")
    return flow


one = asking("one", due="24h")
two = asking("two", quorum=2)
careful = asking("careful", reason_required=True)


several = Workflow("several", version=1, state=Asking)


@several.approval(name="confirm", reviewers=["finance"], editor_may_approve=True)
def _three(state: Asking, ctx: Any) -> Ask:
    actions = [
        Action("pay", {"amount": 10, "to": "a"}, key="first", editable=["amount"], effect="irreversible"),
        Action("mail", {"text": "Dear customer,\nwe paid."}, key="second"),
    ]
    return Ask(actions, title=state.title)


@several.node(name="apply")
def _apply(state: Asking, ctx: Any) -> dict[str, Any]:
    return {"seen": [ctx.decision("confirm").outcome, ctx.approved("confirm", key="first").args]}


several.choose("confirm", approve="apply", mixed="apply", reject="apply")


# ---- an edit goes through a check before people are asked anew

checked = Workflow("checked", version=1, state=Asking)


@checked.node(loop_limit=10)
def look(state: Asking, ctx: Any) -> dict[str, Any]:
    """Takes an edited note, but for one that says "bad"."""
    edited = ctx.edited("confirm")
    if edited is None:
        return {"told": None}
    return {"told": "refused"} if edited["note"] == "bad" else {"args": edited}


@checked.approval(name="confirm", reviewers=["finance"], editor_may_approve=True, recheck="look")
def _ask_checked(state: Asking, ctx: Any) -> Ask:
    return question(state)


@checked.node(name="redraft")
def _redraft(state: Asking, ctx: Any) -> dict[str, Any]:
    return {"args": {**state.args, "note": "drafted anew"}}


@checked.node(name="apply")
def _apply_checked(state: Asking, ctx: Any) -> dict[str, Any]:
    return {"seen": ctx.approved("confirm").args}


checked.edge("look", "confirm")
checked.choose("confirm", approve="apply", reject="redraft", limit="apply")
checked.edge("redraft", "confirm")


# ---- runs that work for as long as a test wants


class Working(BaseModel):
    name: str
    steps: int = 1
    gates: list[int] = []  # the steps before which a run waits for the gate `NAME-STEP`
    done: int = 0


many = Workflow("many", version=1, state=Working)


@many.node(loop_limit=1_000)
def step(state: Working, ctx: Any) -> dict[str, Any]:
    if state.done in state.gates:
        gate(f"{state.name}-{state.done}")
    return {"done": state.done + 1}


def again(state: Working) -> str:
    return "step" if state.done < state.steps else "END"


many.choose("step", again, to=["step", "END"])


# ---- lanes: many items, a nested workflow that asks, a question, and two that may write one key


class Research(BaseModel):
    topic: str = "tea"
    notes: Annotated[list[str], append] = []
    pages: list[str] = []
    title: str = ""
    fails: bool = False  # the first attempt of `draft`
    clashes: bool = False  # `draft` and `search` write the title
    deep: bool = False  # whether anybody looks deeper


class Question(BaseModel):
    topic: str
    answer: str = ""


second_look = Workflow("second-look", version=1, state=Question)


@second_look.node
def prepare(state: Question, ctx: Any) -> dict[str, Any]:
    return {"answer": f"about {state.topic}"}


@second_look.approval(name="ask", reviewers=["finance"])
def _ask_second(state: Question, ctx: Any) -> Ask:
    return Ask(Action("publish", {"topic": state.topic, "answer": state.answer}), title="Publish it")


second_look.edge("prepare", "ask")

research = Workflow("research", version=1, state=Research)


@research.node
def plan(state: Research, ctx: Any) -> dict[str, Any]:
    return {"notes": [f"a plan for {state.topic}"]}


@research.fan_out(
    items=lambda state: [state.topic, f"green {state.topic}", f"black {state.topic}"], into="pages"
)
def fetch(state: Research, ctx: Any, item: str) -> str:
    return str(ctx.call(str.title, item, name="fetch_page"))


@research.node
def search(state: Research, ctx: Any) -> dict[str, Any]:
    found = {"notes": [f"{len(state.pages)} pages"]}
    return {**found, "title": "Found"} if state.clashes else found


@research.approval(name="outline", reviewers=["finance"])
def _ask_outline(state: Research, ctx: Any) -> Ask:
    return Ask(Action("outline", {"topic": state.topic, "notes": state.notes}), title="Is the outline right?")


@research.node(name="draft")
def _draft(state: Research, ctx: Any) -> dict[str, Any]:
    if state.fails and ctx.attempt == 1:
        raise RuntimeError("out of paper")
    return {"title": f"On {state.topic}"}


@research.node
def deeper(state: Research, ctx: Any) -> dict[str, Any]:
    return {"notes": ["deeper"]}


@research.node
def write(state: Research, ctx: Any) -> dict[str, Any]:
    return {"notes": [f"{state.title}: {len(state.notes)} notes"]}


research.edge("plan", "fetch")
research.edge("plan", "outline")
research.edge("plan", "check")
research.edge("fetch", "search")
research.edge("search", "write")
research.choose("outline", approve="draft", reject="write")
research.choose("draft", lambda state: "deeper" if state.deep else "write", to=["deeper", "write"])
research.edge("deeper", "write")
research.subflow("check", second_look, output=lambda result: {"notes": [result["answer"]]})
research.edge("check", "write")


# ---- large graphs


def _nothing(state: Asking, ctx: Any) -> None:
    """A node of a large graph."""


def large(name: str, lanes: int, length: int) -> Workflow:
    """begin, so many lanes of so many nodes, each of which asks at its end, and finish: names as `lane_2_step_7`."""
    flow = Workflow(name, version=1, state=Asking)
    flow.node(name="begin")(_nothing)
    for lane in range(lanes):
        steps = [f"lane_{lane}_step_{step}" for step in range(length)]
        for step in steps[:-1]:
            flow.node(name=step)(_nothing)
        flow.approval(name=steps[-1], reviewers=["finance"])(lambda state, ctx: question(state))
        for before, after in pairwise(["begin", *steps, "finish"]):
            flow.edge(before, after)
    flow.node(name="finish")(_nothing)
    return flow


sixty = large("sixty", lanes=4, length=15)
sixteen = large("sixteen", lanes=16, length=2)
