"""Limits: who stands in line, who is let in, in which order, and that no slot is ever lost (C37)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from redis import Redis

from runs import operations, queries, store, workflows
from runs.engine import Action, Concurrency, Rate, Retry, Workflow
from runs.errors import AlreadyTerminal, BadRequest, Forbidden, InvalidLimitKey
from runs.models import Event, Run, Slot, Step
from tests.integration.core.conftest import House, by_sql, history_is_whole, make_house, open_approval
from tests.kit.racing import at_once, blocked

Define = Callable[..., Workflow]


@pytest.fixture(autouse=True)
def _empty_broker() -> None:
    with Redis.from_url(django_settings.REDIS_URL) as redis:
        redis.delete("runs", "gpu", "hitl:called:runs", "hitl:called:gpu")


@pytest.fixture
def no_room(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are so busy that what is submitted now has to stand in line, even if nothing limits it."""
    settings.HITL_HINTS_AHEAD = 1
    monkeypatch.setattr("runs.dispatch.has_room", lambda queue: False)


def hints(queue: str = "runs") -> int:
    with Redis.from_url(django_settings.REDIS_URL) as redis:
        return int(redis.llen(queue))


def plain(workflow: Workflow) -> Workflow:
    """a -> b"""
    for name in "ab":
        workflow.node(name=name)(lambda state, ctx: {"log": [*state.log, ctx.node]})
    workflow.edge("a", "b")
    workflows.register(workflow)
    return workflow


def asking(workflow: Workflow) -> Workflow:
    """ask -> after"""

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": 1})

    @workflow.node
    def after(state: Any, ctx: Any) -> None: ...

    workflow.edge(ask, after)
    workflows.register(workflow)
    return workflow


def admitted(*runs: Run) -> list[bool]:
    """Which of these have been let in, and have not come to rest."""
    found = dict(Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("pk", "admitted_at"))
    return [found[run.pk] is not None for run in runs]


def in_use() -> int:
    return Slot.objects.filter(per=None).exclude(taken_at=None).count()


def take(run: Run, *, worker: int = 1) -> store.Claimed | None:
    step = Step.objects.get(run=run, status="ready")
    return store.claim(run_id=run.pk, branch=step.branch, address=step.address, worker=worker)


def by_x(most: int = 1, **told: Any) -> list[Any]:
    return [Concurrency(most, key=lambda given: given.x, **told)]


# ---- slots


def test_one_at_a_time_in_order(house: House, define: Define) -> None:
    plain(define("one", max_concurrent_runs=1))
    runs = [house.submit("one") for _ in range(3)]
    assert admitted(*runs) == [True, False, False]
    assert take(runs[1]) is None, "who stands in line is not taken, whoever was told of it"
    assert house.work(runs[0]).status == "completed"
    assert admitted(*runs) == [False, True, False]
    assert in_use() == 1
    house.work(runs[1])
    house.work(runs[2])
    assert {run.status for run in Run.objects.all()} == {"completed"}
    assert in_use() == 0


def test_keys_and_projects_have_slots_of_their_own(house: House, define: Define) -> None:
    plain(define("keyed", limits=by_x()))
    other = make_house("other")
    runs = [house.submit("keyed", x=x) for x in ("acme", "acme", "zeta")]
    assert admitted(*runs, other.submit("keyed", x="acme")) == [True, False, True, True]
    assert not admitted(house.submit("keyed", x="acme"))[0]


def test_a_run_without_a_key_is_not_limited(house: House, define: Define) -> None:
    plain(define("keyed", limits=by_x()))
    runs = [house.submit("keyed") for _ in range(3)]
    assert admitted(*runs) == [True, True, True]
    assert Slot.objects.count() == 0


def test_all_limits_have_to_have_room(house: House, define: Define) -> None:
    plain(define("both", max_concurrent_runs=2, limits=by_x()))
    runs = [house.submit("both", x=x) for x in ("acme", "acme", "zeta", "eta")]
    assert admitted(*runs) == [True, False, True, False]
    house.work(runs[2])
    assert admitted(*runs) == [True, False, False, True], "acme's next waits for acme's first"
    assert in_use() == 4


def test_the_limit_of_a_project_counts_all_its_workflows(house: House, define: Define) -> None:
    plain(define("one"))
    plain(define("two"))
    operations.limit_project(project=house.project, most=1)
    house.project.refresh_from_db()
    first, second = house.submit("one"), house.submit("two")
    assert admitted(first, second) == [True, False]
    operations.limit_project(project=house.project, most=2)
    assert admitted(first, second) == [True, True]
    operations.limit_project(project=house.project, most=None)
    house.project.refresh_from_db()
    assert not house.submit("one").limited
    with pytest.raises(BadRequest):
        operations.limit_project(project=house.project, most=0)


