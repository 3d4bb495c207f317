"""What was approved is what runs, who may be the one to approve, and a saved decision means that the run goes on (C62, C65)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from runs import operations, store, workflows
from runs.engine import Action, Ask, Workflow
from runs.errors import (
    AlreadyDecided,
    AlreadyVoted,
    BadRequest,
    DecisionNotAllowed,
    EditorMayNotApprove,
    ReasonRequired,
    Unavailable,
)
from runs.models import Approval, Step, Vote
from runs.operations import ActionDecision, Answer
from tests.integration.core.conftest import House, history_is_whole, open_approval, pay_flow, state_of

Define = Callable[..., Workflow]


@pytest.fixture
def paid() -> list[Any]:
    """A ledger of what was really paid."""
    return []


def guarded(define: Define, paid: list[Any], use: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> None:
    """before -> ask -> after, where `after` pays what `use` makes of the approved arguments."""

    def pay(amount: int) -> str:
        paid.append(amount)
        return "receipt"

    def after(state: Any, ctx: Any) -> dict[str, Any]:
        action = ctx.approved("ask")
        return {"x": ctx.call(pay, kwargs=use(action.args), guarded_by=action)}

    pay_flow(define("pay"), after)


# ---- C62


def test_what_was_approved_is_paid(house: House, define: Define, paid: list[Any]) -> None:
    guarded(define, paid)
    run, approval = house.parked("pay", x=100)
    house.answer(approval, "approve")
    assert (house.work(run).status, paid) == ("completed", [100])
    vote = Vote.objects.get()
    assert vote.decisive
    assert (vote.digest, len(vote.approved_digest)) == (approval.digest, 64)


@pytest.mark.parametrize(
    "use", [lambda args: {"amount": 900}, lambda args: {"amount": min(50, args["amount"])}]
)
def test_other_arguments_than_the_approved_ones_are_not_used(
    house: House, define: Define, paid: list[Any], use: Any
) -> None:
    """C62 (1) a model that says something else the second time, (2) a step that clamps."""
    guarded(define, paid, use)
    run, approval = house.parked("pay", x=100)
    house.answer(approval, "approve")
    house.work(run)
    assert run.error is not None
    assert (run.status, run.error["code"], paid) == ("failed", "approval_mismatch", [])
    assert run.error["approved"] == {"amount": 100}


def test_an_edit_is_what_is_paid(house: House, define: Define, paid: list[Any]) -> None:
    """C62 (3)."""
    guarded(define, paid)
    run, approval = house.parked("pay", x=100)
    house.answer(approval, "edit", args={"amount": 70})
    assert (house.work(run).status, paid) == ("completed", [70])


def test_without_an_approval_nothing_is_approved(house: House, define: Define, paid: list[Any]) -> None:
    """A rejected action, and one that nobody was asked about, cannot be used by going on to the node behind it."""
    workflow = define("careless")

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": 1})

    @workflow.node
    def after(state: Any, ctx: Any) -> None:
        paid.append(ctx.approved("ask").args)

    workflow.choose(ask, approve="after", reject="after")
    workflows.register(workflow)
    run, approval = house.parked("careless")
    house.answer(approval, "reject", comment="no")
    house.work(run)
    assert run.error is not None
    assert (run.status, run.error["code"], paid) == ("failed", "not_approved", [])


# ---- C65


def three_questions(define: Define) -> None:
    workflow = define("three")
    for number in (1, 2, 3):

        def ask(state: Any, ctx: Any) -> Ask:
            return Ask(Action("note", {"n": len(state.log)}, editable=["n"]))

        def note(state: Any, ctx: Any, *, asked: str = f"a{number}") -> dict[str, Any]:
            return {"log": [*state.log, ctx.approved(asked).args]}

        workflow.approval(name=f"a{number}", reviewers=["finance"], editor_may_approve=True)(ask)
        workflow.node(name=f"n{number}")(note)
        workflow.edge(f"a{number}", f"n{number}")
    workflow.edge("n1", "a2")
    workflow.edge("n2", "a3")
    workflows.register(workflow)


def test_every_saved_decision_lets_the_run_go_on(house: House, define: Define) -> None:
    """C65: three questions, three answers, each with its own value; a stale tab answers the first one only."""
    three_questions(define)
    run, first = house.parked("three")
    house.answer(first, "edit", args={"n": {"status": "approved", "n": 1}})
    assert Step.objects.get(run=run, node="n1").status == "ready"
    house.work(run)
    with pytest.raises(AlreadyDecided):
        house.answer(first, "approve", by=house.felix)
    for number in (2, 3):
        house.answer(open_approval(run), "edit", args={"n": {"status": "approved", "n": number}})
        house.work(run)
    assert run.status == "completed"
    assert [entry["n"]["n"] for entry in state_of(run)["log"]] == [1, 2, 3]
    assert Approval.objects.filter(run=run).count() == 3
    assert history_is_whole(run)


def test_a_decision_and_its_checkpoint_are_one_commit(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN 8: if the run cannot be moved on, the decision is not recorded either."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)

    def fails(writer: Any) -> None:
        raise OperationalError("no room left")

    monkeypatch.setattr(store.Writer, "_begin_steps", fails)
    with pytest.raises(Unavailable):
        house.answer(approval, "approve")
    monkeypatch.undo()
    approval.refresh_from_db()
    assert (approval.status, Vote.objects.count()) == ("open", 0)
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"


# ---- who may be the one to approve


def test_who_edited_an_irreversible_action_is_not_its_only_approver(house: House, define: Define) -> None:
    pay_flow(define("pay"), editor_may_approve=False)
    run, approval = house.parked("pay", x=100)
    edited = house.answer(approval, "edit", args={"amount": 70}).approval
    assert edited is not None
    assert (edited.status, edited.version) == ("open", 2)
    for kind in ("approve", "edit"):
        with pytest.raises((EditorMayNotApprove, AlreadyVoted)):
            house.answer(edited, kind, args={"amount": 70} if kind == "edit" else None)
    house.answer(edited, "approve", by=house.felix)
    assert state_of(house.work(run))["log"][-1] == {"amount": 70}


def test_a_draft_counts_as_an_edit_for_who_may_approve(house: House, define: Define) -> None:
    pay_flow(define("pay"), editor_may_approve=False)
    run, approval = house.parked("pay", x=100)
    drafted = operations.revise(
        actor=house.frida, approval_id=approval.pk, version=1, args={"pay": {"amount": 70}}
    )
    with pytest.raises(EditorMayNotApprove):
        house.answer(drafted, "approve")
    house.answer(drafted, "approve", by=house.felix)
    assert house.work(run).status == "completed"


def test_an_editor_may_reject(house: House, define: Define) -> None:
    pay_flow(define("pay"), editor_may_approve=False)
    run, approval = house.parked("pay", x=100)
    edited = house.answer(approval, "edit", args={"amount": 70}).approval
    assert edited is not None
    with pytest.raises(AlreadyVoted):
        house.answer(edited, "reject", comment="after all")
    house.answer(edited, "reject", comment="no", by=house.felix)
    assert house.work(run).status == "failed"


def test_a_quorum_is_of_different_people_who_agree(house: House, define: Define) -> None:
    """K13: one vote a person and version; a reject of one decides unless the workflow says otherwise."""
    pay_flow(define("pay"), quorum=2)
    run, approval = house.parked("pay", x=1)
    assert house.answer(approval, "approve").approval.status == "open"  # type: ignore[union-attr]
    assert house.answer(approval, "approve").replayed
    with pytest.raises(AlreadyVoted):
        house.answer(approval, "reject", comment="or not")
    with pytest.raises(AlreadyVoted):
        house.answer(approval, "approve", comment="said differently")
    house.answer(approval, "reject", comment="no", by=house.felix)
    assert house.work(run).status == "failed"
    assert Vote.objects.filter(decisive=True).count() == 1


def test_a_reject_quorum_takes_as_many_rejects(house: House, define: Define) -> None:
    pay_flow(define("pay"), quorum=2, reject_quorum=2)
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "reject", comment="no")
    run.refresh_from_db()
    assert run.status == "waiting"
    house.answer(approval, "reject", comment="no", by=house.felix)
    run.refresh_from_db()
    assert run.status == "failed"


def test_a_draft_voids_the_votes_before_it(house: House, define: Define) -> None:
    pay_flow(define("pay"), quorum=2)
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    drafted = operations.revise(
        actor=house.felix, approval_id=approval.pk, version=1, args={"pay": {"amount": 2}}
    )
    assert house.answer(drafted, "approve", by=house.felix).approval.status == "open"  # type: ignore[union-attr]
    assert house.answer(drafted, "approve").approval.status == "decided"  # type: ignore[union-attr]
    assert state_of(house.work(run))["log"][-1] == {"amount": 2}


# ---- what an answer must be


def several(define: Define) -> None:
    workflow = define("several")

    @workflow.approval(reviewers=["finance"], reason_required=True)
    def ask(state: Any, ctx: Any) -> list[Action]:
        return [Action("mail", key="a"), Action("pay", {"n": 1}, key="b", allowed=["approve", "reject"])]

    workflow.node(name="yes")(lambda state, ctx: None)
    workflow.node(name="partly")(
        lambda state, ctx: {"x": [a["decision"] for a in ctx.decision("ask").actions]}
    )
    workflow.choose("ask", approve="yes", mixed="partly", reject="partly")
    workflows.register(workflow)


def answered(house: House, approval: Approval, *decisions: ActionDecision, comment: str = "") -> Any:
    answer = Answer(approval.pk, approval.version, approval.digest, decisions, comment)
    return operations.decide(actor=house.frida, answers=[answer])[0]


def test_every_action_is_answered_once_and_as_it_allows(house: House, define: Define) -> None:
    several(define)
    run, approval = house.parked("several")
    yes, no = ActionDecision("a", "approve"), ActionDecision("b", "reject", message="too dear")
    for error, decisions in (
        (BadRequest, [yes]),
        (BadRequest, [yes, yes, no]),
        (BadRequest, [yes, no, ActionDecision("c", "approve")]),
        (BadRequest, [yes, ActionDecision("b", "perhaps")]),
        (BadRequest, [ActionDecision("a", "approve", {"n": 2}), no]),
        (DecisionNotAllowed, [yes, ActionDecision("b", "respond", message="x")]),
        (DecisionNotAllowed, [yes, ActionDecision("b", "edit", {"n": 2})]),
        (ReasonRequired, [yes, ActionDecision("b", "reject")]),
    ):
        with pytest.raises(error):
            answered(house, approval, *decisions)
    with pytest.raises(BadRequest):
        operations.decide(actor=house.frida, answers=[])
    approval.refresh_from_db()
    assert (approval.status, Vote.objects.count()) == ("open", 0)
    answered(house, approval, no, yes)
    house.work(run)
    assert (run.status, state_of(run)["x"]) == ("completed", ["approve", "reject"])


def test_of_answers_to_several_runs_each_is_taken_by_itself(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    parked = [house.parked("pay", x=n) for n in range(3)]
    house.answer(parked[1][1], "reject", comment="no")
    answers = [Answer(a.pk, a.version, a.digest, [ActionDecision("pay", "approve")]) for _, a in parked]
    decided = operations.decide(actor=house.felix, answers=answers)
    assert [type(one.error).__name__ for one in decided] == ["NoneType", "AlreadyDecided", "NoneType"]
    assert [house.work(run).status for run, _ in parked] == ["completed", "failed", "completed"]
