"""What a refund is made of: the request, the state of the run, the arguments of the payment, the result."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from examples.refund import money
from runs.engine import append

Amount = Annotated[str, Field(pattern=money.AMOUNT_PATTERN, title="Amount", examples=["2310.00"])]
OrderId = Annotated[str, Field(pattern=r"^[0-9]{2}-[0-9]{4}$", title="Order", examples=["88-4121"])]
Outcome = Literal["refunded", "declined", "answered", "nothing_left"]


class RefundRequest(BaseModel):
    """What whoever submits the run sends: a support agent, a form, another service."""

    order_id: OrderId
    amount: Amount | None = Field(
        None, description="What is asked for; without it, all that is left of the order."
    )
    message: str = Field("", max_length=4_000, description="The customer's words.")
    agent_note: str = Field(
        "", max_length=4_000, description="The words of the agent that submits; shown as such."
    )


class OrderLine(BaseModel):
    sku: str
    title: str
    quantity: int
    price: Amount


class Order(BaseModel):
    """An order as the payment service tells it."""

    id: OrderId
    customer: str
    city: str
    placed: str
    delivered: str | None
    paid_with: str
    currency: str
    total: Amount
    refunded: Amount
    refundable: Amount
    lines: list[OrderLine]


class Receipt(BaseModel):
    """What the payment service answers once the money has moved."""

    id: str
    order_id: OrderId
    amount: Amount
    currency: str
    paid_to: str
    paid_at: str


class Refund(RefundRequest):
    """The state: the request, then what each node adds."""

    order: Order | None = None
    receipt: Receipt | None = None
    refusals: Annotated[list[str], append] = []
    """Why the payment service would not pay, one a try; each sends the run back to a person."""
    outcome: Outcome | None = None
    told: str | None = None


class PayRefund(BaseModel):
    """The arguments that a person approves, and may edit within this schema."""

    order_id: OrderId
    amount: Amount = Field(description="Two places, as in 2310.00.")


class RefundResult(BaseModel):
    """The output of the run."""

    order_id: OrderId
    outcome: Outcome
    receipt: Receipt | None
    told: str