def test_a_slot_is_free_while_people_are_asked(house: House, define: Define) -> None:
    """Weeks of waiting block nobody; whoever was asked stands in line again, before those that are younger."""
    asking(define("asks", max_concurrent_runs=1))
    first, second = house.submit("asks"), house.submit("asks")
    house.work(first)
    assert (first.status, admitted(first, second)) == ("waiting", [False, True])
    third = house.submit("asks")
    house.answer(open_approval(first), "approve")
    first.refresh_from_db()
    assert (first.status, admitted(first, second, third)) == ("queued", [False, True, False])
    house.work(second)
    assert admitted(first, second, third) == [True, False, False]
    assert house.work(first).status == "completed"
    assert admitted(third) == [True]


def test_a_slot_that_is_held_for_the_whole_run_stays_taken(house: House, define: Define) -> None:
    asking(define("asks", limits=[Concurrency(1, holds="run")]))
    first, second = house.submit("asks"), house.submit("asks")
    assert house.work(first).status == "waiting"
    assert (in_use(), admitted(second)) == (1, [False])
    house.answer(open_approval(first), "approve")
    assert admitted(first) == [True], "it has its slot still"
    assert house.work(first).status == "completed"
    assert (in_use(), admitted(second)) == (1, [True])


def test_a_slot_is_free_while_another_try_is_waited_for(house: House, define: Define) -> None:
    flow = define("tries", max_concurrent_runs=1)

    @flow.node(retry=Retry(attempts=2, initial=60))
    def fails(state: Any, ctx: Any) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    workflows.register(flow)
    first, second = house.submit("tries"), house.submit("tries")
    house.work(first)
    assert admitted(first, second) == [False, True]
    by_sql("UPDATE runs_wait SET due_at = now() WHERE run_id = %s", first.pk)
    house.sweep()
    assert admitted(first, second) == [False, True]
    operations.cancel(actor=house.olga, run_id=second.pk)
    assert admitted(first) == [True]
    assert house.work(first).status == "completed"


def test_timers_by_the_hundred_come_back_to_their_line(house: House, define: Define) -> None:
    flow = define("sleeps", max_concurrent_runs=1)
    flow.node(name="sleep")(lambda state, ctx: ctx.sleep("1h"))
    workflows.register(flow)
    runs = [house.submit("sleeps") for _ in range(3)]
    for run in runs:
        assert house.work(run).status == "waiting"
    by_sql("UPDATE runs_wait SET due_at = now()")
    house.sweep()
    assert sorted(admitted(*runs)) == [False, False, True]
    assert in_use() == 1


# ---- no way of ending keeps a slot


def cancelled(house: House, run: Run) -> None:
    operations.cancel(actor=house.olga, run_id=run.pk)


def finished(house: House, run: Run) -> None:
    house.work(run)


def run_out(house: House, run: Run) -> None:
    by_sql("UPDATE runs_run SET deadline = 1, deadline_at = now() - interval '1 s' WHERE id = %s", run.pk)
    house.sweep()


def executing_and_cancelled(house: House, run: Run) -> None:
    assert take(run) is not None
    operations.cancel(actor=house.olga, run_id=run.pk)


@pytest.mark.parametrize("end", [cancelled, finished, run_out, executing_and_cancelled])
def test_whatever_ends_a_run_frees_its_slot(house: House, define: Define, end: Callable[..., None]) -> None:
    """C37: at once, in the transaction that ends it; who is next is let in when it has committed."""
    plain(define("one", limits=[Concurrency(1, holds="run")]))
    first, second = house.submit("one"), house.submit("one")
    end(house, first)
    assert admitted(first, second) == [False, True]
    cancelled(house, second)
    assert in_use() == 0


def test_a_run_that_is_rewound_while_it_works_keeps_its_slot(house: House, define: Define) -> None:
    plain(define("one", max_concurrent_runs=1))
    first, second = house.submit("one"), house.submit("one")
    assert take(first) is not None
    operations.rewind(actor=house.olga, run_id=first.pk, checkpoint=0, reason="again")
    assert (admitted(first, second), in_use()) == ([True, False], 1)
    assert house.work(first).status == "completed"
    assert admitted(second) == [True]


