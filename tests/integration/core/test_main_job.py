"""The main job through operations, on real Postgres: submit, advance, park, decide, rewind, cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, store
from runs.engine import Workflow, chain
from runs.errors import (
    AlreadyDecided,
    AlreadyTerminal,
    NothingToRun,
    SelfApproval,
    StaleVersion,
    VersionRequired,
)
from runs.models import Approval, Branch, Checkpoint, Event, Run, Step, Vote
from tests.integration.core.conftest import House, open_approval, pay_flow

Define = Callable[..., Workflow]


def history_is_whole(run: Run) -> bool:
    run.refresh_from_db()
    return (
        chain.check(Event.objects.filter(run=run).order_by("seq"), head=bytes(run.head_hash), seq=run.seq)
        is None
    )


def state_at(run: Run, no: int) -> Any:
    return store.read_position(run.pk, no)["root"]["base"]


def test_a_run_parks_at_its_approval_and_goes_on_with_what_was_approved(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=100)
    assert run.status == "waiting"
    assert run.waiting_for[0]["who"] == ["finance"]
    decided = house.answer(approval, "approve")
    assert decided.run is not None
    assert decided.run.status == "queued"
    house.work(run)
    assert run.status == "completed"
    assert run.output == '{"log":["before",{"amount":100}],"x":100}'
    assert history_is_whole(run)
    kinds = list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))
    assert kinds == [
        "run_submitted", "step_completed", "approval_opened", "approval_decided", "step_completed", "run_completed",
    ]  # fmt: skip


def test_an_edit_runs_with_the_edited_arguments(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=100)
    house.answer(approval, "edit", args={"amount": 70})
    house.work(run)
    assert state_at(run, run.head)["log"][-1] == {"amount": 70}
    approval.refresh_from_db()
    assert (approval.version, approval.status, approval.outcome) == (2, "decided", "approve")


def test_a_reject_without_an_edge_fails_the_run_as_an_outcome(house: House, define: Define) -> None:
    """C61, the part of the decision: nothing behind the gate is booked as failed."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "reject", comment="no")
    run.refresh_from_db()
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["code"], run.error["step"], run.error["comment"]) == ("rejected", "ask", "no")
    assert not Step.objects.filter(run=run, node="after").exists()


def test_rewinding_to_before_an_approval_asks_again(house: House, define: Define) -> None:
    """C42: a fresh approval, the old decision stays in the history and cannot be used again."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="look again")
    house.work(run)
    fresh = open_approval(run)
    assert fresh.pk != approval.pk
    assert (run.status, run.epoch, run.branch) == ("waiting", 2, 2)
    with pytest.raises(AlreadyDecided):
        house.answer(approval, "approve", by=house.felix)
    house.answer(fresh, "edit", args={"amount": 2}, by=house.felix)
    house.work(run)
    assert state_at(run, run.head)["log"][-1] == {"amount": 2}
    assert history_is_whole(run)


def test_branches_parents_and_head_are_right_after_several_rewinds(house: House, define: Define) -> None:
    """C44."""
    flow = define("five")
    for name in "abcde":
        flow.node(name=name)(lambda state, ctx: {"log": [*state.log, ctx.node]})
    for source, target in zip("abcd", "bcde", strict=True):
        flow.edge(source, target)
    from runs import workflows

    workflows.register(flow)
    run = house.work(house.submit("five"))
    old = state_at(run, 5)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=2, reason="one")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=6, reason="two")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=2, reason="three", changes={"x": 9})
    house.work(run)
    parents = dict(Checkpoint.objects.filter(run=run).values_list("no", "parent"))
    assert {no: parents[no] for no in range(6, 13)} == {6: 2, 7: 6, 8: 7, 9: 6, 10: 9, 11: 2, 12: 11}
    assert run.head == max(parents)
    assert state_at(run, 5) == old
    assert state_at(run, run.head) == {"x": 9, "log": ["a", "b", "c", "d", "e"]}
    assert Branch.objects.filter(run=run).count() == 4
    assert history_is_whole(run)


def test_the_end_of_a_run_cannot_be_rewound_to(house: House, define: Define) -> None:
    """C47 (c), for a rewind: nothing is left to run there."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.work(run)
    with pytest.raises(NothingToRun):
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=run.head, reason="?")
    run.refresh_from_db()
    assert run.status == "completed"


def test_cancelling_closes_the_approval_and_is_repeatable(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    operations.cancel(actor=house.olga, run_id=run.pk, reason="enough")
    seq = operations.cancel(actor=house.olga, run_id=run.pk).seq
    run.refresh_from_db()
    approval.refresh_from_db()
    assert (run.status, run.seq, approval.status) == ("cancelled", seq, "cancelled")
    assert run.waiting_for == []
    done = house.work(house.submit("pay", x=1))
    house.answer(open_approval(done), "reject")
    with pytest.raises(AlreadyTerminal):
        operations.cancel(actor=house.olga, run_id=done.pk)


def test_editing_the_state_of_a_parked_run_asks_anew(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 5}, reason="typo"
    )
    house.work(run)
    fresh = open_approval(run)
    assert fresh.content["actions"][0]["args"] == {"amount": 5}
    approval.refresh_from_db()
    assert approval.status == "superseded"
    with pytest.raises(StaleVersion):
        operations.edit_state(actor=house.olga, run_id=run.pk, version=1, changes={"x": 6}, reason="late")


