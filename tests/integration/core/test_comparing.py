"""Two checkpoints side by side: of one branch, of two branches, of a fork and its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs import operations, workflows
from runs.engine import Action, Workflow
from runs.errors import NotFound, UnknownBranch, UnknownCheckpoint
from runs.models import Run
from runs.operations import At, Comparison
from tests.integration.core.conftest import House, make_house, open_approval

Define = Callable[..., Workflow]


@pytest.fixture
def sold(define: Define) -> None:
    """rate -> ask -> sell; rate and sell are calls."""
    flow = define("sold")

    @flow.node
    def rate(state: Any, ctx: Any) -> dict[str, Any]:
        def call(what: Any) -> str:
            ctx.usage(model_tokens_in=10, model_tokens_out=1)
            return f"rated {what}"

        return {"log": [ctx.call(call, state.x, name="rate")]}

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("sell", {"what": state.x})

    @flow.node
    def sell(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [*state.log, ctx.call(str, ctx.approved("ask").args["what"], name="sell")]}

    flow.edge(rate, ask)
    flow.edge(ask, sell)
    workflows.register(flow)


def sell(house: House, run: Run, comment: str = "") -> Run:
    house.work(run)
    house.answer(open_approval(run), "approve", comment=comment)
    return house.work(run)


def compare(house: House, run: Run, left: At, right: At) -> Comparison:
    return operations.compare(actor=house.vera, run_id=run.pk, left=left, right=right)


def nodes(steps: Any) -> list[str]:
    return [step.node for step in steps]


def test_two_checkpoints_of_one_branch(house: House, sold: None) -> None:
    run = sell(house, house.submit("sold", x="tea"), "fine")
    found = compare(house, run, At(checkpoint=1), At())
    assert [(change.path, change.kind) for change in found.state] == [("/log/1", "added")]
    assert (found.common, nodes(found.only_left), nodes(found.only_right)) == (1, [], ["ask", "sell"])
    assert [(pair.left, pair.right.name) for pair in found.calls if pair.right] == [(None, "sell")]
    assert (found.left.decisions, [approval.node for approval in found.right.decisions]) == ([], ["ask"])
    assert found.left.usage.model_tokens_in == found.right.usage.model_tokens_in == 10


def test_two_branches_show_what_came_of_the_same_steps(house: House, sold: None) -> None:
    run = sell(house, house.submit("sold", x="tea"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="x", changes={"x": "gin"})
    sell(house, run, "as it must")
    found = compare(house, run, At(branch=1), At(branch=2))
    assert (found.left.branch, found.right.branch, found.left.checkpoint) == (1, 2, 3)
    assert [change.path for change in found.state] == ["/log/0", "/log/1", "/x"]
    assert (found.common, found.only_left, found.only_right) == (3, [], [])
    results = [(pair.left.result, pair.right.result) for pair in found.calls if pair.left and pair.right]
    assert results == [('"rated tea"', '"rated gin"'), ('"tea"', '"gin"')]
    told = [approval.votes.all()[0].comment for approval in found.right.decisions]
    assert (told, len(found.left.decisions)) == (["as it must"], 1)


def test_a_fork_and_its_origin_have_the_way_before_in_common(house: House, sold: None) -> None:
    run = sell(house, house.submit("sold", x="tea"))
    told: dict[str, Any] = {"actor": house.olga, "run_id": run.pk, "reason": "x"}
    copy = operations.fork(**told, checkpoint=1, changes={"x": "gin"}).run
    sell(house, copy)
    found = compare(house, copy, At(run=run.pk), At())
    assert (found.common, nodes(found.only_left), nodes(found.only_right)) == (3, [], [])
    assert [pair.right.run_id for pair in found.calls if pair.right] == [copy.pk]
    assert [change.path for change in found.state] == ["/log/1", "/x"]
    assert found.right.usage.model_tokens_in == 10, "what led to it was used once, in the origin"
    assert operations.compared_with(actor=house.vera, run_id=copy.pk, left=At(checkpoint=0)) == At(
        run=run.pk, checkpoint=1
    )
    assert operations.compared_with(actor=house.vera, run_id=run.pk, left=At()) == At(checkpoint=2)


def test_what_is_not_there_is_named(house: House, sold: None) -> None:
    run = house.submit("sold")
    other = make_house("other")
    for where, error in (
        (At(checkpoint=9), UnknownCheckpoint),
        (At(checkpoint=2**70), UnknownCheckpoint),
        (At(branch=9), UnknownBranch),
        (At(run=other.submit("sold").pk), NotFound),
    ):
        with pytest.raises(error):
            compare(house, run, At(), where)
    with pytest.raises(NotFound):
        operations.compare(actor=other.olga, run_id=run.pk, left=At(), right=At())


def test_it_costs_the_same_queries_whatever_there_is(house: House, sold: None) -> None:
    run = sell(house, house.submit("sold", x="tea"))
    counts = set()
    for _ in range(2):
        with CaptureQueriesContext(connection) as caught:
            compare(house, run, At(checkpoint=1), At())
        counts.add(len(caught))
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="x")
        sell(house, run)
    assert counts == {10}
