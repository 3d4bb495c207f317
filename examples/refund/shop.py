"""The shop's payment service, as the nodes of the workflow call it.

Each function is one HTTP request with a time limit. The workflow treats what goes wrong in three
ways, so it has three errors: `ShopUnavailable` is tried again with the same key, `RefundRefused` goes
back to a person, any other `ShopError` ends the run.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

URL_VARIABLE: Final = "REFUND_PAYMENTS_URL"
DEFAULT_URL: Final = "http://127.0.0.1:8031"
TIMEOUT_SECONDS: Final = 10.0


class ShopError(Exception):
    """The payment service did not do what was asked."""


class ShopUnavailable(ShopError):
    """No answer, or one that says to try again. Whether anything was done is not known."""


class UnknownOrder(ShopError):
    """The shop has no such order."""


class RefundRefused(ShopError):
    """The payment service will not pay this. Nothing was done."""


class PaidAlready(ShopError):
    """Something else was paid under this key. To pay once more, rewind the run with calls: again."""


class BadAddress(ValueError):
    """The address of the payment service is not usable."""


def address() -> str:
    """Where the payment service is. Raises BadAddress, naming the variable and the accepted form."""
    url = os.environ.get(URL_VARIABLE) or DEFAULT_URL
    if not _is_base_address(url):
        raise BadAddress(
            f"{URL_VARIABLE} is {url!r}; it has the form http://host:port, such as {DEFAULT_URL}"
        )
    return url.rstrip("/")


def _is_base_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username) and parts.path in ("", "/")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and plain


def get_order(order_id: str) -> dict[str, Any]:
    """The order, with amounts as decimal text. Raises UnknownOrder, ShopUnavailable."""
    order: dict[str, Any] = _ask("GET", f"/orders/{quote(order_id, safe='')}")
    return order


def pay(*, order_id: str, amount: str, idempotency_key: str) -> dict[str, Any]:
    """Refund an amount ("2310.00") and return the receipt. The same key never pays twice.

    Raises RefundRefused, UnknownOrder, ShopUnavailable.
    """
    body = {"order_id": order_id, "amount": amount}
    receipt: dict[str, Any] = _ask("POST", "/refunds", body=body, key=idempotency_key)
    return receipt


def tell(*, order_id: str, text: str, idempotency_key: str) -> dict[str, Any]:
    """Send the customer of an order a message. The same key never sends twice."""
    sent: dict[str, Any] = _ask(
        "POST", "/messages", body={"order_id": order_id, "text": text}, key=idempotency_key
    )
    return sent


# The service is on this machine or in this network; a proxy from the environment would only be in the way.
_OPENER: Final = build_opener(ProxyHandler({}))


def _ask(method: str, path: str, *, body: dict[str, str] | None = None, key: str = "") -> Any:
    request = Request(address() + path, method=method, headers={"Accept": "application/json"})  # noqa: S310
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Idempotency-Key", key)
    try:
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        raise _refusal(error) from error
    except (OSError, HTTPException, ValueError) as error:
        raise ShopUnavailable(f"{method} {request.full_url}: {str(error) or type(error).__name__}") from error


def _refusal(error: HTTPError) -> ShopError:
    """The error that an answer with an error status stands for."""
    with error:
        code, detail = _said(error.read())
    if code == "unknown_order":
        return UnknownOrder(detail)
    if code == "key_reused":
        return PaidAlready(PaidAlready.__doc__)
    if code == "exceeds_refundable":
        return RefundRefused(detail)
    if error.code in (429, 500, 502, 503, 504):
        return ShopUnavailable(f"{error.code}: {detail}")
    return ShopError(f"{error.code}: {detail}")


def _said(content: bytes) -> tuple[str, str]:
    try:
        answer = json.loads(content)
        return str(answer["error"]), str(answer["detail"])
    except (ValueError, KeyError, TypeError):
        return "", content[:200].decode(errors="replace")
