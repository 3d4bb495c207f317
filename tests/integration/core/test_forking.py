"""Forks: a run of its own from a checkpoint of another; and calls that a rewind sets apart (C42, C47 c, C51)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from runs import operations, store, workflows
from runs.engine import Action, Editable, Workflow, canonical
from runs.errors import (
    FieldNotEditable,
    Forbidden,
    KeyReused,
    NotFound,
    NothingToRun,
    ReasonRequired,
    StaleVersion,
    UnknownBranch,
    UnknownCall,
    UnknownCheckpoint,
    Unprocessable,
)
from runs.models import (
    Approval,
    Branch,
    Child,
    Event,
    JournalEntry,
    OperationalNote,
    Run,
    Signal,
    Step,
    Wait,
)
from runs.operations import Idempotency
from tests.integration.core.conftest import (
    House,
    by_sql,
    history_is_whole,
    kinds_of,
    make_house,
    open_approval,
    pay_flow,
    state_of,
)
from tests.kit.racing import in_order

Define = Callable[..., Workflow]
Made = list[tuple[str, str]]


def fork(house: House, run: Run, checkpoint: int, **more: Any) -> Run:
    told: dict[str, Any] = {
        "actor": house.olga,
        "run_id": run.pk,
        "checkpoint": checkpoint,
        "reason": "what if",
    }
    told |= more
    return operations.fork(**told).run


def noted(made: Made, name: str) -> Callable[..., str]:
    """A call that says what it was asked with and under which key."""

    def call(what: Any = "", *, idempotency_key: str = "") -> str:
        made.append((name, idempotency_key))
        return f"{name} {what} {len(made)}"

    return call


def three_calls(define: Define, made: Made) -> None:
    """look -> buy -> send, each a call."""
    flow = define("errand")

    def add(name: str, effect: str) -> None:
        def body(state: Any, ctx: Any) -> dict[str, Any]:
            got = ctx.call(noted(made, name), state.x, name=name, effect=effect, idempotency_key=True)
            return {"log": [*state.log, got]}

        flow.node(name=name)(body)

    for name, effect in (("look", "none"), ("buy", "irreversible"), ("send", "reversible")):
        add(name, effect)
    flow.edge("look", "buy")
    flow.edge("buy", "send")
    workflows.register(flow)


def names(made: Made) -> list[str]:
    return [name for name, _ in made]


# ---- what a fork is


def test_a_fork_goes_on_from_there_with_a_history_of_its_own(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(
        operations.submit(actor=house.shop, workflow="errand", input={"x": "tea"}, labels={"a": "b"}).run
    )
    seq = run.seq
    copy = fork(house, run, 1)
    assert (copy.status, copy.branch, copy.epoch, copy.head) == ("queued", 1, 1, 0)
    assert (copy.forked_from_id, copy.forked_checkpoint, copy.parent_id, copy.root_id) == (
        run.pk,
        1,
        None,
        None,
    )
    assert (copy.requester, copy.labels, copy.workflow_version) == (
        house.shop.user,
        {"a": "b"},
        run.workflow_version,
    )
    house.work(copy)
    assert names(made) == ["look", "buy", "send", "buy", "send"], (
        "calls before the checkpoint are not made again"
    )
    assert state_of(copy)["log"][0] == state_of(run)["log"][0]
    assert kinds_of(copy) == ["run_forked", "step_completed", "step_completed", "run_completed"]
    told = Event.objects.get(run=copy, seq=1)
    assert canonical.loads(str(told.payload)) == {
        "from": str(run.pk),
        "checkpoint": 1,
        "reason": "what if",
        "digest": canonical.digest(store.read_position(copy.pk, 0)),
    }, "the state is where every state is, and the history holds its digest"
    assert '"name":"olga"' in told.actor
    run.refresh_from_db()
    assert run.seq == seq, "the origin does not change"
    assert history_is_whole(run)
    assert history_is_whole(copy)


def test_a_fork_has_keys_of_its_own(house: House, define: Define) -> None:
    """What it does is done once more, and whoever sells must not take it for the same."""
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    house.work(fork(house, run, 0))
    assert len({key for _, key in made}) == 6


def test_a_fork_starts_with_the_calls_before_and_with_no_others(house: House, define: Define) -> None:
    """A step that stood in its middle: what was committed before the checkpoint is kept, what came after is made anew."""
    made: Made = []
    flow = define("long")
    flow.node(name="begin")(lambda state, ctx: None)

    @flow.node
    def side(state: Any, ctx: Any) -> None:
        ctx.wait_signal("side")

    @flow.node
    def main(state: Any, ctx: Any) -> dict[str, Any]:
        drawn = [ctx.random(), str(ctx.uuid())]
        one = ctx.call(noted(made, "one"), drawn, name="one", undo=three_calls)
        ctx.wait_signal("on")
        two = ctx.call(noted(made, "two"), one, name="two")
        ctx.wait_signal("end")
        return {"log": [drawn, one, two]}

    flow.edge("begin", "side")
    flow.edge("begin", "main")
    workflows.register(flow)
    run = house.work(house.submit("long"))
    for name in ("on", "side", "end"):
        operations.signal(actor=house.shop, run_id=run.pk, name=name)
        house.work(run)
    assert names(made) == ["one", "two"]
    # checkpoints: input, begin, `on` was taken, `side` was taken, side is done, `end` was taken
    taken = [event.checkpoint for event in Event.objects.filter(run=run, kind="signal_taken").order_by("seq")]
    assert taken[0] is not None
    copy = fork(house, run, taken[0])
    assert [row.name for row in JournalEntry.objects.filter(run=copy).order_by("ordinal")] == ["one", "on"]
    assert all(row.reused_from == 0 and row.undo is None for row in JournalEntry.objects.filter(run=copy))
    for name in ("side", "end"):
        house.work(copy)
        operations.signal(actor=house.shop, run_id=copy.pk, name=name)
    house.work(copy)
    assert (copy.status, copy.error) == ("completed", None)
    assert names(made) == ["one", "two", "two"]
    assert state_of(copy)["log"][:2] == state_of(run)["log"][:2], "chance that was drawn stays what it was"
    assert Signal.objects.filter(run=copy).count() == 2, "a mailbox of its own"


def test_what_a_fork_draws_later_is_its_own(house: House, define: Define) -> None:
    flow = define("draws")
    flow.node(name="first")(lambda state, ctx: None)
    flow.node(name="second")(lambda state, ctx: {"x": str(ctx.uuid())})
    flow.edge("first", "second")
    workflows.register(flow)
    run = house.work(house.submit("draws"))
    assert state_of(house.work(fork(house, run, 1)))["x"] != state_of(run)["x"]


def test_an_instant_that_was_recorded_before_stays(house: House, define: Define) -> None:
    flow = define("sleeps")
    flow.node(name="begin")(lambda state, ctx: None)

    @flow.node
    def side(state: Any, ctx: Any) -> None:
        ctx.wait_signal("on")

    @flow.node
    def rest(state: Any, ctx: Any) -> None:
        ctx.sleep("2h")

    flow.edge("begin", "rest")
    flow.edge("begin", "side")
    workflows.register(flow)
    run = house.work(house.submit("sleeps"))
    operations.signal(actor=house.shop, run_id=run.pk, name="on")
    house.work(run)
    due = Wait.objects.get(run=run, kind="timer").due_at
    copy = house.work(fork(house, run, run.head))
    assert Wait.objects.get(run=copy, kind="timer", closed_at=None).due_at == due


# ---- nothing that people allowed in the origin is allowed here


def test_behind_an_approval_a_fork_asks_anew(house: House, define: Define) -> None:
    """C42 for forks: the decision is the origin's; nothing runs on it, even if the node reads no arguments."""
    ran: list[str] = []
    pay_flow(define("pay"), lambda state, ctx: ran.append(str(ctx.run_id)))
    run, approval = house.parked("pay", x=7)
    house.answer(approval, "approve")
    house.work(run)
    answered = next(e.checkpoint for e in Event.objects.filter(run=run, kind="approval_decided"))
    assert answered is not None
    preview = operations.preview_fork(actor=house.olga, run_id=run.pk, checkpoint=answered)
    assert (preview.next, preview.again, preview.void) == (["ask"], ["ask"], 1)
    copy = house.work(fork(house, run, answered))
    assert (copy.status, ran) == ("waiting", [str(run.pk)])
    asked = open_approval(copy)
    assert (asked.pk, asked.content["actions"][0]["args"]) != (approval.pk, None)
    house.answer(asked, "approve")
    assert house.work(copy).status == "completed"
    assert ran == [str(run.pk), str(copy.pk)]
    assert Approval.objects.get(pk=approval.pk).status == "decided"


