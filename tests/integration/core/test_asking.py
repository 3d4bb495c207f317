"""`ctx.ask`: an approval in the middle of code, answered by the same decide as an approval node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import Action, Ask, Question, Workflow
from runs.errors import AlreadyDecided, ApprovalClosed, ApprovalTimeout, SelfApproval
from runs.models import Approval, Checkpoint, JournalEntry, Step, Wait
from tests.integration.core.conftest import House, by_sql, history_is_whole, open_approval, state_of
from tests.integration.core.test_sleeping import pass_time

Define = Callable[..., Workflow]
FINANCE = {"reviewers": ["finance"]}


def asking(define: Define, body: Callable[[Any, Any], Any], name: str = "agent") -> None:
    flow = define(name)
    flow.node(name="only")(body)
    workflows.register(flow)


FORMS = ["alone", "nested", "child", "nested in a lane"]


@pytest.mark.parametrize("form", FORMS)
def test_calls_around_questions_are_made_once(house: House, define: Define, form: str) -> None:
    """C41: a call, a question, a loop of a call and a question: each call once, each question with its own arguments."""
    made: list[Any] = []

    def body(state: Any, ctx: Any) -> Any:
        ctx.call(made.append, "create", name="create")
        ctx.ask(Action("start", {}), **FINANCE)
        for i in range(3):
            ctx.call(made.append, i, name="charge")
            ctx.ask(Action("go on", {"i": i}), **FINANCE)
        return {"log": [ctx.call(made.append, "finish", name="finish")]}

    asking(define, body)
    run = house.submit(_in_form(define, form))
    for _ in range(4):
        everything(house)
        house.answer(Approval.objects.get(status="open"), "approve")
    everything(house)
    run.refresh_from_db()
    assert run.status == "completed", run.error
    assert made == ["create", 0, 1, 2, "finish"]
    documents = [a.content["actions"][0]["args"] for a in Approval.objects.order_by("opened_at")]
    assert documents == [{}, {"i": 0}, {"i": 1}, {"i": 2}]
    step = Step.objects.get(node__endswith="only")
    assert (step.attempt, step.entries) == (1, 5)
    assert Checkpoint.objects.filter(kind="answer").count() == 4
    assert history_is_whole(run)


def _in_form(define: Define, form: str) -> str:
    """The workflow `agent`, as it is or inside another one; the name of what is to be submitted."""
    if form == "alone":
        return "agent"
    flow = define("around")
    if form == "child":
        flow.node(name="start")(lambda state, ctx: {"log": ctx.run_child("agent")["log"]})
    else:
        flow.node(name="start")(lambda state, ctx: None)
        flow.subflow("inner", workflows.get("agent"), output=lambda it: {})
        flow.edge("start", "inner")
    if form == "nested in a lane":
        flow.node(name="beside")(lambda state, ctx: None)
        flow.edge("start", "beside")
    workflows.register(flow)
    return "around"


def everything(house: House) -> None:
    """Advance every run, as workers and a sweeper would, until nothing is ready."""
    while True:
        for step in list(Step.objects.filter(status="ready")):
            operations.advance(run_id=step.run_id, branch=step.branch, address=step.address)
        if not house.sweep().woken and not Step.objects.filter(status="ready").exists():
            return


def test_items_ask_one_after_the_other(house: House, define: Define) -> None:
    """A parked item holds no slot; `max_open` bounds how many questions are open at once."""
    flow = define("many")

    def item(state: Any, ctx: Any, item: Any) -> Any:
        return [ctx.ask(Action("pay", {"i": item}), **FINANCE).args["i"], ctx.sleep(0)]

    flow.fan_out("log", item, items=lambda state: [1, 2, 3, 4], concurrency=1, max_open=2)
    workflows.register(flow)
    run = house.submit("many")
    open_at_once = []
    everything(house)
    while found := list(Approval.objects.filter(run=run, status="open")):
        open_at_once.append(len(found))
        house.answer(found[-1], "approve")
        everything(house)
    run.refresh_from_db()
    assert (run.status, state_of(run)["log"]) == ("completed", [[1, None], [2, None], [3, None], [4, None]])
    assert open_at_once == [2, 2, 2, 1]
    assert history_is_whole(run)


def pay(state: Any, ctx: Any, **options: Any) -> dict[str, Any]:
    action = Action("pay", {"amount": state.x}, editable=["amount"], effect="irreversible")
    answer = ctx.ask(Ask(action, title="Pay?"), **{**FINANCE, "editor_may_approve": True, **options})
    if not answer:
        return {"log": [answer.outcome, answer.reason, answer.comment]}
    paid = ctx.call(_paid, kwargs=answer.args, guarded_by=answer.approved())
    return {"log": [answer.by["name"], paid]}


def _paid(amount: Any) -> Any:
    return amount


def test_the_approved_arguments_are_used(house: House, define: Define) -> None:
    """C62, variation 3: a reviewer's edit is what runs."""
    asking(define, pay)
    run = house.work(house.submit("agent", x=100))
    approval = open_approval(run)
    assert (approval.title, approval.node, approval.content["actions"][0]["args"]) == (
        "Pay?",
        "only",
        {"amount": 100},
    )
    assert run.waiting_for[0]["approval"] == str(approval.pk)
    house.answer(approval, "edit", args={"amount": 70})
    house.work(run)
    assert state_of(run)["log"] == ["frida", 70]


