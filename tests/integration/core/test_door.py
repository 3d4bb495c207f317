"""What every verb shares: whoever is in the way is named, a lost database is no 500, and what a run waits for is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection

from runs import operations, store, workflows
from runs.engine import Action, Retry, Workflow
from runs.errors import Busy, HitlError, NotFound, Unavailable
from runs.models import Event, Run, Step
from runs.store import asked, claiming
from runs.store.reading import lock_run, lock_run_with
from tests.integration.core.conftest import House, by_sql, history_is_whole, open_approval, pay_flow
from tests.kit.racing import at_once, holding

Define = Callable[..., Workflow]


def test_a_run_that_somebody_holds_is_busy_after_a_while_and_others_are_not(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C104: only what concerns this run waits, and not for ever."""
    monkeypatch.setattr(store, "lock_run", partial(store.lock_run, patience=0.2))
    monkeypatch.setattr(asked, "lock_run_with", partial(lock_run_with, patience=0.2))
    pay_flow(define("pay"))
    (run, approval), (other, _) = house.parked("pay", x=1), house.parked("pay", x=2)
    given: dict[str, Any] = {"actor": house.olga, "run_id": run.pk}
    with holding(run.pk):
        verbs: list[Callable[[], Any]] = [
            partial(house.answer, approval, "approve"),
            partial(operations.cancel, **given),
            partial(operations.rewind, **given, checkpoint=0, reason="so"),
            partial(operations.edit_state, **given, version=run.version, changes={"x": 2}, reason="so"),
        ]
        for ended in at_once(*verbs):
            assert isinstance(ended.error, Busy)
        assert operations.cancel(actor=house.olga, run_id=other.pk).status == "cancelled"
        assert operations.preview_rewind(**given, checkpoint=0).next == ["before"]
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"


def test_a_worker_does_not_wait_for_a_held_run_but_waits_with_a_result(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot is not blocked by a step that is not begun; a result in hand is never thrown away for a lock."""
    pay_flow(define("pay"))
    run = house.submit("pay", x=1)
    step = Step.objects.get(run=run)
    advance = partial(operations.advance, run_id=run.pk, branch=1, address=step.address)
    monkeypatch.setattr(claiming, "lock_run", partial(lock_run, patience=0.2))
    with holding(run.pk):
        advance()
    assert Step.objects.get(run=run).status == "ready"
    waited: list[float | None] = []

    def noted(lock: Callable[..., Any], *told: Any, patience: float | None = 0.2) -> Any:
        waited.append(patience)
        return lock(*told, patience=patience)

    monkeypatch.setattr(claiming, "lock_run", partial(noted, lock_run))  # with which a step is taken
    monkeypatch.setattr(claiming, "lock_run_with", partial(noted, lock_run_with))  # and a result stored
    advance()
    assert waited == [0.2, None]
    assert open_approval(run).status == "open"


@pytest.mark.parametrize(
    ("cause", "refusal"),
    [
        (psycopg.errors.LockNotAvailable, Busy),
        (psycopg.errors.DeadlockDetected, Busy),
        (psycopg.errors.SerializationFailure, Busy),
        (psycopg.errors.AdminShutdown, Unavailable),
        (psycopg.errors.DiskFull, Unavailable),
        (psycopg.errors.UniqueViolation, Unavailable),
    ],
)
def test_what_the_database_says_reaches_nobody_raw(
    house: House,
    define: Define,
    monkeypatch: pytest.MonkeyPatch,
    cause: type[psycopg.Error],
    refusal: type[HitlError],
) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)

    def fails(writer: Any) -> None:
        error = DatabaseError("as Django says it")
        raise error from cause("as Postgres says it")

    monkeypatch.setattr(store.Writer, "_events", fails)
    with pytest.raises(refusal):
        house.answer(approval, "approve")
    with pytest.raises(refusal):
        house.submit("pay", x=1)
    monkeypatch.undo()
    seq = run.seq
    run.refresh_from_db()
    assert (run.seq, run.status, Run.objects.count()) == (seq, "waiting", 1)
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"


def test_a_backend_that_ends_in_the_middle_leaves_nothing_half_done(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    finish = store.Writer._finish

    def cut(writer: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            mine = cursor.fetchone()[0]
        with store.own_connection() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [mine])
        finish(writer)

    monkeypatch.setattr(store.Writer, "_finish", cut)
    with pytest.raises(Unavailable):
        house.answer(approval, "approve")
    monkeypatch.undo()
    store.disconnect()
    assert open_approval(run).votes.count() == 0
    assert not Event.objects.filter(run=run, kind="approval_decided").exists()
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"
    assert history_is_whole(run)


def test_ids_that_are_none_lead_nowhere(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    for wrong in ("", "no id", "a\0b", "0" * 31, "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(NotFound):
            operations.cancel(actor=house.olga, run_id=wrong)
        with pytest.raises(NotFound):
            operations.revise(actor=house.frida, approval_id=wrong, version=1, args={})


def test_a_run_tells_what_it_waits_for(house: House, define: Define) -> None:
    workflow = define("waits")

    @workflow.node(retry=Retry(attempts=2, initial=60))
    def shaky(state: Any, ctx: Any) -> None:
        if ctx.attempt == 1:
            raise OSError("not yet")

    @workflow.approval(reviewers=["finance", "user:felix"], quorum=2, due="2h")
    def ask(state: Any, ctx: Any) -> Action:
        return Action("go")

    workflow.edge(shaky, ask)
    workflows.register(workflow)
    run = house.work(house.submit("waits"))
    (reason,) = run.waiting_for
    assert (reason["kind"], reason["node"]) == ("retry", "shaky")
    assert reason["due"] > reason["since"]
    by_sql("UPDATE runs_wait SET due_at = now()")
    house.sweep()
    run.refresh_from_db()
    assert run.waiting_for == []
    house.work(run)
    approval = open_approval(run)
    (reason,) = run.waiting_for
    assert (reason["kind"], reason["node"], reason["approval"]) == ("approval", "ask", str(approval.pk))
    assert (reason["who"], reason["quorum"]) == (["finance", "felix"], 2)
    assert approval.due_at is not None
    assert reason["due"] == approval.due_at.isoformat()
    house.answer(approval, "approve")
    run.refresh_from_db()
    assert run.waiting_for == [reason]
    operations.cancel(actor=house.olga, run_id=run.pk)
    run.refresh_from_db()
    assert run.waiting_for == []
