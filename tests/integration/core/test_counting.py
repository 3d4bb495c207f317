"""The statistics: every event in its hour and day once, whenever it commits and whoever counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from runs import operations, store
from runs.engine import Workflow
from runs.engine.spread import begins_at
from runs.models import Counted, Run, Statistic
from runs.store import counting
from tests.integration.core.conftest import House, by_sql, define, house, pay_flow

__all__ = ["define", "house"]

Define = Callable[..., Workflow]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process lists its transaction late here."""
    monkeypatch.setattr(counting, "MARGIN", timedelta(0))


@pytest.fixture
def flow(define: Define) -> Workflow:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.usage(model="m-1", model_tokens_in=10, model_tokens_out=5, cost="0.25")
        if state.x == "fails":
            raise ValueError("no")
        return {}

    return pay_flow(define("pay"), body)


def counts(house: House, kind: str, *, grain: str = "hour") -> dict[str, int]:
    rows = Statistic.objects.filter(project=house.project, grain=grain, kind=kind).values_list("name")
    return dict(rows.annotate(Sum("count")))


def decided(house: House, x: Any) -> Run:
    run, approval = house.parked("pay", x=x)
    house.answer(approval, "approve")
    house.work(run)
    return run


def test_what_has_happened_is_counted_by_kind(house: House, flow: Workflow) -> None:
    decided(house, 1)
    decided(house, "fails")
    house.parked("pay", x=3)
    operations.count()
    for grain in ("hour", "day"):
        assert counts(house, "begun", grain=grain) == {"": 3}
        assert counts(house, "ended", grain=grain) == {"completed": 1, "failed": 1}
        assert counts(house, "failed", grain=grain) == {"node_error": 1}
        assert counts(house, "decision", grain=grain) == {"approve": 2}
        assert counts(house, "team", grain=grain) == {"finance": 2}
        assert counts(house, "step", grain=grain) == {"before": 3, "ask": 2, "after": 1}
        assert counts(house, "steps", grain=grain) == {"": 6}
        assert counts(house, "step_failed", grain=grain) == {"after": 1}


def test_what_was_used_of_models_is_summed_by_currency(house: House, flow: Workflow) -> None:
    decided(house, 1)
    decided(house, 2)
    operations.count()
    [row] = Statistic.objects.filter(kind="usage", grain="day")
    assert (row.name, row.model_tokens_in, row.model_tokens_out) == ("USD", 20, 10)
    assert row.cost == Decimal("0.5")


def test_lengths_are_sorted_into_classes(house: House, flow: Workflow) -> None:
    operations.count()
    lengths = [0.0002, 61.0, 10_000_000.0]
    for seconds in lengths:
        by_sql(
            "UPDATE runs_run SET created_at = ended.at - make_interval(secs => %s)"
            " FROM runs_event ended WHERE run_id = id AND kind = 'run_completed' AND id = %s",
            seconds,
            decided(house, 1).pk,
        )
    operations.count()
    rows = Statistic.objects.filter(kind="ended", grain="day").order_by("spread")
    first, *others = rows.values_list("spread", flat=True)
    assert first == 0
    for number, seconds in zip(others, lengths[1:], strict=True):
        assert begins_at(number) <= seconds < begins_at(number + 1)


def test_an_answer_of_the_clock_is_no_work_of_a_team(house: House, flow: Workflow) -> None:
    _, approval = house.parked("pay", x=1)
    by_sql("UPDATE runs_approval SET due_at = now() - interval '1 hour' WHERE id = %s", approval.pk)
    by_sql("UPDATE runs_wait SET due_at = now() - interval '1 hour' WHERE run_id = %s", approval.run_id)
    house.sweep()
    operations.count()
    assert (counts(house, "decision"), counts(house, "team")) == ({"timeout": 1}, {})


def test_nothing_is_counted_twice(house: House, flow: Workflow) -> None:
    decided(house, 1)
    operations.count()
    before = counts(house, "steps")
    operations.count()
    decided(house, 2)
    operations.count()
    assert (before, counts(house, "steps")) == ({"": 3}, {"": 6})


def test_two_that_count_at_once_count_once(house: House, flow: Workflow) -> None:
    decided(house, 1)

    def count(_: int) -> None:
        operations.count()
        store.disconnect()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(4)))
    operations.count()
    assert counts(house, "begun") == {"": 1}


@pytest.fixture
def other(house: House) -> Iterator[Any]:
    with store.own_connection() as own:
        yield own


def test_what_commits_late_is_counted_in_its_own_time(house: House, flow: Workflow, other: Any) -> None:
    """A transaction carries the time at which it began: until it has committed nothing behind that is counted."""
    run, _ = house.parked("pay", x=1)
    other.execute("BEGIN")
    other.execute("SELECT now()")
    decided(house, 2)
    operations.count()
    assert counts(house, "ended") == {}
    other.execute(
        "INSERT INTO runs_event (run_id, seq, kind, branch, epoch, node, address, actor, at, payload_hash, hash)"
        " SELECT id, seq + 1, 'run_completed', 1, 1, '', '', '', now(), '', '' FROM runs_run WHERE id = %s",
        [run.pk],
    )
    other.execute("COMMIT")
    operations.count()
    operations.count()
    assert counts(house, "ended") == {"completed": 2}


def test_a_past_that_nobody_has_counted_is_counted_hour_by_hour(house: House, flow: Workflow) -> None:
    decided(house, 1)
    with connection.cursor() as cursor:  # the history lets nobody change it
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE runs_event SET at = at - interval '50 hours'")
        cursor.execute("UPDATE runs_run SET created_at = created_at - interval '50 hours'")
        cursor.execute("RESET session_replication_role")
    assert operations.count() >= timedelta(hours=50)
    assert counts(house, "ended") == {"completed": 1}
    [row] = Statistic.objects.filter(kind="ended", grain="hour")
    assert row.at < Counted.objects.get().until - timedelta(hours=49)
