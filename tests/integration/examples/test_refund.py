"""The refund on the real engine, with the payment service behind real HTTP; the test is the worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from examples.refund import shop
from examples.refund.payments.book import Fault
from examples.refund.payments.server import Server
from runs import operations, store
from runs.errors import ReasonRequired, Unprocessable
from runs.management.commands.demo_data import found_project, found_service
from runs.models import Approval, Run, Step, User, Wait
from runs.operations import ActionDecision, Answer
from runs.policies import Actor


class Desk:
    """The demo's people, and the verbs of a refund."""

    def __init__(self) -> None:
        self.project = found_project()
        self.shop = Actor(found_service(self.project), self.project, "token")

    def person(self, username: str) -> Actor:
        return Actor(User.objects.get(username=username), self.project, "session")

    def submit(self, **input: str) -> Run:
        return operations.submit(
            actor=self.shop, workflow="refund", input={"order_id": "88-4118", **input}
        ).run

    def work(self, run: Run) -> Run:
        """Be the worker, and the clock of retries, until the run waits for people or has ended."""
        while True:
            for step in Step.objects.filter(run=run, status="ready"):
                operations.advance(run_id=run.pk, branch=step.branch, address=step.address)
            if not Wait.objects.filter(run=run, kind="retry", closed_at=None).update(due_at=store.now()):
                break
            sweep()
        run.refresh_from_db()
        return run

    def parked(self, **input: str) -> tuple[Run, Approval]:
        run = self.work(self.submit(**input))
        return run, Approval.objects.get(run=run, status="open")

    def decide(
        self, approval: Approval, kind: str, *, amount: str = "", message: str = "", by: str = "frida"
    ) -> Run:
        args = {**approval.content["actions"][0]["args"], "amount": amount} if amount else None
        decision = ActionDecision("pay_refund", kind, args, message)
        answer = Answer(approval.pk, approval.version, approval.digest, [decision])
        (decided,) = operations.decide(actor=self.person(by), answers=[answer])
        assert decided.run is not None
        return self.work(decided.run)


def sweep() -> None:
    with store.own_connection() as lock:
        operations.sweep(lock)


@pytest.fixture
def desk(transactional_db: None, settings: Settings) -> Iterator[Desk]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # nobody signs in here
    yield Desk()
    operations.leave()


def output(run: Run) -> dict[str, Any]:
    assert run.status == "completed", run.error
    return dict(json.loads(run.output or "null"))


def refunds(payments: Server) -> list[dict[str, Any]]:
    return payments.book.booked("refund")


# ---- asking


def test_finance_sees_real_facts_and_a_refund_that_may_be_edited(desk: Desk, payments: Server) -> None:
    run, approval = desk.parked(
        order_id="88-4121", agent_note="Photos show a crack.", message="It is broken."
    )
    shown = approval.content
    assert shown["title"] == "Refund 2,310.00 EUR to order 88-4121"
    assert {"label": "Left to refund", "value": "2,310.00 EUR"} in shown["facts"]
    assert shown["agent_note"] == "Photos show a crack."
    (action,) = shown["actions"]
    assert (action["effect"], action["risk"], action["editable"]) == ("irreversible", "critical", ["/amount"])
    assert action["allowed"] == ["approve", "edit", "reject", "respond"]
    assert (approval.teams, approval.quorum) == (["finance"], 1)
    assert approval.due_at is not None
    assert (approval.due_at - approval.opened_at).total_seconds() == pytest.approx(24 * 3600, abs=1)
    assert run.waiting_for[0]["who"] == ["finance"]


def test_no_more_than_what_is_left_is_proposed(desk: Desk, payments: Server) -> None:
    _, approval = desk.parked(amount="500.00")
    assert approval.content["actions"][0]["args"]["amount"] == "98.90"


def test_an_input_that_is_no_refund_is_refused_with_pointers(desk: Desk) -> None:
    with pytest.raises(Unprocessable) as caught:
        desk.submit(order_id="99", amount="1", receipt="mine")
    assert {problem.path for problem in caught.value.errors} == {"/order_id", "/amount", "/receipt"}


# ---- deciding


def test_an_approved_refund_is_paid_once_and_the_customer_told(desk: Desk, payments: Server) -> None:
    run, approval = desk.parked(amount="10.00")
    result = output(desk.decide(approval, "approve"))
    (paid,) = refunds(payments)
    assert (paid["amount"], paid["asked"]) == ("10.00", 1)
    assert (result["outcome"], result["receipt"]["id"]) == ("refunded", paid["id"])
    (sent,) = payments.book.booked("message")
    assert sent["text"] == result["told"]
    assert "10.00 EUR back to your card ending 4821" in sent["text"]
    call_command("verify_history", str(run.pk))


def test_the_edited_amount_is_what_is_paid(desk: Desk, payments: Server) -> None:
    _, approval = desk.parked()
    desk.decide(approval, "edit", amount="5.00")
    assert [paid["amount"] for paid in refunds(payments)] == ["5.00"]


@pytest.mark.parametrize("amount", ["5", "5.0", "-5.00", "five"])
def test_an_amount_of_another_form_is_refused_in_place(desk: Desk, payments: Server, amount: str) -> None:
    _, approval = desk.parked()
    with pytest.raises(Unprocessable) as caught:
        desk.decide(approval, "edit", amount=amount)
    assert [problem.path for problem in caught.value.errors] == ["/amount"]
    assert refunds(payments) == []


