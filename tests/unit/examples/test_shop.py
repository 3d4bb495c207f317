"""The client of the payment service: each thing that can go wrong has its own error."""

from __future__ import annotations

import socket

import pytest

from examples.refund import money, shop
from examples.refund.payments.book import Fault
from examples.refund.payments.server import Server


def pay(*, amount: str = "10.00", key: str = "k1", order_id: str = "88-4118") -> str:
    return str(shop.pay(order_id=order_id, amount=amount, idempotency_key=key)["id"])


def test_an_order_is_looked_up(payments: Server) -> None:
    assert shop.get_order("88-4121")["customer"] == "Jonas Lindqvist"


def test_an_order_id_cannot_leave_its_path(payments: Server) -> None:
    with pytest.raises(shop.UnknownOrder):
        shop.get_order("../refunds?x=1")


def test_a_payment_with_one_key_is_made_once(payments: Server) -> None:
    assert pay() == pay()
    assert [refund["asked"] for refund in payments.book.booked("refund")] == [2]


def test_a_message_with_one_key_is_sent_once(payments: Server) -> None:
    sent = [shop.tell(order_id="88-4118", text="Paid.", idempotency_key="k1")["id"] for _ in range(2)]
    assert sent[0] == sent[1]


def test_too_much_is_refused_for_a_person_to_read(payments: Server) -> None:
    with pytest.raises(shop.RefundRefused, match=r"98\.91 EUR is more than the 98\.90 left"):
        pay(amount="98.91")


def test_a_key_that_paid_something_else_says_how_to_pay_once_more(payments: Server) -> None:
    pay()
    with pytest.raises(shop.PaidAlready, match="calls: again"):
        pay(amount="11.00")


@pytest.mark.parametrize("fault", [Fault("error"), Fault("lost_answer"), Fault("stall", seconds=60)])
def test_no_answer_may_be_tried_again_with_the_same_key(
    payments: Server, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    payments.book.plan_fault(operation="refund", fault=fault, times=1)
    with monkeypatch.context() as patience:
        patience.setattr(shop, "TIMEOUT_SECONDS", 0.2)
        with pytest.raises(shop.ShopUnavailable):
            pay()
    pay()
    assert len(payments.book.booked("refund")) == 1


def test_a_service_that_is_down_is_unavailable_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv(shop.URL_VARIABLE, f"http://127.0.0.1:{port}")
    with pytest.raises(shop.ShopUnavailable, match=str(port)):
        pay()


@pytest.mark.parametrize(
    "url",
    ["localhost:8031", "ftp://host", "http://", "http://host:99999", "http://host/path", "http://u:p@host"],
)
def test_an_address_that_is_none_is_refused_by_name_and_form(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(shop.URL_VARIABLE, url)
    with pytest.raises(shop.BadAddress, match=r"REFUND_PAYMENTS_URL .* http://host:port"):
        shop.address()


def test_the_address_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shop.URL_VARIABLE, raising=False)
    assert shop.address() == shop.DEFAULT_URL


@pytest.mark.parametrize("cents", [0, 1, 99, 100, 231_000, 99_999_999_999])
def test_amounts_survive_as_text(cents: int) -> None:
    assert money.cents(money.text(cents)) == cents


@pytest.mark.parametrize(
    "amount", ["", "1", "1.5", "01.00", "-1.00", "1,00", "1.00 ", "1.00\n", "١.00", "1e3"]
)
def test_other_forms_are_no_amounts(amount: str) -> None:
    with pytest.raises(ValueError, match=r"2310\.00"):
        money.cents(amount)


def test_amounts_are_shown_with_thousands_and_currency() -> None:
    assert money.shown("2310.00", "EUR") == "2,310.00 EUR"
