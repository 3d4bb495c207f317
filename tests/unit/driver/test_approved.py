"""What a node may do with a decision: only what was approved runs, and it is asked again if anything differs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from runs.driver import Completed, Context, Failed, Reopened
from runs.engine.canonical import Json
from runs.errors import ApprovalMismatch, NotApproved
from tests.unit.driver.journal import Journal, run


class Pay(BaseModel):
    order_id: str
    amount: int


def pay(order_id: str, amount: int, idempotency_key: str = "") -> str:
    return f"paid {amount} to {order_id}"


def action(key: str = "pay", decision: str = "approve", message: str = "", **args: Json) -> dict[str, Json]:
    return {
        "key": key,
        "tool": "pay",
        "args": args,
        "effect": "none",
        "decision": decision,
        "message": message,
    }


def paying(state: Any, ctx: Context) -> Any:
    approved = ctx.approved("confirm")
    return {"said": ctx.call(pay, kwargs=approved.args, guarded_by=approved, effect="irreversible")}


def failed_with(outcome: Any) -> BaseException:
    assert isinstance(outcome, Failed)
    return outcome.error


# ---- approved


def test_what_was_approved_is_what_runs() -> None:
    """C62."""
    journal = Journal()
    answers = journal.approve(order_id="88", amount=100)
    assert run(paying, journal, answers=answers) == Completed({"said": "paid 100 to 88"})


def test_an_approved_action_tells_all_about_itself() -> None:
    journal, seen = Journal(), []
    run(
        lambda state, ctx: seen.append(ctx.approved("confirm")),
        journal,
        answers=journal.decide(action(message="go", n=1)),
    )
    (approved,) = seen
    assert (approved.node, approved.key, approved.tool, approved.args) == ("confirm", "pay", "pay", {"n": 1})
    assert (approved.approval_id, approved.edited, approved.message) == ("approval 0", False, "go")


def tampered_action(answers: dict[str, Any]) -> None:
    answers["confirm"]["actions"][0]["args"]["amount"] = 900


def tampered_decision(answers: dict[str, Any]) -> None:
    answers["confirm"]["actions"].append(action("more"))


def tampered_approval(answers: dict[str, Any]) -> None:
    answers["confirm"]["approval"] = "another"


@pytest.mark.parametrize("tamper", [tampered_action, tampered_decision, tampered_approval])
def test_anything_else_than_the_recorded_digest_is_asked_again_and_nothing_runs(
    tamper: Callable[[Any], None],
) -> None:
    """C62."""
    journal = Journal()
    answers = journal.approve(order_id="88", amount=100)
    tamper(answers)

    def body(state: Any, ctx: Context) -> Any:
        approved = ctx.approved("confirm", key="pay")
        return ctx.call(pay, kwargs=approved.args, guarded_by=approved)

    assert run(body, journal, answers=answers) == Reopened("confirm", "payload_changed")
    assert journal.committed == []


def test_a_vote_that_is_not_there_is_asked_again() -> None:
    journal = Journal()
    answers = journal.approve(order_id="88", amount=100)
    journal.votes.clear()
    assert run(paying, journal, answers=answers) == Reopened("confirm", "payload_changed")


def test_being_asked_again_passes_through_an_authors_except() -> None:
    """C62."""
    journal = Journal()
    answers = journal.approve(order_id="88", amount=100)
    tampered_action(answers)
    made = []

    def body(state: Any, ctx: Context) -> Any:
        try:
            amount = ctx.approved("confirm").args["amount"]
        except Exception:  # noqa: BLE001
            amount = 50
        made.append(amount)
        return {"n": amount}

    assert run(body, journal, answers=answers) == Reopened("confirm", "payload_changed")
    assert made == []


@pytest.mark.parametrize("decision", ["reject", "respond"])
def test_what_was_not_approved_is_not_handed_out(decision: str) -> None:
    journal = Journal()
    error = failed_with(
        run(paying, journal, answers=journal.decide(action(decision=decision), outcome=decision))
    )
    assert isinstance(error, NotApproved)
    assert decision in error.detail
    assert not error.retryable


def test_nothing_was_decided_on_this_way_here() -> None:
    for ask in (lambda ctx: ctx.approved("confirm"), lambda ctx: ctx.decision("confirm")):
        error = failed_with(run(lambda state, ctx, ask=ask: ask(ctx), Journal()))  # type: ignore[misc]
        assert isinstance(error, NotApproved)
        assert error.facts == {"node": "confirm"}


def test_of_several_actions_one_is_named() -> None:
    journal = Journal()
    answers = journal.decide(
        action("a", n=1), action("b", n=2), action("c", decision="reject"), outcome="mixed"
    )

    def asked(key: str | None) -> Any:
        return run(lambda state, ctx: ctx.approved("confirm", key=key).args, journal, answers=answers)

    assert (asked("a"), asked("b")) == (Completed({"n": 1}), Completed({"n": 2}))
    assert "say key= (one of a, b, c)" in str(failed_with(asked(None)))
    assert "'confirm' was not approved: reject" in str(failed_with(asked("c")))
    assert "'confirm' was not approved: mixed" in str(failed_with(asked("nope")))


def test_a_decision_says_who_and_what_whatever_it_was() -> None:
    """C63."""
    journal, seen = Journal(), []
    answers = journal.decide(action(decision="respond", message="use the voucher"), outcome="respond")
    run(lambda state, ctx: seen.append(ctx.decision("confirm")), journal, answers=answers)
    (decision,) = seen
    assert (decision.outcome, decision.by, decision.message) == (
        "respond",
        {"user": "frida"},
        "use the voucher",
    )
    answers["confirm"] |= {"comment": "as said", "actions": [action()]}
    run(lambda state, ctx: seen.append(ctx.decision("confirm")), journal, answers=answers)
    assert seen[1].message == "as said"


# ---- guarded_by


def guarded(call: Callable[[Context, Any], Any]) -> tuple[Any, Journal]:
    journal = Journal()
    answers = journal.approve(order_id="88", amount=100)
    return run(lambda state, ctx: call(ctx, ctx.approved("confirm")), journal, answers=answers), journal


def any_names(**fields: Any) -> str:
    return "paid"


def some_names(order_id: str, **fields: Any) -> str:
    return "paid"


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx, ok: ctx.call(pay, kwargs=ok.args, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, "88", 100, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, "88", kwargs={"amount": 100}, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, kwargs={"amount": 100, "order_id": "88"}, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, kwargs=ok.args, guarded_by=ok, idempotency_key=True),
        lambda ctx, ok: ctx.call(any_names, kwargs=ok.args, guarded_by=ok),
        lambda ctx, ok: ctx.call(some_names, "88", kwargs={"amount": 100}, guarded_by=ok),
    ],
)
def test_a_guarded_call_takes_the_approved_arguments_by_place_or_by_name(call: Any) -> None:
    """C62."""
    outcome, journal = guarded(call)
    assert isinstance(outcome, Completed)
    assert len(journal.committed) == 1


def changed_in_place(ctx: Context, ok: Any) -> Any:
    ok.args["amount"] = 900
    return ctx.call(pay, kwargs=ok.args, guarded_by=ok)


def clamped(ctx: Context, ok: Any) -> Any:
    return ctx.call(pay, kwargs={**ok.args, "amount": min(ok.args["amount"], 50)}, guarded_by=ok)


@pytest.mark.parametrize(
    "call",
    [
        clamped,
        changed_in_place,
        lambda ctx, ok: ctx.call(pay, "88", 101, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, "89", kwargs={"amount": 100}, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, 100, "88", guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, kwargs={"order_id": "88"}, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, kwargs={**ok.args, "idempotency_key": "mine"}, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, kwargs={**ok.args, "amount": 100.0}, guarded_by=ok),
        lambda ctx, ok: ctx.call(pay, guarded_by=ok),
        lambda ctx, ok: ctx.call(any_names, kwargs={**ok.args, "more": 1}, guarded_by=ok),
    ],
)
def test_a_guarded_call_with_other_arguments_is_not_made(call: Any) -> None:
    """C62: a later step that clamps or changes, whether in place or not."""
    outcome, journal = guarded(call)
    error = failed_with(outcome)
    assert isinstance(error, ApprovalMismatch)
    assert error.facts["approved"] == {"order_id": "88", "amount": 100}
    assert not error.retryable
    assert journal.committed == []


def test_a_guarded_call_is_checked_on_a_replay_too() -> None:
    """C62: an answer from the journal is no way round."""
    journal = Journal()
    answers = journal.approve(order_id="88", amount=100)
    run(lambda state, ctx: ctx.call(pay, "88", 50), journal, answers=answers)
    outcome = run(
        lambda state, ctx: ctx.call(pay, "88", 50, guarded_by=ctx.approved("confirm")),
        journal,
        answers=answers,
    )
    assert isinstance(failed_with(outcome), ApprovalMismatch)


# ---- what a node is handed is its own


@pytest.mark.parametrize(
    "spoil",
    [
        lambda ctx: ctx.approved("confirm").args.clear(),
        lambda ctx: ctx.approved("confirm").args["lines"].append(9),
        lambda ctx: ctx.decision("confirm").actions[0]["args"].clear(),
        lambda ctx: ctx.decision("confirm").by.clear(),
        lambda ctx: ctx.edited("confirm"),
    ],
)
def test_what_a_node_does_to_a_decision_changes_nothing_but_its_copy(spoil: Callable[[Context], Any]) -> None:
    """The answers are part of the run's position: the next checkpoint would tell something that never was."""
    journal = Journal()
    answers = journal.approve(lines=[1, 2])
    before = copy.deepcopy(answers)

    def body(state: Any, ctx: Context) -> Any:
        spoil(ctx)
        return ctx.approved("confirm").args

    assert run(body, journal, answers=answers) == Completed({"lines": [1, 2]})
    assert answers == before


def test_edited_arguments_are_seen_in_the_node_that_rechecks_them_and_nowhere_else() -> None:
    journal = Journal()
    edited = journal.decide(action("a", amount=70), action("b", amount=1), outcome="edit")
    plain = journal.approve(amount=100)

    def asked(answers: dict[str, Any], key: str | None = None) -> Any:
        outcome = run(lambda state, ctx: ctx.edited("confirm", key=key), journal, answers=answers)
        assert isinstance(outcome, Completed)
        return outcome.update

    assert (asked(edited), asked(edited, "b"), asked(edited, "c")) == ({"amount": 70}, {"amount": 1}, None)
    assert (asked(plain), asked({})) == (None, None)
