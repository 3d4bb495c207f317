"""GET /stats, GET /health, POST /health/repairs: the numbers of the pages, for programs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from runs import operations
from runs.engine import Workflow
from runs.models import OperationalNote
from runs.store import counting
from tests.integration.api.conftest import House, Reply, api_of, make_house, pay_flow
from tests.integration.core.conftest import by_sql

Define = Callable[..., Workflow]


def good(reply: Reply, status: int = 200) -> Any:
    assert reply.status == status, reply.text[:500]
    return reply.body


@pytest.fixture
def flow(define: Define, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    monkeypatch.setattr(counting, "MARGIN", timedelta(0))
    return pay_flow(define("pay"))


def test_the_numbers_of_the_dashboard(house: House, flow: Workflow) -> None:
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.work(run)
    house.parked("pay", x=2)
    operations.count()
    told = good(api_of(house.vera).get("stats?range=7d&workflow=pay"))
    assert (told["total"]["begun"], told["total"]["completed"], len(told["bars"])) == (2, 1, 28)
    assert told["teams"][0]["team"] == "finance"
    assert told["teams"][0]["times"]["count"] == 1
    assert sum(age["open"] for age in told["open"]) == 1
    assert {node["node"]: node["times"]["count"] for node in told["nodes"]} == {
        "before": 2,
        "ask": 1,
        "after": 1,
    }
    assert good(api_of(make_house("other").vera).get("stats"))["total"]["begun"] == 0
    good(api_of(house.vera).get("stats?range=1y"), 400)


def test_health_says_what_does_not_hold_and_a_repair_puts_it_right(house: House, flow: Workflow) -> None:
    run, _ = house.parked("pay", x=1)
    api = api_of(house.olga)
    by_sql(
        "UPDATE runs_run SET status = 'cancelled', finished_at = now(), waiting_for = '[]' WHERE id = %s",
        run.pk,
    )
    [broken] = good(api.get("health"))["violations"]
    assert (broken["rule"], broken["run"], broken["by"]) == ("ended", str(run.pk), "close")
    body = {"rule": broken["rule"], "target": broken["target"], "reason": "left over"}
    good(api_of(house.frida).post("health/repairs", body), 403)
    good(api_of(make_house("other").olga).post("health/repairs", body), 404)
    assert good(api.post("health/repairs", body)) == {"run": str(run.pk), "rule": "ended"}
    assert good(api.post("health/repairs", body), 409)["code"] == "nothing_to_repair"
    assert good(api.get("health"))["violations"] == []
    assert OperationalNote.objects.get(run=run, kind="repaired").facts["reason"] == "left over"


def test_health_is_for_operators_and_admins(house: House) -> None:
    good(api_of(house.vera).get("health"), 403)
