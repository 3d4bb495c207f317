"""POST /api/v1/runs/{id}/fork and /fork/preview, /branches, single calls of a rewind, who may edit which field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import BaseModel

from runs import workflows
from runs.engine import Action, Editable, Workflow
from runs.models import Branch, Run
from tests.integration.api.conftest import Api, House, every_row, pay_flow

Define = Callable[..., Workflow]


@pytest.fixture
def errand(define: Define) -> None:
    """look -> buy, each one call."""
    flow = define("errand")
    flow.node(name="look")(lambda state, ctx: {"log": [*state.log, ctx.call(str, state.x, name="look")]})

    @flow.node
    def buy(state: Any, ctx: Any) -> dict[str, Any]:
        return {
            "log": [*state.log, ctx.call(dict, kwargs={"receipt": 2**65}, name="buy", effect="irreversible")]
        }

    flow.edge("look", "buy")
    workflows.register(flow)


def fork(api: Api, run: Any, **body: Any) -> Any:
    return api.post(f"runs/{run}/fork", {"reason": "what if", **body})


def test_a_fork_is_a_run_that_knows_where_it_began(house: House, olga: Api, errand: None) -> None:
    run = house.work(house.submit("errand", x="tea"))
    reply = fork(olga, run.pk, checkpoint=1, state={"x": "coffee"})
    assert (reply.status, reply.headers["Location"]) == (201, f"/api/v1/runs/{reply.body['id']}")
    assert reply.body["forked_from"] == {"run": str(run.pk), "checkpoint": 1}
    assert (reply.body["status"], reply.body["state"]["x"]) == ("queued", "coffee")
    assert reply.body["requester"]["username"] == "shop"
    origin = olga.get(f"runs/{run.pk}").body
    assert [(one["id"], one["checkpoint"]) for one in origin["forks"]] == [(reply.body["id"], 1)]
    assert (origin["forked_from"], origin["version"]) == (None, run.version)
    assert house.work(Run.objects.get(pk=reply.body["id"])).status == "completed"
    history = olga.get(f"runs/{reply.body['id']}/history").body["items"]
    assert (history[0]["kind"], history[0]["payload"]["checkpoint"]) == ("run_forked", 1)


def test_a_fork_is_looked_at_first(house: House, olga: Api, define: Define) -> None:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    house.answer(approval, "approve")
    house.work(run)
    before = every_row()
    told = olga.post(f"runs/{run.pk}/fork/preview", {"checkpoint": 2}).body
    assert (told["next"], told["asked_again"], told["void_decisions"]) == (["ask"], ["ask"], 1)
    assert every_row() == before


def test_where_nothing_is_left_to_run_no_fork_is_made(house: House, olga: Api, errand: None) -> None:
    """C47 (c)."""
    run = house.work(house.submit("errand"))
    for reply in (
        fork(olga, run.pk, checkpoint=run.head, state={"x": 1}),
        olga.post(f"runs/{run.pk}/fork/preview", {"checkpoint": run.head}),
    ):
        assert (reply.status, reply.code) == (409, "nothing_to_run")
    assert Run.objects.count() == 1


def test_the_same_key_leads_to_the_same_fork(house: House, olga: Api, errand: None) -> None:
    run = house.submit("errand")
    body = {"reason": "x", "checkpoint": 0}
    first = olga.post(f"runs/{run.pk}/fork", body, Idempotency_Key="k")
    again = olga.post(f"runs/{run.pk}/fork", body, Idempotency_Key="k")
    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (201, 200, "true")
    assert first.body["id"] == again.body["id"]
    other = olga.post(f"runs/{run.pk}/fork", {**body, "checkpoint": 1}, Idempotency_Key="k")
    assert other.code in ("key_reused", "unknown_checkpoint")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"checkpoint": 9}, 404, "unknown_checkpoint"),
        ({"checkpoint": 2**70}, 404, "unknown_checkpoint"),
        ({"checkpoint": 0, "reason": " "}, 422, "reason_required"),
        ({"checkpoint": 0, "state": {"nope": 1}}, 422, "schema_violation"),
        ({"checkpoint": 0, "lane": "7", "state": {"x": 1}}, 409, "unknown_lane"),
        ({"checkpoint": 0, "calls": "again"}, 400, "unknown_field"),
        ({}, 400, "bad_request"),
    ],
)
def test_a_fork_that_cannot_be_is_refused(
    house: House, olga: Api, errand: None, body: Any, status: int, code: str
) -> None:
    run = house.submit("errand")
    reply = fork(olga, run.pk, **body)
    assert (reply.status, reply.code) == (status, code)
    assert Run.objects.count() == 1


def test_forking_is_for_operators(
    house: House, frida: Api, vera: Api, shop: Api, outsider: Api, errand: None
) -> None:
    run = house.submit("errand")
    for api, code in (
        (frida, "forbidden"),
        (vera, "forbidden"),
        (shop, "forbidden"),
        (outsider, "not_found"),
    ):
        assert fork(api, run.pk, checkpoint=0).code == code
        assert api.post(f"runs/{run.pk}/fork/preview", {"checkpoint": 0}).code == code


# ---- single calls


def test_one_call_of_a_rewind_is_set_apart(house: House, olga: Api, errand: None) -> None:
    run = house.work(house.submit("errand", x="tea"))
    made = olga.post(f"runs/{run.pk}/rewind/preview", {"checkpoint": 0}).body["made"]
    apart = [{name: made[1][name] for name in ("address", "name", "occurrence")}]
    preview = olga.post(f"runs/{run.pk}/rewind/preview", {"checkpoint": 0, "exceptions": apart}).body
    assert [(call["name"], call["reused"], call["exception"]) for call in preview["made"]] == [
        ("look", True, False),
        ("buy", False, True),
    ]
    assert (preview["version"], preview["signals"], preview["result_consumed"]) == (run.version, [], False)
    body = {"checkpoint": 0, "reason": "x", "exceptions": apart}
    assert olga.post(f"runs/{run.pk}/rewind", body).status == 202
    house.work(run)
    calls = [
        call for step in olga.get(f"runs/{run.pk}/steps?branch=2").body["items"] for call in step["calls"]
    ]
    assert {
        call["name"]: call["reused_from"] for call in calls if call["reused_from"] or call["name"] == "buy"
    } == {
        "look": 1,
        "buy": None,
    }
    (first, second) = olga.get(f"runs/{run.pk}/branches").body["items"]
    assert (first["exceptions"], second["exceptions"], second["calls"]) == ([], apart, "reuse")


def test_a_call_that_was_not_made_cannot_be_set_apart(house: House, olga: Api, errand: None) -> None:
    run = house.work(house.submit("errand"))
    wrong = [{"address": "0" * 32, "name": "buy", "occurrence": "0"}]
    for path, more in (("rewind", {"reason": "x"}), ("rewind/preview", {})):
        reply = olga.post(f"runs/{run.pk}/{path}", {"checkpoint": 0, "exceptions": wrong, **more})
        assert (reply.status, reply.code) == (422, "unknown_call")
    odd = olga.post(f"runs/{run.pk}/rewind/preview", {"checkpoint": 0, "exceptions": [{"adress": "x"}]})
    assert (odd.status, odd.code) == (400, "unknown_field")
    assert Branch.objects.count() == 1


# ---- branches


def test_branches_are_told_with_author_reason_and_name(
    house: House, olga: Api, vera: Api, outsider: Api, errand: None
) -> None:
    run = house.work(house.submit("errand"))
    olga.post(f"runs/{run.pk}/rewind", {"checkpoint": 1, "reason": "other prices"})
    house.work(run)
    named = olga.patch(f"runs/{run.pk}/branches/2", {"label": "new prices"})
    assert (named.status, named.body["label"]) == (200, "new prices")
    (first, second) = vera.get(f"runs/{run.pk}/branches").body["items"]
    assert (first["no"], first["parent_branch"], first["head"], first["current"]) == (1, None, 2, False)
    assert (second["parent_branch"], second["parent_checkpoint"], second["head"], second["current"]) == (
        1,
        1,
        3,
        True,
    )
    assert (second["author"]["name"], second["reason"], second["label"]) == (
        "olga",
        "other prices",
        "new prices",
    )
    assert olga.patch(f"runs/{run.pk}/branches/7", {"label": "x"}).code == "unknown_branch"
    assert olga.patch(f"runs/{run.pk}/branches/2", {"label": "x" * 101}).status == 400
    assert vera.patch(f"runs/{run.pk}/branches/2", {"label": "x"}).code == "forbidden"
    assert outsider.get(f"runs/{run.pk}/branches").code == "not_found"
    with CaptureQueriesContext(connection) as caught:
        olga.get(f"runs/{run.pk}/branches")
    asked = [
        q["sql"]
        for q in caught.captured_queries
        if "runs_branch" in q["sql"] or "runs_checkpoint" in q["sql"]
    ]
    assert len(asked) == 2


# ---- fields


class Order(BaseModel):
    note: Annotated[str, Editable("reviewer")] = ""
    amount: int = 0


def test_the_api_names_the_field_and_who_may(house: House, frida: Api, olga: Api, define: Define) -> None:
    flow = define("order", state=Order)
    flow.approval(name="ask", reviewers=["finance"])(lambda state, ctx: Action("pay"))
    workflows.register(flow)
    run, _ = house.parked("order")
    told = {flow["name"]: flow["state"] for flow in frida.get("workflows").body["items"]}["order"]
    assert told["properties"]["note"]["editable_by"] == ["reviewer", "operator"]
    body = {"version": run.version, "changes": {"note": "x", "amount": 5}, "reason": "so"}
    refused = frida.patch(f"runs/{run.pk}/state", body)
    assert (refused.status, refused.code) == (403, "field_not_editable")
    assert refused.body["errors"][0]["path"] == "/amount"
    assert "operator" in refused.body["errors"][0]["message"]
    rewound = frida.post(f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x", "state": {"amount": 5}})
    assert rewound.code == "field_not_editable"
    assert frida.patch(f"runs/{run.pk}/state", {**body, "changes": {"note": "x"}}).status == 200