def test_a_reject_is_an_answer(house: House, define: Define) -> None:
    """C61: nothing fails; the code reads who said what."""
    asking(define, pay)
    run = house.work(house.submit("agent", x=1))
    house.answer(open_approval(run), "reject", comment="no")
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["reject", "decision", "no"])


def test_nobody_answers_in_time(house: House, define: Define) -> None:
    """C63: the clock answers as the workflow says, and is named as such."""
    asking(define, lambda state, ctx: pay(state, ctx, due="1h"))
    run = house.work(house.submit("agent", x=1))
    by_sql("UPDATE runs_approval SET due_at = due_at - interval '2 h' WHERE run_id = %s", run.pk)
    pass_time(run)
    house.sweep()
    house.work(run)
    outcome, reason, comment = state_of(run)["log"]
    assert (outcome, reason) == ("reject", "timeout")
    assert comment.startswith("no answer before ")


def test_a_time_out_may_be_an_error_that_code_can_catch(house: House, define: Define) -> None:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        try:
            ctx.ask(Action("pay"), due="1h", on_timeout="fail", **FINANCE)
        except ApprovalTimeout as error:
            return {"log": [error.code]}
        return {}

    asking(define, body)
    run = house.work(house.submit("agent"))
    by_sql("UPDATE runs_approval SET due_at = due_at - interval '2 h' WHERE run_id = %s", run.pk)
    pass_time(run)
    house.sweep()
    house.work(run)
    assert state_of(run)["log"] == ["approval_timeout"]


def test_a_replay_that_asks_for_something_else_asks_anew(house: House, define: Define) -> None:
    """C62, variation 1: the model says 100, is approved, and says 900 when the body starts again."""
    said = iter([100, 900, 900])

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        amount = next(said)
        answer = ctx.ask(Action("pay", {"amount": amount}), **FINANCE)
        return {"log": [answer.args["amount"]]}

    asking(define, body)
    run = house.work(house.submit("agent"))
    first = open_approval(run)
    house.answer(first, "approve")
    house.work(run)
    second = open_approval(run)
    first.refresh_from_db()
    assert (first.status, first.closed_reason) == ("superseded", "payload_changed")
    assert (second.content["actions"][0]["args"], second.previous_id) == ({"amount": 900}, first.pk)
    with pytest.raises(ApprovalClosed):
        house.answer(first, "reject")
    house.answer(second, "approve")
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", [900])
    assert history_is_whole(run)


