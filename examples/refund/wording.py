"""What people read about a refund: the facts a reviewer sees, and the letter to the customer.

Plain functions of plain values, so they are tested without any engine.
"""

from __future__ import annotations

from typing import Final

from examples.refund import money
from examples.refund.schemas import Amount, Order, Receipt, Refund

RISKS: Final = (("critical", 200_000), ("high", 50_000), ("medium", 10_000), ("low", 0))
"""A refund of at least so many cents has this risk."""


def proposal(order: Order, asked: Amount | None) -> Amount:
    """What to pay: what is asked for, but never more than is left of the order."""
    left = money.cents(order.refundable)
    return money.text(min(left, money.cents(asked)) if asked else left)


def risk_of(amount: Amount) -> str:
    return next(risk for risk, least in RISKS if money.cents(amount) >= least)


def facts_of(state: Refund, order: Order) -> dict[str, str]:
    """From the shop's data; nothing here is the agent's word."""
    asked = money.shown(state.amount, order.currency) if state.amount else "all that is left"
    return {
        "Customer": f"{order.customer}, {order.city}",
        "Bought": "; ".join(f"{line.quantity} x {line.title}" for line in order.lines),
        "Order total": money.shown(order.total, order.currency),
        "Refunded so far": money.shown(order.refunded, order.currency),
        "Left to refund": money.shown(order.refundable, order.currency),
        "Asked for": asked,
        "Paid with": order.paid_with,
        "Placed": order.placed,
        "Delivered": order.delivered or "not yet",
        "Customer's words": state.message or "none",
    }


def reason_of(state: Refund) -> str:
    """Why a person is asked, and why again."""
    if state.refusals:
        return f"Asked again, the payment service refused the last amount: {state.refusals[-1]}"
    return "Money that was paid back cannot be fetched again, so finance decides about every refund."


def paid_letter(order: Order, receipt: Receipt) -> str:
    paid = money.shown(receipt.amount, receipt.currency)
    return _letter(order, f"We have paid {paid} back to your {receipt.paid_to}. Our receipt is {receipt.id}.")


def declined_letter(order: Order, reason: str) -> str:
    because = f" {reason.rstrip('.')}." if reason else ""
    return _letter(order, f"We cannot pay a refund for this order.{because}")


def nothing_left_letter(order: Order) -> str:
    refunded = money.shown(order.refunded, order.currency)
    return _letter(order, f"The whole order has been paid back already: {refunded}.")


def answer_letter(order: Order, answer: str) -> str:
    """A person's own answer, in place of the payment."""
    return _letter(order, answer)


def _letter(order: Order, body: str) -> str:
    return f"Dear {order.customer},\n\nabout your order {order.id}: {body}\n\nYour shop"
