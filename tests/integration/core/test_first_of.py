"""The first of several waits: one winner by instant and declaration, and nothing left of the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import Action, Child, Question, Signal, Timer, Workflow
from runs.errors import ApprovalClosed, Conflict
from runs.models import Approval, Run, Wait
from tests.integration.core.conftest import (
    House,
    by_sql,
    history_is_whole,
    kinds_of,
    open_approval,
    state_of,
)
from tests.integration.core.test_signalling import send
from tests.integration.core.test_sleeping import pass_time
from tests.kit.racing import at_once

Define = Callable[..., Workflow]


def racing(define: Define, **waits: Any) -> None:
    flow = define("race")

    @flow.node
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        first = ctx.first_of(**waits)
        value = first.value.args if first.winner == "sure" else getattr(first.value, "payload", first.value)
        return {"log": [*state.log, first.winner, value]}

    workflows.register(flow)


def four(define: Define) -> None:
    slow = define("slow")
    slow.node(name="nap")(lambda state, ctx: ctx.sleep("2h"))
    workflows.register(slow)
    racing(
        define,
        sure=Question(Action("pay", {"amount": 1}), reviewers=["finance"]),
        paid=Signal("paid", timeout="1h"),
        late=Timer("1h"),
        child=Child("slow"),
    )


def test_the_winner_releases_the_losers(house: House, define: Define) -> None:
    """C23: the approval is gone, the timer closed, the child cancelled; the run ends at once."""
    four(define)
    run = house.work(house.submit("race"))
    child = Run.objects.get(parent=run)
    assert [wait["kind"] for wait in run.waiting_for] == ["approval", "signal", "timer", "child"]
    approval = open_approval(run)
    send(house, run, payload={"n": 1})
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["paid", {"n": 1}])
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    approval.refresh_from_db()
    assert approval.status == "superseded"
    with pytest.raises(ApprovalClosed):
        house.answer(approval, "approve")
    assert house.sweep().stopped == 1
    child.refresh_from_db()
    assert child.status == "cancelled"
    assert history_is_whole(run)


def test_people_may_be_first(house: House, define: Define) -> None:
    four(define)
    run = house.work(house.submit("race"))
    house.answer(open_approval(run), "approve")
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["sure", {"amount": 1}])


def test_of_timers_due_at_once_the_one_declared_first_wins(house: House, define: Define) -> None:
    """C73: everything is overdue when somebody looks; a signal came after the timers were due and stays in the mailbox."""
    racing(define, one=Timer(2), two=Timer(2), three=Timer(3), event=Signal("paid"))
    run = house.work(house.submit("race"))
    pass_time_of_all(run)
    sent = send(house, run, payload=1)
    house.sweep()
    house.work(run)
    assert state_of(run)["log"][0] == "one"
    assert kinds_of(run).count("timer_fired") == 1
    assert operations.signal(
        actor=house.olga, run_id=run.pk, name="paid", payload=1, signal_id=sent.signal.sent_id
    ).replayed
    assert house.sweep().woken == 0


def pass_time_of_all(run: Run) -> None:
    by_sql(
        "UPDATE runs_wait SET due_at = due_at - interval '10 s' WHERE run_id = %s AND due_at IS NOT NULL",
        run.pk,
    )


def test_the_earlier_instant_wins_whoever_looks_first(house: House, define: Define) -> None:
    """A decision that comes after the timer was due is refused, though no sweeper has fired it yet."""
    racing(define, sure=Question(Action("pay"), reviewers=["finance"]), late=Timer("1h"))
    run = house.work(house.submit("race"))
    approval = open_approval(run)
    pass_time(run)
    with pytest.raises(ApprovalClosed) as refused:
        house.answer(approval, "approve")
    assert refused.value.reason == "first_of"
    assert house.sweep().woken == 1
    house.work(run)
    assert state_of(run)["log"][0] == "late"


def test_a_signal_and_a_decision_at_once_have_one_winner(house: House, define: Define) -> None:
    """C23: at the same instant."""
    racing(define, sure=Question(Action("pay"), reviewers=["finance"]), paid=Signal("paid"))
    for _ in range(3):
        run = house.work(house.submit("race"))
        approval = open_approval(run)
        decided, sent = at_once(
            partial(house.answer, approval, "approve"), partial(send, house, run, payload=1)
        )
        assert sent.error is None
        assert decided.error is None or isinstance(decided.error, Conflict)
        house.work(run)
        winner = state_of(run)["log"][0]
        assert winner == ("sure" if decided.error is None else "paid")
        assert run.status == "completed"
        assert history_is_whole(run)


def test_a_race_is_asked_again_by_a_rewind(house: House, define: Define) -> None:
    four(define)
    run = house.work(house.submit("race"))
    send(house, run, payload=1)
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["paid", 1])
    assert Approval.objects.filter(run=run).count() == 2