def test_a_rejected_refund_is_not_paid_and_the_customer_told_why(desk: Desk, payments: Server) -> None:
    _, approval = desk.parked()
    result = output(desk.decide(approval, "reject", message="The lamp was used for a year"))
    assert (result["outcome"], result["receipt"]) == ("declined", None)
    assert "The lamp was used for a year." in result["told"]
    assert refunds(payments) == []


def test_a_reject_needs_a_reason(desk: Desk, payments: Server) -> None:
    _, approval = desk.parked()
    with pytest.raises(ReasonRequired):
        desk.decide(approval, "reject")


def test_a_persons_answer_takes_the_place_of_the_payment(desk: Desk, payments: Server) -> None:
    _, approval = desk.parked()
    result = output(desk.decide(approval, "respond", message="We send a new bulb today."))
    assert result["outcome"] == "answered"
    assert "We send a new bulb today." in result["told"]
    assert refunds(payments) == []


def test_nobody_in_time_counts_as_rejected(desk: Desk, payments: Server) -> None:
    run, approval = desk.parked()
    Approval.objects.filter(pk=approval.pk).update(due_at=store.now())
    Wait.objects.filter(run=run, kind="approval").update(due_at=store.now())
    sweep()
    assert output(desk.work(run))["outcome"] == "declined"
    assert refunds(payments) == []


# ---- trouble at the payment service


def test_an_order_that_cannot_be_looked_up_at_first_is_tried_again(desk: Desk, payments: Server) -> None:
    run, approval = desk.parked(order_id="88-4125")
    assert Step.objects.get(run=run, node="look_up").failures == 2
    assert approval.title == "Refund 219.00 EUR to order 88-4125"


def test_an_order_that_is_not_there_ends_the_run_and_is_not_tried_again(desk: Desk, payments: Server) -> None:
    run = desk.work(desk.submit(order_id="99-0000"))
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["step"]) == ("UnknownOrder", "look_up")
    assert "99-0000" in run.error["message"]
    assert Step.objects.get(run=run).failures == 1


@pytest.mark.parametrize("fault", [Fault("error"), Fault("lost_answer"), Fault("stall", seconds=60)])
def test_a_payment_without_an_answer_is_repeated_with_its_key_and_made_once(
    desk: Desk, payments: Server, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "TIMEOUT_SECONDS", 0.5)
    _, approval = desk.parked()
    payments.book.plan_fault(operation="refund", fault=fault, times=2)
    result = output(desk.decide(approval, "approve"))
    (paid,) = refunds(payments)
    assert (result["receipt"]["id"], paid["asked"]) == (paid["id"], 1 if fault.kind == "error" else 3)


def test_a_refused_amount_goes_back_to_finance_with_the_reason(desk: Desk, payments: Server) -> None:
    run, first = desk.parked()
    desk.decide(first, "edit", amount="98.91")
    again = Approval.objects.get(run=run, status="open")
    assert again.pk != first.pk
    assert "98.91 EUR is more than the 98.90 left" in again.content["reason"]
    assert again.content["actions"][0]["args"]["amount"] == "98.90"
    assert output(desk.decide(again, "approve", by="felix"))["outcome"] == "refunded"
    assert [paid["amount"] for paid in refunds(payments)] == ["98.90"]


def test_after_three_refused_amounts_the_customer_is_told(desk: Desk, payments: Server) -> None:
    run, _ = desk.parked()
    tries = 0
    while run.status != "completed":
        run = desk.decide(Approval.objects.get(run=run, status="open"), "edit", amount="500.00")
        tries += 1
    assert output(run)["outcome"] == "declined"
    assert tries == 3
    assert refunds(payments) == []


def test_nobody_is_asked_about_an_order_that_was_paid_back(desk: Desk, payments: Server) -> None:
    shop.pay(order_id="88-4118", amount="98.90", idempotency_key="by hand")
    run = desk.work(desk.submit())
    assert output(run)["outcome"] == "nothing_left"
    assert not Approval.objects.filter(run=run).exists()


# ---- rewind


def test_another_amount_after_a_rewind_is_no_second_payment_unless_a_person_says_again(
    desk: Desk, payments: Server
) -> None:
    _, approval = desk.parked(amount="10.00")
    run = desk.decide(approval, "approve")
    for calls, status in (("reuse", "failed"), ("again", "completed")):
        run = operations.rewind(
            actor=desk.person("olga"), run_id=run.pk, checkpoint=1, reason="20 was meant", calls=calls
        )
        desk.work(run)
        run = desk.decide(Approval.objects.get(run=run, status="open"), "edit", amount="20.00")
        assert run.status == status
    assert [paid["amount"] for paid in refunds(payments)] == ["10.00", "20.00"]


def test_a_refund_that_was_paid_is_not_paid_again_after_a_rewind(desk: Desk, payments: Server) -> None:
    run, approval = desk.parked()
    run = desk.decide(approval, "approve")
    before = operations.preview_rewind(actor=desk.person("olga"), run_id=run.pk, checkpoint=1)
    assert [call.name for call in before.effects] == ["pay", "tell"]
    run = operations.rewind(actor=desk.person("olga"), run_id=run.pk, checkpoint=1, reason="look again")
    run = desk.work(run)
    run = desk.decide(Approval.objects.get(run=run, status="open"), "approve")
    assert output(run)["outcome"] == "refunded"
    assert [paid["asked"] for paid in refunds(payments)] == [1]
