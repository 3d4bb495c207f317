"""GET /api/v1/runs."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

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
        "status, workflow, workflow_version, waiting_for, limit, cursor"
        in shop.get("runs?x=1").body["errors"][0]["message"]
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
