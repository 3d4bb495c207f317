"""What the database itself refuses, whoever asks. A constraint of a model without a line here fails the last test."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction

from runs import operations, store, workflows
from runs.models import (
    Absence,
    Approval,
    Attempt,
    Branch,
    Checkpoint,
    Child,
    Content,
    Delivery,
    Event,
    IdempotencyRecord,
    JournalEntry,
    Member,
    Notice,
    Preference,
    Removed,
    RetentionPolicy,
    Run,
    RunTerm,
    SavedView,
    Signal,
    Slot,
    Snooze,
    Statistic,
    Step,
    Stop,
    Team,
    Vote,
    Wait,
    WorkflowVersion,
)
from runs.models.guards import CheckedWhenWritten
from runs.sql import statement
from tests.integration.core.conftest import person
from tests.integration.store.conftest import Define, House, pay_flow

REFUSED: dict[str, list[str]] = {
    "run_status_known": ["UPDATE runs_run SET status = 'done' WHERE status = 'waiting'"],
    "run_finished_iff_terminal": [
        "UPDATE runs_run SET finished_at = NULL WHERE status = 'completed'",
        "UPDATE runs_run SET finished_at = now() WHERE status = 'waiting'",
        "UPDATE runs_run SET status = 'cancelled' WHERE status = 'waiting'",
    ],
    "run_failed_has_error": [
        "UPDATE runs_run SET status = 'failed', error = NULL WHERE status = 'completed'"
    ],
    "run_head_exists": ["UPDATE runs_run SET head = checkpoint_no + 1"],
    "run_fork_has_checkpoint": [
        "UPDATE runs_run SET forked_from_id = id, forked_checkpoint = NULL WHERE status = 'completed'"
    ],
    "branch_calls_known": ["UPDATE runs_branch SET calls = 'perhaps'"],
    "branch_has_parent_but_first": [
        "UPDATE runs_branch SET parent_branch = NULL WHERE no = 2",
        "UPDATE runs_branch SET parent_branch = 1, parent_checkpoint = 1 WHERE no = 1",
    ],
    "checkpoint_kind_known": ["UPDATE runs_checkpoint SET kind = 'other'"],
    "checkpoint_patch_or_snapshot": [
        "UPDATE runs_checkpoint SET patch = '[]' WHERE snapshot IS NOT NULL",
        "UPDATE runs_checkpoint SET snapshot = NULL WHERE patch IS NULL",
        "UPDATE runs_checkpoint SET snapshot_no = no WHERE snapshot IS NULL",
        "UPDATE runs_checkpoint SET snapshot_no = no - 1 WHERE snapshot IS NOT NULL",
    ],
    "step_status_known": ["UPDATE runs_step SET status = 'done' WHERE status = 'waiting'"],
    "step_token_iff_executing": [
        "UPDATE runs_step SET token = gen_random_uuid() WHERE status = 'waiting'",
        "UPDATE runs_step SET status = 'executing' WHERE status = 'waiting'",
        "UPDATE runs_step SET status = 'executing', token = gen_random_uuid(), worker = 1 WHERE status = 'waiting'",
    ],
    "journal_effect_known": ["UPDATE runs_journalentry SET effect = 'some'"],
    "journal_kind_known": ["UPDATE runs_journalentry SET kind = 'other'"],
    "child_policy_known": ["UPDATE runs_child SET on_parent_cancel = 'perhaps'"],
    "wait_kind_known": ["UPDATE runs_wait SET kind = 'other'"],
    "approval_status_known": ["UPDATE runs_approval SET status = 'done', closed_at = now()"],
    "approval_closed_iff_not_open": [
        "UPDATE runs_approval SET closed_at = now() WHERE status = 'open'",
        "UPDATE runs_approval SET closed_at = NULL WHERE status = 'decided'",
        "UPDATE runs_approval SET status = 'open' WHERE status = 'decided'",
    ],
    "member_roles_known": [
        "UPDATE runs_member SET roles = '{king}'",
        "UPDATE runs_member SET roles = '{}'",
    ],
    "run_erased_is_told": [
        "UPDATE runs_run SET erased_at = now() WHERE status = 'completed'",
        "UPDATE runs_run SET erasure = '{}' WHERE status = 'completed'",
        "UPDATE runs_run SET erased_at = now(), erasure = '{}' WHERE status = 'waiting'",
    ],
    "retention_days_known": ["UPDATE runs_retentionpolicy SET completed_days = -1"],
    "retention_audit_by_project": ["UPDATE runs_retentionpolicy SET workflow = 'pay', audit_days = 1"],
    "removed_kind_known": ["UPDATE runs_removed SET kind = 'other'"],
    "endpoint_wants_something": ["UPDATE runs_endpoint SET events = '{}'"],
    "endpoint_earlier_secret_ends": ["UPDATE runs_endpoint SET earlier_until = now()"],
    "delivery_status_known": ["UPDATE runs_delivery SET status = 'lost', ended_at = now()"],
    "delivery_goes_one_way": [
        "UPDATE runs_delivery SET user_id = NULL WHERE endpoint_id IS NULL",
        "UPDATE runs_delivery SET user_id = (SELECT min(id) FROM runs_user) WHERE endpoint_id IS NOT NULL",
    ],
    "delivery_ended_iff_not_pending": [
        "UPDATE runs_delivery SET status = 'dead'",
        "UPDATE runs_delivery SET ended_at = now()",
        "UPDATE runs_delivery SET status = 'dead', ended_at = now(), token = gen_random_uuid()",
    ],
    "view_page_known": ["UPDATE runs_savedview SET page = 'elsewhere'"],
    "term_kind_known": ["UPDATE runs_runterm SET kind = 'word'"],
    "preference_hour_of_a_day": ["UPDATE runs_preference SET hour = 24"],
    "preference_topics_known": ["UPDATE runs_preference SET app = '{gossip}'"],
    "token_scopes_known": ["UPDATE runs_apitoken SET scopes = '{everything}'"],
    "project_limit_is_positive": ["UPDATE runs_project SET max_concurrent_runs = 0"],
    "invitation_roles_known": [
        "UPDATE runs_invitation SET roles = '{king}'",
        "UPDATE runs_invitation SET roles = '{}'",
    ],
    "invitation_used_or_withdrawn": ["UPDATE runs_invitation SET used_at = now(), withdrawn_at = now()"],
    "run_paused_is_told": [
        "UPDATE runs_run SET status = 'paused' WHERE status = 'waiting'",
        "UPDATE runs_run SET paused = '{}' WHERE status = 'waiting'",
    ],
    "run_ending_is_live": [
        "UPDATE runs_run SET ending = '{}' WHERE status = 'waiting'",
        "UPDATE runs_run SET status = 'cancelling' WHERE status = 'waiting'",
    ],
    "run_at_work_is_admitted": [
        "UPDATE runs_run SET status = 'running', admitted_at = NULL WHERE status = 'waiting'"
    ],
    "run_at_rest_stands_in_line": [
        "UPDATE runs_run SET limited = true, admitted_at = now() WHERE status = 'waiting'"
    ],
    "run_priority_in_bounds": ["UPDATE runs_run SET priority = 101", "UPDATE runs_run SET priority = -101"],
    "slot_limit_is_positive": ["UPDATE runs_slot SET most = 0"],
    "approval_assigned_until": [
        "UPDATE runs_approval SET assignee_id = (SELECT min(id) FROM runs_user), assigned_until = NULL"
    ],
    "absence_ends_after": ["UPDATE runs_absence SET ends_at = starts_at"],
    "absence_somebody_else": ["UPDATE runs_absence SET substitute_id = user_id"],
    "statistic_grain_known": ["UPDATE runs_statistic SET grain = 'week'"],
    "statistic_kind_known": ["UPDATE runs_statistic SET kind = 'other'"],
    "counted_once": ["INSERT INTO runs_counted VALUES (2, now())"],
}
TWICE: dict[str, Callable[[], models.Model]] = {
    "wait_open_once": lambda: Wait.objects.filter(closed_at=None)[0],
    "approval_open_once": lambda: Approval.objects.filter(status="open")[0],
    "vote_once_a_version": lambda: Vote.objects.filter(decisive=False)[0],
    "vote_once_in_somebodys_place": lambda: _by_another(Vote.objects.exclude(in_place_of=None)[0]),
    "slot_once": lambda: Slot.objects.all()[0],
    "snooze_once_a_person": lambda: Snooze.objects.all()[0],
    "vote_one_decides": lambda: _by_another(Vote.objects.filter(decisive=True)[0]),
    "signal_id_once": lambda: _renumbered(Signal.objects.all()[0]),
    "signal_number_once": lambda: _renamed(Signal.objects.all()[0]),
    "member_once": lambda: Member.objects.all()[0],
    "team_once": lambda: Team.objects.all()[0],
    "idempotency_key_once": lambda: IdempotencyRecord.objects.all()[0],
    "retention_once": lambda: RetentionPolicy.objects.all()[0],
    "workflow_version_once": lambda: WorkflowVersion.objects.all()[0],
    "delivery_once_there": lambda: Delivery.objects.filter(user=None)[0],
    "delivery_once_a_person": lambda: Delivery.objects.filter(endpoint=None)[0],
    "attempt_once": lambda: Attempt.objects.all()[0],
    "notice_once": lambda: Notice.objects.all()[0],
    "statistic_once": lambda: Statistic.objects.all()[0],
    "preference_once": lambda: Preference.objects.exclude(user=None)[0],
    "preference_once_a_project": lambda: Preference.objects.filter(user=None)[0],
    "view_name_once": lambda: SavedView.objects.all()[0],
    "term_once": lambda: RunTerm.objects.all()[0],
    "content_once": lambda: Content.objects.all()[0],
    "runs_event_pkey": lambda: Event.objects.all()[0],
    "runs_checkpoint_pkey": lambda: Checkpoint.objects.all()[0],
    "runs_step_pkey": lambda: Step.objects.all()[0],
    "runs_branch_pkey": lambda: Branch.objects.all()[0],
    "runs_journalentry_pkey": lambda: JournalEntry.objects.all()[0],
}


def _by_another(vote: Vote) -> Vote:
    """Another person's vote, decisive as well."""
    vote.user = Member.objects.exclude(user__votes__approval=vote.approval)[0].user
    return vote


