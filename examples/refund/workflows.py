"""The refund: look up the order, ask finance, pay, tell the customer.

    look_up --> confirm --> pay --> tell_customer
     ^  |          |        |  |         ^
     |  +----------+--------|--+---------+    nothing is left; rejected, answered, nobody decided; paid
     +----------------------+                 the payment service refuses: look again, ask again

What people read stands in wording.py, what is stored in schemas.py, the payment service's client in shop.py.
"""

from __future__ import annotations

from typing import Any, Final

from examples.refund import money, shop, wording
from examples.refund.schemas import Order, PayRefund, Refund, RefundRequest, RefundResult
from runs.driver import Context
from runs.engine import Action, Ask, Retry, Workflow

# A service that is down for a few minutes costs patience, not the run. Other errors would only come again.
PATIENT: Final = Retry(attempts=8, initial=1, multiplier=2, max=60, retry_on=(shop.ShopUnavailable,))

refund = Workflow("refund", version=1, title="Refund", state=Refund, input=RefundRequest, output=RefundResult)


@refund.node(retry=PATIENT, loop_limit=3)
def look_up(state: Refund, ctx: Context) -> dict[str, Any]:
    return {"order": ctx.call(shop.get_order, state.order_id)}


def anything_left(state: Refund) -> str:
    return "confirm" if money.cents(found(state).refundable) else "tell_customer"


@refund.approval(
    reviewers=["finance"],
    quorum=1,
    due="24h",
    on_timeout="reject",
    editor_may_approve=True,
    reason_required=True,
)
def confirm(state: Refund, ctx: Context) -> Ask:
    order = found(state)
    amount = wording.proposal(order, state.amount)
    action = Action(
        "pay_refund",
        {"order_id": order.id, "amount": amount},
        schema=PayRefund,
        effect="irreversible",
        editable=["amount"],
        risk=wording.risk_of(amount),
    )
    return Ask(
        action,
        title=f"Refund {money.shown(amount, order.currency)} to order {order.id}",
        facts=wording.facts_of(state, order),
        reason=wording.reason_of(state),
        agent_note=state.agent_note,
    )


@refund.node(retry=PATIENT)
def pay(state: Refund, ctx: Context) -> dict[str, Any]:
    # The arguments that were approved; any others would be refused as `approval_mismatch`.
    action = ctx.approved("confirm")
    try:
        receipt = ctx.call(
            shop.pay, kwargs=action.args, guarded_by=action, effect="irreversible", idempotency_key=True
        )
    except shop.RefundRefused as refusal:
        return {"refusals": [str(refusal)]}
    return {"receipt": receipt}


def paid(state: Refund) -> str:
    return "tell_customer" if state.receipt else "look_up"


@refund.node(retry=PATIENT)
def tell_customer(state: Refund, ctx: Context) -> dict[str, Any]:
    outcome, text = letter(state, ctx)
    message = {"order_id": state.order_id, "text": text}
    ctx.call(shop.tell, kwargs=message, effect="irreversible", idempotency_key=True)
    return {"outcome": outcome, "told": text}


refund.choose("look_up", anything_left, to=["confirm", "tell_customer"])
refund.choose("confirm", approve="pay", reject="tell_customer", respond="tell_customer")
refund.choose("pay", paid, to=["tell_customer", "look_up"], limit="tell_customer")


def found(state: Refund) -> Order:
    """The order; `look_up` comes before everything else."""
    if state.order is None:
        raise LookupError("No order was looked up.")
    return state.order


def letter(state: Refund, ctx: Context) -> tuple[str, str]:
    """How it ended, and the words for the customer."""
    order = found(state)
    if state.receipt:
        return "refunded", wording.paid_letter(order, state.receipt)
    if not money.cents(order.refundable):
        return "nothing_left", wording.nothing_left_letter(order)
    decision = ctx.decision("confirm")
    if decision.outcome == "respond":
        return "answered", wording.answer_letter(order, decision.message)
    # Nobody decided, or nobody could name an amount that can be paid: there is no reason of a person to pass on.
    reason = decision.message if decision.outcome == "reject" else ""
    return "declined", wording.declined_letter(order, reason)
