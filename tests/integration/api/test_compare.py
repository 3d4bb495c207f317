"""GET /api/v1/runs/{id}/compare."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runs import workflows
from runs.engine import Workflow
from runs.models import Run
from tests.integration.api.conftest import Api, House, every_row


@pytest.fixture
def errand(house: House, define: Callable[..., Workflow]) -> Run:
    flow = define("errand")
    flow.node(name="look")(lambda state, ctx: {"log": [ctx.call(str, state.x, name="look")]})
    flow.node(name="buy")(lambda state, ctx: {"log": [*state.log, "bought"]})
    flow.edge("look", "buy")
    workflows.register(flow)
    return house.work(house.submit("errand", x="tea"))


def test_a_checkpoint_is_held_against_the_one_before(house: House, vera: Api, errand: Run) -> None:
    before = every_row()
    told = vera.get(f"runs/{errand.pk}/compare").body
    assert (told["left"]["checkpoint"], told["right"]["checkpoint"]) == (1, 2)
    assert told["patch"] == [{"op": "add", "path": "/log/1", "value": "bought"}]
    assert [step["node"] for step in told["only_right"]] == ["buy"]
    assert (told["common_steps"], told["only_left"], told["calls"]) == (1, [], [])
    assert vera.get(f"runs/{errand.pk}/compare?checkpoint=0").body["patch"] == []
    assert every_row() == before


def test_branches_and_runs_are_held_side_by_side(house: House, olga: Api, errand: Run) -> None:
    body = {"checkpoint": 0, "reason": "x", "state": {"x": "gin"}}
    olga.post(f"runs/{errand.pk}/rewind", body)
    house.work(errand)
    told = olga.get(f"runs/{errand.pk}/compare?branch=1&other_branch=2").body
    assert (told["left"]["branch"], told["right"]["branch"], told["common_steps"]) == (1, 2, 2)
    (call,) = told["calls"]
    assert (call["name"], call["left"]["result"], call["right"]["result"]) == ("look", "tea", "gin")
    fork = olga.post(f"runs/{errand.pk}/fork", body).body["id"]
    told = olga.get(f"runs/{fork}/compare?other_run={errand.pk}").body
    assert (told["left"]["run"], told["right"]["run"]) == (fork, str(errand.pk))


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("checkpoint=9", 404, "unknown_checkpoint"),
        ("branch=9", 404, "unknown_branch"),
        ("other_checkpoint=99999999999999999999", 404, "unknown_checkpoint"),
        ("other_run=0b5f6c2e-0000-4000-8000-000000000000", 404, "not_found"),
        ("other_run=x", 400, "invalid_parameter"),
        ("checkpoint=-1", 400, "invalid_parameter"),
        ("with=2", 400, "unknown_field"),
    ],
)
def test_what_is_not_there_is_named(vera: Api, errand: Run, query: str, status: int, code: str) -> None:
    reply = vera.get(f"runs/{errand.pk}/compare?{query}")
    assert (reply.status, reply.code) == (status, code)


def test_outsiders_learn_nothing(house: House, outsider: Api, vera: Api, errand: Run) -> None:
    assert outsider.get(f"runs/{errand.pk}/compare").code == "not_found"
    assert vera.get(f"runs/{errand.pk}/compare?other_run={errand.pk}").status == 200
