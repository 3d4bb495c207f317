"""The payment service over HTTP.

| request | answer |
| --- | --- |
| `GET /healthz` | 200 |
| `GET /orders`, `GET /orders/{id}` | the catalogue; one order with what was refunded of it |
| `POST /refunds` `{order_id, amount}` + `Idempotency-Key` | 201, the receipt; 200, the same, if asked again |
| `POST /messages` `{order_id, text}` + `Idempotency-Key` | 201, likewise |
| `GET /refunds`, `GET /messages` | everything booked, with its key and how often it was asked for |
| `POST /faults` `{operation, kind, times, seconds}` | 201; the next `times` of that operation go wrong |
| `GET /faults`, `DELETE /faults` | what is planned; forget it |

Amounts are decimal text with two places ("2310.00"). An error is `{"error": code, "detail": words}`.

A fault of kind `error` answers 503 and does nothing. `stall` and `lost_answer` do the work first, then answer
after `seconds` or never: the money has moved and whoever asked does not know it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from examples.refund import money
from examples.refund.payments.book import Book, Booked, ExceedsRefundable, Fault, KeyReused, Kind, Operation
from examples.refund.payments.orders import ORDERS, Order

BODY_LIMIT: Final = 64 * 1024
KEY_LIMIT: Final = 255


# ---- bodies


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RefundBody(_Body):
    order_id: str
    amount: str = Field(pattern=money.AMOUNT_PATTERN)


class MessageBody(_Body):
    order_id: str
    text: str = Field(min_length=1, max_length=4_000)


class FaultBody(_Body):
    operation: Operation
    kind: Kind
    times: int = Field(default=1, ge=1, le=1_000)
    seconds: float = Field(default=0.0, ge=0.0, le=600.0)


# ---- requests and answers


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.reply = Reply(status, {"error": code, "detail": detail, **more})


@dataclass(frozen=True, slots=True)
class Reply:
    status: HTTPStatus
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    after: Fault | None = None
    """What goes wrong on the way back."""


@dataclass(frozen=True, slots=True)
class Request:
    book: Book
    parts: tuple[str, ...]
    """What the groups of the route's path matched."""
    body: bytes
    key: str


Body = TypeVar("Body", bound=_Body)


def _parsed(request: Request, shape: type[Body]) -> Body:
    try:
        return shape.model_validate_json(request.body)
    except ValidationError as error:
        first = error.errors()[0]
        where = "/".join(str(part) for part in first["loc"])
        status = (
            HTTPStatus.BAD_REQUEST if first["type"] == "json_invalid" else HTTPStatus.UNPROCESSABLE_ENTITY
        )
        raise Refused(
            status, "invalid_body", f"{where}: {first['msg']}" if where else first["msg"]
        ) from error


def _order(order_id: str) -> Order:
    if order := ORDERS.get(order_id):
        return order
    raise Refused(HTTPStatus.NOT_FOUND, "unknown_order", f"The shop has no order {order_id}.")


def _key(request: Request) -> str:
    if not request.key:
        raise Refused(HTTPStatus.BAD_REQUEST, "idempotency_key_required", "Send an Idempotency-Key header.")
    if len(request.key) > KEY_LIMIT:
        raise Refused(HTTPStatus.BAD_REQUEST, "idempotency_key_too_long", f"At most {KEY_LIMIT} characters.")
    return request.key


def _fault(request: Request, *, operation: Operation, order: Order) -> Fault | None:
    """The fault of this request, after the one that does nothing was raised."""
    fault = request.book.next_fault(operation=operation, order=order, key=request.key)
    if fault and fault.kind == "error":
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "The payment service is busy. Nothing was done."
        )
    return fault


# ---- routes


def health(_: Request) -> Reply:
    return Reply(HTTPStatus.OK, {"status": "ok"})


def list_orders(request: Request) -> Reply:
    return Reply(HTTPStatus.OK, [_shown(order, request.book) for order in ORDERS.values()])


def look_up(request: Request) -> Reply:
    order = _order(request.parts[0])
    fault = _fault(request, operation="look_up", order=order)
    return Reply(HTTPStatus.OK, _shown(order, request.book), after=fault)


def refund(request: Request) -> Reply:
    wanted = _parsed(request, RefundBody)
    order, key = _order(wanted.order_id), _key(request)
    if money.cents(wanted.amount) == 0:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_body", "amount: more than 0.00 is needed")
    fault = _fault(request, operation="refund", order=order)
    try:
        booked = request.book.refund(order, amount=wanted.amount, key=key)
    except ExceedsRefundable as error:
        left = money.text(error.left)
        detail = f"{wanted.amount} {order.currency} is more than the {left} left of order {order.id}."
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY, "exceeds_refundable", detail, refundable=left
        ) from error
    return _booked(booked, after=fault)


def send_message(request: Request) -> Reply:
    wanted = _parsed(request, MessageBody)
    order, key = _order(wanted.order_id), _key(request)
    fault = _fault(request, operation="message", order=order)
    return _booked(request.book.message(order, text=wanted.text, key=key), after=fault)