def test_arguments_that_were_approved_in_the_origin_are_asked_for_anew(house: House, define: Define) -> None:
    """Some steps behind the approval: the node that uses them sends its lane back."""
    flow = define("later")

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": state.x})

    flow.node(name="between")(lambda state, ctx: {"log": [*state.log, "between"]})
    flow.node(name="pay")(lambda state, ctx: {"log": [*state.log, ctx.approved("ask").args["amount"]]})
    flow.edge("ask", "between")
    flow.edge("between", "pay")
    workflows.register(flow)
    run, approval = house.parked("later", x=5)
    house.answer(approval, "approve")
    house.work(run)
    copy = house.work(fork(house, run, 2))
    assert (copy.status, kinds_of(copy)[1:3]) == ("waiting", ["approval_superseded", "approval_opened"])
    house.answer(open_approval(copy), "approve")
    assert state_of(house.work(copy))["log"] == ["between", "between", 5]


def test_a_decision_is_no_decision_in_a_fork(house: House, define: Define) -> None:
    flow = define("reads")
    flow.approval(name="ask", reviewers=["finance"])(lambda state, ctx: Action("go"))
    flow.node(name="between")(lambda state, ctx: None)
    flow.node(name="read")(lambda state, ctx: {"x": str(ctx.decision("ask").by["name"])})
    flow.edge("ask", "between")
    flow.edge("between", "read")
    workflows.register(flow)
    run, approval = house.parked("reads")
    house.answer(approval, "approve")
    assert state_of(house.work(run))["x"] == "frida"
    copy = house.work(fork(house, run, 2))
    house.answer(open_approval(copy), "approve", by=house.felix)
    assert state_of(house.work(copy))["x"] == "felix"