def test_who_goes_on_after_its_end_has_to_be_let_in_again(house: House, define: Define) -> None:
    flow = define("once", max_concurrent_runs=1)
    flow.node(name="a")(lambda state, ctx: 1 / state.x)
    workflows.register(flow)
    failed = house.work(house.submit("once", x=0))
    ended = house.submit("once", x=1)
    assert failed.status == "failed"
    operations.retry(actor=house.olga, run_id=failed.pk)
    assert admitted(failed, ended) == [False, True]
    cancelled(house, ended)
    assert admitted(failed) == [True]
    operations.rewind(actor=house.olga, run_id=ended.pk, checkpoint=0, reason="again")
    assert (admitted(failed, ended), in_use()) == ([True, False], 1)


def test_a_fork_stands_under_the_limits_of_its_origin(house: House, define: Define) -> None:
    plain(define("keyed", limits=by_x()))
    origin = house.submit("keyed", x="acme")
    fork = operations.fork(actor=house.olga, run_id=origin.pk, checkpoint=0, reason="try").run
    assert admitted(origin, fork) == [True, False]
    house.work(origin)
    assert house.work(fork).status == "completed"


def test_a_parent_that_waits_for_its_child_leaves_it_the_slot(house: House, define: Define) -> None:
    flow = define("nested", max_concurrent_runs=1)

    @flow.node
    def down(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.run_child("nested", {"x": state.x - 1})["x"]] if state.x else []}

    workflows.register(flow)
    run = house.submit("nested", x=2)
    for _ in range(5):
        for each in Run.objects.filter(status="queued").exclude(admitted_at=None):
            house.work(each)
        house.sweep()
    assert {each.status for each in Run.objects.all()} == {"completed"}
    assert (Run.objects.count(), in_use()) == (3, 0)
    assert history_is_whole(run)


def test_a_death_keeps_the_slot_until_the_run_has_gone_on(
    house: House, define: Define, short_lease: None
) -> None:
    """C37."""
    plain(define("one", max_concurrent_runs=1))
    first, second = house.submit("one"), house.submit("one")
    assert take(first) is not None
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 ms' WHERE status = 'executing'")
    assert house.sweep().taken_over == 1
    assert admitted(first, second) == [True, False]
    assert house.work(first).status == "completed"
    assert admitted(second) == [True]


# ---- at once


def test_two_that_let_in_at_once_come_one_after_the_other(house: House, define: Define) -> None:
    """The late one waits for the limit's lock, and counts what the early one has taken."""
    plain(define("one", max_concurrent_runs=1))
    house.work(house.submit("one"))
    with transaction.atomic():
        runs = [house.submit("one") for _ in range(2)]
    by_sql("UPDATE runs_slot SET taken_at = NULL")
    by_sql("UPDATE runs_run SET admitted_at = NULL WHERE status = 'queued'")
    with transaction.atomic():
        assert len(store.let_in([runs[0].pk])) == 1
        late = blocked(partial(_let_in, runs[1]))
    assert late.end().value == []
    assert (admitted(*runs), in_use()) == ([True, False], 1)


def test_who_was_found_in_line_and_is_in_by_now_makes_no_room(house: House, define: Define) -> None:
    """Found by two at once, the first of them let in by the other: its slot is measured no more, the others' are."""
    plain(define("few", max_concurrent_runs=2))
    runs = [house.submit("few") for _ in range(4)]
    assert admitted(*runs) == [True, True, False, False]
    with transaction.atomic():
        assert store.let_in([run.pk for run in runs]) == []
    assert (admitted(*runs), in_use()) == ([True, True, False, False], 2)


def test_another_key_is_not_waited_for(house: House, define: Define) -> None:
    plain(define("keyed", limits=by_x()))
    runs = [house.submit("keyed", x=x) for x in ("acme", "acme", "zeta", "zeta")]
    by_sql("UPDATE runs_slot SET taken_at = NULL")
    by_sql("UPDATE runs_run SET admitted_at = NULL")
    with transaction.atomic():
        assert len(store.let_in([runs[0].pk])) == 1
        (other,) = at_once(partial(_let_in, runs[2]))
        assert len(other.value) == 1
    assert admitted(*runs) == [True, False, True, False]


def test_submitted_by_many_at_once_never_too_many_are_let_in(house: House, define: Define) -> None:
    plain(define("few", max_concurrent_runs=2))
    done = at_once(*(partial(house.submit, "few") for _ in range(6)))
    assert [one.error for one in done] == [None] * 6
    assert (sum(admitted(*Run.objects.all())), in_use()) == (2, 2)


