"""/api/v1/webhooks and /deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations
from runs.engine import Workflow
from runs.models import Delivery, Endpoint
from runs.policies import Actor
from tests.integration.api.conftest import Api, House, pay_flow, token_of

URL = "https://93.184.216.34/hooks"
EVENTS = ["approval.opened", "run.completed"]


@pytest.fixture
def endpoint(admin: Actor) -> Endpoint:
    return operations.create_endpoint(actor=admin, url=URL, events=EVENTS)[0]


@pytest.fixture
def delivery(house: House, endpoint: Endpoint, define: Callable[..., Workflow]) -> Delivery:
    pay_flow(define("pays"))
    house.parked("pays", x=1)
    return Delivery.objects.get()


def test_an_endpoint_is_made_with_a_secret_that_is_told_once(ada: Api) -> None:
    made = ada.post("webhooks", {"url": URL, "events": EVENTS, "description": "books"})
    assert made.status == 201
    assert made.body["secret"].startswith("whsec_")
    told = ada.get(f"webhooks/{made.body['endpoint']['id']}")
    assert told.body == made.body["endpoint"]
    assert "whsec_" not in told.text + ada.get("webhooks").text


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"url": "http://169.254.169.254/", "events": EVENTS}, "forbidden_target"),
        ({"url": "https://10.0.0.1/", "events": EVENTS}, "forbidden_target"),
        ({"url": "https://user:pw@93.184.216.34/", "events": EVENTS}, "forbidden_target"),
        ({"url": URL, "events": []}, "bad_request"),
        ({"url": URL, "events": ["run.exploded"]}, "bad_request"),
        ({"url": URL}, "bad_request"),
        ({"url": URL, "events": EVENTS, "secret": "mine"}, "unknown_field"),
        ({"url": URL, "events": EVENTS, "description": "x" * 201}, "bad_request"),
    ],
)
def test_what_is_refused(ada: Api, body: Any, code: str) -> None:
    """C91, K10"""
    reply = ada.post("webhooks", body)
    assert (reply.status, reply.code) == (400, code)
    assert not Endpoint.objects.exists()


def test_the_verbs(ada: Api, endpoint: Endpoint) -> None:
    place = f"webhooks/{endpoint.pk}"
    rotated = ada.post(f"{place}/rotate")
    assert rotated.body["secret"].startswith("whsec_")
    assert rotated.body["endpoint"]["earlier_secret_until"]
    assert ada.post(f"{place}/test").status == 202
    changed = ada.patch(place, {"events": ["run.failed"], "enabled": False})
    assert (changed.body["events"], changed.body["disabled_reason"]) == (["run.failed"], "by_hand")
    assert ada.post(f"{place}/test").code == "endpoint_off"
    assert ada.patch(place, {"enabled": True}).body["disabled_at"] is None
    assert ada.patch(place, {"url": "https://127.0.0.1/"}).code == "forbidden_target"
    assert ada.ask("DELETE", place).status == 200
    assert ada.get(place).code == "not_found"


def test_deliveries_are_listed_filtered_and_sent_again(
    ada: Api, olga: Api, delivery: Delivery, endpoint: Endpoint
) -> None:
    one = f"deliveries/{delivery.pk}"
    assert ada.get(one).body["body"]["type"] == "approval.opened"
    for query, found in (
        ("", 1),
        ("?status=pending", 1),
        ("?status=dead", 0),
        (f"?endpoint={endpoint.pk}", 1),
        (f"?run={delivery.message.run_id}", 1),
        (f"?run={delivery.pk}", 0),
    ):
        assert len(olga.get(f"deliveries{query}").body["items"]) == found
    assert olga.get("deliveries?status=lost").code == "invalid_parameter"
    assert olga.post(f"{one}/redeliver").code == "still_pending"
    Delivery.objects.update(status="dead", reason="refused", ended_at=delivery.created_at)
    assert olga.post(f"{one}/redeliver").body["status"] == "pending"


def test_pages_of_deliveries(ada: Api, endpoint: Endpoint) -> None:
    for _ in range(3):
        ada.post(f"webhooks/{endpoint.pk}/test")
    first = ada.get("deliveries?limit=2").body
    second = ada.get(f"deliveries?limit=2&cursor={first['next']}").body
    ids = [item["id"] for item in [*first["items"], *second["items"]]]
    assert (len(ids), len(set(ids)), second["next"]) == (3, 3, None)


def test_roles_and_scopes(
    ada: Api, admin: Actor, olga: Api, frida: Api, vera: Api, delivery: Delivery, endpoint: Endpoint
) -> None:
    body = {"url": URL, "events": EVENTS}
    reads = Api(token_of(admin, ["runs:read"]))
    assert reads.get("webhooks").status == 200
    assert reads.post("webhooks", body).code == "missing_scope"
    assert reads.post(f"deliveries/{delivery.pk}/redeliver").code == "missing_scope"
    assert olga.get("webhooks").status == 200  # operators look; admins change
    assert olga.post("webhooks", body).code == "forbidden"
    assert olga.post(f"webhooks/{endpoint.pk}/rotate").code == "forbidden"
    for somebody in (frida, vera):
        for path in ("webhooks", f"webhooks/{endpoint.pk}", "deliveries", f"deliveries/{delivery.pk}"):
            assert somebody.get(path).code in ("forbidden", "missing_scope")
        assert somebody.post(f"deliveries/{delivery.pk}/redeliver").code in ("forbidden", "missing_scope")


def test_another_project_finds_nothing(outsider: Api, delivery: Delivery, endpoint: Endpoint) -> None:
    """C86, K11"""
    assert outsider.get("webhooks").body["items"] == []
    assert outsider.get("deliveries").body["items"] == []
    assert outsider.get(f"deliveries/{delivery.pk}").code == "not_found"
    assert outsider.get(f"webhooks/{endpoint.pk}").code == "not_found"
    assert outsider.post(f"deliveries/{delivery.pk}/redeliver").code == "not_found"
