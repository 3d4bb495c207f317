"""A worker that ends, or is overtaken, at every boundary of a step: what ran twice, what ran once, what was kept (C32, C33)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from runs import operations, store, workflows
from runs.engine import Workflow
from runs.models import Checkpoint, Event, JournalEntry, OperationalNote, Run, Step
from runs.store import stepping
from tests.integration.core.conftest import (
    House,
    Killed,
    by_sql,
    history_is_whole,
    kinds_of,
    open_approval,
    pay_flow,
    state_of,
)
from tests.kit.racing import at_once

Define = Callable[..., Workflow]


pytestmark = pytest.mark.usefixtures("short_lease")


class Fault:
    """Strikes once, at the n-th time that a write of the store begins or ends."""

    def __init__(self, strike: Callable[[], None], *, write: str, at: int, after: bool) -> None:
        self.strike, self.write, self.at, self.after = strike, write, at, after
        self.times = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = getattr(store, self.write)

        def faulty(*args: Any, **kwargs: Any) -> Any:
            self.times += 1
            mine = self.times == self.at
            if mine and not self.after:
                self.strike()
            result = real(*args, **kwargs)
            if mine and self.after:
                self.strike()
            return result

        monkeypatch.setattr(store, self.write, faulty)


@pytest.fixture
def stamps() -> list[tuple[str, str]]:
    """A ledger: what really ran, and under which key."""
    return []


def charging(define: Define, stamps: list[tuple[str, str]]) -> None:
    """start -> money (charge, then mail) -> last."""
    workflow = define("money")

    def charge(*, idempotency_key: str) -> str:
        stamps.append(("charge", idempotency_key))
        return "receipt"

    def mail(receipt: str) -> None:
        stamps.append(("mail", receipt))

    @workflow.node
    def start(state: Any, ctx: Any) -> None:
        stamps.append(("start", ""))

    @workflow.node
    def money(state: Any, ctx: Any) -> dict[str, Any]:
        stamps.append(("money", ctx.key))
        receipt = ctx.call(charge, effect="irreversible", idempotency_key=True)
        ctx.call(mail, receipt)
        return {"x": receipt}

    @workflow.node
    def last(state: Any, ctx: Any) -> None:
        stamps.append(("last", ""))

    workflow.edge(start, money)
    workflow.edge(money, last)
    workflows.register(workflow)


def killed() -> None:
    raise Killed


#        what is struck           charge mail money last
POINTS = {
    "before the journal of charge": (("commit_call", 1, False), (2, 1, 2, 1)),
    "after the journal of charge": (("commit_call", 1, True), (1, 1, 2, 1)),
    "before the journal of mail": (("commit_call", 2, False), (1, 2, 2, 1)),
    "after the journal of mail": (("commit_call", 2, True), (1, 1, 2, 1)),
    "before the checkpoint": (("commit_step", 2, False), (1, 1, 2, 1)),
    "after the checkpoint": (("commit_step", 2, True), (1, 1, 1, 1)),
    "before the end": (("lock_held", 1, False), (1, 1, 1, 2)),
    "in the middle of the end": (("commit", 1, True), (1, 1, 1, 2)),
    "after the end": (("persistently", 1, True), (1, 1, 1, 1)),
}


def count(stamps: list[tuple[str, str]], what: str) -> int:
    return len([name for name, _ in stamps if name == what])


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_any_point_costs_what_was_not_committed(
    house: House,
    define: Define,
    monkeypatch: pytest.MonkeyPatch,
    stamps: list[tuple[str, str]],
    point: str,
) -> None:
    """C32 (1) to (4)."""
    (write, at, after), expected = POINTS[point]
    charging(define, stamps)
    run = house.submit("money")
    Fault(killed, write=write, at=at, after=after).install(monkeypatch)
    with pytest.raises(Killed):
        house.work(run)
    monkeypatch.undo()
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 s' WHERE status = 'executing'")
    swept = house.sweep()
    house.work(run)
    assert (run.status, state_of(run)["x"]) == ("completed", "receipt")
    assert tuple(count(stamps, what) for what in ("charge", "mail", "money", "last")) == expected
    assert len({key for what, key in stamps if what == "charge"}) == 1
    assert len({key for what, key in stamps if what == "money"}) == 1
    assert Checkpoint.objects.filter(run=run).count() == 4
    assert [row.name for row in JournalEntry.objects.filter(run=run).order_by("ended_at")] == [
        "charge",
        "mail",
    ]
    assert swept.taken_over == (0 if point == "after the end" else 1)
    assert history_is_whole(run)


OVERTAKEN = {
    "before the journal of charge": ("commit_call", 1, False),
    "before the journal of mail": ("commit_call", 2, False),
    "before the checkpoint": ("commit_step", 2, False),
    "before the end": ("lock_held", 1, False),
}


@pytest.mark.parametrize("point", OVERTAKEN)
def test_a_worker_overtaken_at_any_point_lets_go_and_says_so(
    house: House,
    define: Define,
    monkeypatch: pytest.MonkeyPatch,
    stamps: list[tuple[str, str]],
    point: str,
) -> None:
    """C33: while it was away another took its step and finished the run. Its result changes nothing."""
    write, at, after = OVERTAKEN[point]
    charging(define, stamps)
    run = house.submit("money")

    def another_finishes() -> None:
        monkeypatch.undo()

        def elsewhere() -> None:
            by_sql("UPDATE runs_step SET lease_until = now() - interval '1 s' WHERE status = 'executing'")
            assert house.sweep().taken_over == 1
            house.work(Run.objects.get(pk=run.pk))

        (other,) = at_once(elsewhere)
        assert other.error is None, other.error
        there.update(seq=Run.objects.get(pk=run.pk).seq)

    there: dict[str, int] = {}
    monkeypatch.setattr("django.conf.settings.HITL_LEASE_SECONDS", 3)
    Fault(another_finishes, write=write, at=at, after=after).install(monkeypatch)
    house.work(run)
    assert run.status == "completed"
    assert run.seq == there["seq"]
    note = OperationalNote.objects.get(run=run)
    assert note.kind == "late_result_discarded"
    assert {"worker", "epoch", "token", "node"} <= note.facts.keys()
    assert Event.objects.filter(run=run, kind="step_completed", node="money").count() == 1
    assert kinds_of(run).count("run_completed") == 1
    assert history_is_whole(run)


@pytest.mark.parametrize("verb", ["cancel", "rewind"])
def test_a_step_that_was_cancelled_or_rewound_while_it_ran_is_discarded(
    house: House, define: Define, stamps: list[tuple[str, str]], verb: str
) -> None:
    """K5, in the middle of a body: the next call already finds out, and nothing after it is done."""
    workflow = define("long")

    @workflow.node
    def long(state: Any, ctx: Any) -> dict[str, Any]:
        stamps.append(("long", ctx.run_id))
        if count(stamps, "long") == 1:
            given = {"actor": house.olga, "run_id": ctx.run_id, "reason": "stop"}
            more = {"checkpoint": 0} if verb == "rewind" else {}
            (person,) = at_once(lambda: getattr(operations, verb)(**given, **more))
            assert person.error is None, person.error
        try:
            ctx.call(lambda: stamps.append(("one", "")), name="one")
            ctx.call(lambda: stamps.append(("two", "")), name="two")
        except Exception:  # noqa: BLE001  # an author who catches everything
            stamps.append(("swallowed", ""))
        return {"x": "done"}

    workflows.register(workflow)
    run = house.submit("long")
    step = Step.objects.get(run=run)
    operations.advance(run_id=run.pk, branch=1, address=step.address)
    assert [name for name, _ in stamps] == ["long", "one"]
    assert OperationalNote.objects.get(run=run).kind == "late_result_discarded"
    house.work(run)
    assert run.status == ("cancelled" if verb == "cancel" else "completed")
    assert not any(name == "swallowed" for name, _ in stamps)
    assert history_is_whole(run)


def test_a_crash_after_the_approval_pays_once(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch, stamps: list[tuple[str, str]]
) -> None:
    """C62 (4)."""

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        action = ctx.approved("ask")
        return {"x": ctx.call(pay, kwargs=action.args, guarded_by=action)}

    def pay(amount: int) -> int:
        stamps.append(("pay", str(amount)))
        return amount

    pay_flow(define("pay"), body)
    run, approval = house.parked("pay", x=100)
    house.answer(approval, "approve")
    Fault(killed, write="commit", at=1, after=False).install(monkeypatch)
    with pytest.raises(Killed):
        house.work(run)
    monkeypatch.undo()
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 s' WHERE status = 'executing'")
    house.sweep()
    house.work(run)
    assert (run.status, stamps) == ("completed", [("pay", "100")])


def test_a_crash_while_parking_opens_one_approval(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay_flow(define("pay"))
    run = house.submit("pay", x=1)
    Fault(killed, write="commit", at=1, after=False).install(monkeypatch)
    with pytest.raises(Killed):
        house.work(run)
    monkeypatch.undo()
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 s' WHERE status = 'executing'")
    house.sweep()
    assert house.work(run).status == "waiting"
    assert open_approval(run).version == 1
    assert kinds_of(run).count("approval_opened") == 1


def test_a_lost_database_is_no_failure_of_the_node(
    house: House,
    define: Define,
    monkeypatch: pytest.MonkeyPatch,
    stamps: list[tuple[str, str]],
    settings: Any,
) -> None:
    """What cannot be written does not fail the run, even if the author catches everything and there are no retries."""
    settings.HITL_LEASE_SECONDS = 0.3
    charging(define, stamps)
    run = house.submit("money")
    real = stepping._run_fenced

    def away(name: str, parameters: dict[str, Any]) -> Any:
        if name == "commit_call":
            raise OperationalError("the database is away")
        return real(name, parameters)

    monkeypatch.setattr(stepping, "_run_fenced", away)
    with pytest.raises(OperationalError):
        house.work(run)
    monkeypatch.undo()
    settings.HITL_LEASE_SECONDS = 3
    run.refresh_from_db()
    assert (run.status, Step.objects.get(run=run, node="money").failures) == ("running", 0)
    house.sweep()
    assert house.work(run).status == "completed"
    assert len({key for what, key in stamps if what == "charge"}) == 1


def test_the_journal_keeps_what_the_driver_asked_for(house: House, define: Define) -> None:
    """The same explicit key twice is the same call; what the journal cannot hold is refused before the call is made."""
    made: list[int] = []

    def once() -> int:
        made.append(1)
        return len(made)

    workflow = define("keys")

    @workflow.node
    def keys(state: Any, ctx: Any) -> dict[str, Any]:
        return {"x": [ctx.call(once, key="a"), ctx.call(once, key="a"), ctx.call(once, key="b")]}

    @workflow.node
    def odd(state: Any, ctx: Any) -> dict[str, Any]:
        refused = []
        for options in (
            {"key": "k" * 101},
            {"key": ""},
            {"key": "a\0"},
            {"name": "n" * 201},
            {"effect": "some"},
        ):
            try:
                ctx.call(once, **options)
            except Exception as error:  # noqa: BLE001
                refused.append(getattr(error, "code", repr(error)))
        return {"log": refused}

    workflow.edge(keys, odd)
    workflows.register(workflow)
    run = house.work(house.submit("keys"))
    assert state_of(run) == {"x": [1, 1, 2], "log": ["invalid_call"] * 5}
    assert len(made) == 2
