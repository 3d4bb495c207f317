"""Taking back what a run did: calls with an `undo=`, the newest first, when it is cancelled or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runs import operations, store, workflows
from runs.engine import Action, Retry, Workflow, canonical
from runs.engine.limits import DEFAULT_QUEUE
from runs.errors import AlreadyTerminal, Compensated, Compensating, EventNotAllowed
from runs.models import Approval, Event, JournalEntry, OperationalNote, Run, Step, Stop, Wait
from tests.integration.core.conftest import (
    House,
    Killed,
    by_sql,
    error_of,
    history_is_whole,
    kinds_of,
)
from tests.kit.racing import at_once

Define = Callable[..., Workflow]
DONE: list[Any] = []  # what reached the world, in order
TROUBLE: list[BaseException] = []  # what the next undo comes to
MEANWHILE: list[Callable[[], Any]] = []  # what happens while the next undo is made
NOW = Retry(attempts=3, initial=0.0, jitter=0.0)


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    for told in (DONE, TROUBLE, MEANWHILE):
        told.clear()


def book(what: str, *, idempotency_key: str) -> dict[str, str]:
    DONE.append(("book", what, idempotency_key))
    return {"receipt": what}


def unbook(receipt: dict[str, str], what: str, *, idempotency_key: str) -> None:
    if MEANWHILE:
        MEANWHILE.pop()()
    if TROUBLE:
        raise TROUBLE.pop()
    assert receipt == {"receipt": what}
    DONE.append(("unbook", what, idempotency_key))


async def unbook_later(receipt: dict[str, str], what: str) -> None:
    DONE.append(("unbook", what, ""))


def told(entry: tuple[str, str, str]) -> tuple[str, str]:
    return entry[:2]


def trip(
    define: Define,
    *,
    name: str = "tour",
    ends: Callable[[Any, Any], Any] | None = None,
    undo: Callable[..., Any] = unbook,
    **options: Any,
) -> Workflow:
    """flight -> hotel -> sure (an approval) -> pay. Each of the first two books something that can be taken back."""
    flow = define(name, undo_retry=options.pop("undo_retry", NOW), **options)

    def booking(what: str) -> Callable[[Any, Any], Any]:
        return lambda state, ctx: (
            ctx.call(book, what, undo=undo, effect="reversible", idempotency_key=True) and {"x": what}
        )

    flow.node(name="flight")(booking("flight"))
    flow.node(name="hotel")(booking("hotel"))
    flow.approval(name="sure", reviewers=["finance"])(lambda state, ctx: Action("pay"))
    flow.node(name="pay")(ends or (lambda state, ctx: None))
    flow.edge("flight", "hotel")
    flow.edge("hotel", "sure")
    flow.edge("sure", "pay")
    workflows.register(flow)
    return flow


def kinds_since(run: Run, kind: str) -> list[str]:
    kinds = kinds_of(run)
    return kinds[kinds.index(kind) :]


def approve(house: House, run: Run) -> Run:
    house.answer(Approval.objects.get(run=run, status="open"), "approve")
    return house.work(run)


def test_a_cancelled_run_takes_back_its_calls_the_newest_first(house: House, define: Define) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    cancelled = operations.cancel(actor=house.olga, run_id=run.pk, reason="too dear")
    assert (cancelled.status, cancelled.finished_at, cancelled.waiting_for) == ("cancelling", None, [])
    assert not Approval.objects.filter(run=run, status="open").exists()
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    house.work(run)
    assert [told(entry) for entry in DONE] == [
        ("book", "flight"),
        ("book", "hotel"),
        ("unbook", "hotel"),
        ("unbook", "flight"),
    ]
    assert (run.status, run.error, run.ending) == ("cancelled", None, None)
    assert kinds_since(run, "run_cancelling") == [
        "run_cancelling",
        "call_undone",
        "call_undone",
        "run_cancelled",
    ]
    last = Event.objects.filter(run=run).latest("seq")
    assert canonical.loads(last.payload or "") == {"reason": "too dear", "undone": 2}
    assert history_is_whole(run)
    assert not Step.objects.filter(run=run, status__in=["ready", "executing", "waiting"]).exists()


def test_the_key_of_an_undo_comes_from_its_call_and_stays_over_attempts(house: House, define: Define) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    TROUBLE.append(OSError("once"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    house.work(run)
    house.sweep()
    house.work(run)
    keys = [key for _, _, key in DONE]
    assert len(set(keys)) == 4
    assert run.status == "cancelled"


def test_a_failing_undo_is_tried_again_and_then_listed_and_the_others_go_on(
    house: House, define: Define
) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    TROUBLE.extend([OSError("down")] * 3)
    operations.cancel(actor=house.olga, run_id=run.pk)
    for _ in range(4):
        house.work(run)
        house.sweep()
    house.work(run)
    assert [told(entry) for entry in DONE][2:] == [("unbook", "flight")]
    assert (run.status, error_of(run)["code"]) == ("cancelled", "compensation_failed")
    assert error_of(run)["compensation_failed"] == [
        {"step": "hotel", "call": "book", "code": "node_error", "message": "down"}
    ]
    assert kinds_since(run, "run_cancelling").count("undo_retry_scheduled") == 2
    assert kinds_since(run, "undo_failed") == ["undo_failed", "call_undone", "run_cancelled"]
    assert history_is_whole(run)


def test_without_compensation_a_cancelled_run_ends_at_once(house: House, define: Define) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    assert operations.cancel(actor=house.olga, run_id=run.pk, compensate=False).status == "cancelled"
    assert len(DONE) == 2
    assert kinds_of(run)[-1] == "run_cancelled"


def test_a_run_that_fails_takes_back_its_calls_if_its_workflow_says_so(house: House, define: Define) -> None:
    def out_of_stock(state: Any, ctx: Any) -> None:
        raise ValueError("out of stock")

    trip(define, ends=out_of_stock, compensate=True)
    trip(define, name="lax", ends=out_of_stock)
    run = house.work(house.submit("tour"))
    house.answer(Approval.objects.get(run=run, status="open"), "approve")
    step = Step.objects.get(run=run, node="pay")
    operations.advance(run_id=run.pk, branch=1, address=step.address)
    run.refresh_from_db()
    assert (run.status, error_of(run)["message"], run.finished_at) == ("running", "out of stock", None)
    house.work(run)
    assert [told(entry) for entry in DONE][2:] == [("unbook", "hotel"), ("unbook", "flight")]
    assert (run.status, error_of(run)["message"]) == ("failed", "out of stock")
    assert kinds_since(run, "run_failing") == ["run_failing", "call_undone", "call_undone", "run_failed"]
    assert history_is_whole(run)
    lax = approve(house, house.work(house.submit("lax")))
    assert (lax.status, kinds_of(lax)[-1]) == ("failed", "run_failed")


def test_a_kill_in_the_middle_of_an_undo_goes_on_and_takes_back_once(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch, short_lease: None
) -> None:
    """Between the call and the commit of its step: the journal knows that it was made."""
    trip(define)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("runs.operations.undoing._store", killed)
        with pytest.raises(Killed):
            house.work(run)
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 minute' WHERE status = 'executing'")
    assert house.sweep().taken_over == 1
    house.work(run)
    assert [told(entry) for entry in DONE][2:] == [("unbook", "hotel"), ("unbook", "flight")]
    assert (run.status, kinds_of(run).count("step_taken_over")) == ("cancelled", 1)
    assert JournalEntry.objects.filter(run=run, address__startswith="undo-").count() == 2


def test_an_undo_that_ends_its_workers_is_set_aside_and_the_others_go_on(
    house: House, define: Define, short_lease: None
) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)

    def killed() -> None:
        raise Killed

    for _ in range(3):
        MEANWHILE.append(killed)
        with pytest.raises(Killed):
            house.work(run)
        by_sql("UPDATE runs_step SET lease_until = now() - interval '1 minute' WHERE status = 'executing'")
        assert house.sweep().taken_over == 1
    house.work(run)
    assert [told(entry) for entry in DONE][2:] == [("unbook", "flight")]
    assert error_of(run)["compensation_failed"][0]["code"] == "poisoned"


def test_what_takes_back_may_be_async_and_may_be_gone(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    trip(define, undo=unbook_later)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    monkeypatch.delattr(f"{__name__}.unbook_later")
    step = Step.objects.get(run=run, status="ready")
    operations.advance(run_id=run.pk, branch=1, address=step.address)
    step.refresh_from_db()
    assert error_of(step)["code"] == "undo_not_found"
    monkeypatch.undo()
    house.sweep()
    house.work(run)
    assert run.status == "cancelled"
    assert [told(entry) for entry in DONE][2:] == [("unbook", "hotel"), ("unbook", "flight")]


def test_while_it_takes_back_nothing_else_is_done_to_the_run(house: House, define: Define) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    assert operations.cancel(actor=house.olga, run_id=run.pk).status == "cancelling"
    with pytest.raises(Compensating):
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="no")
    with pytest.raises(Compensating):
        operations.fork(actor=house.olga, run_id=run.pk, checkpoint=0, reason="no")
    with pytest.raises(Compensating):
        operations.pause(actor=house.olga, run_id=run.pk)
    with pytest.raises(EventNotAllowed):
        operations.retry(actor=house.olga, run_id=run.pk)
    assert kinds_of(run).count("run_cancelling") == 1
    given_up = operations.cancel(actor=house.olga, run_id=run.pk, reason="leave it", compensate=False)
    assert given_up.status == "cancelled"
    assert [one["code"] for one in error_of(given_up)["compensation_failed"]] == ["given_up"] * 2
    assert house.work(run).status == "cancelled"
    assert len(DONE) == 2
    with pytest.raises(AlreadyTerminal):
        operations.pause(actor=house.olga, run_id=run.pk)


def test_given_up_while_an_undo_is_made_its_late_end_changes_nothing(house: House, define: Define) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    MEANWHILE.append(lambda: operations.cancel(actor=house.olga, run_id=run.pk, compensate=False))
    house.work(run)
    assert run.status == "cancelled"
    assert kinds_of(run)[-2:] == ["undo_given_up", "run_cancelled"]
    assert OperationalNote.objects.filter(run=run, kind="late_result_discarded").exists()


def test_a_run_goes_on_only_from_before_what_was_taken_back_and_makes_it_anew(
    house: House, define: Define
) -> None:
    """A call that was taken back is never reused, and has another key when it is made again."""
    trip(define)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    house.work(run)
    with pytest.raises(Compensated) as refused:
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="on")
    assert refused.value.facts["checkpoint"] == 0
    with pytest.raises(Compensated):
        operations.fork(actor=house.olga, run_id=run.pk, checkpoint=2, reason="on")
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=0)
    assert [call.reused for call in preview.made] == [False, False]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="after all")
    house.work(run)
    booked = [entry for entry in DONE if entry[0] == "book"]
    assert (run.status, len(booked), len({key for _, _, key in booked})) == ("waiting", 4, 4)
    operations.cancel(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert [told(entry) for entry in DONE][-2:] == [("unbook", "hotel"), ("unbook", "flight")]
    assert sum(entry[0] == "unbook" for entry in DONE) == 4


def test_a_retry_does_not_go_on_with_what_was_taken_back(house: House, define: Define) -> None:
    def fails(state: Any, ctx: Any) -> None:
        raise ValueError("no")

    trip(define, ends=fails, compensate=True)
    run = approve(house, house.work(house.submit("tour")))
    assert run.status == "failed"
    with pytest.raises(Compensated):
        operations.retry(actor=house.olga, run_id=run.pk)
    with pytest.raises(Compensated):
        operations.preview_retry(actor=house.olga, run_id=run.pk)


def test_calls_on_a_branch_that_was_left_stay_and_reused_ones_are_taken_back_once(
    house: House, define: Define
) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="again", calls="again")
    house.work(run)
    preview = operations.preview_cancel(actor=house.olga, run_id=run.pk)
    assert [call.node for call in preview.back] == ["hotel", "flight"]
    assert [(call.node, call.branch) for call in preview.stays] == [("hotel", 1)]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="reuse")
    house.work(run)
    operations.cancel(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert [told(entry) for entry in DONE][3:] == [("unbook", "hotel"), ("unbook", "flight")]


def test_each_cancelled_child_takes_back_its_own(house: House, define: Define) -> None:
    trip(define)
    outer = define("outer")
    outer.node(name="only")(lambda state, ctx: ctx.run_child("tour", {}))
    workflows.register(outer)
    for compensate in (True, False):
        run = house.work(house.submit("outer"))
        child = house.work(Run.objects.get(parent=run))
        DONE.clear()
        operations.cancel(actor=house.olga, run_id=run.pk, compensate=compensate)
        house.sweep()
        house.work(child)
        assert (child.status, len(DONE)) == ("cancelled", 2 if compensate else 0)
        assert not Stop.objects.exists()


def test_the_clock_of_a_run_does_not_run_while_it_takes_back(house: House, define: Define) -> None:
    def fails(state: Any, ctx: Any) -> None:
        raise ValueError("no")

    trip(define, ends=fails, compensate=True, deadline="1h")
    run = house.work(house.submit("tour"))
    house.answer(Approval.objects.get(run=run, status="open"), "approve")
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run, node="pay").address)
    run.refresh_from_db()
    assert (run.status, run.deadline_at) == ("running", None)
    assert house.work(run).status == "failed"


def test_a_run_that_fails_while_it_is_paused_takes_back_once_it_is_resumed(
    house: House, define: Define
) -> None:
    def fails(state: Any, ctx: Any) -> None:
        operations.pause(actor=house.olga, run_id=ctx.run_id, reason="look")
        raise ValueError("no")

    trip(define, ends=fails, compensate=True)
    run = approve(house, house.work(house.submit("tour")))
    assert (run.status, len(DONE)) == ("paused", 2)
    operations.resume(actor=house.olga, run_id=run.pk)
    assert house.work(run).status == "failed"
    assert len(DONE) == 4


def test_of_cancels_at_once_one_begins_to_take_back(house: House, define: Define) -> None:
    """C76 (f)."""
    trip(define)
    run = house.work(house.submit("tour"))
    at_once(*[lambda: operations.cancel(actor=house.olga, run_id=run.pk)] * 3)
    house.work(run)
    assert kinds_of(run).count("run_cancelling") == 1
    assert len(DONE) == 4


def test_a_hint_for_an_undo_that_was_lost_is_sent_again(house: House, define: Define) -> None:
    trip(define)
    run = house.work(house.submit("tour"))
    operations.cancel(actor=house.olga, run_id=run.pk)
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 minute' WHERE status = 'ready'")
    assert [found[0] for found in store.unhinted_steps(DEFAULT_QUEUE, limit=5)] == [run.pk]
