"""POST /api/v1/runs/bulk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.engine import Workflow
from runs.models import Run
from tests.integration.api.conftest import Api, House, every_row, pay_flow, token_of


@pytest.fixture
def parked(house: House, define: Callable[..., Workflow]) -> list[Run]:
    pay_flow(define("pays"))
    return [house.parked("pays", x=n)[0] for n in range(3)]


def bulk(api: Api, **body: Any) -> Any:
    return api.post("runs/bulk", {"filter": {"workflow": "pays"}, **body})


def test_looking_is_the_default_and_changes_nothing(house: House, olga: Api, parked: list[Run]) -> None:
    before = every_row()
    told = bulk(olga, verb="cancel").body
    assert (told["dry_run"], told["done"], told["refused"], told["next"]) == (True, 3, 0, None)
    retried = bulk(olga, verb="retry").body
    assert {item["code"] for item in retried["items"]} == {"event_not_allowed"}
    assert all(item["detail"] for item in retried["items"])
    assert every_row() == before


def test_what_was_looked_at_is_done(house: House, olga: Api, parked: list[Run]) -> None:
    seen = [item["run"] for item in bulk(olga, verb="cancel").body["items"]]
    late, _ = house.parked("pays", x=9)
    changed = bulk(olga, verb="cancel", dry_run=False, expect=seen)
    assert (changed.status, changed.code, changed.body["matching"]) == (409, "selection_changed", 4)
    done = bulk(olga, verb="cancel", dry_run=False, expect=seen, filter={"ids": seen}, reason="enough").body
    assert (done["done"], [item["status"] for item in done["items"]]) == (3, ["cancelled"] * 3)
    late.refresh_from_db()
    assert late.status == "waiting"


def test_runs_are_rewound_to_a_node(house: House, olga: Api, parked: list[Run]) -> None:
    done = bulk(olga, verb="rewind", node="ask", dry_run=False, reason="asked wrongly", calls="again").body
    assert done["done"] == 3
    assert set(Run.objects.values_list("branch", flat=True)) == {2}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"verb": "erase"}, 400, "bad_request"),
        ({"verb": "rewind", "checkpoint": 0}, 422, "reason_required"),
        ({"verb": "rewind", "reason": "x"}, 400, "bad_request"),
        ({"verb": "cancel", "filter": {"colour": "x"}}, 400, "unknown_field"),
        ({"verb": "cancel", "filter": {"status": "odd"}}, 400, "bad_request"),
        ({"verb": "cancel", "filter": {"created_from": "2026-01-01T00:00:00"}}, 400, "bad_request"),
        ({"verb": "cancel", "filter": {"ids": ["x"]}}, 400, "bad_request"),
        ({}, 400, "bad_request"),
    ],
)
def test_a_body_that_says_something_else_is_refused(
    olga: Api, parked: list[Run], body: Any, status: int, code: str
) -> None:
    reply = bulk(olga, **{"dry_run": False, **body})
    assert (reply.status, reply.code) == (status, code)
    assert set(Run.objects.values_list("status", "branch")) == {("waiting", 1)}


def test_each_run_is_refused_by_its_own_rules(
    house: House, vera: Api, outsider: Api, parked: list[Run]
) -> None:
    told = bulk(vera, verb="cancel", dry_run=False).body
    assert ({item["code"] for item in told["items"]}, told["done"]) == ({"forbidden"}, 0)
    assert bulk(outsider, verb="cancel", dry_run=False).body["items"] == []
    reads = Api(token_of(house.olga, ["runs:read"]))
    assert {item["code"] for item in bulk(reads, verb="cancel").body["items"]} == {"missing_scope"}
    assert bulk(Api(token_of(house.olga, ["approvals:read"])), verb="cancel").code == "missing_scope"


def test_a_look_costs_few_queries_a_run(house: House, olga: Api, parked: list[Run]) -> None:
    counts = []
    for ids in ([parked[0].pk], [run.pk for run in parked]):
        told = {"verb": "cancel", "filter": {"ids": [str(pk) for pk in ids]}}
        with CaptureQueriesContext(connection) as caught:
            bulk(olga, **told)
        counts.append(len(caught))
    assert counts[0] == counts[1] == 3
