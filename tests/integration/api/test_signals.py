"""`POST` and `GET /runs/{id}/signals`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import Workflow
from runs.models import Run, Signal
from tests.integration.api.conftest import Api
from tests.integration.core.conftest import House

Define = Callable[..., Workflow]


@pytest.fixture
def waiting(house: House, define: Define) -> Run:
    flow = define("buyer")

    @flow.node
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        return {"x": ctx.wait_signal("paid", schema={"type": ["object", "null"]}).payload}

    workflows.register(flow)
    return house.work(house.submit("buyer"))


def test_a_signal_is_taken_by_what_waits_for_it(house: House, shop: Api, waiting: Run) -> None:
    assert shop.get(f"runs/{waiting.pk}").body["waiting_for"][0]["signal"] == "paid"
    sent = shop.post(f"runs/{waiting.pk}/signals", {"name": "paid", "id": "e1", "payload": {"n": 2**70}})
    assert (sent.status, sent.body["taken"], sent.body["payload"]) == (202, True, {"n": 2**70})
    assert (sent.body["id"], sent.body["no"]) == ("e1", 1)
    house.work(waiting)
    assert shop.get(f"runs/{waiting.pk}").body["state"]["x"] == {"n": 2**70}


def test_the_same_id_again_is_answered_alike(shop: Api, waiting: Run) -> None:
    """C70."""
    body = {"name": "paid", "id": "e1", "payload": None}
    first, again = (shop.post(f"runs/{waiting.pk}/signals", body) for _ in range(2))
    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (202, 200, "true")
    assert first.body == again.body
    other = shop.post(f"runs/{waiting.pk}/signals", {**body, "payload": {}})
    assert (other.status, other.code) == (409, "signal_reused")


def test_a_run_that_has_ended_takes_none(shop: Api, olga: Api, house: House, waiting: Run) -> None:
    """C23."""
    operations.cancel(actor=house.olga, run_id=waiting.pk)
    sent = shop.post(f"runs/{waiting.pk}/signals", {"name": "paid"})
    assert (sent.status, sent.code) == (409, "already_terminal")


def test_the_mailbox_can_be_read(shop: Api, waiting: Run) -> None:
    for name in ("other", "paid", "paid"):
        shop.post(f"runs/{waiting.pk}/signals", {"name": name})
    page = shop.get(f"runs/{waiting.pk}/signals?limit=2").body
    assert [(one["name"], one["taken"]) for one in page["items"]] == [("other", False), ("paid", True)]
    assert page["next"] == 2
    rest = shop.get(f"runs/{waiting.pk}/signals?after=2").body
    assert ([one["no"] for one in rest["items"]], rest["next"]) == ([3], None)


@pytest.mark.parametrize(
    ("raw", "status", "code", "paths"),
    [
        ('{"name":"paid","payload":{"a":"x\\u0000"}}', 400, "invalid_json", ["/a"]),
        ('{"name":"paid","payload":NaN}', 400, "invalid_json", ["/payload"]),
        ('{"name":"paid","payload":{"x":1e400}}', 400, "invalid_json", ["/x"]),
        ('{"name":"paid","payload":{"a":1,"a":2}}', 400, "invalid_json", ["/a"]),
        ('{"name":"paid","extra":1}', 400, "unknown_field", ["/extra"]),
        ('{"payload":1}', 400, "bad_request", ["/name"]),
        ('{"name":""}', 400, "bad_request", ["/name"]),
        ('{"name":"paid","payload":5}', 422, "schema_violation", [""]),
    ],
)
def test_what_cannot_be_taken(
    shop: Api, waiting: Run, raw: str, status: int, code: str, paths: list[str]
) -> None:
    """C01 (b), C02, C10 (c): K1 to K3 and K10 hold at this door too."""
    reply = shop.ask("POST", f"runs/{waiting.pk}/signals", raw=raw)
    assert (reply.status, reply.code, reply.paths) == (status, code, paths)
    assert not Signal.objects.exists()


def test_who_may_send_and_read(shop: Api, olga: Api, vera: Api, waiting: Run) -> None:
    assert vera.post(f"runs/{waiting.pk}/signals", {"name": "paid"}).status == 403
    assert olga.post(f"runs/{waiting.pk}/signals", {"name": "other"}).status == 202
    assert vera.get(f"runs/{waiting.pk}/signals").status == 200


def test_a_run_names_its_parent_and_its_children(shop: Api, house: House, define: Define) -> None:
    for name, body in {"inner": lambda s, c: None, "outer": lambda s, c: c.run_child("inner")}.items():
        flow = define(name)
        flow.node(name="only")(body)
        workflows.register(flow)
    run = house.work(house.submit("outer"))
    child = Run.objects.get(parent=run)
    told = shop.get(f"runs/{run.pk}").body
    assert (told["parent"], told["waiting_for"][0]["child"]) == (None, str(child.pk))
    (shown,) = told["children"]
    assert shown == {"id": str(child.pk), "workflow": "inner", "status": "queued", "node": "only"}
    assert shop.get(f"runs/{child.pk}").body["parent"] == {
        "id": str(run.pk),
        "workflow": "outer",
        "status": "waiting",
        "node": "only",
    }