def test_questions_in_the_middle_of_code_are_asked_anew(house: House, define: Define) -> None:
    """With the calls before the first of them; what came after it may have followed from the answer."""
    made: Made = []
    flow = define("asks")

    @flow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.call(noted(made, "before"), name="before")
        answers = []
        for turn in range(2):
            answer = ctx.ask(Action("go", {"turn": turn}), reviewers=["finance"])
            answers.append(ctx.call(noted(made, "after"), answer.comment, name="after"))
        return {"log": answers}

    workflows.register(flow)
    run = house.work(house.submit("asks"))
    for comment in ("yes", "yes"):
        house.answer(open_approval(run), "approve", comment=comment)
        house.work(run)
    copy = house.work(fork(house, run, 2))
    assert [row.name for row in JournalEntry.objects.filter(run=copy)] == ["before"]
    for comment in ("now", "so"):
        house.answer(open_approval(copy), "approve", comment=comment)
        house.work(copy)
    assert copy.status == "completed"
    assert names(made) == ["before", "after", "after", "after", "after"]
    assert [text.split()[1] for text in state_of(copy)["log"]] == ["now", "so"]


# ---- where, by whom, with what


def test_a_run_that_has_ended_can_be_forked_but_not_at_its_end(house: House, define: Define) -> None:
    """C47 (c): refused, and no run is made."""
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    with pytest.raises(NothingToRun):
        fork(house, run, run.head, changes={"x": "coffee"})
    with pytest.raises(UnknownCheckpoint):
        fork(house, run, 99)
    with pytest.raises(ReasonRequired):
        fork(house, run, 0, reason=" ")
    assert Run.objects.count() == 1
    assert house.work(fork(house, run, 2)).status == "completed"


