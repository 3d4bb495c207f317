"""Retention: what goes, what stays, and that it goes whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from hitl.celery import app
from runs import keeping, operations, store, tasks, watching
from runs.engine import Workflow
from runs.errors import Gone
from runs.models import (
    Approval,
    AuditEntry,
    IdempotencyRecord,
    LegalHold,
    OperationalNote,
    Removed,
    RetentionPolicy,
    Run,
    ServiceBeat,
    Statistic,
    Wait,
    WorkerChild,
)
from runs.operations import Idempotency
from runs.operations.keeping import write_policy
from tests.integration.core.conftest import House, by_sql, history_is_whole, pay_flow

Define = Callable[..., Workflow]


def aged(run: Run, days: int = 400) -> Run:
    """As if the run had ended long ago."""
    by_sql(
        "UPDATE runs_run SET finished_at = finished_at - make_interval(days => %s), "
        "compacted_at = compacted_at - make_interval(days => %s) WHERE id = %s",
        days,
        days,
        run.pk,
    )
    run.refresh_from_db()
    return run


def completed(house: House, workflow: str = "pay", **input: Any) -> Run:
    run, approval = house.parked(workflow, x=1, **input)
    house.answer(approval, "approve", comment="fine")
    return house.work(run)


def rows_of(run: Run) -> dict[str, int]:
    """How many rows each table has of a run, whatever table leads to it."""
    found = {}
    with connection.cursor() as cursor:
        for table, condition in [*keeping.owned(), ("runs_run", "id = ANY(%(runs)s)")]:
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {condition}", {"runs": [run.pk]})
            found[table] = cursor.fetchone()[0]
    return found


def every_row() -> dict[str, int]:
    return {
        table: by_sql(f"SELECT * FROM {table}")
        for table in ("runs_run", "runs_event", "runs_checkpoint", "runs_step", "runs_approval", "runs_vote")
    }


@pytest.fixture
def flow(define: Define) -> Workflow:
    return pay_flow(define("pay"))


def test_a_run_whose_time_is_over_goes_whole(house: House, flow: Workflow) -> None:
    """C101: no orphan in any table; a run that is younger stays as it is."""
    old, young = aged(completed(house)), completed(house)
    before = rows_of(young)
    assert all(rows_of(old)[table] for table in ("runs_event", "runs_vote", "runs_revision", "runs_wait"))
    kept = operations.keep_house()
    assert (kept.runs, kept.failed) == (1, 0)
    assert set(rows_of(old).values()) == {0}
    assert rows_of(young) == before
    assert history_is_whole(young)
    assert every_row()["runs_run"] == 1
    call_command("verify_history", verbosity=0)
    assert ServiceBeat.objects.get(name="retention").facts["runs"] == 1


def test_what_was_removed_is_told_to_who_asks(house: House, flow: Workflow) -> None:
    """C66, C101: 410 with the facts for members of the project, not found for everybody else."""
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    aged(house.work(run))
    operations.keep_house()
    with pytest.raises(Gone) as gone:
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    assert gone.value.facts["head_hash"] == bytes(run.head_hash).hex()
    assert gone.value.facts["events"] == run.seq
    with pytest.raises(Gone):
        house.answer(approval, "approve")
    assert {left.kind for left in Removed.objects.filter(run=run.pk)} == {"run", "approval"}
    assert list(AuditEntry.objects.filter(outcome="denied: gone").values_list("verb", flat=True)) == [
        "rewind",
        "decide",
    ]


def test_live_runs_holds_and_keys_are_spared(house: House, flow: Workflow) -> None:
    """C101: parked for "40 days", under legal hold, with a key that is still valid: not a row of them changes."""
    parked, _ = house.parked("pay", x=1)
    by_sql("UPDATE runs_run SET created_at = created_at - interval '400 days'")
    held, keyed = completed(house), None
    operations.hold(actor=house.olga, run_id=held.pk, reason="a lawsuit")
    key = Idempotency("runs", "k", "f")
    keyed = operations.submit(actor=house.shop, workflow="pay", input={"x": 1}, idempotency=key).run
    house.work(keyed)
    house.answer(Approval.objects.get(run=keyed, status="open"), "approve")
    house.work(keyed)
    for run in (held, keyed):
        aged(run)
    before = {run.pk: rows_of(run) for run in (parked, held, keyed)}
    kept = operations.keep_house()
    # The key keeps the run, not every checkpoint of it.
    assert (kept.runs, kept.compacted) == (0, 1)
    assert rows_of(parked) == before[parked.pk]
    assert rows_of(held) == before[held.pk]
    by_sql("UPDATE runs_idempotencyrecord SET created_at = created_at - interval '25 hours'")
    operations.release(actor=house.olga, run_id=held.pk)
    assert operations.keep_house().runs == 2
    assert IdempotencyRecord.objects.count() == 0
    assert Run.objects.get() == parked


def test_days_hold_by_status_workflow_and_project(house: House, define: Define) -> None:
    for name in ("kept", "gone"):
        pay_flow(define(name))
    operations.keep_house()
    set_days(house, "", completed_days=0, cancelled_days=10)
    set_days(house, "gone", completed_days=5)
    kept, gone = aged(completed(house, "kept"), 30_000), aged(completed(house, "gone"), 6)
    cancelled, _ = house.parked("kept", x=1)
    operations.cancel(actor=house.olga, run_id=cancelled.pk)
    aged(cancelled, 9)
    assert set(keeping.to_remove().values_list("pk", flat=True)) == {gone.pk}
    aged(cancelled, 2)
    assert set(keeping.to_remove().values_list("pk", flat=True)) == {gone.pk, cancelled.pk}
    assert kept.pk not in set(keeping.to_remove().values_list("pk", flat=True))


def set_days(house: House, workflow: str, **days: int | None) -> RetentionPolicy | None:
    return write_policy(project=house.project, workflow=workflow, days=days)


def test_batches_are_bounded_and_a_round_is(house: House, flow: Workflow, settings: Any) -> None:
    """C101: batches of few rows; what a round does not get to, the next one does."""
    runs = [aged(completed(house)) for _ in range(3)]
    settings.HITL_RETENTION_BATCH = 1
    assert operations.keep_house(batches=2).runs == 2
    assert operations.keep_house(batches=2).runs == 1
    assert not Run.objects.filter(pk__in=[run.pk for run in runs]).exists()


def test_a_crash_in_the_middle_leaves_nothing_half(
    house: House, flow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C101: no half-deleted run."""
    run = aged(completed(house))
    before = rows_of(run)
    real = keeping.owned()
    broken = [*real[:5], ("runs_step", "run_id = ANY(%(runs)s) AND 1 / 0 = 1"), *real[5:]]
    monkeypatch.setattr("runs.keeping.removing.owned", lambda: broken)
    kept = operations.keep_house()
    assert (kept.runs, kept.failed) == (0, 1)
    assert rows_of(run) == {**before, "runs_checkpoint": rows_of(run)["runs_checkpoint"]}
    assert not Removed.objects.exists()
    assert history_is_whole(run)


