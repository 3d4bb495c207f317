"""The refund on the real store, with the payment service behind real HTTP; the test is the worker. What the workflow itself
does is tested in tests/unit/examples, where it is played."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from examples.refund import shop
from examples.refund.payments.server import Server
from runs import operations, store
from runs.errors import Unprocessable
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
def desk(database: None, settings: Settings) -> Iterator[Desk]:
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


def test_nobody_in_time_counts_as_rejected(desk: Desk, payments: Server) -> None:
    run, approval = desk.parked()
    Approval.objects.filter(pk=approval.pk).update(due_at=store.now())
    Wait.objects.filter(run=run, kind="approval").update(due_at=store.now())
    sweep()
    assert output(desk.work(run))["outcome"] == "declined"
    assert refunds(payments) == []


# ---- trouble at the payment service


def test_nobody_is_asked_about_an_order_that_was_paid_back(desk: Desk, payments: Server) -> None:
    shop.pay(order_id="88-4118", amount="98.90", idempotency_key="by hand")
    run = desk.work(desk.submit())
    assert output(run)["outcome"] == "nothing_left"
    assert not Approval.objects.filter(run=run).exists()


# ---- rewind


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
