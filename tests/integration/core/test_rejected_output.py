"""C83: what a node returns is held against the schema before it is stored; what is refused is kept for whoever looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.test import Client
from pydantic import BaseModel, Field, model_validator

from runs import operations, workflows
from runs.engine import START, Workflow
from runs.models import Run, Step
from tests.integration.core.conftest import House, error_of, history_is_whole, state_of

Define = Callable[..., Workflow]


class Stock(BaseModel):
    items: list[str] = []
    amount: Annotated[int, Field(ge=0)] = 0


class Bounded(BaseModel):
    left: int = 0
    right: int = 0

    @model_validator(mode="after")
    def fits(self) -> Bounded:
        if self.left + self.right > 10:
            raise ValueError("more than ten together")
        return self


def every_page_opens(house: House, run: Run) -> None:
    client = Client()
    client.force_login(house.olga.user)
    paths = ["/runs/", f"/runs/{run.pk}/", f"/runs/{run.pk}/checkpoints/0/", f"/runs/{run.pk}/rewind/0/"]
    assert [client.get(path).status_code for path in paths] == [200] * len(paths)


@pytest.mark.parametrize(
    ("update", "path", "rule"),
    [
        ({"items": None}, "/items", "list_type"),
        ({"amount": -1}, "/amount", "greater_than_equal"),
        ({"extra": 1}, "/extra", "unknown_key"),
        ({"items": ["x" * 5000, 1]}, "/items/1", "string_type"),
    ],
)
def test_c83_an_output_that_breaks_the_schema_is_refused_and_kept(
    house: House, define: Define, update: dict[str, Any], path: str, rule: str
) -> None:
    flow, wrong = define("stocks", state=Stock), [True]
    flow.node(name="first")(lambda state, ctx: {"amount": 1})
    flow.node(name="second")(lambda state, ctx: update if wrong[0] else {"amount": 2})
    flow.edge("first", "second")
    workflows.register(flow)
    run = house.work(house.submit("stocks"))
    error = error_of(run)
    assert (run.status, error["code"]) == ("failed", "schema_violation")
    assert [(problem["path"], problem["code"]) for problem in error["errors"]] == [(path, rule)]
    kept = error_of(Step.objects.get(run=run, node="second"))["rejected"]
    assert kept.startswith('{"' + next(iter(update)))
    assert len(kept) <= 2_001
    assert (run.head, state_of(run)) == (1, {"items": [], "amount": 1})
    every_page_opens(house, run)
    wrong[0] = False
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="mended")
    assert house.work(run).status == "completed"
    assert history_is_whole(run)


def test_c83_two_valid_outputs_that_do_not_fit_together_fail_at_the_join(
    house: House, define: Define
) -> None:
    flow = define("bounded", state=Bounded)
    flow.node(name="start")(lambda state, ctx: None)
    flow.node(name="one")(lambda state, ctx: {"left": 6})
    flow.node(name="other")(lambda state, ctx: {"right": 6})
    flow.node(name="join")(lambda state, ctx: None)
    flow.edge(START, "start")
    for name in ("one", "other"):
        flow.edge("start", name)
        flow.edge(name, "join")
    workflows.register(flow)
    run = house.work(house.submit("bounded"))
    error = error_of(run)
    assert (run.status, error["code"], error["step"]) == ("failed", "schema_violation", "join")
    assert error["steps"] == ["one", "other"]
    assert "'one' and 'other'" in error["message"]
    assert {step.status for step in Step.objects.filter(run=run, node__in=["one", "other"])} == {"completed"}
    every_page_opens(house, run)
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"left": 1}, reason="less"
    )
    operations.retry(actor=house.olga, run_id=run.pk)
    assert house.work(run).status == "completed"
    assert state_of(run) == {"left": 1, "right": 6}