def test_a_fork_with_an_edit_writes_it_down_as_an_edit(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    with pytest.raises(Unprocessable):
        fork(house, run, 1, changes={"log": 7})
    copy = fork(house, run, 1, changes={"x": "coffee"})
    assert (copy.status, copy.head, state_of(copy)["x"], state_of(copy, 0)["x"]) == (
        "queued",
        1,
        "coffee",
        "tea",
    )
    assert kinds_of(copy) == ["run_forked", "state_edited"]
    house.work(copy)
    assert copy.status == "completed"
    assert "coffee" in state_of(copy)["log"][-1]
    assert Run.objects.count() == 2


def test_a_fork_of_a_run_whose_step_executes_leaves_it_alone(house: House, define: Define) -> None:
    copies: list[Run] = []
    flow = define("busy")

    @flow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        if not copies:
            copies.append(fork(house, run, 0))
        return {"x": "done"}

    workflows.register(flow)
    run = house.submit("busy")
    assert house.work(run).status == "completed"
    assert house.work(copies[0]).status == "completed"


def test_a_fork_of_a_child_is_nobodys_child(house: House, define: Define) -> None:
    """C51, third: the parent does not wait for it."""
    flow = define("inner")
    flow.node(name="only")(lambda state, ctx: {"x": 1})
    workflows.register(flow)
    outer = define("outer")
    outer.node(name="only")(lambda state, ctx: {"x": ctx.run_child("inner", {})["x"]})
    workflows.register(outer)
    run = house.work(house.submit("outer"))
    child = Run.objects.get(parent=run)
    copy = fork(house, child, 0)
    assert (copy.parent_id, copy.root_id, Child.objects.count()) == (None, None, 1)
    house.work(copy)
    run.refresh_from_db()
    assert (copy.status, run.status) == ("completed", "waiting")


def test_a_fork_of_a_fan_out_keeps_the_results_that_are_there(house: House, define: Define) -> None:
    made: Made = []
    flow = define("many")

    @flow.fan_out(items=lambda state: ["a", "b", "c"], into="log", concurrency=1)
    def each(state: Any, ctx: Any, item: Any) -> Any:
        return ctx.call(noted(made, item), name="each")

    workflows.register(flow)
    run = house.work(house.submit("many"))
    assert run.status == "completed", run.error
    copy = house.work(fork(house, run, 2))
    assert (copy.status, names(made)) == ("completed", ["a", "b", "c", "b", "c"])


def test_a_fork_of_a_fork_and_a_rewind_of_one(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    second = house.work(fork(house, fork(house, run, 1), 0))
    assert (second.status, second.forked_checkpoint) == ("completed", 0)
    operations.rewind(actor=house.olga, run_id=second.pk, checkpoint=0, reason="again", calls="again")
    house.work(second)
    assert (second.status, second.branch) == ("completed", 2)
    assert names(made) == ["look", "buy", "send"] + ["buy", "send"] * 2


def test_who_may_fork(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.submit("errand")
    for actor in (house.frida, house.shop, house.vera):
        with pytest.raises(Forbidden):
            fork(house, run, 0, actor=actor)
    with pytest.raises(NotFound):
        fork(house, run, 0, actor=make_house("other").olga)


def test_the_same_request_again_makes_no_second_fork(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.submit("errand")
    told: dict[str, Any] = {"actor": house.olga, "run_id": run.pk, "checkpoint": 0, "reason": "so"}
    first = operations.fork(**told, idempotency=Idempotency("fork", "k", "f"))
    again = operations.fork(**told, idempotency=Idempotency("fork", "k", "f"))
    assert (again.run.pk, first.replayed, again.replayed) == (first.run.pk, False, True)
    with pytest.raises(KeyReused):
        operations.fork(**told, idempotency=Idempotency("fork", "k", "other"))
    assert Run.objects.count() == 2


# ---- single calls of a rewind


def place(run: Run, name: str) -> tuple[str, str, str]:
    row = JournalEntry.objects.filter(run=run, name=name).order_by("branch")[0]
    return row.address, row.name, row.occurrence


def rewind(house: House, run: Run, checkpoint: int = 0, **more: Any) -> Run:
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=checkpoint, reason="so", **more)
    return house.work(run)


def test_one_call_is_made_again_and_the_others_are_not(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    apart = [place(run, "send")]
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=0, exceptions=apart)
    assert [(call.name, call.reused, call.apart) for call in preview.made] == [
        ("look", True, False),
        ("buy", True, False),
        ("send", False, True),
    ]
    rewind(house, run, exceptions=apart)
    assert names(made) == ["look", "buy", "send", "send"]
    assert made[2][1] != made[3][1], "a new key: it is to be done again"
    branch = Branch.objects.get(run=run, no=2)
    assert (branch.calls, branch.exceptions) == ("reuse", [list(apart[0])])
    rewind(house, run)
    assert len(made) == 4, "the newest answer is reused"
    assert state_of(run)["log"][-1].endswith(" 4")


def test_one_call_is_reused_and_the_others_are_made_again(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    rewind(house, run, calls="again", exceptions=[place(run, "buy")])
    assert names(made) == ["look", "buy", "send", "look", "send"]
    kept = JournalEntry.objects.filter(run=run, name="buy").order_by("branch")
    assert [row.reused_from for row in kept] == [None, 1]
    assert len({row.call_key for row in kept}) == 1, "the same call under the same key"


def test_a_call_that_was_set_apart_keeps_its_new_key_on_later_branches(house: House, define: Define) -> None:
    """The key is that of the last rewind that had the call made again, also if it is made once more for other reasons."""
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    rewind(house, run, exceptions=[place(run, "send")])
    head = run.head
    rewind(house, run, checkpoint=head - 1, changes={"x": "coffee"})
    assert names(made) == ["look", "buy", "send", "send", "send"]
    assert made[3][1] == made[4][1] != made[2][1]


def test_only_calls_of_the_preview_can_be_set_apart(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    look = place(run, "look")
    for wrong in (look, ("0" * 32, "send", "0"), (place(run, "send")[0], "send", "7")):
        with pytest.raises(UnknownCall):
            rewind(house, run, checkpoint=1, exceptions=[wrong])
        with pytest.raises(UnknownCall):
            operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=1, exceptions=[wrong])
    assert Branch.objects.count() == 1


def test_a_completed_child_can_be_started_again(house: House, define: Define) -> None:
    inner = define("inner")
    inner.node(name="only")(lambda state, ctx: {"x": 1})
    workflows.register(inner)
    outer = define("outer")
    outer.node(name="only")(lambda state, ctx: {"x": ctx.run_child("inner", {})["x"]})
    workflows.register(outer)
    run = house.work(house.submit("outer"))
    house.work(Run.objects.get(parent=run))
    operations.wake_parent(run_id=Run.objects.get(parent=run).pk)
    assert house.work(run).status == "completed"
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=0)
    assert [(call.kind, call.reused) for call in preview.made] == [("child", True)]
    rewind(house, run)
    assert Run.objects.filter(parent=run).count() == 1
    rewind(house, run, exceptions=[preview.made[0].place])
    assert Run.objects.filter(parent=run).count() == 2


def test_the_preview_shows_what_older_branches_did_and_which_signals_come_back(
    house: House, define: Define
) -> None:
    """A branch that has not come as far yet would take its calls from the one before: the ledger says so."""
    made: Made = []
    flow = define("paid")

    @flow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.wait_signal("go")
        return {"x": ctx.call(noted(made, "pay"), name="pay", effect="irreversible")}

    workflows.register(flow)
    run = house.work(house.submit("paid"))
    operations.signal(actor=house.shop, run_id=run.pk, name="go")
    house.work(run)
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=0)
    assert [signal.name for signal in preview.given_back] == ["go"]
    assert not preview.consumed
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="so")
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=0)
    assert ([call.name for call in preview.effects], preview.given_back) == (["pay"], [])
    house.work(run)
    assert (run.status, names(made)) == ("completed", ["pay"])