def test_a_table_that_nobody_thought_of_keeps_its_run(house: House, flow: Workflow) -> None:
    """Foreign keys have the last word: the run stays, the others go."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE later (run_id uuid REFERENCES runs_run (id))")
    try:
        _, named, _ = [aged(completed(house), days) for days in (403, 402, 401)]
        by_sql("INSERT INTO later VALUES (%s)", named.pk)
        kept = operations.keep_house()
        assert (kept.runs, kept.failed) == (2, 1)
        assert Run.objects.get() == named
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE later")


def test_the_database_refuses_to_delete_a_held_run(house: House, flow: Workflow) -> None:
    run = aged(completed(house))
    operations.hold(actor=house.olga, run_id=run.pk, reason="a lawsuit")
    with pytest.raises(IntegrityError), transaction.atomic():
        keeping.remove([run.pk])
    assert LegalHold.objects.get().run_id == run.pk


def test_chores_clear_what_is_old_and_spare_what_is_held(house: House, flow: Workflow) -> None:
    """Notes, audit, closed waits, gone workers, expired sessions; what belongs to a held run stays."""
    held, free = completed(house), completed(house)
    operations.hold(actor=house.olga, run_id=held.pk, reason="a lawsuit")
    for run in (held, free):
        OperationalNote.objects.create(run=run, kind="trouble")
    WorkerChild.objects.create(host="h", pid=1, gone_at=store.now())
    by_sql(
        "INSERT INTO runs_session (session_key, session_data, expire_date) VALUES ('k', '', now() - interval '1 day')"
    )
    by_sql(
        "INSERT INTO runs_session (session_key, session_data, expire_date) VALUES ('l', '', now() + interval '1 day')"
    )
    fresh = operations.keep_house().as_dict()
    assert [fresh[chore.name] for chore in keeping.CHORES] == [0] * 9 + [1]
    assert by_sql("SELECT * FROM runs_session") == 1
    for table, column in (
        ("operationalnote", "at"),
        ("wait", "closed_at"),
        ("auditentry", "at"),
        ("workerchild", "gone_at"),
    ):
        by_sql(f"UPDATE runs_{table} SET {column} = {column} - interval '800 days'")
    kept = operations.keep_house()
    assert (kept.notes, kept.workers) == (1, 1)
    assert kept.waits
    assert kept.audit
    assert OperationalNote.objects.get().run_id == held.pk
    assert set(Wait.objects.values_list("run_id", flat=True)) == {held.pk}
    assert {entry.verb for entry in AuditEntry.objects.all()} == {"hold"}


def test_hours_of_the_statistics_go_before_days(house: House, flow: Workflow) -> None:
    for grain, days in (("hour", 39), ("hour", 41), ("day", 399), ("day", 401)):
        at = store.now() - timedelta(days=days)
        told = {"kind": "begun", "workflow": "pay", "name": "", "count": 1}
        Statistic.objects.create(project=house.project, grain=grain, at=at, **told)
    assert operations.keep_house().statistics == 2
    kept = Statistic.objects.order_by("at").values_list("grain", flat=True)
    assert list(kept) == ["day", "hour"]


def test_the_housekeeping_counts(house: House, flow: Workflow) -> None:
    assert tasks.count.name == app.conf.beat_schedule["statistics"]["task"]
    tasks.count()
    assert ServiceBeat.objects.filter(name=watching.STATISTICS.beat).exists()


def test_an_open_wait_and_an_executing_worker_are_no_chores(house: House, flow: Workflow) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql("UPDATE runs_wait SET opened_at = opened_at - interval '800 days'")
    assert operations.keep_house().waits == 0
    assert Wait.objects.filter(run=run, closed_at=None).count() == 1


def test_removed_runs_are_forgotten_in_the_end(house: House, flow: Workflow) -> None:
    aged(completed(house))
    operations.keep_house()
    Removed.objects.update(removed_at=store.now() - timedelta(days=400))
    assert operations.keep_house().removed == 2


def test_beat_starts_rounds_and_the_environment_can_stop_them(
    house: House, flow: Workflow, settings: Any
) -> None:
    """On by default; the task is known by the name that beat sends."""
    entry = app.conf.beat_schedule["retention"]
    task = tasks.keep_house
    assert task.name == entry["task"]
    run = aged(completed(house))
    Approval.objects.update(words=None)
    settings.HITL_RETENTION = False
    task()
    assert Run.objects.get() == run
    assert Approval.objects.exclude(words=None).count() == 1  # how long things stay is another matter
    settings.HITL_RETENTION = True
    task()
    assert not Run.objects.exists()