def _let_in(run: Run) -> list[Any]:
    with transaction.atomic():
        return store.let_in([run.pk])


# ---- rates


def test_a_rate_counts_starts_and_says_when_the_next_may(house: House, define: Define) -> None:
    plain(define("rated", limits=[Rate(2, per="1m")]))
    runs = [house.submit("rated") for _ in range(4)]
    assert admitted(*runs) == [True, True, False, False]
    house.work(runs[0])
    house.work(runs[1])
    assert house.sweep().let_in == 0, "that they have ended makes no room"
    standing = queries.standing_of(Run.objects.get(pk=runs[3].pk))
    assert standing is not None
    assert standing.full is not None
    assert (standing.before, standing.full.taken, standing.full.most) == (1, 2, 2)
    first = Slot.objects.get(run=runs[0])
    assert first.taken_at is not None
    assert standing.full.until is not None
    assert (standing.full.until - first.taken_at).total_seconds() == 60
    by_sql("UPDATE runs_slot SET taken_at = taken_at - interval '61 s' WHERE run_id = %s", runs[0].pk)
    assert house.sweep().let_in == 1
    assert admitted(*runs) == [False, False, True, False]


def test_a_rate_lets_the_next_one_start_when_the_oldest_start_that_counts_is_over(
    house: House, define: Define
) -> None:
    """Of a limit that was lowered since, older starts do not count any more."""
    plain(define("rated", limits=[Rate(3, per="1m")]))
    runs = [house.submit("rated") for _ in range(4)]
    for run, ago in zip(runs, (50, 40, 10), strict=False):
        by_sql(
            "UPDATE runs_slot SET taken_at = now() - make_interval(secs => %s) WHERE run_id = %s", ago, run.pk
        )
    for most, counts in ((3, runs[0]), (2, runs[1]), (1, runs[2])):
        by_sql("UPDATE runs_slot SET most = %s", most)
        [use] = store.uses(runs[3].pk)
        started = Slot.objects.get(run=counts).taken_at
        assert started is not None
        assert use.until == started + timedelta(minutes=1)


def test_going_on_is_no_new_start(house: House, define: Define) -> None:
    asking(define("rated", limits=[Rate(1, per="1h")]))
    run = house.work(house.submit("rated"))
    assert run.status == "waiting"
    house.answer(open_approval(run), "approve")
    assert admitted(run) == [True]
    assert house.work(run).status == "completed"
    assert admitted(house.submit("rated")) == [False]


# ---- order


def test_the_higher_priority_is_let_in_first(house: House, define: Define) -> None:
    plain(define("one", max_concurrent_runs=1))
    first = house.submit("one")
    low, high = (_submit(house, "one", priority=priority) for priority in (-5, 5))
    house.work(first)
    assert admitted(low, high) == [False, True]


def _submit(house: House, workflow: str, **told: Any) -> Run:
    return operations.submit(actor=house.shop, workflow=workflow, input={}, **told).run


@pytest.mark.parametrize("priority", [101, -101, True])
def test_a_priority_out_of_bounds_is_refused(house: House, define: Define, priority: int) -> None:
    plain(define("one"))
    with pytest.raises(BadRequest):
        _submit(house, "one", priority=priority)


def test_an_operator_says_who_goes_first(house: House, define: Define) -> None:
    plain(define("one", max_concurrent_runs=1, priority=1))
    first, second, third = (house.submit("one") for _ in range(3))
    with pytest.raises(Forbidden):
        operations.prioritise(actor=house.shop, run_id=third.pk, priority=9)
    told = operations.prioritise(actor=house.olga, run_id=third.pk, priority=9, reason="a customer calls")
    assert told.priority == 9
    again = operations.prioritise(actor=house.olga, run_id=third.pk, priority=9)
    assert again.seq == told.seq
    assert Event.objects.filter(run=third, kind="priority_changed").count() == 1
    house.work(first)
    assert admitted(second, third) == [False, True]
    assert history_is_whole(third)
    with pytest.raises(AlreadyTerminal):
        operations.prioritise(actor=house.olga, run_id=first.pk, priority=9)


