"""The payment service, over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples.refund.payments.__main__ import main
from examples.refund.payments.book import Book
from examples.refund.payments.server import Server

REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any


def ask(
    server: Server, method: str, path: str, *, body: Any = None, key: str = "", timeout: float = 5
) -> Answer:
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), int(port), timeout=timeout)
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, content, {"Idempotency-Key": key} if key else {})
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers.items()), json.loads(response.read()))
    finally:
        connection.close()


def refund(server: Server, order_id: str = "88-4118", *, amount: str = "10.00", key: str = "k1") -> Answer:
    return ask(server, "POST", "/refunds", body={"order_id": order_id, "amount": amount}, key=key)


def plan(server: Server, operation: str, kind: str, *, times: int = 1, seconds: float = 0) -> None:
    body = {"operation": operation, "kind": kind, "times": times, "seconds": seconds}
    assert ask(server, "POST", "/faults", body=body).status == 201


# ---- orders


def test_an_order_is_shown_with_exact_amounts(payments: Server) -> None:
    order = ask(payments, "GET", "/orders/88-4121").body
    assert (order["total"], order["refunded"], order["refundable"]) == ("2310.00", "0.00", "2310.00")
    assert [line["price"] for line in order["lines"]] == ["1590.00", "180.00"]


def test_a_refund_lowers_what_is_left_of_the_order(payments: Server) -> None:
    refund(payments, "88-4121", amount="310.05")
    order = ask(payments, "GET", "/orders/88-4121").body
    assert (order["refunded"], order["refundable"]) == ("310.05", "1999.95")


def test_the_catalogue_lists_every_order_once(payments: Server) -> None:
    ids = [order["id"] for order in ask(payments, "GET", "/orders").body]
    assert ids == sorted(set(ids))
    assert len(ids) == 10


def test_an_unknown_order_is_a_404_that_names_it(payments: Server) -> None:
    answer = ask(payments, "GET", "/orders/99-0000")
    assert (answer.status, answer.body["error"]) == (404, "unknown_order")
    assert "99-0000" in answer.body["detail"]


# ---- keys


def test_the_same_key_and_body_give_the_same_receipt_and_pay_once(payments: Server) -> None:
    first, second = refund(payments), refund(payments)
    assert (first.status, second.status) == (201, 200)
    assert first.body == second.body
    assert second.headers["Idempotent-Replayed"] == "true"
    (booked,) = ask(payments, "GET", "/refunds").body
    assert (booked["id"], booked["key"], booked["asked"]) == (first.body["id"], "k1", 2)


def test_the_same_key_with_another_body_is_refused_and_changes_nothing(payments: Server) -> None:
    first, second = refund(payments), refund(payments, amount="10.01")
    assert (second.status, second.body["error"]) == (409, "key_reused")
    assert refund(payments).body == first.body


def test_two_keys_pay_twice(payments: Server) -> None:
    assert refund(payments, key="a").body["id"] != refund(payments, key="b").body["id"]


def test_one_key_used_by_many_at_once_pays_once(payments: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: refund(payments), range(16)))
    assert sorted(answer.status for answer in answers) == [200] * 15 + [201]
    assert len({answer.body["id"] for answer in answers}) == 1
    (booked,) = ask(payments, "GET", "/refunds").body
    assert booked["asked"] == 16


def test_many_keys_at_once_never_pay_more_than_the_order(payments: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda no: refund(payments, amount="30.00", key=f"k{no}"), range(8)))
    assert [answer.status for answer in answers].count(201) == 3
    assert ask(payments, "GET", "/orders/88-4118").body["refundable"] == "8.90"


def test_a_refused_refund_leaves_its_key_free(payments: Server) -> None:
    too_much = refund(payments, amount="98.91")
    assert (too_much.status, too_much.body["error"]) == (422, "exceeds_refundable")
    assert too_much.body["refundable"] == "98.90"
    assert refund(payments, amount="98.90").status == 201


def test_a_message_and_a_refund_may_have_the_same_key(payments: Server) -> None:
    refund(payments)
    body = {"order_id": "88-4118", "text": "We paid."}
    first = ask(payments, "POST", "/messages", body=body, key="k1")
    assert (first.status, first.body["to"]) == (201, "Aino Virtanen")
    assert ask(payments, "POST", "/messages", body=body, key="k1").body == first.body


def test_a_restart_remembers_keys(payments: Server, tmp_path: Path) -> None:
    receipt = refund(payments).body
    again = Server(("127.0.0.1", 0), Book(tmp_path / "payments.sqlite3"), quiet=True)
    with again, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(refund, again)
        again.handle_request()
        assert answer.result().body == receipt


# ---- faults


def test_an_error_does_nothing_and_is_used_up(payments: Server) -> None:
    plan(payments, "refund", "error", times=2)
    assert [refund(payments).status for _ in range(3)] == [503, 503, 201]
    assert ask(payments, "GET", "/faults").body == []


def test_a_lost_answer_has_moved_the_money(payments: Server) -> None:
    plan(payments, "refund", "lost_answer")
    with pytest.raises(http.client.RemoteDisconnected):
        refund(payments)
    assert refund(payments).status == 200
    assert len(ask(payments, "GET", "/refunds").body) == 1


def test_a_stall_has_moved_the_money_before_it_answers(payments: Server) -> None:
    plan(payments, "refund", "stall", seconds=60)
    body = {"order_id": "88-4118", "amount": "10.00"}
    with pytest.raises(TimeoutError):
        ask(payments, "POST", "/refunds", body=body, key="k1", timeout=0.2)
    assert refund(payments).status == 200


def test_a_fault_of_one_operation_leaves_the_others_alone(payments: Server) -> None:
    plan(payments, "look_up", "error")
    assert refund(payments).status == 201
    assert ask(payments, "GET", "/orders/88-4118").status == 503


def test_planned_faults_can_be_forgotten(payments: Server) -> None:
    plan(payments, "refund", "error", times=9)
    assert ask(payments, "DELETE", "/faults").body == []
    assert refund(payments).status == 201


def test_the_quirk_of_an_order_needs_no_set_up(payments: Server) -> None:
    assert [ask(payments, "GET", "/orders/88-4125").status for _ in range(4)] == [503, 503, 200, 503]
    with pytest.raises(http.client.RemoteDisconnected):
        refund(payments, "88-4126")
    assert refund(payments, "88-4126").status == 200


# ---- bad requests


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        pytest.param(b"{", 400, "invalid_body", id="no JSON"),
        pytest.param(b"\xff", 400, "invalid_body", id="no UTF-8"),
        pytest.param({"order_id": "88-4118"}, 422, "invalid_body", id="amount missing"),
        pytest.param({"order_id": "88-4118", "amount": 10.0}, 422, "invalid_body", id="a float"),
        pytest.param({"order_id": "88-4118", "amount": "10"}, 422, "invalid_body", id="no cents"),
        pytest.param({"order_id": "88-4118", "amount": "0.00"}, 422, "invalid_body", id="nothing"),
        pytest.param({"order_id": "88-4118", "amount": "-1.00"}, 422, "invalid_body", id="below nothing"),
        pytest.param(
            {"order_id": "88-4118", "amount": "1.00", "to": "me"}, 422, "invalid_body", id="unknown field"
        ),
        pytest.param({"order_id": "99-0000", "amount": "1.00"}, 404, "unknown_order", id="unknown order"),
    ],
)
def test_a_bad_refund_is_refused_and_books_nothing(
    payments: Server, body: Any, status: int, code: str
) -> None:
    answer = ask(payments, "POST", "/refunds", body=body, key="k1")
    assert (answer.status, answer.body["error"]) == (status, code)
    assert ask(payments, "GET", "/refunds").body == []


def test_a_refund_without_a_key_is_refused(payments: Server) -> None:
    assert refund(payments, key="").body["error"] == "idempotency_key_required"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("DELETE", "/refunds", 405), ("POST", "/orders/88-4118", 405)],
)
def test_what_is_not_there_says_so(payments: Server, method: str, path: str, status: int) -> None:
    assert ask(payments, method, path).status == status


def test_a_large_body_is_refused_unread(payments: Server) -> None:
    assert ask(payments, "POST", "/refunds", body=b" " * 70_000, key="k1").status == 413


def test_a_client_that_hangs_up_in_mid_body_has_asked_for_nothing(payments: Server) -> None:
    host, port = payments.server_address[:2]
    with socket.create_connection((str(host), int(port))) as client:
        client.sendall(
            b"POST /refunds HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 50\r\n\r\n{"
        )
    assert ask(payments, "GET", "/refunds").body == []


# ---- the process


def test_the_process_serves_and_stops_on_sigterm(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "examples.refund.payments",
        "--port",
        "0",
        "--data",
        str(tmp_path / "p.sqlite3"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout
        found = re.search(rb"http://(127\.0\.0\.1):(\d+)", process.stdout.readline())
        assert found
        connection = http.client.HTTPConnection(found[1].decode(), int(found[2]), timeout=5)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


def test_a_busy_port_is_explained(
    payments: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(payments.server_address[1])
    assert main(["--port", port, "--data", str(tmp_path / "other.sqlite3")]) == 2
    assert port in capsys.readouterr().err


def test_a_file_that_is_no_book_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text(
        "Dear customer, this is no database, and it is long enough to tell." * 9
    )
    assert main(["--port", "0", "--data", os.fspath(tmp_path / "letter.txt")]) == 2
    assert "letter.txt" in capsys.readouterr().err
