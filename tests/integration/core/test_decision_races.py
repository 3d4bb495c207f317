"""People, the clock and workers at one approval at the same moment: one of them is first, and everybody learns who."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from runs import inboxes, operations, store
from runs.engine import Workflow
from runs.errors import AlreadyDecided, ApprovalClosed, HitlError, TimedOut
from runs.inboxes import Wanted
from runs.models import Approval, Checkpoint, Event, Run, Step, User, Vote, Wait
from runs.operations import deciding
from tests.integration.core.conftest import House, history_is_whole, open_approval, pay_flow
from tests.kit.racing import Contender, at_once, blocked, deadlocks, holding, in_order
from tests.kit.waiting import until
from tests.sizes import size

Define = Callable[..., Workflow]
ROUNDS = size("race rounds")


def guarded(define: Define, stamps: list[str], **options: Any) -> None:
    """before -> ask -> after, where `after` notes that it ran."""

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        stamps.append(ctx.run_id)
        return {"x": ctx.approved("ask").args}

    pay_flow(define("pay"), body, **options)


def test_of_two_people_one_decides_and_the_other_learns_who(house: House, define: Define) -> None:
    """C55."""
    stamps: list[str] = []
    guarded(define, stamps)
    for _ in range(ROUNDS):
        run, approval = house.parked("pay", x=1)
        yes, no = at_once(
            partial(house.answer, approval, "approve", by=house.frida),
            partial(house.answer, approval, "reject", by=house.felix),
        )
        lost = [one.error for one in (yes, no) if one.error is not None]
        assert len(lost) == 1
        assert isinstance(lost[0], AlreadyDecided)
        vote = Vote.objects.get(approval=approval)
        facts = lost[0].facts
        assert (facts["winner"], facts["action"]) == (str(vote.user), vote.outcome)
        assert facts["decided_at"]
        house.work(run)
        approved = yes.error is None
        assert run.status == ("completed" if approved else "failed")
        assert stamps.count(str(run.pk)) == int(approved)
        assert history_is_whole(run)


def test_who_submits_twice_decides_once_and_hears_the_same(house: House, define: Define) -> None:
    """C55, K12."""
    guarded(define, [])
    run, approval = house.parked("pay", x=1)
    clicks = at_once(*(partial(house.answer, approval, "approve") for _ in range(5)))
    assert [click.error for click in clicks] == [None] * 5
    assert sorted(click.value.replayed for click in clicks) == [False, True, True, True, True]
    assert Vote.objects.filter(approval=approval).count() == 1
    assert Step.objects.filter(run=run, node="after").count() == 1


def test_an_approval_and_a_cancel_queue_up(house: House, define: Define) -> None:
    stamps: list[str] = []
    guarded(define, stamps)
    run, approval = house.parked("pay", x=1)
    cancel = partial(operations.cancel, actor=house.olga, run_id=run.pk, reason="enough")
    cancelled, decided = in_order(run.pk, cancel, partial(house.answer, approval, "approve"))
    assert cancelled.error is None
    assert isinstance(decided.error, ApprovalClosed)
    assert decided.error.reason == "run_cancelled"
    run, approval = house.parked("pay", x=1)
    cancel = partial(operations.cancel, actor=house.olga, run_id=run.pk, reason="enough")
    decided, cancelled = in_order(run.pk, partial(house.answer, approval, "approve"), cancel)
    assert (decided.error, cancelled.error) == (None, None)
    assert house.work(run).status == "cancelled"
    assert stamps == []
    assert not Step.objects.filter(run=run, status__in=["ready", "executing", "waiting"]).exists()


def test_an_approval_and_a_rewind_queue_up(house: House, define: Define) -> None:
    """The approval that was asked before the rewind binds nobody after it."""
    stamps: list[str] = []
    guarded(define, stamps)
    for first in ("approve", "rewind"):
        run, approval = house.parked("pay", x=1)
        works: dict[str, Callable[[], Any]] = {
            "approve": partial(house.answer, approval, "approve"),
            "rewind": partial(
                operations.rewind, actor=house.olga, run_id=run.pk, checkpoint=0, reason="again"
            ),
        }
        second = "rewind" if first == "approve" else "approve"
        one, other = in_order(run.pk, works[first], works[second])
        assert one.error is None
        if second == "approve":
            assert isinstance(other.error, ApprovalClosed)
            assert other.error.reason == "rewound"
        house.work(run)
        assert run.status == "waiting"
        assert open_approval(run).pk != approval.pk
        assert stamps == []


def test_an_answer_of_before_the_deadline_counts_though_it_had_to_queue(house: House, define: Define) -> None:
    """C56: the clock is the database's, and it is read when the answer comes in."""
    stamps: list[str] = []
    guarded(define, stamps, due=1.0)
    run, approval = house.parked("pay", x=1)
    approval.refresh_from_db()
    with holding(run.pk):
        in_time = blocked(partial(house.answer, approval, "approve"))
        until(lambda: approval.due_at is not None and store.now() > approval.due_at, what="the deadline")
        swept = blocked(partial(operations.expire, run_id=run.pk, address=approval.address))
    assert in_time.end().error is None
    assert swept.end().value is False
    assert house.work(run).status == "completed"
    assert stamps == [str(run.pk)]


