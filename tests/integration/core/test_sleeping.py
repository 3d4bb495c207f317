"""`ctx.sleep`: an instant that is recorded once, and a step that holds no worker until then. Time is turned by SQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runs import operations, store, workflows
from runs.engine import Action, Timer, Workflow
from runs.models import JournalEntry, Run, Step, Wait
from runs.operations.timing import fire_timers
from runs.operations.waking import wake
from tests.integration.core.conftest import House, by_sql, error_of, history_is_whole, kinds_of
from tests.kit.racing import holding

Define = Callable[..., Workflow]


def napping(define: Define, name: str = "nap", **sleep: Any) -> None:
    """A call, a sleep, another call, in one node."""
    flow = define(name)

    @flow.node
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        before = ctx.call(list, name="before")
        ctx.sleep(**(sleep or {"length": "1h"}))
        after = ctx.call(list, name="after")
        return {"log": [before, after]}

    workflows.register(flow)


def pass_time(run: Run, *, seconds: float = 7200) -> None:
    """So much of the time that is waited for is over."""
    assert by_sql(
        "UPDATE runs_wait SET due_at = due_at - make_interval(secs => %s), "
        "opened_at = opened_at - make_interval(secs => %s) WHERE run_id = %s AND closed_at IS NULL",
        seconds,
        seconds,
        run.pk,
    )


def test_a_sleep_holds_no_worker_and_ends_once(house: House, define: Define) -> None:
    """A new entry and no new attempt; calls before it are not made again."""
    napping(define)
    run = house.work(house.submit("nap"))
    step, wait = Step.objects.get(run=run), Wait.objects.get(run=run)
    assert (run.status, step.status, step.token, step.worker) == ("waiting", "waiting", None, step.worker)
    assert run.waiting_for[0]["kind"] == "timer"
    assert wait.due_at is not None
    assert run.waiting_for[0]["due"] == wait.due_at.isoformat()
    assert wait.due_at - wait.opened_at == timedelta(hours=1)
    assert house.sweep().woken == 0
    pass_time(run)
    assert house.sweep().woken == 1
    assert house.sweep().woken == 0
    step.refresh_from_db()
    assert (step.status, step.attempt, step.entries) == ("ready", 1, 1)
    house.work(run)
    step.refresh_from_db()
    assert (run.status, step.attempt, step.entries) == ("completed", 1, 2)
    entries = list(JournalEntry.objects.filter(run=run).order_by("ordinal").values_list("name", "kind"))
    assert sorted(entries) == [("after", "call"), ("before", "call"), ("sleep", "sleep")]
    assert kinds_of(run) == ["run_submitted", "wait_opened", "timer_fired", "step_completed", "run_completed"]
    assert history_is_whole(run)


def test_a_crash_does_not_start_the_time_again(house: House, define: Define) -> None:
    """C74 (a): the deadline counts from the first entry, whatever happens meanwhile."""
    napping(define)
    run = house.work(house.submit("nap"))
    due = Wait.objects.get(run=run).due_at
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 1}, reason="look again"
    )
    house.work(run)
    assert run.status == "waiting"
    assert Wait.objects.get(run=run, closed_at=None).due_at == due


@pytest.mark.parametrize(
    ("local", "utc"),
    [
        (datetime.fromisoformat("2036-10-26T02:30"), "2036-10-26T00:30:00+00:00"),
        (datetime.fromisoformat("2036-03-30T02:30"), "2036-03-30T01:30:00+00:00"),
    ],
    ids=["twice there", "never there"],
)
def test_an_hour_that_is_there_twice_or_never_means_one_instant(
    house: House, define: Define, local: datetime, utc: str
) -> None:
    """C74 (b) and (d): the first of two, and after the gap; kept as an instant, not as an hour of some clock."""
    napping(define, until=local.replace(tzinfo=ZoneInfo("Europe/Berlin")))
    run = house.work(house.submit("nap"))
    assert run.waiting_for[0]["due"] == utc


def test_an_hour_without_a_zone_is_refused(house: House, define: Define) -> None:
    napping(define, until=datetime.fromisoformat("2036-03-30T02:30"))
    run = house.work(house.submit("nap"))
    assert (run.status, error_of(run)["code"]) == ("failed", "invalid_call")
    assert "aware" in error_of(run)["message"]


def test_what_is_over_already_is_not_waited_for(house: House, define: Define) -> None:
    napping(define, until=datetime(2020, 1, 1, tzinfo=UTC))
    run = house.work(house.submit("nap"))
    assert run.status == "completed"
    assert kinds_of(run)[1:3] == ["wait_opened", "timer_fired"]


def dues_of(run: Run) -> dict[str, datetime]:
    open_ones = Wait.objects.filter(run=run, closed_at=None)
    return {wait.node: wait.due_at for wait in open_ones if wait.due_at is not None}


def split(define: Define) -> None:
    """One lane sleeps; beside it two steps run one after the other, each a checkpoint."""
    flow = define("split")
    flow.node(name="start")(lambda state, ctx: None)
    flow.node(name="nap")(lambda state, ctx: ctx.sleep("1h"))
    flow.approval(name="first", reviewers=["finance"])(lambda state, ctx: Action("pay", {}))
    flow.node(name="second")(lambda state, ctx: ctx.sleep("2h"))
    flow.edge("start", "nap")
    flow.edge("start", "first")
    flow.edge("first", "second")
    workflows.register(flow)


def test_a_rewind_keeps_an_instant_that_was_recorded_before(house: House, define: Define) -> None:
    """The sleep was asked for before checkpoint K, so it ends when it would have; one asked for after K begins anew."""
    split(define)
    run, approval = house.parked("split")
    house.answer(approval, "approve")
    house.work(run)
    dues = dues_of(run)
    assert set(dues) == {"nap", "second"}
    pass_time(run, seconds=60)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=run.head, reason="again")
    house.work(run)
    again = dues_of(run)
    assert again["nap"] == dues["nap"] - timedelta(seconds=60)
    assert again["second"] >= dues["second"]
    assert history_is_whole(run)


def test_timers_are_fired_in_order_and_in_bounded_batches(house: House, define: Define) -> None:
    """C27, small: no message waits in the broker for them; they lie in Postgres and are taken as they became due."""
    napping(define)
    runs = [house.work(house.submit("nap")) for _ in range(3)]
    for place, run in enumerate(runs):
        pass_time(run, seconds=7200 - place * 60)
    due = store.due_waits(limit=2)
    assert [wait.run_id for wait in due] == [runs[0].pk, runs[1].pk]
    assert fire_timers(limit=2) == 2
    assert [run.status for run in map(_again, runs)] == ["queued", "queued", "waiting"]
    assert house.sweep().woken == 1
    for run in runs:
        assert kinds_of(run)[-1] == "timer_fired"
        assert history_is_whole(run)
        assert (run.waiting_for, house.work(run).status) == ([], "completed")
        assert history_is_whole(run)


def _again(run: Run) -> Run:
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("other", ["race", "lanes"])
def test_what_is_not_only_a_timer_is_woken_by_itself(house: House, define: Define, other: str) -> None:
    if other == "lanes":
        split(define)
    else:
        flow = define("split")
        flow.node(name="only")(lambda state, ctx: {"log": [ctx.first_of(a=Timer("1h")).winner]})
        workflows.register(flow)
    run = house.work(house.submit("split"))
    pass_time(run)
    assert fire_timers() == 0
    assert house.sweep().woken == 1
    assert history_is_whole(run)


def test_a_run_that_somebody_holds_is_left_for_the_next_round(house: House, define: Define) -> None:
    """Also one whose wait was closed while the sweeper looked."""
    napping(define)
    run = house.work(house.submit("nap"))
    pass_time(run)
    with holding(run.pk):
        assert fire_timers() == 0
    operations.cancel(actor=house.olga, run_id=run.pk)
    assert fire_timers() == 0


def test_the_fast_way_and_the_other_write_the_same(house: House, define: Define) -> None:
    """Row for row, but for times, salts and hashes."""
    napping(define)
    one, other = (house.work(house.submit("nap")) for _ in range(2))
    for run in (one, other):
        pass_time(run)
    assert wake(Wait.objects.get(run=one))
    assert fire_timers() == 1
    assert _told(one) == _told(other)


def _told(run: Run) -> list[Any]:
    run.refresh_from_db()
    left_out = {
        "id",
        "run_id",
        "pk",
        "hash",
        "salt",
        "payload",
        "payload_hash",
        "result",
        "hinted_at",
        "call_key",
        "worked",
    }
    rows = [
        *run.events.order_by("seq"),
        *run.journal.order_by("name"),
        *run.waits.order_by("id"),
        *run.steps.order_by("address"),
    ]
    told = [
        {
            name: value
            for name, value in vars(row).items()
            if name not in left_out and not name.startswith("_") and not isinstance(value, datetime)
        }
        for row in rows
    ]
    return [*told, run.status, run.version, run.seq, run.waiting_for, run.head, run.error]
