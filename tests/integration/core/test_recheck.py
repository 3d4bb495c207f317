"""Edited arguments that are checked before people are asked anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import workflows
from runs.engine import Action, Workflow
from runs.errors import DecisionNotAllowed, EditorMayNotApprove
from runs.models import Vote
from tests.integration.core.conftest import House, open_approval

Define = Callable[..., Workflow]


def checked_flow(flow: Workflow, **options: Any) -> Workflow:
    """check -> ask -> act; an edit at ask goes back to check."""

    @flow.node(loop_limit=3)
    def check(state: Any, ctx: Any) -> dict[str, Any]:
        edited = ctx.edited("ask")
        amount = edited["amount"] if edited else state.x
        return {"x": amount, "log": [*state.log, f"checked {amount}"]}

    @flow.approval(**{"reviewers": ["finance"], "recheck": "check", **options})
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": state.x}, editable=["amount"], effect="irreversible")

    @flow.node
    def act(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [*state.log, ctx.approved("ask").args]}

    flow.edge(check, ask)
    flow.edge(ask, act)
    workflows.register(flow)
    return flow


def test_an_edit_is_no_vote_and_is_asked_anew_after_its_check(house: House, define: Define) -> None:
    checked_flow(define("checked"), editor_may_approve=True)
    run, approval = house.parked("checked", x=100)
    decided = house.answer(approval, "edit", args={"amount": 70}, comment="less")
    assert decided.approval is not None
    assert (decided.approval.status, decided.approval.closed_reason) == ("superseded", "edited")
    assert not Vote.objects.exists()
    house.work(run)
    fresh = open_approval(run)
    assert (fresh.previous_id, fresh.version) == (approval.pk, 1)
    assert fresh.content["actions"][0]["args"] == {"amount": 70}
    house.answer(fresh, "approve")
    house.work(run)
    assert run.status == "completed"
    assert run.output == '{"log":["checked 100","checked 70",{"amount":70}],"x":70}'


def test_the_same_edit_sent_twice_is_answered_alike(house: House, define: Define) -> None:
    checked_flow(define("checked"))
    _, approval = house.parked("checked", x=100)
    house.answer(approval, "edit", args={"amount": 70})
    assert house.answer(approval, "edit", args={"amount": 70}).replayed


def test_whoever_edited_is_not_the_only_approver_of_what_came_out_of_it(house: House, define: Define) -> None:
    checked_flow(define("checked"))
    run, approval = house.parked("checked", x=100)
    house.answer(approval, "edit", args={"amount": 70})
    fresh = open_approval(house.work(run))
    with pytest.raises(EditorMayNotApprove):
        house.answer(fresh, "approve")
    house.answer(fresh, "approve", by=house.felix)
    assert house.work(run).status == "completed"


def test_a_draft_cannot_go_round_the_check(house: House, define: Define) -> None:
    from runs import operations

    checked_flow(define("checked"))
    _, approval = house.parked("checked", x=100)
    with pytest.raises(DecisionNotAllowed):
        operations.revise(actor=house.frida, approval_id=approval.pk, version=1, args={"pay": {"amount": 1}})


def test_edits_for_ever_end_at_the_limit_of_the_loop(house: House, define: Define) -> None:
    checked_flow(define("checked"))
    run, approval = house.parked("checked", x=100)
    for amount in (70, 60):
        house.answer(approval, "edit", args={"amount": amount})
        house.work(run)
        approval = open_approval(run)
    house.answer(approval, "edit", args={"amount": 50})
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"]) == ("failed", "loop_limit")