def _renumbered(signal: Signal) -> Signal:
    signal.no += 1
    return signal


def _renamed(signal: Signal) -> Signal:
    signal.sent_id += "'"
    return signal


@pytest.fixture
def lived(house: House, define: Define) -> None:
    """A completed run with two branches and a call, one that waits for its second vote, with a signal, and one with a child."""
    pay_flow(define("pay"), lambda state, ctx: {"x": ctx.call(int)}, quorum=2)
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.answer(approval, "approve", by=house.felix)
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=2, reason="again")
    assert house.work(run).status == "completed"
    other, open_one = house.parked("pay", x=2)
    house.answer(open_one, "approve")
    operations.signal(actor=house.olga, run_id=other.pk, name="hello", signal_id="1")
    outer = define("outer")
    outer.node(name="only")(lambda state, ctx: ctx.run_child("pay", {"x": 4}))
    workflows.register(outer)
    house.work(house.submit("outer"))
    given = operations.Idempotency("runs", "k", "f")
    operations.submit(actor=house.shop, workflow="pay", input={"x": 3}, idempotency=given)
    RetentionPolicy.objects.create(project=house.project, completed_days=30)
    Removed.objects.create(
        id=uuid.uuid4(),
        kind="run",
        run=uuid.uuid4(),
        workflow="pay",
        status="completed",
        finished_at=store.now(),
        removed_at=store.now(),
        seq=1,
        head_hash=b"",
        project=house.project,
    )
    ada = person(house.project, "ada", "admin")
    operations.create_token(actor=ada, user=house.shop.user, name="t", scopes=["runs:read"])
    endpoint, _ = operations.create_endpoint(
        actor=ada, url="https://93.184.216.34/hooks", events=["run.completed"]
    )
    sent = operations.test_endpoint(actor=ada, endpoint_id=endpoint.pk)
    Delivery.objects.create(project=house.project, message=sent.message, user=ada.user)
    Attempt.objects.create(delivery=sent, no=1, at=store.now(), seconds=0.1, outcome="refused")
    operations.set_preference(actor=ada, app=[], mail=[], digest=False)
    Preference.objects.create(project=house.project)
    operations.save_view(actor=house.frida, page="inbox", name="mine", query={"risk": "high"})
    RunTerm.objects.create(run=run, project=house.project, kind="label", name="order", value="1")
    Content.objects.create(project=house.project, digest="d", size=1, stored=True)
    operations.invite(actor=ada, roles=["viewer"], link=str)
    Slot.objects.create(run=other, project=house.project, workflow="pay", name="x", key="", most=1)
    Snooze.objects.create(approval=open_one, user=house.felix.user, until=store.now())
    Absence.objects.create(
        project=house.project,
        user=house.frida.user,
        substitute=house.felix.user,
        starts_at=store.now(),
        ends_at=store.now() + timedelta(days=1),
    )
    Vote.objects.filter(approval=open_one).update(in_place_of=house.felix.user)
    told = {"grain": "day", "kind": "begun", "workflow": "pay", "name": "", "count": 1}
    Statistic.objects.create(project=house.project, at=store.now(), **told)


