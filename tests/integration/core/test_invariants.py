"""What must hold and does not, each made by hand in SQL: found, named, and put right by what is named."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from runs import errors, invariants, operations
from runs.engine import Workflow, canonical
from runs.invariants import Look
from runs.models import Approval, AuditEntry, Message, Notice, OperationalNote, Preference, Run, Step, Wait
from tests.integration.core.conftest import House, by_sql, define, house, make_house, open_approval, pay_flow

__all__ = ["define", "house"]

Define = Callable[..., Workflow]
ENDED = "UPDATE runs_run SET status = 'cancelled', finished_at = now(), waiting_for = '[]' WHERE id = %s"
DAMAGES = {
    "UPDATE runs_wait SET closed_at = now() WHERE run_id = %s": {"waits", "heard"},
    "DELETE FROM runs_step WHERE run_id = %s": {"works"},
    "UPDATE runs_approval SET status = 'cancelled', closed_at = now() WHERE run_id = %s": {"asked"},
    ENDED: {"ended"},
    "DELETE FROM runs_message WHERE run_id = %s": {"told"},
}


@pytest.fixture
def flow(define: Define) -> Workflow:
    def pay(state: Any, ctx: Any) -> dict[str, Any]:
        action = ctx.approved("ask")
        ctx.call(dict, kwargs=action.args, guarded_by=action, effect="irreversible", name="pay")
        return {}

    return pay_flow(define("pay"), pay)


def broken(house: House) -> set[str]:
    return {found.rule.key for found in invariants.violations(Look(house.project.pk))}


def old(run: Run) -> None:
    """Of what was just opened nobody need have been told."""
    by_sql("UPDATE runs_approval SET opened_at = opened_at - interval '1 minute' WHERE run_id = %s", run.pk)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_hold_is_found(house: House, flow: Workflow, damage: str) -> None:
    run, _ = house.parked("pay", x=1)
    other, _ = house.parked("pay", x=2)
    old(run)
    old(other)
    if "message" in damage:
        by_sql("DELETE FROM runs_notice WHERE run_id = %s", run.pk)
        by_sql(
            "DELETE FROM runs_delivery USING runs_message m WHERE m.id = message_id AND m.run_id = %s", run.pk
        )
    assert broken(house) == set()
    by_sql(damage, run.pk)
    found = invariants.violations(Look(house.project.pk))
    assert {one.rule.key for one in found} == DAMAGES[damage]
    assert {one.run for one in found} == {run}
    assert {one.rule.key for one in invariants.violations(Look(limit=None))} == DAMAGES[damage]


def test_a_guarded_call_without_a_decision_is_found(house: House, flow: Workflow) -> None:
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.work(run)
    assert (run.status, broken(house)) == ("completed", set())
    by_sql("UPDATE runs_approval SET outcome = 'reject' WHERE id = %s", approval.pk)
    assert broken(house) == {"decided"}
    by_sql(
        "UPDATE runs_approval SET outcome = 'approve', closed_at = now() + interval '1 h' WHERE id = %s",
        approval.pk,
    )
    assert broken(house) == {"decided"}


def test_an_approval_in_another_project_is_found_and_put_back(house: House, flow: Workflow) -> None:
    _, approval = house.parked("pay", x=1)
    other = make_house("other")
    by_sql("UPDATE runs_approval SET project_id = %s WHERE id = %s", other.project.pk, approval.pk)
    assert broken(house) == {"placed"}
    operations.repair(actor=house.olga, rule="placed", target=approval.pk, reason="it was moved by hand")
    assert broken(house) == set()
    assert Approval.objects.get(pk=approval.pk).project_id == house.project.pk


@pytest.mark.parametrize("damage", [damage for damage, keys in DAMAGES.items() if keys & {"waits", "asked"}])
def test_a_rewind_to_the_head_makes_anew_what_is_to_do(house: House, flow: Workflow, damage: str) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql(damage, run.pk)
    assert all(found.rule.by == "rewind" for found in invariants.violations(Look(house.project.pk)))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=run.head, reason="asks for nothing")
    house.work(run)
    assert broken(house) == set()


def test_what_an_ended_run_owns_is_closed(house: House, flow: Workflow) -> None:
    run, approval = house.parked("pay", x=1)
    by_sql(ENDED, run.pk)
    operations.repair(actor=house.olga, rule="ended", target=run.pk, reason="left over")
    assert broken(house) == set()
    approval.refresh_from_db()
    assert (approval.status, approval.closed_reason) == ("cancelled", "run_ended")
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    assert not Step.objects.filter(run=run, status__in=["ready", "executing", "waiting"]).exists()
    note = OperationalNote.objects.get(run=run, kind="repaired")
    assert (note.facts["rule"], note.facts["reason"], note.facts["approvals"]) == ("ended", "left over", 1)
    audit = AuditEntry.objects.get(verb="repair_ended")
    assert (audit.outcome, audit.reason, audit.user_name) == ("done", "left over", "olga")


def test_people_who_were_not_told_are_told(house: House, flow: Workflow) -> None:
    run, approval = house.parked("pay", x=1)
    Message.objects.all().delete()
    old(run)
    assert broken(house) == {"told"}
    operations.repair(actor=house.olga, rule="told", target=approval.pk, reason="nobody heard")
    assert broken(house) == set()
    assert set(Notice.objects.values_list("user__username", flat=True)) == {"frida", "felix"}


def test_who_wants_to_hear_what_the_project_does_not_tell_was_forgotten(house: House, flow: Workflow) -> None:
    Preference.objects.create(project=house.project, user=None)
    run, _ = house.parked("pay", x=1)
    old(run)
    assert (Message.objects.exists(), broken(house)) == (False, set())
    operations.set_preference(actor=house.frida, app=["asked"], mail=[], digest=False)
    assert broken(house) == {"told"}


def test_who_wants_to_hear_nothing_was_not_forgotten(house: House, flow: Workflow) -> None:
    for actor in (house.frida, house.felix):
        operations.set_preference(actor=actor, app=[], mail=[], digest=False)
    run, _ = house.parked("pay", x=1)
    old(run)
    assert not Message.objects.exists()
    assert broken(house) == set()


def test_what_holds_is_not_repaired(house: House, flow: Workflow) -> None:
    run, approval = house.parked("pay", x=1)
    for rule, target in (("ended", run.pk), ("placed", approval.pk), ("told", approval.pk)):
        with pytest.raises(errors.NothingToRepair):
            operations.repair(actor=house.olga, rule=rule, target=target, reason="to be sure")
    assert open_approval(run) == approval


def test_only_operators_of_the_project_repair_and_only_with_a_reason(house: House, flow: Workflow) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql(ENDED, run.pk)
    with pytest.raises(errors.Forbidden):
        operations.repair(actor=house.frida, rule="ended", target=run.pk, reason="x")
    with pytest.raises(errors.NotFound):
        operations.repair(actor=make_house("other").olga, rule="ended", target=run.pk, reason="x")
    with pytest.raises(errors.ReasonRequired):
        operations.repair(actor=house.olga, rule="ended", target=run.pk, reason=" ")
    with pytest.raises(errors.BadRequest):
        operations.repair(actor=house.olga, rule="decided", target=run.pk, reason="x")
    for rule, target in (("nothing", run.pk), ("told", uuid.uuid4()), ("ended", uuid.uuid4())):
        with pytest.raises(errors.NotFound):
            operations.repair(actor=house.olga, rule=rule, target=target, reason="x")
    assert broken(house) == {"ended"}


def test_badge_list_and_rights_agree_for_everybody(house: House, flow: Workflow) -> None:
    house.parked("pay", x=1)
    _, later = house.parked("pay", x=2)
    house.answer(later, "reject")
    for actor in (house.frida, house.felix, house.olga, house.vera):
        inbox = invariants.inbox_of(actor)
        assert inbox.agrees, (actor.user, inbox)


def check(*options: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("check_invariants", *options, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_a_scheduler_is_told_by_the_exit_status(house: House, flow: Workflow) -> None:
    run, _ = house.parked("pay", x=1)
    assert check() == (0, f"{len(invariants.RULES) + 1} rules hold.\n")
    by_sql(ENDED, run.pk)
    status, said = check()
    assert status == 1
    assert str(run.pk) in said
    status, told = check("--json", "--project", "demo")
    assert (status, canonical.loads(told)["violations"][0]["rule"]) == (1, "ended")
    make_house("other")
    assert check("--project", "other")[0] == 0