def test_a_rewind_asks_again_and_keeps_what_was_answered_before(house: House, define: Define) -> None:
    """C42, inside a node: the answer that is the checkpoint counts, what came after it is asked anew."""

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.ask(Action("pay", {"i": i}), **FINANCE).by["name"] for i in range(2)]}

    asking(define, body)
    run = house.work(house.submit("agent"))
    for by in (house.frida, house.felix):
        house.answer(open_approval(run), "approve", by=by)
        house.work(run)
    assert state_of(run)["log"] == ["frida", "felix"]
    first = Checkpoint.objects.filter(run=run, kind="answer").order_by("no")[0]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=first.no, reason="again")
    house.work(run)
    again = open_approval(run)
    assert again.content["actions"][0]["args"] == {"i": 1}
    house.answer(again, "approve", by=house.frida)
    house.work(run)
    assert state_of(run)["log"] == ["frida", "frida"]
    assert history_is_whole(run)


def test_all_are_asked_at_once_and_waited_for(house: House, define: Define) -> None:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        answers = ctx.ask_all(
            [Action("a"), Question(Action("b"), reviewers=["user:felix"]), Action("c")], **FINANCE
        )
        return {"log": [one.outcome for one in answers]}

    asking(define, body)
    run = house.work(house.submit("agent"))
    a, b, c = Approval.objects.filter(run=run).order_by("occurrence")
    assert b.users == ["felix"]
    house.answer(c, "reject")
    assert house.work(run).status == "waiting"
    assert len(run.waiting_for) == 2
    house.answer(b, "approve", by=house.felix)
    house.answer(a, "approve")
    with pytest.raises(AlreadyDecided):
        house.answer(a, "reject", by=house.felix)
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["approve", "approve", "reject"])
    assert Step.objects.get(run=run).entries == 2
    assert history_is_whole(run)


def test_answering_one_lane_does_not_wake_its_sibling(house: House, define: Define) -> None:
    """C17: two lanes with two questions each; each question is asked once."""

    def twice(state: Any, ctx: Any) -> None:
        ctx.ask(Action(f"{ctx.node}1"), **FINANCE)
        ctx.ask(Action(f"{ctx.node}2"), **FINANCE)

    flow = define("lanes")
    flow.node(name="start")(lambda state, ctx: None)
    for name in ("x", "y"):
        flow.node(name=name)(twice)
        flow.edge("start", name)
    workflows.register(flow)
    run = house.work(house.submit("lanes"))
    seen = []
    for title in ("x1", "y1", "x2", "y2"):
        seen.append({a.title for a in Approval.objects.filter(run=run, status="open")})
        house.answer(Approval.objects.get(run=run, status="open", title=title), "approve")
        house.work(run)
    assert seen == [{"x1", "y1"}, {"x2", "y1"}, {"x2", "y2"}, {"y2"}]
    assert run.status == "completed"
    assert Approval.objects.filter(run=run).count() == 4
    assert [(step.attempt, step.entries) for step in Step.objects.filter(run=run, node="y")] == [(1, 3)]


def test_the_rules_of_an_approval_hold_in_code(house: House, define: Define) -> None:
    """C59: the requester may not decide here either; a quorum counts."""
    asking(define, lambda state, ctx: pay(state, ctx, quorum=2))
    run = house.submit("agent", x=1)
    house.work(run)
    approval = open_approval(run)
    with pytest.raises(SelfApproval):
        house.answer(approval, "approve", by=house.shop)
    house.answer(approval, "approve")
    assert house.work(run).status == "waiting"
    house.answer(approval, "approve", by=house.felix)
    assert house.work(run).status == "completed"


def test_a_state_edit_asks_anew_for_what_is_open(house: House, define: Define) -> None:
    asking(define, pay)
    run = house.work(house.submit("agent", x=1))
    first = open_approval(run)
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 5}, reason="more"
    )
    house.work(run)
    second = open_approval(run)
    first.refresh_from_db()
    assert first.status == "superseded"
    assert second.content["actions"][0]["args"] == {"amount": 5}
    assert Wait.objects.filter(run=run, closed_at=None).count() == 1
    assert not JournalEntry.objects.filter(run=run).exists()