# ---- who may edit which field


class Order(BaseModel):
    note: Annotated[str, Editable("reviewer")] = ""
    size: int = Field(0, json_schema_extra={"editable_by": "reviewer"})
    amount: int = 0
    customer: Annotated[str, Editable()] = "Ada"


def ordered(define: Define) -> None:
    flow = define("order", state=Order)
    flow.node(name="begin")(lambda state, ctx: None)
    flow.approval(name="ask", reviewers=["finance"])(
        lambda state, ctx: Action("pay", {"amount": state.amount})
    )
    flow.edge("begin", "ask")
    workflows.register(flow)


def doors(house: House, run: Run, actor: Any) -> list[Callable[[dict[str, Any]], Any]]:
    """Every way by which a person changes a state."""
    told: dict[str, Any] = {"actor": actor, "run_id": run.pk, "reason": "so"}
    found: list[Callable[[dict[str, Any]], Any]] = [
        lambda changes: operations.edit_state(
            **told, version=Run.objects.get(pk=run.pk).version, changes=changes
        ),
        lambda changes: operations.rewind(**told, checkpoint=1, changes=changes),
    ]
    if actor is house.olga:
        found.append(lambda changes: operations.fork(**told, checkpoint=1, changes=changes))
    return found


def test_fields_are_edited_by_those_whom_the_author_named(house: House, define: Define) -> None:
    """In one place for all doors; a reviewer edits what is marked, an operator what nobody closed."""
    ordered(define)
    run, _ = house.parked("order")
    for door in doors(house, run, house.frida):
        with pytest.raises(FieldNotEditable) as refused:
            door({"note": "x", "amount": 5, "customer": "Bob"})
        assert [(p.path, p.code, p.message) for p in refused.value.errors] == [
            ("/amount", "not_editable", "it takes the role operator"),
            ("/customer", "not_editable", "nobody may edit it"),
        ]
    for door in doors(house, run, house.olga):
        with pytest.raises(FieldNotEditable, match="customer"):
            door({"customer": "Bob"})
    assert Branch.objects.count() == 1
    for door in doors(house, run, house.frida):
        door({"note": "x", "size": 3})
        house.work(run)
    for door in doors(house, run, house.olga):
        door({"note": "x", "size": 3, "amount": 5})
        house.work(run)