def test_an_answer_of_after_the_deadline_is_refused_whoever_is_first(house: House, define: Define) -> None:
    """C56: also while nobody has swept yet. Never is a 200 followed by a rejection."""
    stamps: list[str] = []
    guarded(define, stamps, due=0.001)
    for first in ("answer", "expire"):
        run, approval = house.parked("pay", x=1)
        approval.refresh_from_db()
        until(lambda due=approval.due_at: store.now() > due, what="the deadline")  # type: ignore[misc]
        works: dict[str, Callable[[], Any]] = {
            "answer": partial(house.answer, approval, "approve"),
            "expire": partial(operations.expire, run_id=run.pk, address=approval.address),
        }
        order = [works.pop(first), *works.values()]
        ended = dict(zip((first, *works), in_order(run.pk, *order), strict=True))
        assert isinstance(ended["answer"].error, TimedOut)
        assert ended["expire"].value is True
        house.work(run)
        assert run.error is not None
        assert (run.status, run.error["code"]) == ("failed", "approval_timeout")
        assert stamps == []


def test_fifty_verbs_at_once_on_one_run_leave_one_history(house: House, define: Define) -> None:
    """Decisions, drafts, edits, rewinds, sweeps and two workers, all at one run: no deadlock, no gap, no twin."""
    guarded(define, [], due=0.2)
    operations.worker()
    before = deadlocks()
    for _ in range(size("storms")):
        run, _ = house.parked("pay", x=1)
        storm(house, run)
        run.refresh_from_db()
        if not run.is_terminal:
            operations.cancel(actor=house.olga, run_id=run.pk, reason="end")
        assert history_is_whole(run)
        assert one_result_a_step(run)
        assert nothing_is_open(run)
    assert deadlocks() == before


def storm(house: House, run: Run) -> None:
    draw = random.Random(run.pk.int)
    over = threading.Event()
    workers = [Contender(partial(keep_working, house, run, over)) for _ in range(2)]
    verbs = [partial(any_verb, house, run, draw.random()) for _ in range(50)]
    for index in range(0, len(verbs), 10):
        for ended in at_once(*verbs[index : index + 10]):
            assert ended.error is None or isinstance(ended.error, HitlError), ended.error
    over.set()
    for worker in workers:
        assert worker.end().error is None


def keep_working(house: House, run: Run, over: threading.Event) -> None:
    while not over.is_set():
        step = Step.objects.filter(run=run, status="ready").first()
        if step is None:
            over.wait(0.01)
        else:
            operations.advance(run_id=run.pk, branch=step.branch, address=step.address)


