"""GET /api/v1/runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from pytest_django import DjangoAssertNumQueries

from runs import operations
from runs.models import Run
from tests.integration.api.conftest import Api, House, pages
from tests.sizes import size


def ids(reply: Any) -> list[str]:
    return [run["id"] for run in reply.body["items"]]


def test_runs_come_newest_first_without_their_documents(house: House, shop: Api) -> None:
    made = [str(house.submit("echo").pk) for _ in range(3)]
    reply = shop.get("runs")
    assert set(ids(reply)) == set(made)
    assert reply.body["next"] is None
    assert "input" not in reply.body["items"][0]
    assert "state" not in reply.body["items"][0]


def test_pages_hold_every_run_once_even_with_equal_times(house: House, shop: Api) -> None:
    many = size("runs in a list") // 6
    made = {str(house.submit("echo").pk) for _ in range(many)}
    Run.objects.update(created_at=Run.objects.first().created_at)  # type: ignore[union-attr]
    found = pages(shop, "runs?limit=3")
    assert [len(page) for page in found[:-1]] == [3] * (len(found) - 1)
    every = [run["id"] for page in found for run in page]
    assert len(every) == many
    assert set(every) == made


def test_a_run_that_comes_in_between_moves_no_page(house: House, shop: Api) -> None:
    for _ in range(4):
        house.submit("echo")
    first = shop.get("runs?limit=2")
    house.submit("echo")
    second = shop.get(f"runs?limit=2&cursor={first.body['next']}")
    assert not set(ids(first)) & set(ids(second))
    assert len(ids(second)) == 2


def test_runs_are_filtered_by_status_and_workflow(house: House, shop: Api) -> None:
    done = house.work(house.submit("echo"))
    waiting = house.submit("echo")
    assert ids(shop.get("runs?status=completed")) == [str(done.pk)]
    assert ids(shop.get("runs?status=queued&workflow=echo")) == [str(waiting.pk)]
    assert ids(shop.get("runs?workflow=refund")) == []


@pytest.mark.parametrize(
    ("address", "name", "code"),
    [
        ("runs?stauts=queued", "/stauts", "unknown_field"),
        ("runs?status=queued&status=failed", "/status", "given_twice"),
        ("runs?status=sleeping", "/status", "invalid_value"),
        ("runs?limit=0", "/limit", "invalid_value"),
        ("runs?limit=201", "/limit", "invalid_value"),
        ("runs?limit=ten", "/limit", "invalid_value"),
        ("runs?limit=nan", "/limit", "invalid_value"),
        ("runs?workflow=a%00b", "/workflow", "nul_character"),
        ("runs?cursor=xyz", "/cursor", "invalid_value"),
        ("runs?cursor=%C3%BC", "/cursor", "invalid_value"),
        ("runs?cursor=MjAyNi0wMS0wMXxhYmM", "/cursor", "invalid_value"),
    ],
)
def test_a_parameter_that_is_unknown_or_impossible_is_refused(
    shop: Api, address: str, name: str, code: str
) -> None:
    """K10."""
    reply = shop.get(address)
    assert reply.status == 400
    assert (reply.paths, reply.codes) == ([name], [code])
    assert reply.body["errors"][0]["in"] == "query"


def test_a_refused_parameter_says_what_would_be_right(shop: Api) -> None:
    assert (
        "q, status, waiting_for, workflow, workflow_version, queue"
        in (shop.get("runs?x=1").body["errors"][0]["message"])
    )
    assert "queued" in shop.get("runs?status=x").body["errors"][0]["message"]


def test_runs_of_other_projects_are_not_listed(house: House, outsider: Api) -> None:
    house.submit("echo")
    assert ids(outsider.get("runs")) == []


@pytest.mark.parametrize("many", [1, 5])
def test_a_page_costs_three_queries_whatever_it_holds(
    house: House, shop: Api, many: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(many):
        house.submit("echo")
    with django_assert_num_queries(3):  # token, member, runs
        shop.get("runs")


def test_a_list_takes_the_filters_of_the_page(house: House, shop: Api) -> None:
    run = operations.submit(
        actor=house.shop, workflow="echo", input={}, labels={"shop": "berlin", "note": "a=b"}
    ).run
    house.submit("echo")
    moment = quote(run.created_at.isoformat())
    for query in (
        "label=shop%3Dberlin",
        "label=note%3Da%3Db",
        "label=berlin",
        "q=Berlin",
        f"q=R-{run.pk.hex[:8]}",
        f"created_until={quote((run.created_at + timedelta(microseconds=1)).isoformat())}",
        f"label=berlin&requester=shop&started=hour&queue=runs&created_from={moment}",
    ):
        assert ids(shop.get(f"runs?{query}")) == [str(run.pk)], query
    for query in (
        "label=shop%3Dmunich",
        "status=retrying",
        "waiting_for=slot&label=berlin",
        "error=x",
        "limit_key=x",
    ):
        assert ids(shop.get(f"runs?{query}")) == [], query
    for query in ("created_from=2026-01-01T00:00:00", "started=year", "waiting_for=tea", f"q={'x' * 401}"):
        assert shop.get(f"runs?{query}").status == 400, query


def test_an_export_is_every_page_of_the_list(
    house: House, shop: Api, outsider: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.runlists.AT_ONCE", 2)
    made = {str(house.submit("echo").pk) for _ in range(5)}
    whole = shop.get("runs/export").body
    listed = shop.get("runs").body["items"]
    assert [{**item, "searchable": {}} for item in listed] == whole["items"]
    assert ({run["id"] for run in whole["items"]}, whole["next"]) == (made, None)
    assert outsider.get("runs/export").body["items"] == []
    assert shop.get("runs/export?format=pdf").status == 400


def test_an_export_that_is_cut_says_where_it_goes_on(
    house: House, shop: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.api.exports.EXPORTED", 2)
    for _ in range(3):
        house.submit("echo")
    first = shop.get("runs/export").body
    rest = shop.get(f"runs/export?cursor={first['next']}").body
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (2, 1, None)
    assert not set(map(str, first["items"])) & set(map(str, rest["items"]))
