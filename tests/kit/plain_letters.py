"""A workflow in two versions, for whatever looks at a change of code: begin -> ask -> last."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from runs.engine import Action, Workflow

NAME = "letters"


class First(BaseModel):
    log: list[str] = []
    note: str = ""


class Second(BaseModel):
    log: list[str] = []
    remark: str
    risk: str = "low"


def letters(version: int, state: type[BaseModel], *, ask: str = "ask", name: str = NAME) -> Workflow:
    flow = Workflow(name, version=version, state=state)
    flow.node(name="begin")(lambda state, ctx: {"log": [*state.log, f"begin {version}"]})
    flow.approval(name=ask, reviewers=["finance"])(lambda state, ctx: Action("send", {"to": "all"}))
    flow.node(name="last")(lambda state, ctx: {"log": [*state.log, f"last {version}"]})
    flow.edge("begin", ask)
    flow.edge(ask, "last")
    return flow


def first() -> Workflow:
    return letters(1, First)


def second(*, leads: bool = True, ask: str = "ask", renamed: bool = False, name: str = NAME) -> Workflow:
    """Version 2. leads: with a migration from version 1; renamed: which knows of the approval's new name."""
    flow = letters(2, Second, ask=ask, name=name)
    if leads:
        flow.migrate(to_second, from_version=1, nodes={"ask": ask} if renamed else {})
    return flow


def to_second(document: dict[str, Any]) -> dict[str, Any]:
    return {"log": document["log"], "remark": document["note"] or "<none>"}
