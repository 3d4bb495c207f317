"""A workflow that waits for everything there is, and notes in the ledger what it calls."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from runs.engine import Action, Workflow
from tests.kit.ledger import stamp


class Waits(BaseModel):
    name: str = "x"
    done: list[Any] = []


waiter = Workflow("waiter", version=1, state=Waits)


@waiter.node(name="only")
def _wait(state: Waits, ctx: Any) -> dict[str, Any]:
    ctx.call(stamp, kwargs={"name": state.name, "step": "before"}, name="before")
    ctx.sleep(0.5)
    paid = ctx.wait_signal("paid", timeout="1h")
    child = ctx.run_child("echo", {"name": state.name, "done": ["child"]})
    answer = ctx.ask(Action("pay", {"n": paid.payload}), reviewers=["finance"])
    ctx.call(stamp, kwargs={"name": state.name, "step": "after"}, name="after")
    return {"done": [paid.payload, *child["done"], answer.outcome]}
