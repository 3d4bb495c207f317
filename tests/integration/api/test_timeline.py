"""GET /api/v1/runs/{id}/history, /checkpoints, /checkpoints/{no} and /steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from runs import operations, workflows
from runs.engine import Workflow, patch
from runs.models import Run, Step
from tests.integration.api.conftest import Api, House, pages, pay_flow


@pytest.fixture
def run(house: House, define: Callable[..., Workflow]) -> Run:
    """A run that was approved and is completed."""
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    house.answer(approval, "approve", comment="fine")
    return house.work(run)


# ---- history


def test_the_history_is_gapless_and_says_who(run: Run, shop: Api) -> None:
    told = shop.get(f"runs/{run.pk}/history?limit=200").body
    assert [event["seq"] for event in told["items"]] == list(range(1, len(told["items"]) + 1))
    assert told["next"] is None
    kinds = [event["kind"] for event in told["items"]]
    assert kinds[0] == "run_submitted"
    by = {event["kind"]: event["actor"] for event in told["items"]}
    assert by["run_submitted"]["name"] == "shop"
    assert "frida" in [actor["name"] for actor in by.values() if actor]


def test_the_history_is_read_in_parts(run: Run, shop: Api) -> None:
    whole = shop.get(f"runs/{run.pk}/history?limit=200").body["items"]
    parts = [
        event for page in pages(shop, f"runs/{run.pk}/history?limit=2", parameter="after") for event in page
    ]
    assert parts == whole


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "since=1", "after=99999999999999999999"])
def test_impossible_parts_are_refused(run: Run, shop: Api, query: str) -> None:
    assert shop.get(f"runs/{run.pk}/history?{query}").status == 400


# ---- checkpoints


def test_checkpoints_are_listed_by_number_with_their_parents(run: Run, shop: Api) -> None:
    told = shop.get(f"runs/{run.pk}/checkpoints").body
    assert [one["no"] for one in told["items"]] == list(range(run.head + 1))
    assert [one["parent"] for one in told["items"]] == [None, *range(run.head)]
    assert told["items"][0]["kind"] == "input"
    assert {"answer", "step"} <= {one["kind"] for one in told["items"]}
    assert {one["epoch"] for one in told["items"]} == {1}


def test_checkpoints_of_one_branch_are_listed(house: House, run: Run, shop: Api) -> None:
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again", changes={"x": 5})
    told = shop.get(f"runs/{run.pk}/checkpoints?branch=2").body["items"]
    assert [(one["branch"], one["kind"], one["reason"]) for one in told] == [(2, "edit", "again")]
    assert told[0]["author"]["name"] == "olga"
    assert shop.get(f"runs/{run.pk}/checkpoints?branch=3").body["items"] == []


def test_the_patches_of_all_checkpoints_lead_from_nothing_to_the_state(run: Run, shop: Api) -> None:
    state: Any = {}
    for no in range(run.head + 1):
        told = shop.get(f"runs/{run.pk}/checkpoints/{no}").body
        state = patch.apply(state, told["patch"])
        assert state == told["state"]
    assert shop.get(f"runs/{run.pk}").body["state"] == state


def test_a_patch_that_shortens_a_list_can_be_applied(house: House, shop: Api) -> None:
    run = house.submit("echo", done=["a", "b", "c", "d"])
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"done": ["x"]}, reason="less"
    )
    before, after = (shop.get(f"runs/{run.pk}/checkpoints/{no}").body for no in (0, 1))
    assert (
        patch.apply(before["state"], after["patch"])
        == after["state"]
        == {"name": "x", "value": None, "done": ["x"]}
    )


def test_a_checkpoint_tells_what_was_to_do(run: Run, shop: Api) -> None:
    assert shop.get(f"runs/{run.pk}/checkpoints/0").body["next"] == ["before"]
    assert shop.get(f"runs/{run.pk}/checkpoints/{run.head}").body["next"] == []


@pytest.mark.parametrize("no", ["99", "2147483648", "99999999999999999999"])
def test_an_unknown_checkpoint_is_named(run: Run, shop: Api, no: str) -> None:
    reply = shop.get(f"runs/{run.pk}/checkpoints/{no}")
    assert (reply.status, reply.code) == (404, "unknown_checkpoint")


# ---- steps


def test_steps_are_told_with_their_calls_and_effects(
    house: House, shop: Api, define: Callable[..., Workflow]
) -> None:
    flow = define("calls")

    @flow.node
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        found = ctx.call(dict, kwargs={"a": 1}, name="look_up")
        ctx.call(dict, kwargs={"paid": 2**70}, name="pay", effect="irreversible")
        return {"x": found}

    workflows.register(flow)
    run = house.work(house.submit("calls"))
    [step] = shop.get(f"runs/{run.pk}/steps").body["items"]
    assert (step["node"], step["status"], step["attempt"], step["entries"]) == ("only", "completed", 1, 1)
    assert [(call["name"], call["effect"], call["result"]) for call in step["calls"]] == [
        ("look_up", "none", {"a": 1}),
        ("pay", "irreversible", {"paid": 2**70}),
    ]
    assert step["effects"] == ["pay"]


def test_steps_are_read_in_parts(run: Run, shop: Api) -> None:
    whole = shop.get(f"runs/{run.pk}/steps").body["items"]
    parts = [step for page in pages(shop, f"runs/{run.pk}/steps?limit=1") for step in page]
    assert parts == whole
    assert {step["node"] for step in whole} == {"before", "ask", "after"}


def test_steps_of_one_branch_are_told(house: House, run: Run, shop: Api) -> None:
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    assert [step["node"] for step in shop.get(f"runs/{run.pk}/steps?branch=2").body["items"]] == ["before"]


@pytest.mark.parametrize(("path", "queries"), [("history", 4), ("checkpoints", 4), ("steps", 6)])
def test_a_page_costs_the_same_queries_whatever_it_holds(
    run: Run, shop: Api, path: str, queries: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    assert Step.objects.filter(run=run).count() > 1
    with django_assert_num_queries(queries):  # token, member, run, rows (, calls)
        shop.get(f"runs/{run.pk}/{path}")