def any_verb(house: House, run: Run, draw: float) -> Any:
    now = Run.objects.get(pk=run.pk)
    approval = Approval.objects.filter(run=run).order_by("-opened_at")[0]
    by = house.frida if draw * 1000 % 2 < 1 else house.felix
    if draw < 0.25:
        return house.answer(approval, "approve" if draw < 0.2 else "reject", by=by)
    if draw < 0.4:
        changed = {"pay": {"amount": int(draw * 100)}}
        return operations.revise(actor=by, approval_id=approval.pk, version=approval.version, args=changed)
    if draw < 0.6:
        changes = {"x": int(draw * 100)}
        return operations.edit_state(
            actor=house.olga, run_id=run.pk, version=now.version, changes=changes, reason="storm"
        )
    if draw < 0.85:
        checkpoint = int(draw * 1000) % (now.checkpoint_no + 1)
        return operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=checkpoint, reason="storm")
    if draw < 0.87:
        return operations.cancel(actor=house.olga, run_id=run.pk, reason="storm")
    with store.own_connection() as lock:
        return operations.sweep(lock)


def one_result_a_step(run: Run) -> bool:
    """I1."""
    ended = Event.objects.filter(run=run, kind="step_completed").values_list("branch", "address")
    points = Checkpoint.objects.filter(run=run, kind="step").values_list("branch", "address")
    return len(set(ended)) == len(ended) == len(points) == len(set(points))


def nothing_is_open(run: Run) -> bool:
    """I7."""
    live = Step.objects.filter(run=run, status__in=["ready", "executing", "waiting"])
    waits = Wait.objects.filter(run=run, closed_at=None)
    return not (live.exists() or waits.exists() or Approval.objects.filter(run=run, status="open").exists())


NEEDED_BY_OTHERS = (
    "runs_user",
    "runs_member",
    "runs_project",
    "runs_team",
    "runs_workflowversion",
    "runs_step",
)


def test_a_decision_under_way_holds_its_run_and_nothing_that_others_need(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C104: of people, projects and workflows it locks no row that an update would want, and of other runs none at all."""
    guarded(define, [])
    (run, approval), (other, asked) = house.parked("pay", x=1), house.parked("pay", x=2)
    done, leave = threading.Event(), threading.Event()
    go_on = deciding._go_on

    def paused(locked: Run, *args: Any) -> None:
        go_on(locked, *args)
        if locked.pk == run.pk:
            done.set()
            assert leave.wait(60)

    monkeypatch.setattr(deciding, "_go_on", paused)
    decision = Contender(partial(house.answer, approval, "approve"))
    assert done.wait(60)
    try:
        held = {table: locked_rows(table, run) for table in ("runs_run", "runs_approval", *NEEDED_BY_OTHERS)}
        assert held.pop("runs_run") == (1, 0)
        assert held.pop("runs_approval") == (1, 0)
        assert {table: of_others for table, (_, of_others) in held.items()} == dict.fromkeys(held, 0)
        assert house.answer(asked, "reject").error is None
        User.objects.filter(pk=house.frida.user.pk).update(last_name="Frida")
        assert house.submit("pay", x=3).status == "queued"
        assert inboxes.page(house.project.pk, Wanted(), inboxes.asked(house.felix), limit=9).rows == [
            approval
        ]
    finally:
        leave.set()
    assert decision.end().error is None
    assert (house.work(run).status, house.work(other).status) == ("completed", "failed")


def locked_rows(table: str, run: Run) -> tuple[int, int]:
    """Rows that somebody who changes them would have to wait for: of this run, and of all else."""
    mine = {"runs_run": "id = %(run)s", "runs_approval": "run_id = %(run)s", "runs_step": "run_id = %(run)s"}
    of_run = mine.get(table, "false")
    found = []
    with store.own_connection() as looking, looking.transaction():
        for which in (of_run, f"NOT ({of_run})"):
            every = looking.execute(f"SELECT count(*) FROM {table} WHERE {which}", {"run": run.pk}).fetchone()
            free = looking.execute(
                f"SELECT 1 FROM {table} WHERE {which} FOR NO KEY UPDATE SKIP LOCKED", {"run": run.pk}
            )
            assert every is not None
            found.append(every[0] - len(free.fetchall()))
    return found[0], found[1]
