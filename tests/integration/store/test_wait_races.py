"""Two connections at one waiting step: whoever has the run's row second sees what the first did."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from runs import operations, store, workflows
from runs.engine import Action, Question, Signal, Timer, Workflow
from runs.errors import AlreadyTerminal, ApprovalClosed
from runs.models import Approval, Event, JournalEntry, Run, Step, Wait
from runs.operations.waking import wake
from runs.operations.working import Slice
from tests.integration.core.conftest import House, by_sql, history_is_whole, kinds_of, open_approval, state_of
from tests.integration.core.test_sleeping import pass_time
from tests.kit.racing import at_once, blocked, holding, in_order

Define = Callable[..., Workflow]


def race(define: Define, **waits: Any) -> None:
    flow = define("race")
    flow.node(name="only")(lambda state, ctx: {"log": [ctx.first_of(**waits).winner]})
    workflows.register(flow)


def the_wait(run: Run, kind: str) -> Wait:
    return Wait.objects.get(run=run, kind=kind, closed_at=None)


def test_two_sweepers_fire_a_timer_once(house: House, define: Define) -> None:
    """C74 (e), C27: one entry, one event, however many have seen that it is due."""
    race(define, late=Timer("1h"))
    run = house.work(house.submit("race"))
    pass_time(run)
    wait = the_wait(run, "timer")
    both = in_order(run.pk, lambda: wake(wait), lambda: wake(wait))
    assert [one.value for one in both] == [True, False]
    assert kinds_of(run).count("timer_fired") == 1
    assert JournalEntry.objects.filter(run=run).count() == 1
    assert house.work(run).status == "completed"


@pytest.mark.parametrize("first", ["signal", "timer"])
def test_a_signal_and_a_timer_that_is_due(house: House, define: Define, first: str) -> None:
    """The timer's instant is the earlier one, whoever gets the row first."""
    race(define, paid=Signal("paid"), late=Timer("1h"))
    run = house.work(house.submit("race"))
    pass_time(run)
    wait = the_wait(run, "timer")
    works: list[Callable[[], Any]] = [
        lambda: operations.signal(actor=house.shop, run_id=run.pk, name="paid"),
        lambda: wake(wait),
    ]
    ended = in_order(run.pk, *(works if first == "signal" else works[::-1]))
    assert [one.error for one in ended] == [None, None]
    house.work(run)
    assert state_of(run)["log"] == ["late"]
    assert history_is_whole(run)


def test_a_decision_that_has_waited_for_the_row_until_the_timer_fired_is_refused(
    house: House, define: Define
) -> None:
    race(define, sure=Question(Action("pay"), reviewers=["finance"]), late=Timer("1h"))
    run = house.work(house.submit("race"))
    approval, wait = open_approval(run), the_wait(run, "timer")
    pass_time(run)
    fired, decided = in_order(run.pk, lambda: wake(wait), lambda: house.answer(approval, "approve"))
    assert fired.value is True
    assert isinstance(decided.error, ApprovalClosed)
    assert house.work(run).status == "completed"
    assert not Approval.objects.filter(run=run, status="decided").exists()


def test_two_questions_of_one_step_are_answered_at_once(house: House, define: Define) -> None:
    """C55: both answers count, and the step is ready once."""
    flow = define("both")
    flow.node(name="only")(
        lambda state, ctx: {"log": [a.outcome for a in ctx.ask_all([Action("a"), Action("b")])]}
    )
    workflows.register(flow)
    run = house.work(house.submit("both"))
    approvals = list(Approval.objects.filter(run=run))
    both = at_once(*[partial(house.answer, asked, "approve") for asked in approvals])
    assert [one.error for one in both] == [None, None]
    house.work(run)
    assert state_of(run)["log"] == ["approve", "approve"]
    assert Step.objects.get(run=run).entries == 2
    assert history_is_whole(run)


@pytest.mark.parametrize("order", ["cancel first", "park first"])
def test_cancelling_a_run_that_is_just_parking(house: House, define: Define, order: str) -> None:
    """C76: either it never parks, or what it parked for is closed with it; no child is left behind."""
    inner = define("inner")
    inner.node(name="n")(lambda state, ctx: ctx.sleep("1h"))
    workflows.register(inner)
    outer = define("outer")
    outer.node(name="only")(lambda state, ctx: ctx.run_child("inner"))
    workflows.register(outer)
    run = house.submit("outer")
    step = Step.objects.get(run=run)
    claimed = store.claim(run_id=run.pk, branch=1, address=step.address, worker=operations.worker().id)
    assert claimed is not None
    works: list[Callable[[], Any]] = [
        lambda: operations.cancel(actor=house.olga, run_id=run.pk),
        lambda: Slice(claimed, operations.worker()).drive(),
    ]
    ended = in_order(run.pk, *(works if order == "cancel first" else works[::-1]))
    assert [one.error for one in ended] == [None, None]
    house.sweep()
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    children = list(Run.objects.filter(parent=run).values_list("status", flat=True))
    assert children == ([] if order == "cancel first" else ["cancelled"])
    assert history_is_whole(run)


def test_a_worker_that_lost_its_step_parks_nothing(house: House, define: Define) -> None:
    """C33: the wait of a body whose step was taken over is refused as every write is."""
    race(define, late=Timer("1h"), sure=Question(Action("pay")))
    run = house.submit("race")
    step = Step.objects.get(run=run)
    worker = operations.worker()
    claimed = store.claim(run_id=run.pk, branch=1, address=step.address, worker=worker.id)
    assert claimed is not None
    by_sql("UPDATE runs_step SET token = gen_random_uuid() WHERE run_id = %s", run.pk)
    Slice(claimed, worker).drive()
    assert not Wait.objects.exists()
    assert not Approval.objects.exists()
    assert not Event.objects.filter(run=run, kind="wait_opened").exists()


def test_a_signal_to_a_run_that_just_ends(house: House, define: Define) -> None:
    race(define, paid=Signal("paid"))
    run = house.work(house.submit("race"))
    with holding(run.pk):
        cancelled = blocked(lambda: operations.cancel(actor=house.olga, run_id=run.pk))
        sent = blocked(lambda: operations.signal(actor=house.shop, run_id=run.pk, name="paid"))
    assert cancelled.end().error is None
    assert isinstance(sent.end().error, AlreadyTerminal)
