"""Workflows for the tests of `play`, and a world that notes what is done to it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from runs.engine import Action, Retry, Workflow, append


class State(BaseModel):
    x: Any = None
    log: Annotated[list[Any], append] = []


def paying(done: list[Any], **approval: Any) -> Workflow:
    """fetch -> confirm -> pay; a reject leads to sorry. done: what was done to the world, with its key."""
    flow = Workflow("paying", state=State)

    def order(number: Any) -> dict[str, Any]:
        done.append("order")
        return {"total": 5, "number": number}

    def transfer(amount: int, *, idempotency_key: str) -> str:
        done.append((amount, idempotency_key))
        return f"paid {amount}"

    @flow.node(retry=Retry(attempts=3, initial=10, jitter=0))
    def fetch(state: State, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.call(order, state.x)]}

    @flow.approval(**{"reviewers": ["finance"], "editor_may_approve": True, **approval})
    def confirm(state: State, ctx: Any) -> Action:
        return Action(
            "transfer", {"amount": state.log[-1]["total"]}, editable=["amount"], effect="irreversible"
        )

    @flow.node
    def pay(state: State, ctx: Any) -> dict[str, Any]:
        action = ctx.approved("confirm")
        paid = ctx.call(
            transfer, kwargs=action.args, guarded_by=action, effect="irreversible", idempotency_key=True
        )
        return {"log": [paid]}

    @flow.node
    def sorry(state: State, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.decision("confirm").comment or "sorry"]}

    flow.edge(fetch, confirm)
    flow.choose(confirm, approve=pay, reject=sorry)
    return flow


def single(body: Any, **options: Any) -> Workflow:
    """One node with this body."""
    flow = Workflow("single", state=State)
    flow.node(name="only", **options)(body)
    return flow
