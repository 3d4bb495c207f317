"""Stages, escalation, reminders and candidates in a play: the same rules as in Postgres, with the play's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from runs.engine import END, Action, Hours, Stage, Workflow
from runs.errors import NotACandidate, SelfApproval, Unprocessable
from runs.testing import approve, edit, play, reject

TEAMS = {"finance": ["frida", "felix"], "legal": ["lea", "frida"], "leads": ["lena"]}


class Money(BaseModel):
    amount: int = 1
    paid: int = 0
    why: str = ""


def pay(**options: Any) -> Workflow:
    workflow = Workflow("pay", state=Money)

    @workflow.approval(**options)
    def ask(state: Money, ctx: Any) -> Action:
        return Action("pay", {"amount": state.amount}, editable=["amount"], effect="irreversible")

    @workflow.node
    def done(state: Money, ctx: Any) -> dict[str, Any]:
        return {"paid": ctx.approved("ask").args["amount"]}

    workflow.edge(ask, done)
    return workflow


STAGED: dict[str, Any] = {"stages": [Stage("finance", quorum=2), Stage("legal")]}


def test_stages_are_asked_one_after_the_other() -> None:
    played = play(pay(**STAGED), {}, teams=TEAMS)
    played.decide("ask", approve(by="frida"))
    with pytest.raises(NotACandidate):
        played.decide("ask", approve(by="lea"))
    played.decide("ask", approve(by="felix"))
    assert (played.approvals[0].asked, played.approvals[0].stage) == (("legal",), 1)
    played.decide("ask", approve(by="lea"))
    assert (played.status, played.state["paid"]) == ("completed", 1)
    assert played.kinds.count("approval_passed_on") == 1


def test_who_is_not_named_is_the_next_who_is_asked() -> None:
    assert play(pay(**STAGED), {}, decisions={"ask": "approve"}, teams=TEAMS).status == "completed"
    assert play(pay(**STAGED), {}, decisions={"ask": "approve"}).status == "completed"


def test_an_edit_begins_with_the_first_stage_again() -> None:
    played = play(pay(**STAGED), {}, teams=TEAMS)
    for name in ("felix", "frida"):
        played.decide("ask", approve(by=name))
    played.decide("ask", edit(amount=2, by="lea"))
    assert (played.approvals[0].stage, played.approvals[0].version) == (0, 2)
    for name in ("frida", "felix"):
        played.decide("ask", approve(by=name))
    assert played.state["paid"] == 2


def test_who_requested_it_does_not_decide() -> None:
    played = play(pay(reviewers=["finance"]), {}, teams=TEAMS, requester="frida")
    with pytest.raises(SelfApproval):
        played.decide("ask", approve(by="frida"))
    assert played.decide("ask", "approve").status == "completed"
    alone = play(pay(reviewers=["finance"]), {}, teams={"finance": ["frida"]}, requester="frida")
    assert [event.payload["code"] for event in alone.history if event.kind == "approval_unanswerable"] == [
        "only_requester"
    ]


def test_team_after_team_is_asked_and_reminded() -> None:
    workflow = pay(reviewers=["finance"], due="1h", remind="15m", escalate_to=["leads"])
    played = play(workflow, {}, teams=TEAMS)
    played.advance_time("50m")
    assert played.kinds.count("approval_reminded") == 1
    played.advance_time("20m")
    assert played.approvals[0].asked == ("finance", "leads")
    assert played.decide("ask", approve(by="lena")).status == "completed"
    late = play(workflow, {}, decisions={"ask": "timeout"}, teams=TEAMS)
    assert late.status == "failed"
    assert [late.kinds.count(kind) for kind in ("approval_reminded", "approval_escalated")] == [2, 1]
    saved = play(workflow, {}, decisions={"ask": ["timeout", approve(by="lena")]}, teams=TEAMS)
    assert saved.status == "completed"
    saved.verify()


def test_working_time_is_that_of_the_team() -> None:
    friday = datetime(2026, 12, 4, 16, tzinfo=UTC)
    workflow = pay(reviewers=["finance"], due="2 business hours")
    assert play(workflow, {}, now=friday).approvals[0].due_at == friday + timedelta(days=2, hours=18)
    hours = {"finance": Hours("UTC", week=((0, 1440),) * 7)}
    assert play(workflow, {}, now=friday, hours=hours).approvals[0].due_at == friday + timedelta(hours=2)
    anywhere = {"": hours["finance"]}  # as the project says
    assert play(workflow, {}, now=friday, hours=anywhere).approvals[0].due_at == friday + timedelta(hours=2)


def test_a_reason_that_is_offered_comes_before_what_is_written_and_another_is_refused() -> None:
    workflow = Workflow("pay", state=Money)

    @workflow.approval(reasons=["Already paid", "Wrong amount"])
    def ask(state: Money, ctx: Any) -> Action:
        return Action("pay", {"amount": state.amount})

    @workflow.node
    def why(state: Money, ctx: Any) -> dict[str, Any]:
        return {"why": ctx.decision("ask").comment}

    workflow.choose(ask, approve=END, reject=why)
    told = reject("see 7731", reasons=["Already paid"])
    assert play(workflow, decisions={"ask": told}).state["why"] == "Already paid. see 7731"
    with pytest.raises(Unprocessable, match="not offered here") as refused:
        play(workflow, decisions={"ask": reject(reasons=["Already paid", "Too late"])})
    assert [(one.path, one.code) for one in refused.value.errors] == [("/reasons/1", "unknown_reason")]
