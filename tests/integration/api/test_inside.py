"""What happened inside a step, over REST: usage summed, progress, arguments, undo, deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import workflows
from runs.engine import Workflow
from runs.models import Step
from tests.integration.api.conftest import Api, House

USED = {"model_tokens_in": 1_000, "model_tokens_out": 21, "cost": {"EUR": "0.1", "USD": "0.00042"}}
NOTHING = {"model_tokens_in": 0, "model_tokens_out": 0, "cost": {}}
Define = Callable[..., Workflow]


def give_back(receipt: Any, amount: int) -> None:
    """What would undo a charge."""


@pytest.fixture
def paid(define: Define) -> Workflow:
    workflow = define("paid", deadline=3_600)

    @workflow.node
    def work(state: Any, ctx: Any) -> None:
        def ask(amount: int) -> str:
            ctx.usage(model_tokens_in=1_000, model_tokens_out=20, cost="0.000420", model="large")
            ctx.usage(cost="0.10", currency="EUR")
            return "receipt"

        ctx.call(ask, 5, name="ask", effect="reversible", undo=give_back)
        ctx.usage(model_tokens_out=1)
        ctx.progress(3, 12, note="pages")
        seen.append(Step.objects.get().progress)

    seen: list[Any] = []
    workflows.register(workflow)
    return workflow


def test_usage_is_summed_on_call_step_run_and_workflow(house: House, paid: Workflow, shop: Api) -> None:
    run = house.work(house.submit("paid"))
    assert shop.get(f"runs/{run.pk}").body["usage"] == USED
    (step,) = shop.get(f"runs/{run.pk}/steps").body["items"]
    assert step["usage"] == USED
    ask, own = step["calls"]
    assert (ask["usage"]["model_tokens_out"], own["name"], own["usage"]["model_tokens_out"]) == (
        20,
        "ctx.usage",
        1,
    )
    house.work(house.submit("paid"))
    told = {flow["name"]: flow for flow in shop.get("workflows?usage=true").body["items"]}
    assert told["paid"]["usage"]["model_tokens_in"] == 2_000
    assert "usage" not in shop.get("workflows").body["items"][0]


def test_a_call_shows_its_arguments_and_how_it_is_undone(house: House, paid: Workflow, shop: Api) -> None:
    run = house.work(house.submit("paid"))
    ask = shop.get(f"runs/{run.pk}/steps").body["items"][0]["calls"][0]
    assert (ask["arguments"], ask["undo"]) == ('{"args":[5],"kwargs":{}}', f"{__name__}:give_back")


def test_progress_is_told_while_the_step_executes_and_not_afterwards(
    house: House, define: Define, shop: Api
) -> None:
    workflow = define("slow")
    seen: list[Any] = []

    @workflow.node
    def work(state: Any, ctx: Any) -> None:
        ctx.progress(3, 12, note="pages")
        seen.append(shop.get(f"runs/{ctx.run_id}/steps").body["items"][0]["progress"])

    workflows.register(workflow)
    run = house.work(house.submit("slow"))
    told = seen[0]
    assert (told["done"], told["total"], told["note"]) == (3, 12, "pages")
    assert shop.get(f"runs/{run.pk}/steps").body["items"][0]["progress"] is None


def test_a_deadline_is_told_and_may_be_said_with_the_submission(
    house: House, paid: Workflow, shop: Api
) -> None:
    told = shop.post("runs", {"workflow": "paid", "input": {}}).body
    assert (told["deadline"], told["time_left"]) == (3_600, None)
    assert told["deadline_at"] > told["created_at"]
    told = shop.post("runs", {"workflow": "paid", "input": {}, "deadline": "2h"}).body
    assert told["deadline"] == 7_200
    assert shop.post("runs", {"workflow": "paid", "input": {}, "deadline": 90.5}).body["deadline"] == 90.5


@pytest.mark.parametrize("deadline", ["soon", "inf", "nan", "-5s", 0, -1, 1e300, True, [], "0s"])
def test_an_odd_deadline_is_refused_with_its_place(paid: Workflow, shop: Api, deadline: Any) -> None:
    """C02: no time that is no number."""
    told = shop.post("runs", {"workflow": "paid", "input": {}, "deadline": deadline})
    assert told.status in (400, 422)
    assert any(path.startswith("/deadline") for path in told.paths)
