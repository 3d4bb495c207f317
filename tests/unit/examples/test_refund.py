"""The refund, played in memory with the payment service behind real HTTP. What it does with a database and with the rights of
people is in tests/integration/examples."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from examples.refund import shop
from examples.refund.payments.book import Fault
from examples.refund.payments.server import Server
from examples.refund.workflows import refund
from runs.errors import ReasonRequired, Unprocessable
from runs.testing import Played, edit, play, reject, respond


def played(said: Any = None, **input: str) -> Played:
    """A refund with this said to every question; without it the run waits."""
    decisions = None if said is None else {"confirm": said}
    return play(refund, {"order_id": "88-4118", **input}, decisions=decisions)


def refunds(payments: Server) -> list[dict[str, Any]]:
    return payments.book.booked("refund")


# ---- asking and deciding


def test_no_more_than_what_is_left_is_proposed(payments: Server) -> None:
    assert played(amount="500.00").approvals[0].args["amount"] == "98.90"


def test_an_approved_amount_is_paid_once_wherever_the_worker_ends(payments: Server) -> None:
    run = play(
        refund,
        {"order_id": "88-4118"},
        decisions={"confirm": "approve"},
        crash=["after_call", "before_commit"],
    )
    (paid,) = refunds(payments)
    assert (run.output["receipt"]["id"], run.output["outcome"]) == (paid["id"], "refunded")


@pytest.mark.parametrize("amount", ["5", "5.0", "-5.00", "five"])
def test_an_amount_of_another_form_is_refused_in_place(payments: Server, amount: str) -> None:
    with pytest.raises(Unprocessable) as caught:
        played().decide("confirm", edit(amount=amount))
    assert [problem.path for problem in caught.value.errors] == ["/amount"]
    assert refunds(payments) == []


def test_a_rejected_refund_is_not_paid_and_the_customer_told_why(payments: Server) -> None:
    result = played(reject("The lamp was used for a year")).output
    assert (result["outcome"], result["receipt"]) == ("declined", None)
    assert "The lamp was used for a year." in result["told"]
    assert refunds(payments) == []


def test_a_reject_needs_a_reason(payments: Server) -> None:
    with pytest.raises(ReasonRequired):
        played("reject")


def test_a_persons_answer_takes_the_place_of_the_payment(payments: Server) -> None:
    result = played(respond("We send a new bulb today.")).output
    assert result["outcome"] == "answered"
    assert "We send a new bulb today." in result["told"]
    assert refunds(payments) == []


def test_nobody_within_a_day_counts_as_rejected(payments: Server) -> None:
    run = played("timeout")
    assert (run.output["outcome"], run.now - run.history[0].at) == ("declined", timedelta(days=1))
    assert refunds(payments) == []


# ---- trouble at the payment service


def test_an_order_that_cannot_be_looked_up_at_first_is_tried_again(payments: Server) -> None:
    run = played(order_id="88-4125")
    assert (run.steps[0].failures, run.approvals[0].title) == (2, "Refund 219.00 EUR to order 88-4125")


def test_an_order_that_is_not_there_ends_the_run_and_is_not_tried_again(payments: Server) -> None:
    run = played(order_id="99-0000")
    assert (run.status, run.error["type"], run.error["step"]) == ("failed", "UnknownOrder", "look_up")
    assert "99-0000" in run.error["message"]
    assert run.steps[0].failures == 1


@pytest.mark.parametrize("fault", [Fault("error"), Fault("lost_answer"), Fault("stall", seconds=60)])
def test_a_payment_without_an_answer_is_repeated_with_its_key_and_made_once(
    payments: Server, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "TIMEOUT_SECONDS", 0.5)
    payments.book.plan_fault(operation="refund", fault=fault, times=2)
    result = played("approve").output
    (paid,) = refunds(payments)
    assert (result["receipt"]["id"], paid["asked"]) == (paid["id"], 1 if fault.kind == "error" else 3)


def test_a_refused_amount_goes_back_to_finance_with_the_reason(payments: Server) -> None:
    run = played([edit(amount="98.91"), "approve"])
    first, again = run.approvals
    assert first.id != again.id
    assert "98.91 EUR is more than the 98.90 left" in again.document["reason"]
    assert (again.args["amount"], run.output["outcome"]) == ("98.90", "refunded")
    assert [paid["amount"] for paid in refunds(payments)] == ["98.90"]


def test_after_three_refused_amounts_the_customer_is_told(payments: Server) -> None:
    run = played(edit(amount="500.00"))
    assert (run.output["outcome"], len(run.approvals)) == ("declined", 3)
    assert refunds(payments) == []


# ---- rewind


def test_another_amount_after_a_rewind_is_no_second_payment_unless_a_person_says_again(
    payments: Server,
) -> None:
    run = played(amount="10.00").decide("confirm")
    assert run.rewind(1).decide("confirm", edit(amount="20.00")).status == "failed"
    assert run.rewind(1, calls="again").decide("confirm", edit(amount="20.00")).status == "completed"
    assert [paid["amount"] for paid in refunds(payments)] == ["10.00", "20.00"]