def test_the_requester_cannot_decide(house: House, define: Define) -> None:
    """C59, the operation that every path calls."""
    pay_flow(define("pay"))
    mia = house.frida
    run = operations.submit(actor=house.shop, workflow="pay", input={"x": 1}).run
    Run.objects.filter(pk=run.pk).update(requester=mia.user)
    house.work(run)
    approval = open_approval(run)
    for kind, args in (("approve", None), ("reject", None), ("edit", {"amount": 2})):
        with pytest.raises(SelfApproval):
            house.answer(approval, kind, args=args, by=mia)
    assert not Vote.objects.exists()


def test_an_answer_names_its_version_and_the_same_answer_is_answered_alike(
    house: House, define: Define
) -> None:
    """C57 and K12."""
    pay_flow(define("pay"))
    _, approval = house.parked("pay", x=7)
    with pytest.raises(VersionRequired):
        house.answer(approval, "approve", version=None)
    operations.revise(actor=house.felix, approval_id=approval.pk, version=1, args={"pay": {"amount": 10}})
    with pytest.raises(StaleVersion) as stale:
        house.answer(approval, "approve")
    assert stale.value.facts["version"] == 2
    assert stale.value.facts["base"]["actions"][0]["args"] == {"amount": 7}
    approval.refresh_from_db()
    assert house.answer(approval, "approve").replayed is False
    assert house.answer(approval, "approve").replayed is True
    with pytest.raises(AlreadyDecided) as lost:
        house.answer(approval, "reject", by=house.felix)
    assert lost.value.facts["winner"] == "frida"
    assert Vote.objects.count() == 1


@pytest.mark.parametrize("where", ["document", "digest"])
def test_a_byte_changed_between_view_and_decision_opens_a_new_request(
    house: House, define: Define, where: str
) -> None:
    """C62 5b and the promise that what you saw is what runs."""
    from runs.errors import PayloadChanged

    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=7)
    if where == "document":
        Approval.objects.filter(pk=approval.pk).update(
            document=approval.document.replace('"amount":7', '"amount":8')
        )
        with pytest.raises(PayloadChanged):
            house.answer(approval, "approve")
        house.work(run)
        assert open_approval(run).content["actions"][0]["args"] == {"amount": 7}
        assert open_approval(run).pk != approval.pk
    else:
        with pytest.raises(StaleVersion):
            house.answer(approval, "approve", digest="0" * 64)
    assert not Vote.objects.exists()


def test_a_byte_changed_between_decision_and_execution_asks_again(house: House, define: Define) -> None:
    """The worker compares what it would use with what the decisive vote recorded."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=7)
    house.answer(approval, "approve")
    row = Checkpoint.objects.get(run=run, kind="answer")
    column = "patch" if row.patch else "snapshot"
    changed = getattr(row, column).replace('"amount":7', '"amount":9')
    Checkpoint.objects.filter(run=run, no=row.no).update(**{column: changed})
    house.work(run)
    assert run.status == "waiting"
    fresh = open_approval(run)
    assert fresh.pk != approval.pk
    assert state_at(run, run.head)["log"] == ["before"]
    house.answer(fresh, "approve")
    house.work(run)
    assert run.status == "completed"


def test_quorum_takes_different_people_and_an_edit_voids_votes(house: House, define: Define) -> None:
    """K13."""
    pay_flow(define("two"), quorum=2)
    run, approval = house.parked("two", x=7)
    assert house.answer(approval, "approve").approval.status == "open"  # type: ignore[union-attr]
    assert house.answer(approval, "edit", args={"amount": 5}, by=house.felix).approval.status == "open"  # type: ignore[union-attr]
    approval.refresh_from_db()
    assert approval.version == 2
    assert house.answer(approval, "approve").approval.status == "decided"  # type: ignore[union-attr]
    house.work(run)
    assert state_at(run, run.head)["log"][-1] == {"amount": 5}


def test_time_over_rejects_by_the_system_and_a_late_answer_loses(house: House, define: Define) -> None:
    """C56's rule, without the race: after the deadline the answer is refused even if nobody has swept."""
    from runs.errors import TimedOut

    pay_flow(define("pay"), due=0.05)
    run, approval = house.parked("pay", x=7)
    approval.refresh_from_db()
    while store.now() <= approval.due_at:  # type: ignore[operator]
        pass
    with pytest.raises(TimedOut):
        house.answer(approval, "approve")
    with store.own_connection() as lock:
        swept = operations.sweep(lock)
    assert swept is not None
    assert swept.expired == 1
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["rejected_by"]) == ("failed", "approval_timeout", None)


def test_a_vote_that_an_edit_made_void_is_not_answered_as_if_it_counted(house: House, define: Define) -> None:
    """K12 and K13: the same answer again meets the newer version."""
    pay_flow(define("two"), quorum=2)
    _, approval = house.parked("two", x=7)
    house.answer(approval, "approve")
    house.answer(approval, "edit", args={"amount": 5}, by=house.felix)
    with pytest.raises(StaleVersion):
        house.answer(approval, "approve")