@pytest.mark.parametrize("name", ["requester", "deadline", "budget", "answers", "approvals", "labels", "id"])
def test_whom_a_run_acts_for_what_it_may_spend_and_what_was_decided_is_no_state(
    house: House, define: Define, name: str
) -> None:
    ordered(define)
    run, _ = house.parked("order")
    for door in doors(house, run, house.olga):
        with pytest.raises(Unprocessable) as refused:
            door({name: "x"})
        assert refused.value.errors[0].code == "unknown_key"


# ---- names of branches


def test_a_branch_is_given_a_name(house: House, define: Define) -> None:
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    told: dict[str, Any] = {"run_id": run.pk, "branch": 1}
    assert operations.label_branch(actor=house.olga, **told, label=" as it was ").label == "as it was"
    assert Branch.objects.get(run=run, no=1).label == "as it was"
    operations.label_branch(actor=house.olga, **told, label="")
    assert Branch.objects.get(run=run, no=1).label == ""
    with pytest.raises(UnknownBranch):
        operations.label_branch(actor=house.olga, run_id=run.pk, branch=7, label="x")
    with pytest.raises(Forbidden):
        operations.label_branch(actor=house.vera, **told, label="x")
    seq = run.seq
    run.refresh_from_db()
    assert run.seq == seq
    assert by_sql("SELECT 1 FROM runs_auditentry WHERE verb = 'label_branch' AND outcome = 'done'") == 2


def test_steps_of_a_fork_stand_under_the_addresses_that_they_had(house: House, define: Define) -> None:
    """So two branches, and two runs, can be held side by side."""
    made: Made = []
    three_calls(define, made)
    run = house.work(house.submit("errand", x="tea"))
    copy = house.work(fork(house, run, 1))
    told = {row.node: row.address for row in Step.objects.filter(run=run)}
    assert {row.node: row.address for row in Step.objects.filter(run=copy)} == {
        name: told[name] for name in ("buy", "send")
    }


# ---- while a step executes


@pytest.mark.parametrize(("calls", "often"), [("reuse", 1), ("again", 2)])
def test_a_rewind_while_a_step_executes_leaves_its_late_result_behind(
    house: House, define: Define, calls: str, often: int
) -> None:
    """C48: what it had journalled is reused, or made once more; what it would have returned lands nowhere. Of two rewinds
    that saw the same run one wins."""
    made: Made = []
    passes: list[int] = []
    flow = define("overtaken")

    @flow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        passes.append(1)
        ctx.call(noted(made, "a"), name="a")
        if len(passes) == 1:
            told: dict[str, Any] = {"actor": house.olga, "run_id": run.pk, "checkpoint": 0, "reason": "so"}
            told |= {"calls": calls, "version": Run.objects.get(pk=run.pk).version}
            first, second = in_order(
                run.pk, lambda: operations.rewind(**told), lambda: operations.rewind(**told)
            )
            assert first.error is None
            assert isinstance(second.error, StaleVersion)
        ctx.call(noted(made, "b"), name="b")
        return {"x": "old" if len(passes) == 1 else "new"}

    workflows.register(flow)
    run = house.submit("overtaken")
    house.work(run)
    assert (run.status, state_of(run)["x"], run.branch) == ("completed", "new", 2)
    assert names(made).count("a") == often
    notes = OperationalNote.objects.filter(run=run)
    assert set(notes.values_list("kind", flat=True)) == {"late_result_discarded"}
    assert set(JournalEntry.objects.filter(run=run, branch=1).values_list("name", flat=True)) == {"a"}
    assert history_is_whole(run)