def test_one_projects_ten_thousand_runs_do_not_keep_out_another(
    house: House, define: Define, no_room: None, settings: Any
) -> None:
    """A backlog made by SQL: workers take who is told of, and that is one of each project in turn."""
    plain(define("much"))
    sample = house.submit("much")
    _multiply(sample, 10_000)
    other = make_house("other")
    settings.HITL_HINTS_AHEAD = 4
    assert operations.let_in(queue="runs") == 4
    few = other.submit("much")
    high = _submit(house, "much", priority=50)
    assert admitted(few, high) == [False, False]
    assert operations.let_in(queue="runs") > 0
    assert admitted(few, high) == [True, True], "one for its project's sake, one for its priority's"
    assert Run.objects.exclude(admitted_at=None).count() <= 4 + 1 + 4


def _multiply(run: Run, times: int) -> None:
    """Copies of a run that stands in line, with its step."""
    columns = [str(field.column) for field in Run._meta.concrete_fields if field.column != "id"]
    by_sql(
        f"INSERT INTO runs_run (id, {', '.join(columns)}) SELECT gen_random_uuid(), {', '.join(columns)}"
        f" FROM runs_run CROSS JOIN generate_series(1, {times}) WHERE id = %s",
        run.pk,
    )
    steps = [str(field.column) for field in Step._meta.concrete_fields if field.column != "run_id"]
    told = ", ".join(f"step.{name}" for name in steps)
    by_sql(
        f"INSERT INTO runs_step (run_id, {', '.join(steps)}) SELECT run.id, {told}"
        " FROM runs_run run CROSS JOIN runs_step step WHERE step.run_id = %s AND run.id <> step.run_id",
        run.pk,
    )


def test_what_stands_in_line_without_a_limit_is_let_in_as_workers_get_to_it(
    house: House, define: Define, no_room: None
) -> None:
    plain(define("much"))
    runs = [house.submit("much") for _ in range(3)]
    assert admitted(*runs) == [False] * 3
    assert hints() == 1, "one message asks to let in who is next, however many stand there"
    assert house.sweep().let_in == 1
    assert admitted(*runs) == [True, False, False]
    assert house.sweep().let_in == 0, "workers have not taken that one yet"
    house.work(runs[0])
    assert house.sweep().let_in == 1
    assert house.work(runs[2]).status == "completed", "without limits, who is free takes it out of its turn"


def test_a_run_that_goes_on_after_its_end_takes_its_turn(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(define("much"))
    run = house.work(house.submit("much"))
    assert admitted(run) == [True]
    monkeypatch.setattr("runs.dispatch.has_room", lambda queue: False)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    assert admitted(run) == [False]
    assert house.sweep().let_in == 1
    assert house.work(run).status == "completed"


def test_a_call_to_let_in_is_answered_once(house: House, define: Define, no_room: None) -> None:
    plain(define("much"))
    run = house.submit("much")
    with Redis.from_url(django_settings.REDIS_URL) as redis:
        mark = redis.get("hitl:called:runs")
    assert isinstance(mark, bytes)
    operations.answer_call(queue="runs", mark="of an earlier one")
    assert admitted(run) == [False]
    operations.answer_call(queue="runs", mark=mark.decode())
    assert admitted(run) == [True]


# ---- queues, deploys


def test_a_hint_goes_to_the_queue_of_the_workflow(house: House, define: Define) -> None:
    plain(define("heavy", queue="gpu"))
    run = house.submit("heavy")
    assert (run.queue, hints("gpu"), hints()) == ("gpu", 1, 0)
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 h'")
    keeper = store.Keeper("here", 1, queues=["runs"])
    assert keeper.forgotten_step() is None, "a worker looks for what is of its queues, and no more"
    assert house.sweep().hinted == 1
    assert (hints("gpu"), hints()) == (2, 0)
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 h'")
    other = store.Keeper("here", 2, queues=["gpu"])
    found = other.forgotten_step()
    assert found is not None
    assert found[0] == run.pk
    keeper.leave()
    other.leave()


def test_runs_in_line_follow_the_code(house: House, define: Define) -> None:
    plain(define("one", max_concurrent_runs=1, limits=[Rate(1)]))
    runs = [house.submit("one") for _ in range(3)]
    workflows.unregister("one")
    plain(define("one", max_concurrent_runs=2, queue="gpu"))
    operations.register_workflows()
    assert set(Run.objects.values_list("queue", flat=True)) == {"gpu"}
    assert house.sweep().let_in == 1
    assert admitted(*runs) == [True, True, False]


def test_a_key_that_cannot_be_worked_out_refuses_the_run(house: House, define: Define) -> None:
    plain(define("keyed", limits=[Concurrency(1, key=lambda given: given.x["customer"])]))
    with pytest.raises(InvalidLimitKey):
        house.submit("keyed", x=None)
    assert Run.objects.count() == 0
