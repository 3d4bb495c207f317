"""Retention beside other connections: it waits for nobody, keeps nobody waiting, and spares what became needed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from runs import keeping, operations, store
from runs.engine import Workflow
from runs.errors import Erased, Gone
from runs.keeping import removing
from runs.models import Removed, Run
from tests.integration.core.conftest import House, by_sql, history_is_whole, pay_flow
from tests.integration.core.test_retention import aged, completed, rows_of
from tests.kit.racing import Contender, at_once, blocked, deadlocks, holding, waiting_for_locks

Define = Callable[..., Workflow]


@pytest.fixture
def flow(define: Define) -> Workflow:
    return pay_flow(define("pay"))


def locks_of_others() -> set[tuple[str, str]]:
    """Every lock on a table that backends beside this one hold or wait for."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relation::regclass::text, mode FROM pg_locks "
            "WHERE locktype = 'relation' AND pid <> pg_backend_pid() AND relation::regclass::text LIKE 'runs\\_%%'"
        )
        return {(table, mode) for table, mode in cursor.fetchall()}


def test_a_run_that_somebody_holds_is_left_for_the_next_round(house: House, flow: Workflow) -> None:
    """C101, C104: no waiting; the others go."""
    taken, free = aged(completed(house)), aged(completed(house))
    with holding(taken.pk):
        kept = operations.keep_house()
        assert waiting_for_locks() == 0
    assert (kept.runs, kept.failed) == (1, 0)
    assert Run.objects.get() == taken
    assert not Run.objects.filter(pk=free.pk).exists()
    assert operations.keep_house().runs == 1


def paused_before_deleting(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
    """Something else happens while a batch has its runs locked and has deleted nothing yet."""
    real = removing.remove

    def remove(runs: Any) -> int:
        meanwhile()
        return real(runs)

    monkeypatch.setattr(keeping, "remove", remove)


def test_nobody_else_waits_while_a_batch_is_under_way(
    house: House, flow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C101, C104: the only locks are on the rows that go; other runs start, go on, are decided and listed."""
    aged(completed(house))
    parked, approval = house.parked("pay", x=1)
    seen: dict[str, Any] = {}

    def meanwhile() -> None:
        def work() -> None:
            house.answer(approval, "approve")
            house.work(house.submit("pay", x=2))
            seen["runs"] = Run.objects.count()
            seen["modes"] = {mode for _, mode in locks_of_others()}

        other = Contender(work).end()
        seen["error"] = other.error

    paused_before_deleting(monkeypatch, meanwhile)
    kept = operations.keep_house()
    assert seen["error"] is None
    assert (seen["runs"], kept.runs) == (3, 1)
    assert seen["modes"] <= {"AccessShareLock", "RowShareLock", "RowExclusiveLock"}
    house.work(parked)
    assert parked.status == "completed"


def test_a_rewind_that_waited_for_a_removal_finds_it_gone(
    house: House, flow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C101: the rewind gets 410, and no half of a run is left."""
    run = aged(completed(house))
    late: list[Contender] = []
    rewind = partial(operations.rewind, actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    paused_before_deleting(monkeypatch, lambda: late.append(blocked(rewind)))
    assert operations.keep_house().runs == 1
    assert isinstance(late[0].end().error, Gone)
    assert set(rows_of(run).values()) == {0}


def test_a_fork_that_waited_for_a_removal_finds_its_origin_gone(
    house: House, flow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C101: the fork gets 410, and nothing of it is left."""
    run = aged(completed(house))
    late: list[Contender] = []
    fork = partial(operations.fork, actor=house.olga, run_id=run.pk, checkpoint=0, reason="try anew")
    paused_before_deleting(monkeypatch, lambda: late.append(blocked(fork)))
    assert operations.keep_house().runs == 1
    assert isinstance(late[0].end().error, Gone)
    assert not Run.objects.exists()


def test_a_fork_that_waited_for_an_erasure_finds_nothing_to_start_from(house: House, flow: Workflow) -> None:
    """What was erased does not live on in a fork that had just read it."""
    run = aged(completed(house))
    fork = partial(operations.fork, actor=house.olga, run_id=run.pk, checkpoint=0, reason="try anew")
    with transaction.atomic():
        keeping.erase(store.lock_run(run.pk), by=house.olga.as_dict(), reason="asked for")
        late = blocked(fork)
    assert isinstance(late.end().error, Erased)
    assert not Run.objects.exclude(pk=run.pk).exists()


def becomes(house: House, run: Run, how: str) -> None:
    if how == "live":
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    else:
        operations.hold(actor=house.olga, run_id=run.pk, reason="a lawsuit")


@pytest.mark.parametrize("how", ["live", "held"])
def test_a_run_that_becomes_live_or_held_meanwhile_is_spared(
    house: House, flow: Workflow, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """C101: it was found to be due, and somebody was faster than the lock."""
    run, other = aged(completed(house)), aged(completed(house))
    real = keeping.lock_due

    def lock_due(due: Any, ids: Any, **how_many: Any) -> Any:
        if not raced:
            raced.append(Contender(lambda: becomes(house, run, how)).end())
        return real(due, ids, **how_many)

    raced: list[Contender] = []
    monkeypatch.setattr(keeping, "lock_due", lock_due)
    kept = operations.keep_house()
    assert raced[0].error is None
    assert kept.runs == 1
    assert Run.objects.get() == run
    assert not Removed.objects.filter(pk=run.pk).exists()
    assert other.pk != run.pk
    assert history_is_whole(run)


@pytest.mark.parametrize("how", ["live", "held"])
def test_a_run_that_becomes_needed_between_the_lock_and_the_second_look_is_spared(
    house: House, flow: Workflow, how: str
) -> None:
    """The rewind or hold is just being committed when the lock is asked for: it is skipped, not waited for."""
    run = aged(completed(house))
    with transaction.atomic():
        store.lock_run(run.pk)
        other = Contender(lambda: operations.keep_house().runs).end()
    assert other.value == 0
    becomes(house, run, how)
    assert operations.keep_house().runs == 0


def test_two_rounds_at_once_share_the_work(house: House, flow: Workflow, settings: Any) -> None:
    """C101: clean-up started twice at once."""
    settings.HITL_RETENTION_BATCH = 1
    runs = [aged(completed(house)) for _ in range(6)]
    before = deadlocks()
    rounds = at_once(operations.keep_house, operations.keep_house)
    assert [one.error for one in rounds] == [None, None]
    assert sum(one.value.failed for one in rounds) == 0
    again = operations.keep_house()
    assert sum(one.value.runs for one in rounds) + again.runs == len(runs)
    assert not Run.objects.exists()
    assert deadlocks() == before


def test_rewinds_against_rounds_never_leave_half_a_run(house: House, flow: Workflow) -> None:
    """C101: either the run is kept whole, or the rewind is told that it has gone."""
    for _ in range(3):
        run = aged(completed(house))
        rewind = partial(operations.rewind, actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
        rounds = at_once(operations.keep_house, rewind, operations.keep_house)
        if isinstance(rounds[1].error, Gone):
            assert set(rows_of(run).values()) == {0}
        else:
            assert rounds[1].error is None
            assert history_is_whole(run)
            assert store.read_position(run.pk, run.head)
            by_sql("DELETE FROM runs_idempotencyrecord")
