"""C91: a name that was public when it was saved, and leads inside later, leads nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, wall
from runs.delivery import Sender, http
from runs.errors import Forbidden, ForbiddenTarget
from runs.models import Attempt, Delivery, Endpoint
from runs.policies import Actor
from tests.integration.core.conftest import House
from tests.integration.delivery.conftest import EVENTS, parked, pump
from tests.kit.receiver import Receiver

PUBLIC = "93.184.216.34"


@pytest.fixture
def shut(settings: Any) -> None:
    """Nothing of this machine or its network is open."""
    settings.HITL_WEBHOOK_ALLOWED_NETS = []
    settings.HITL_WEBHOOK_HTTP = True


def saved(monkeypatch: pytest.MonkeyPatch, ada: Actor, receiver: Receiver) -> Endpoint:
    port = receiver.url.rpartition(":")[2].partition("/")[0]
    with monkeypatch.context() as patch:
        patch.setattr(wall, "system_resolver", lambda host, port: [PUBLIC])
        endpoint, _ = operations.create_endpoint(
            actor=ada, url=f"http://hooks.example.org:{port}/x", events=EVENTS
        )
    return endpoint


@pytest.mark.parametrize(
    "answer", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
)
def test_a_name_that_leads_inside_by_now_is_blocked_without_a_connection(
    answer: list[str],
    shut: None,
    monkeypatch: pytest.MonkeyPatch,
    house: House,
    define: Callable[..., Any],
    ada: Actor,
    receiver: Receiver,
) -> None:
    saved(monkeypatch, ada, receiver)
    sender = Sender(resolver=lambda host, port: answer)
    parked(house, define)
    pump(sender)
    sender.close()
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.reason) == ("blocked", "blocked")
    assert Attempt.objects.get().outcome == "blocked"
    assert receiver.connections == 0


def test_the_connection_goes_to_the_address_that_was_judged(settings: Any, receiver: Receiver) -> None:
    """Whatever a second look-up would say: there is none. Host and path are those of the name."""
    settings.HITL_WEBHOOK_ALLOWED_NETS = ["127.0.0.0/8"]
    settings.HITL_WEBHOOK_HTTP = True
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.255.255.1"]

    port = receiver.url.rpartition(":")[2].partition("/")[0]
    answer = http.post(
        f"http://hooks.example.org:{port}/x?y=z", b"{}", {"Content-Length": "2"}, resolver=resolver
    )
    assert answer.status == 204
    assert asked == ["hooks.example.org"]
    assert receiver.got[0].headers["host"] == f"hooks.example.org:{port}"
    assert receiver.got[0].path == "/x?y=z"


def test_the_next_judged_address_is_tried(settings: Any, receiver: Receiver) -> None:
    settings.HITL_WEBHOOK_ALLOWED_NETS = ["127.0.0.0/8"]
    settings.HITL_WEBHOOK_HTTP = True
    port = receiver.url.rpartition(":")[2].partition("/")[0]
    answer = http.post(
        f"http://hooks.example.org:{port}/",
        b"{}",
        {"Content-Length": "2"},
        resolver=lambda host, port: ["127.0.0.2", "127.0.0.1"],
    )
    assert answer.status == 204


def test_a_name_with_one_private_address_is_not_saved(
    shut: None, monkeypatch: pytest.MonkeyPatch, ada: Actor
) -> None:
    monkeypatch.setattr(wall, "system_resolver", lambda host, port: [PUBLIC, "10.0.0.1"])
    with pytest.raises(ForbiddenTarget):
        operations.create_endpoint(actor=ada, url="https://hooks.example.org/", events=EVENTS)
    assert not Endpoint.objects.exists()


def test_only_admins_may_have_names_looked_up(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return [PUBLIC]

    monkeypatch.setattr(wall, "system_resolver", resolver)
    for somebody in (house.olga, house.frida, house.vera):
        with pytest.raises(Forbidden):
            operations.create_endpoint(actor=somebody, url="https://hooks.example.org/", events=EVENTS)
    assert asked == []
