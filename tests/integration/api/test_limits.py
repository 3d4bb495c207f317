"""Queues, priorities and limits in the API: what a run waits for, who goes first, what is in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runs import operations, workflows
from runs.engine import Concurrency, Rate, Sensitive, Workflow
from runs.models import Project, Run
from tests.integration.api.conftest import Api, House, token_of

Define = Callable[..., Workflow]


@pytest.fixture
def films(define: Define) -> Workflow:
    flow = define(
        "films",
        queue="gpu",
        priority=3,
        limits=[Concurrency(1, key=lambda film: film.x, holds="run"), Rate(5, per="1m")],
    )
    flow.node(name="frames")(lambda state, ctx: None)
    workflows.register(flow)
    return flow


def submitted(api: Api, x: str, **more: Any) -> dict[str, Any]:
    reply = api.post("runs", {"workflow": "films", "input": {"x": x}, **more})
    assert reply.status == 201
    return dict(reply.body)


def test_a_run_in_line_says_what_it_waits_for(house: House, shop: Api, films: Workflow) -> None:
    first, second, third = (submitted(shop, "acme") for _ in range(3))
    assert operations.let_in(queue="gpu") == 1
    told = shop.get(f"runs/{first['id']}").body
    assert (told["queue"], told["priority"], told["line"], told["waiting_for"]) == ("gpu", 3, None, [])
    assert told["admitted_at"]
    told = shop.get(f"runs/{third['id']}").body
    assert (told["status"], told["admitted_at"]) == ("queued", None)
    assert [wait["kind"] for wait in told["waiting_for"]] == ["slot"]
    assert told["line"] == {
        "before": 1,
        "limits": [
            {
                "workflow": "films",
                "name": "concurrency",
                "key": "acme",
                "limit": 1,
                "per": None,
                "taken": 1,
                "free_at": None,
            },
            {
                "workflow": "films",
                "name": "rate",
                "key": None,
                "limit": 5,
                "per": 60.0,
                "taken": 1,
                "free_at": None,
            },
        ],
    }
    listed = {run["id"]: run for run in shop.get("runs").body["items"]}
    assert listed[second["id"]]["waiting_for"][0]["kind"] == "slot"


def test_a_submission_brings_a_priority(house: House, shop: Api, films: Workflow) -> None:
    assert submitted(shop, "acme", priority=-7)["priority"] == -7
    for bad in (101, -101, "5", 1.5, True):
        reply = shop.post("runs", {"workflow": "films", "input": {"x": "acme"}, "priority": bad})
        assert (reply.status, reply.paths) == (400, ["/priority"]), bad
    assert Run.objects.count() == 1


def test_a_key_that_cannot_be_worked_out(house: House, shop: Api, films: Workflow) -> None:
    reply = shop.post("runs", {"workflow": "films", "input": {"x": 5}})
    assert (reply.status, reply.code) == (422, "invalid_limit_key")


def test_an_operator_changes_a_priority(house: House, shop: Api, olga: Api, films: Workflow) -> None:
    first, second = submitted(shop, "acme"), submitted(shop, "acme")
    reply = olga.post(f"runs/{second['id']}/priority", {"priority": 50, "reason": "a customer calls"})
    assert (reply.status, reply.body["priority"], reply.body["line"]["before"]) == (200, 50, 0)
    assert shop.get(f"runs/{first['id']}").body["line"]["before"] == 1
    event = shop.get(f"runs/{second['id']}/history").body["items"][-1]
    assert event["kind"] == "priority_changed"
    assert event["payload"] == {"from": 3, "to": 50, "reason": "a customer calls"}
    assert olga.post(f"runs/{second['id']}/priority", {"priority": 101}).status == 400
    operations.cancel(actor=house.olga, run_id=second["id"])
    assert olga.post(f"runs/{second['id']}/priority", {"priority": 1}).code == "already_terminal"


def test_a_submitter_does_not_change_it_later(house: House, shop: Api, films: Workflow) -> None:
    run = submitted(shop, "acme")
    assert shop.post(f"runs/{run['id']}/priority", {"priority": 60}).code == "forbidden"


def test_workflows_tell_their_limits_and_what_is_in_use(house: House, shop: Api, films: Workflow) -> None:
    Project.objects.update(max_concurrent_runs=9)
    house.project.refresh_from_db()
    for customer in ("acme", "acme", "zeta"):
        operations.submit(actor=house.shop, workflow="films", input={"x": customer})
    operations.let_in(queue="gpu")
    told = {flow["name"]: flow for flow in shop.get("workflows").body["items"]}["films"]
    assert (told["queue"], told["priority"]) == ("gpu", 3)
    assert told["limits"] == [
        {
            "name": "concurrency",
            "kind": "concurrency",
            "limit": 1,
            "per": None,
            "keyed": True,
            "holds": "run",
        },
        {"name": "rate", "kind": "rate", "limit": 5, "per": 60.0, "keyed": False, "holds": None},
    ]
    whole = shop.get("workflows?usage=true").body
    assert whole["project"] == {"max_concurrent_runs": 9, "taken": 2}
    told = {flow["name"]: flow for flow in whole["items"]}["films"]
    assert [limit["in_use"] for limit in told["limits"]] == [
        [{"key": "acme", "taken": 1}, {"key": "zeta", "taken": 1}],
        [{"key": None, "taken": 2}],
    ]
    unread = Api(token_of(house.shop, ["runs:submit"]))
    assert unread.get("workflows").status == 200
    assert unread.get("workflows?usage=true").code == "missing_scope"


class Film(BaseModel):
    customer: Annotated[str, Sensitive("operator")]


def test_a_key_that_is_made_of_what_is_hidden_is_hidden(
    house: House, olga: Api, vera: Api, define: Define
) -> None:
    flow = define("secret-films", state=Film, limits=[Concurrency(1, key=lambda film: film.customer)])
    flow.node(name="frames")(lambda state, ctx: None)
    workflows.register(flow)
    for _ in range(2):
        run = operations.submit(actor=house.shop, workflow="secret-films", input={"customer": "acme"}).run
    assert operations.let_in(queue=flow.queue) == 1
    for place in (f"runs/{run.pk}", "workflows?usage=true"):
        assert "acme" in olga.get(place).text, place
        assert "acme" not in vera.get(place).text, place
    assert vera.get(f"runs/{run.pk}").body["line"]["limits"][0]["key"] == "(redacted)"
