"""What is going on in runs comes in one answer, and is what the tables hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.forms.models import model_to_dict
from pytest_django import DjangoAssertNumQueries

from runs import operations, queries, store, tracing, workflows
from runs.engine import Action, Retry, Workflow
from runs.errors import UnknownCheckpoint
from runs.models import Approval, Checkpoint, Run, Step, Wait
from tests.integration.core.conftest import House, by_sql, define, open_approval, pay_flow

__all__ = ["define"]


@pytest.fixture
def busy(house: House, define: Callable[..., Workflow]) -> Run:
    """A lane that asks two people, of whom one has said yes, and one that is tried again."""
    flow = define("busy")
    flow.node(name="begin")(lambda state, ctx: {"x": [1.5, "a\u202e", 2**70, None]})

    @flow.approval(reviewers=["finance"], quorum=2)
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": 1}, editable=["amount"])

    @flow.node(retry=Retry(attempts=3, initial=60))
    def fail(state: Any, ctx: Any) -> None:
        ctx.call(str, 7, name="count")
        ctx.usage(model_tokens_in=10, cost="0.10")
        raise OSError("no paper")

    flow.edge("begin", "ask")
    flow.edge("begin", "fail")
    workflows.register(flow)
    run = house.work(house.submit("busy"))
    house.answer(open_approval(run), "approve")
    return run


def plain(row: Any) -> dict[str, Any]:
    """Every column of a row but the long ones."""
    return {**model_to_dict(row), "created": getattr(row, "created_at", None)}


def test_it_is_one_question_and_its_rows_are_whole(
    busy: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        live = queries.live([busy.pk])[busy.pk]
        votes = queries.votes_of(live.approvals[0])
    assert votes == 1
    steps = Step.objects.filter(run=busy, status__in=["waiting", "ready"]).order_by("created_at")
    assert [plain(step) for step in live.steps] == [plain(step) for step in steps]
    waits = Wait.objects.filter(run=busy, closed_at=None).order_by("opened_at")
    assert [plain(wait) for wait in live.waits] == [plain(wait) for wait in waits]
    asked = Approval.objects.get(run=busy)
    assert plain(live.approvals[0]) == plain(asked), "what was left out is read when it is asked for"


def test_only_votes_for_what_is_asked_now_count(busy: Run, house: House) -> None:
    asked = open_approval(busy)
    operations.revise(
        actor=house.felix, approval_id=asked.pk, version=asked.version, args={"pay": {"amount": 2}}
    )
    [live] = queries.live([busy.pk])[busy.pk].approvals
    [whole] = tracing.approvals(busy.pk, limit=10)
    assert (queries.votes_of(live), queries.votes_of(whole)) == (0, 0)


def test_a_worker_that_died_is_told_with_its_step(busy: Run) -> None:
    [step] = [step for step in queries.live([busy.pk])[busy.pk].steps if step.node == "fail"]
    assert queries.died_at(step) is None
    by_sql("INSERT INTO runs_workerchild (id, host, pid, suspected_at) VALUES (999, 'h', 1, now())")
    by_sql(
        "UPDATE runs_step SET status = 'executing', worker = 999, token = gen_random_uuid(),"
        " lease_until = now() WHERE node = 'fail'"
    )
    [step] = [step for step in queries.live([busy.pk])[busy.pk].steps if step.node == "fail"]
    assert queries.died_at(step) is not None
    by_sql("UPDATE runs_step SET status = 'waiting', token = NULL WHERE node = 'fail'")


def test_what_is_inside_steps_comes_in_one_answer(
    busy: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    steps = tracing.steps_from(busy.pk, 1)
    with django_assert_num_queries(1):
        found = tracing.inside(busy.pk, steps)
    assert next((call.name, call.kind) for call in found.calls if call.kind == "call") == ("count", "call")
    assert sorted(wait.kind for wait in found.waits) == ["approval", "retry"]
    spent = queries.Spent()
    for one in found.spent.values():
        spent.add(one)
    assert (spent.model_tokens_in, spent.cost) == (10, queries.spent_by(busy.pk).cost)
    assert tracing.inside(busy.pk, []).calls == []


def test_stretches_hold_every_step_once(busy: Run) -> None:
    every = Step.objects.filter(run=busy).count()
    for window, columns in ((1, 10), (1, 2), (2, 1), (100, 3)):
        found = store.stretches(busy.pk, window=window, columns=columns)
        assert len(found) <= columns
        numbers = [no for first, last, *_ in found for no in range(first, last + 1)]
        assert numbers == list(range(1, every + 1)), (window, columns)
    assert sum(row[5] for row in found) == 2, "two go on"


def test_checkpoints_that_are_read_together_are_those_that_are_read_alone(
    house: House, define: Callable[..., Workflow], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    pay_flow(define("paid"))
    run, _ = house.parked("paid", x=1)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again", changes={"x": 2})
    house.work(run)
    numbers = list(Checkpoint.objects.filter(run=run).order_by("no").values_list("no", flat=True))
    alone = [store.read_position(run.pk, no) for no in numbers]
    with django_assert_num_queries(1):
        together = store.read_positions(run.pk, numbers)
    assert together == alone
    seen = queries.run(house.project.pk, run.pk)
    with django_assert_num_queries(2):
        moment = queries.checkpoint(seen, run.head, against=0)
    assert (moment.position, moment.before, moment.base) == (alone[-1], alone[0], 0)
    for no, against in ((99, None), (0, 99)):
        with pytest.raises(UnknownCheckpoint):
            queries.checkpoint(seen, no, against=against)
