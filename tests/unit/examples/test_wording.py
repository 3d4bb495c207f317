"""What people read about a refund."""

from __future__ import annotations

from typing import Any

import pytest

from examples.refund import wording
from examples.refund.schemas import Order, Refund


def order(**changes: Any) -> Order:
    known: dict[str, Any] = {
        "id": "88-4121",
        "customer": "Jonas Lindqvist",
        "city": "Malmö",
        "placed": "2026-11-06",
        "delivered": None,
        "paid_with": "card ending 9310",
        "currency": "EUR",
        "total": "2310.00",
        "refunded": "310.00",
        "refundable": "2000.00",
        "lines": [{"sku": "CHR-012", "title": "Dining chair, oak", "quantity": 4, "price": "180.00"}],
    }
    return Order(**{**known, **changes})


@pytest.mark.parametrize(
    ("asked", "proposed"), [(None, "2000.00"), ("99.90", "99.90"), ("2000.01", "2000.00"), ("0.00", "0.00")]
)
def test_never_more_than_what_is_left_is_proposed(asked: str | None, proposed: str) -> None:
    assert wording.proposal(order(), asked) == proposed


@pytest.mark.parametrize(
    ("amount", "risk"),
    [("0.01", "low"), ("99.99", "low"), ("100.00", "medium"), ("500.00", "high"), ("2000.00", "critical")],
)
def test_the_risk_grows_with_the_amount(amount: str, risk: str) -> None:
    assert wording.risk_of(amount) == risk


def test_the_facts_come_from_the_order() -> None:
    facts = wording.facts_of(Refund(order_id="88-4121", agent_note="trust me"), order())
    assert facts["Bought"] == "4 x Dining chair, oak"
    assert facts["Left to refund"] == "2,000.00 EUR"
    assert facts["Delivered"] == "not yet"
    assert "trust me" not in str(facts)


def test_asking_again_says_why() -> None:
    state = Refund(order_id="88-4121", refusals=["too much", "still too much"])
    assert "still too much" in wording.reason_of(state)


def test_the_customer_is_told_the_reason_of_a_refusal() -> None:
    assert "for this order. The chairs are used." in wording.declined_letter(order(), "The chairs are used.")
    assert "for this order.\n" in wording.declined_letter(order(), "")
