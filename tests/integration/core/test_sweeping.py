"""The sweeper: takeovers, deaths, retries, deadlines, forgotten hints. Time is turned by SQL, never waited for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as django_settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis import Redis

from runs import operations, store, workflows
from runs.engine import Action, Retry, Workflow
from runs.models import Approval, Event, OperationalNote, Run, ServiceBeat, Step, Wait, WorkerChild
from runs.operations import sweeping
from tests.integration.core.conftest import (
    House,
    by_sql,
    history_is_whole,
    kinds_of,
    pay_flow,
    state_of,
)
from tests.kit.racing import at_once

Define = Callable[..., Workflow]


pytestmark = pytest.mark.usefixtures("short_lease")


@pytest.fixture
def queue() -> Iterator[Queue]:
    found = Queue()
    found.empty()
    yield found
    found.redis.close()


class Queue:
    """The hints that lie in the broker."""

    def __init__(self) -> None:
        self.redis = Redis.from_url(django_settings.REDIS_URL)

    def __len__(self) -> int:
        return int(self.redis.llen("runs"))

    def empty(self) -> None:
        self.redis.delete("runs")


def three(define: Define) -> None:
    """a -> b -> c, which log that they ran."""
    workflow = define("three")
    for name in "abc":
        workflow.node(name=name)(lambda state, ctx: {"log": [*state.log, ctx.node]})
    workflow.edge("a", "b")
    workflow.edge("b", "c")
    workflows.register(workflow)


def claimed(house: House, *, worker: int = 1) -> tuple[Run, store.Held]:
    run = house.submit("three")
    step = Step.objects.get(run=run)
    found = store.claim(run_id=run.pk, branch=1, address=step.address, worker=worker)
    assert found is not None
    return run, found.held


def lapse(run: Run) -> None:
    assert by_sql("UPDATE runs_step SET lease_until = now() - interval '1 ms' WHERE run_id = %s", run.pk)


# ---- takeovers


def test_a_lapsed_lease_is_taken_over_and_the_run_goes_on(house: House, define: Define) -> None:
    three(define)
    run, _ = claimed(house)
    lapse(run)
    swept = house.sweep()
    assert (swept.taken_over, swept.failed) == (1, 0)
    step = Step.objects.get(run=run)
    assert (step.status, step.token, step.crashes, step.failures) == ("ready", None, 1, 0)
    taken = Event.objects.get(run=run, kind="step_taken_over")
    assert '"reason":"lease_expired"' in (taken.payload or "")
    house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["a", "b", "c"])
    assert history_is_whole(run)


def test_a_live_lease_is_left_alone(house: House, define: Define) -> None:
    three(define)
    run, held = claimed(house)
    assert house.sweep().taken_over == 0
    assert Step.objects.get(run=run).token == held.token


def test_a_lease_that_was_renewed_in_between_is_left_alone(house: House, define: Define) -> None:
    """What the sweeper saw first is looked at again under the lock."""
    three(define)
    run, held = claimed(house)
    lapse(run)
    (seen,) = store.lapsed_steps()
    by_sql("UPDATE runs_step SET lease_until = now() + interval '1 min' WHERE run_id = %s", run.pk)
    assert sweeping._take_over(seen) is False
    assert Step.objects.get(run=run).token == held.token


def test_a_lease_does_not_lapse_while_postgres_has_only_just_come_back(
    house: House, define: Define, settings: Any
) -> None:
    """Nobody could renew while it was down. Here it counts as just started, since a third of the lease is a year."""
    three(define)
    run, held = claimed(house)
    lapse(run)
    settings.HITL_LEASE_SECONDS = 3 * 365 * 86400
    assert house.sweep().taken_over == 0
    settings.HITL_LEASE_SECONDS = 3
    assert house.sweep().taken_over == 1
    assert Step.objects.get(run=run).token != held.token


def test_a_step_that_ends_its_worker_three_times_is_set_aside(house: House, define: Define) -> None:
    three(define)
    run, _ = claimed(house)
    for crashes in (1, 2):
        lapse(run)
        house.sweep()
        step = Step.objects.get(run=run)
        assert (step.status, step.crashes) == ("ready", crashes)
        store.claim(run_id=run.pk, branch=1, address=step.address, worker=crashes + 1)
    lapse(run)
    house.sweep()
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["step"]) == ("failed", "poisoned", "a")
    assert run.error["crashes"] == 3
    step = Step.objects.get(run=run)
    assert (step.status, step.crashes) == ("failed", 3)
    assert house.sweep().taken_over == 0
    assert history_is_whole(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="mended")
    assert house.work(run).status == "completed"


def test_two_sweepers_do_the_work_once(house: House, define: Define) -> None:
    three(define)
    runs = [claimed(house)[0] for _ in range(3)]
    for run in runs:
        lapse(run)

    def sweep() -> operations.Swept | None:
        with store.own_connection() as lock:
            return operations.sweep(lock)

    rounds = at_once(sweep, sweep)
    assert [one.error for one in rounds] == [None, None]
    assert sum(one.value.taken_over for one in rounds if one.value) == 3
    assert list(Step.objects.filter(run__in=runs).values_list("crashes", flat=True)) == [1, 1, 1]


def test_two_sweepers_without_their_lock_still_do_it_once(house: House, define: Define) -> None:
    """The lock saves work; that nothing is done twice does not hang on it."""
    three(define)
    run, _ = claimed(house)
    lapse(run)
    (seen,) = store.lapsed_steps()
    both = at_once(*[partial(sweeping._take_over, seen)] * 2)
    assert sorted(one.value for one in both) == [False, True]
    assert Step.objects.get(run=run).crashes == 1


def test_while_one_sweeps_the_other_rests(house: House, define: Define) -> None:
    with store.own_connection() as lock, store.sweeping(lock) as alone, store.own_connection() as other:
        assert alone
        assert operations.sweep(other) is None
    assert house.sweep() is not None


# ---- deaths


@pytest.fixture
def child() -> Iterator[store.Keeper]:
    """Another process that runs steps, started a while ago."""
    keeper = store.Keeper("host", 4711)
    keeper.beat(())
    by_sql("UPDATE runs_workerchild SET started_at = now() - interval '1 min' WHERE id = %s", keeper.id)
    yield keeper
    keeper.drop()


def dies(child: store.Keeper) -> None:
    """Its backend ends, as it does with the process."""
    assert child._connection is not None
    pid = child._connection.info.backend_pid
    with store.own_connection() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    child.drop()


def a_second_passes(child: store.Keeper) -> None:
    by_sql(
        "UPDATE runs_workerchild SET suspected_at = suspected_at - interval '1001 ms' WHERE id = %s", child.id
    )


def test_a_dead_childs_step_is_taken_over_long_before_its_lease_ends(
    house: House, define: Define, child: store.Keeper, settings: Any
) -> None:
    three(define)
    run, _ = claimed(house, worker=child.id)
    by_sql("UPDATE runs_step SET lease_until = now() + interval '1 day'")
    dies(child)
    assert (house.sweep().suspected_dead, Step.objects.get(run=run).status) == (0, "executing")
    assert WorkerChild.objects.get(pk=child.id).suspected_at is not None
    assert (house.sweep().suspected_dead, Step.objects.get(run=run).status) == (0, "executing")
    a_second_passes(child)
    swept = house.sweep()
    assert (swept.suspected_dead, swept.taken_over) == (1, 1)
    taken = Event.objects.get(run=run, kind="step_taken_over")
    assert '"reason":"worker_gone"' in (taken.payload or "")
    assert house.sweep().suspected_dead == 0


def test_a_child_that_comes_back_within_the_second_is_spared(
    house: House, define: Define, child: store.Keeper
) -> None:
    three(define)
    run, held = claimed(house, worker=child.id)
    dies(child)
    house.sweep()
    a_second_passes(child)
    child.beat([held.token])
    swept = house.sweep()
    assert (swept.suspected_dead, swept.taken_over) == (0, 0)
    row = WorkerChild.objects.get(pk=child.id)
    assert (row.suspected_at, row.gone_at) == (None, None)
    assert Step.objects.get(run=run).token == held.token


def test_a_child_that_was_given_up_and_comes_back_lives_again(
    house: House, define: Define, child: store.Keeper
) -> None:
    three(define)
    dies(child)
    house.sweep()
    a_second_passes(child)
    assert house.sweep().suspected_dead == 1
    child.beat(())
    assert WorkerChild.objects.get(pk=child.id).gone_at is None
    run, held = claimed(house, worker=child.id)
    assert house.sweep().taken_over == 0
    assert Step.objects.get(run=run).token == held.token


def test_a_child_that_has_only_just_started_is_not_suspected(house: House, child: store.Keeper) -> None:
    by_sql("UPDATE runs_workerchild SET started_at = now() WHERE id = %s", child.id)
    dies(child)
    house.sweep()
    assert WorkerChild.objects.get(pk=child.id).suspected_at is None


def test_a_beat_renews_what_the_child_holds_and_nothing_else(
    house: House, define: Define, child: store.Keeper
) -> None:
    three(define)
    (one, held), (other, _) = claimed(house, worker=child.id), claimed(house, worker=child.id)
    stranger, theirs = claimed(house, worker=child.id + 1)
    for run in (one, other, stranger):
        lapse(run)
    child.beat([held.token, theirs.token])
    left = {step.run_id for step in store.lapsed_steps()}
    assert left == {other.pk, stranger.pk}


def test_a_backend_that_only_seems_to_live_does_not_hold_up_the_renewal(
    house: House, define: Define, child: store.Keeper
) -> None:
    """A half-open connection keeps the lock on the server for a while: the child renews without it, and takes it later."""
    three(define)
    run, held = claimed(house, worker=child.id)
    with store.own_connection() as ghost:
        dies(child)
        ghost.execute("SELECT pg_advisory_lock(%s, %s)", [store.LOCK_SPACE, child.id])
        lapse(run)
        child.beat([held.token])
        assert store.lapsed_steps() == []
        ghost.execute("SELECT pg_advisory_unlock_all()")
        child.beat([held.token])
    house.sweep()
    assert WorkerChild.objects.get(pk=child.id).suspected_at is None


def test_a_child_that_says_goodbye_is_gone_at_once(house: House, define: Define, child: store.Keeper) -> None:
    three(define)
    run, _ = claimed(house, worker=child.id)
    child.leave()
    with pytest.raises(store.LOST):
        child.beat(())
    assert house.sweep().taken_over == 1
    assert house.work(run).status == "completed"


# ---- what is due


def failing(define: Define, attempts: list[int], *, until: int) -> None:
    workflow = define("shaky")

    @workflow.node(retry=Retry(attempts=5, initial=60))
    def shaky(state: Any, ctx: Any) -> dict[str, Any]:
        attempts.append(ctx.attempt)
        if ctx.attempt < until:
            raise OSError("not yet")
        return {"x": ctx.attempt}

    workflows.register(workflow)


def test_a_retry_comes_when_it_is_due_and_not_before(house: House, define: Define) -> None:
    attempts: list[int] = []
    failing(define, attempts, until=3)
    run = house.work(house.submit("shaky"))
    assert (run.status, run.waiting_for[0]["kind"]) == ("waiting", "retry")
    assert run.waiting_for[0]["due"] is not None
    assert house.sweep().woken == 0
    for expected in (2, 3):
        by_sql("UPDATE runs_wait SET due_at = now() WHERE closed_at IS NULL")
        assert house.sweep().woken == 1
        run.refresh_from_db()
        assert (run.status, run.waiting_for) == ("queued", [])
        house.work(run)
        assert attempts[-1] == expected
    assert (run.status, attempts) == ("completed", [1, 2, 3])
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    assert kinds_of(run).count("step_retry_scheduled") == 2
    assert history_is_whole(run)


@pytest.mark.parametrize(
    ("says", "status"), [("approve", "completed"), ("reject", "failed"), ("fail", "failed")]
)
def test_an_approval_is_decided_by_the_clock_as_its_workflow_says(
    house: House, define: Define, says: Any, status: str
) -> None:
    """K8. The decider is the system, and the node after it can tell."""
    workflow = define("timed")

    @workflow.approval(reviewers=["finance"], due=60, on_timeout=says)
    def ask(state: Any, ctx: Any) -> Any:
        return Action("note", {"text": "hello"})

    @workflow.node
    def after(state: Any, ctx: Any) -> dict[str, Any]:
        decision = ctx.decision("ask")
        return {"x": [decision.by["type"], decision.reason, ctx.approved("ask").args]}

    workflow.edge(ask, after)
    workflows.register(workflow)
    run, approval = house.parked("timed")
    assert house.sweep().expired == 0
    by_sql("UPDATE runs_approval SET due_at = now()")
    by_sql("UPDATE runs_wait SET due_at = now()")
    assert house.sweep().expired == 1
    house.work(run)
    approval.refresh_from_db()
    assert (approval.status, approval.outcome, run.status) == ("expired", "timeout", status)
    if status == "completed":
        assert state_of(run)["x"] == ["system", "timeout", {"text": "hello"}]
    else:
        assert run.error is not None
        assert run.error["code"] == "approval_timeout"


def test_one_that_cannot_be_handled_holds_up_no_other(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C34: whatever goes wrong with one run, the others get theirs, and it is tried again."""
    attempts: list[int] = []
    failing(define, attempts, until=2)
    sick, well = house.work(house.submit("shaky")), house.work(house.submit("shaky"))
    wake = sweeping._wake

    def sometimes(wait: Wait) -> bool:
        if wait.run_id == sick.pk:
            raise RuntimeError("an author's validator")
        return wake(wait)

    monkeypatch.setattr(sweeping, "_wake", sometimes)
    by_sql("UPDATE runs_wait SET due_at = now() - interval '1 s' * (run_id = %s)::int", sick.pk)
    swept = house.sweep()
    assert (swept.woken, swept.failed) == (1, 1)
    assert house.work(well).status == "completed"
    monkeypatch.undo()
    assert house.sweep().woken == 1
    assert house.work(sick).status == "completed"