def list_refunds(request: Request) -> Reply:
    return Reply(HTTPStatus.OK, request.book.booked("refund"))


def list_messages(request: Request) -> Reply:
    return Reply(HTTPStatus.OK, request.book.booked("message"))


def plan_fault(request: Request) -> Reply:
    wanted = _parsed(request, FaultBody)
    request.book.plan_fault(
        operation=wanted.operation, fault=Fault(wanted.kind, wanted.seconds), times=wanted.times
    )
    return Reply(HTTPStatus.CREATED, request.book.planned_faults())


def list_faults(request: Request) -> Reply:
    return Reply(HTTPStatus.OK, request.book.planned_faults())


def forget_faults(request: Request) -> Reply:
    request.book.forget_faults()
    return Reply(HTTPStatus.OK, [])


def _booked(booked: Booked, *, after: Fault | None) -> Reply:
    if booked.replayed:
        return Reply(HTTPStatus.OK, booked.answer, {"Idempotent-Replayed": "true"}, after)
    return Reply(HTTPStatus.CREATED, booked.answer, after=after)


def _shown(order: Order, book: Book) -> dict[str, Any]:
    refunded = book.refunded(order.id)
    return {
        "id": order.id,
        "customer": order.customer,
        "city": order.city,
        "placed": order.placed,
        "delivered": order.delivered,
        "paid_with": order.paid_with,
        "currency": order.currency,
        "total": money.text(order.total),
        "refunded": money.text(refunded),
        "refundable": money.text(order.total - refunded),
        "lines": [
            {"sku": line.sku, "title": line.title, "quantity": line.quantity, "price": money.text(line.price)}
            for line in order.lines
        ],
    }


Method = Literal["GET", "POST", "DELETE"]

ROUTES: Final[list[tuple[str, dict[Method, Callable[[Request], Reply]]]]] = [
    (r"/healthz", {"GET": health}),
    (r"/orders", {"GET": list_orders}),
    (r"/orders/([^/]+)", {"GET": look_up}),
    (r"/refunds", {"GET": list_refunds, "POST": refund}),
    (r"/messages", {"GET": list_messages, "POST": send_message}),
    (r"/faults", {"GET": list_faults, "POST": plan_fault, "DELETE": forget_faults}),
]


def route(book: Book, method: str, *, path: str, body: bytes, key: str) -> Reply:
    """The answer to one request. Raises Refused."""
    for pattern, actions in ROUTES:
        if match := re.fullmatch(pattern, path):
            if action := {str(name): action for name, action in actions.items()}.get(method):
                return action(Request(book, match.groups(), body, key))
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", f"Use {' or '.join(actions)}.")
    raise Refused(HTTPStatus.NOT_FOUND, "unknown_path", f"There is nothing at {path}.")


# ---- the server


class Server(ThreadingHTTPServer):
    """Answers each connection in a thread of its own; stops without waiting for the ones that stall."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], book: Book, *, quiet: bool = False) -> None:
        self.book = book
        self.quiet = quiet
        self.stopping = threading.Event()
        super().__init__(address, Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def stop(self) -> None:
        """End `serve_forever`; to be called from another thread."""
        self.stopping.set()
        self.shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no fault of the server: one line. Anything else shows its traceback."""
        if isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            if not self.quiet:
                print(f"{client_address[0]}: the client was gone", file=sys.stderr, flush=True)
            return
        super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "payments"
    sys_version = ""
    timeout = 60
    """Seconds until an idle or half-sent connection is closed."""
    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        key = self.headers.get("Idempotency-Key", "")
        try:
            reply = route(self.server.book, self.command, path=path, body=self._body(), key=key)
        except Refused as error:
            reply = error.reply
        except KeyReused:
            detail = "This Idempotency-Key was used with another body."
            reply = Reply(HTTPStatus.CONFLICT, {"error": "key_reused", "detail": detail})
        if reply.after and self._withhold(reply.after):
            return
        self._send(reply)

    def _body(self) -> bytes:
        # 1. A body that is not read would be taken for the next request: refusals close the connection.
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not re.fullmatch(r"[0-9]{1,18}", length):
            self.close_connection = True
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "length_required", "Send a Content-Length.")
        if int(length) > BODY_LIMIT:
            self.close_connection = True
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"At most {BODY_LIMIT} bytes.")
        # 2. A client that hangs up half-way has asked for nothing.
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionAbortedError
        return body

    def _withhold(self, fault: Fault) -> bool:
        """Carry out a fault of the way back; whether the answer is never sent."""
        self.close_connection = True
        if fault.kind == "lost_answer":
            self.log_message('"%s" answer lost', self.requestline)
            return True
        return self.server.stopping.wait(fault.seconds)

    def _send(self, reply: Reply) -> None:
        content = json.dumps(reply.body, ensure_ascii=False).encode() + b"\n"
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        if not self.server.quiet:
            key = self.headers.get("Idempotency-Key", "") if hasattr(self, "headers") else ""
            words = (format % args).translate({code: f"\\x{code:02x}" for code in [*range(32), 127]})
            print(f"{words}{f' key={key!r}' if key else ''}", file=sys.stderr, flush=True)
