"""GET /api/v1/runs/{id}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from runs import workflows
from runs.engine import Workflow
from runs.models import Checkpoint, Run
from tests.integration.api.conftest import Api, House, every_row, pay_flow


def test_a_waiting_run_tells_what_it_waits_for(
    house: House, shop: Api, define: Callable[..., Workflow]
) -> None:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    told = shop.get(f"runs/{run.pk}").body
    assert told["status"] == "waiting"
    assert told["next"] == ["ask"]
    assert told["state"]["log"] == ["before"]
    assert told["output"] is None
    assert [(wait["kind"], wait["node"], wait["approval"]) for wait in told["waiting_for"]] == [
        ("approval", "ask", str(approval.pk))
    ]
    assert told["waiting_for"][0]["who"] == ["finance"]
    pending = told["pending_approvals"]
    assert [(one["id"], one["version"], one["digest"]) for one in pending] == [
        (str(approval.pk), 1, approval.digest)
    ]


def test_a_completed_run_tells_its_output(house: House, shop: Api) -> None:
    run = house.work(house.submit("echo", name="n"))
    told = shop.get(f"runs/{run.pk}").body
    assert (told["status"], told["next"], told["pending_approvals"]) == ("completed", [], [])
    assert told["output"] == told["state"] == {"name": "n", "value": None, "done": ["only"]}
    assert told["finished_at"] is not None


def test_a_failed_run_tells_why(house: House, shop: Api, define: Callable[..., Workflow]) -> None:
    flow = define("breaks")

    @flow.node
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        return {"x": float("nan")}

    workflows.register(flow)
    run = house.work(house.submit("breaks"))
    told = shop.get(f"runs/{run.pk}").body
    assert told["status"] == "failed"
    assert told["error"]["code"] == "state_not_storable"


def test_numbers_keep_their_form_from_input_to_output(shop: Api, house: House) -> None:
    """C03, C05."""
    document = '{"id":9007199254740993,"big":18446744073709551615,"d":0.2345678901234568,"z":-0.0,"e":1e+22,"one":1.0}'
    raw = f'{{"workflow": "echo", "input": {{"value": {document}}}}}'
    run = Run.objects.get(pk=shop.ask("POST", "runs", raw=raw).body["id"])
    house.work(run)
    ordered = '{"big":18446744073709551615,"d":0.2345678901234568,"e":1e+22,"id":9007199254740993,"one":1.0,"z":-0.0}'
    assert shop.get(f"runs/{run.pk}").text.count(ordered) == 3  # input, state, output


def test_an_unchanged_run_is_answered_without_its_documents(
    house: House, shop: Api, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run = house.submit("echo")
    mark = shop.get(f"runs/{run.pk}").headers["ETag"]
    client, headers = shop.client, {"Authorization": f"Bearer {shop.secret}", "If-None-Match": mark}
    with django_assert_num_queries(3):  # token, member, counters of the run
        again = client.get(f"/api/v1/runs/{run.pk}", headers=headers)
    assert (again.status_code, again.content, again.headers["Hitl-Run-Status"]) == (304, b"", "queued")
    house.work(run)
    assert client.get(f"/api/v1/runs/{run.pk}", headers=headers).status_code == 200


def test_a_run_costs_the_same_queries_whatever_it_holds(
    house: House,
    shop: Api,
    define: Callable[..., Workflow],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    pay_flow(define("pays"))
    run, _ = house.parked("pays", x=[1] * 1000)
    # Token, member, run, position, what there is around it, approvals with votes (2).
    with django_assert_num_queries(7):
        shop.get(f"runs/{run.pk}")


@pytest.mark.parametrize("wait", ["0", "1.5", "60"])
def test_a_possible_wait_is_taken(house: House, shop: Api, wait: str) -> None:
    run = house.work(house.submit("echo"))
    assert shop.get(f"runs/{run.pk}?wait={wait}").status == 200


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "61", "1e400", "ten", "", "1&wait=2"])
def test_an_impossible_wait_is_refused(house: House, shop: Api, wait: str) -> None:
    """C02."""
    run = house.submit("echo")
    reply = shop.get(f"runs/{run.pk}?wait={wait}")
    assert (reply.status, reply.code, reply.paths) == (400, "invalid_parameter", ["/wait"])


def test_a_run_with_a_damaged_checkpoint_can_still_be_seen(house: House, shop: Api, olga: Api) -> None:
    """Never a silent null, and never a run that cannot be looked at, cancelled or rewound."""
    run = house.submit("echo")
    Checkpoint.objects.filter(run=run).update(snapshot="{")
    told = shop.get(f"runs/{run.pk}").body
    assert (told["status"], told["state"], told["next"]) == ("queued", None, [])
    assert "Checkpoint 0 cannot be read" in told["unreadable"]
    at_it = shop.get(f"runs/{run.pk}/checkpoints/0")
    assert (at_it.status, at_it.code, at_it.body["checkpoint"]) == (409, "checkpoint_unreadable", 0)
    assert (
        olga.post(f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x"}).code == "checkpoint_unreadable"
    )
    assert olga.post(f"runs/{run.pk}/cancel").body["status"] == "cancelled"


def test_reading_changes_no_row(house: House, shop: Api, define: Callable[..., Workflow]) -> None:
    """K9: GET and HEAD."""
    pay_flow(define("pays"))
    run, approval = house.parked("pays")
    before = every_row()
    for path in (
        f"runs/{run.pk}",
        f"runs/{run.pk}/history",
        f"runs/{run.pk}/checkpoints",
        f"runs/{run.pk}/checkpoints/1",
        f"runs/{run.pk}/steps",
        f"approvals/{approval.pk}",
        "approvals",
        "runs",
        "workflows",
    ):
        assert shop.get(path).status == 200, path
        assert shop.ask("HEAD", path).status == 200, path
    assert every_row() == before