def test_a_router_that_fails_when_time_is_over_fails_its_run_and_not_the_sweeper(
    house: House, define: Define
) -> None:
    workflow = define("routed")

    @workflow.approval(due=60)
    def ask(state: Any, ctx: Any) -> Any:
        return Action("note")

    workflow.node(name="after")(lambda state, ctx: None)
    workflow.choose("ask", lambda state, decision: 1 // 0, to=["after"])
    workflows.register(workflow)
    run, _ = house.parked("routed")
    by_sql("UPDATE runs_approval SET due_at = now()")
    by_sql("UPDATE runs_wait SET due_at = now()")
    assert house.sweep().expired == 1
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["type"], run.error["step"]) == ("failed", "ZeroDivisionError", "ask")


def test_a_round_ends_when_the_database_goes(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C34: one warning a round, not a traceback for each of two hundred runs."""
    three(define)
    for _ in range(3):
        lapse(claimed(house)[0])
    tried: list[uuid.UUID] = []

    def cut(step: Step) -> bool:
        tried.append(step.run_id)
        with store.own_connection() as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid = %s",
                [_own_pid()],
            )
        return bool(Run.objects.count())

    monkeypatch.setattr(sweeping, "_take_over", cut)
    with pytest.raises(store.LOST):
        house.sweep()
    assert len(tried) == 1
    store.disconnect()
    monkeypatch.undo()
    assert house.sweep().taken_over == 3


def _own_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_an_unreadable_head_fails_the_run_when_its_time_comes(house: House, define: Define) -> None:
    """C07, on the sweeper's ways: a takeover, a retry, a deadline."""
    three(define)
    failing(define, [], until=9)
    pay_flow(define("pay"), due=60)
    taken, _ = claimed(house)
    lapse(taken)
    retried = house.work(house.submit("shaky"))
    asked, _ = house.parked("pay", x=1)
    by_sql("UPDATE runs_checkpoint SET snapshot = '\"oops\"' WHERE snapshot IS NOT NULL")
    by_sql("UPDATE runs_wait SET due_at = now()")
    by_sql("UPDATE runs_approval SET due_at = now()")
    house.sweep()
    for run in (taken, retried, asked):
        run.refresh_from_db()
        assert run.error is not None
        assert (run.status, run.error["code"]) == ("failed", "checkpoint_unreadable")
        assert history_is_whole(run)
    assert not Approval.objects.filter(status="open").exists()


# ---- hints


def test_a_forgotten_step_is_hinted_again(house: House, define: Define, queue: Queue) -> None:
    three(define)
    run = house.submit("three")
    queue.empty()
    assert house.sweep().hinted == 0
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '4 s'")
    assert (house.sweep().hinted, len(queue)) == (1, 1)
    assert (house.sweep().hinted, len(queue)) == (0, 1)
    assert house.work(run).status == "completed"


def test_steps_of_ended_and_waiting_runs_are_not_hinted(house: House, define: Define, queue: Queue) -> None:
    three(define)
    pay_flow(define("pay"))
    house.work(house.submit("three"))
    house.parked("pay", x=1)
    operations.cancel(actor=house.olga, run_id=house.submit("three").pk)
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 h'")
    assert house.sweep().hinted == 0


def test_a_full_queue_gets_no_more_hints(
    house: House, define: Define, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(define)
    monkeypatch.setattr(sweeping, "QUEUE_FULL_AT", 3)
    for _ in range(5):
        house.submit("three")
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 h'")
    assert (len(queue), house.sweep().hinted) == (5, 0)
    queue.empty()
    assert (house.sweep().hinted, len(queue)) == (3, 3)


def test_the_sweeper_says_that_it_was_here(house: House) -> None:
    house.sweep()
    beat = ServiceBeat.objects.get(name="sweeper")
    assert beat.facts["taken_over"] == 0
    assert not OperationalNote.objects.exists()


# ---- without the broker


@pytest.fixture
def no_broker(settings: Any) -> Iterator[Callable[[], None]]:
    """Nobody listens where the broker should be; call it to bring the broker back."""
    app: Any = current_app
    address = app.conf.broker_url

    def move(url: str) -> None:
        app.conf.broker_url = settings.REDIS_URL = url
        app._pool = app.amqp._producer_pool = None

    move("redis://127.0.0.1:1/0")
    yield partial(move, address)
    move(address)


def test_without_a_broker_verbs_succeed_and_nothing_is_lost(
    house: House, define: Define, queue: Queue, no_broker: Callable[[], None]
) -> None:
    """C65: the decision is saved, the run goes on as soon as the broker is back."""
    attempts: list[int] = []
    failing(define, attempts, until=2)
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    shaky = house.work(house.submit("shaky"))
    assert house.answer(approval, "approve").run is not None
    by_sql("UPDATE runs_wait SET due_at = now() WHERE closed_at IS NULL")
    swept = house.sweep()
    assert (swept.woken, swept.hinted, swept.failed) == (1, 0, 0)
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 h'")
    assert (house.sweep().hinted, len(queue)) == (0, 0)
    no_broker()
    assert (house.sweep().hinted, len(queue)) == (2, 2)
    assert (house.work(run).status, house.work(shaky).status) == ("completed", "completed")


def test_a_round_that_finds_nothing_asks_one_question_of_each_thing_that_may_be_due(house: House) -> None:
    """Every second of an idle installation is one round."""
    house.sweep()
    with CaptureQueriesContext(connection) as asked:
        house.sweep()
    assert len(asked) <= 13 + len(workflows.queues())