def test_rows_that_contradict_themselves_are_refused(lived: None) -> None:
    for name, statements in REFUSED.items():
        for sql in statements:
            with (
                pytest.raises(IntegrityError, match=name),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(sql)


def test_what_may_be_there_once_is_there_once(lived: None) -> None:
    for name, find in TWICE.items():
        row = find()
        row.refresh_from_db(fields=list(row.get_deferred_fields()))
        if isinstance(row._meta.pk, models.UUIDField):
            row.pk = uuid.uuid4()
        elif isinstance(row._meta.pk, models.AutoField):
            row.pk = None
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            row.save(force_insert=True)


def test_a_run_of_which_something_is_told_is_there(lived: None) -> None:
    """Foreign keys: nothing hangs in the air once a transaction has ended."""
    for model in (Branch, Checkpoint, Event, Step, JournalEntry, Wait, Approval, Signal, Child, Stop):
        table = model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass "
                "AND confrelid = 'runs_run'::regclass",
                [table],
            )
            assert cursor.fetchone() == (2 if model in (Wait, Child) else 1,), table


def test_every_constraint_is_tried() -> None:
    told = {*REFUSED, *TWICE}
    declared = {
        constraint.name
        for model in apps.get_app_config("runs").get_models()
        for constraint in model._meta.constraints
    }
    assert declared - told == set()


def test_a_steps_commit_writes_nothing_that_is_checked_when_it_is_written() -> None:
    """Otherwise it would pay for checks that look at a status which it leaves alone."""
    changes = statement("commit_step").partition("UPDATE runs_run SET")[2].partition("WHERE")[0]
    written = set(re.findall(r"^ +(\w+) =", changes, re.MULTILINE))
    assert "head_hash" in written
    checks = [check for check in Run._meta.constraints if isinstance(check, CheckedWhenWritten)]
    assert len(checks) == 10
    conditions = [check.condition for check in checks if isinstance(check.condition, models.Q)]
    assert not written & {name for condition in conditions for name in condition.referenced_base_fields}
