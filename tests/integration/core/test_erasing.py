"""Privacy erase: nothing of what a run said is left, its history holds, and everything still answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, models

from runs import keeping, operations, queries
from runs.engine import Workflow
from runs.errors import Erased, Forbidden, NotFound, OnHold, ReasonRequired, RunNotEnded, StaleVersion
from runs.models import Approval, AuditEntry, Event, JournalEntry, Run
from tests.integration.core.conftest import House, history_is_whole, kinds_of, make_house, pay_flow

Define = Callable[..., Workflow]
SECRET = "anna@example.org"


@pytest.fixture
def told(house: House, define: Define) -> Run:
    """A run that has the secret wherever one can be: input, state, calls, errors, approvals, edits, votes, reasons."""
    tries = {"n": 0}

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.call(write_mail, SECRET, effect="irreversible", key=SECRET)
        ctx.call(look_up, SECRET)
        tries["n"] += 1
        if tries["n"] == 1:
            raise ValueError(f"no such person: {SECRET}")
        return {"log": [*state.log, SECRET]}

    pay_flow(define("pay"), body)
    submitted = operations.submit(
        actor=house.shop, workflow="pay", input={"x": SECRET}, labels={"who": SECRET}
    ).run
    run = house.work(submitted)
    approval = Approval.objects.get(run=run)
    operations.revise(
        actor=house.frida,
        approval_id=approval.pk,
        version=1,
        args={"pay": {"amount": f"2 for {SECRET}"}},
        comment=f"revised for {SECRET}",
    )
    approval.refresh_from_db()
    house.answer(approval, "approve", comment=f"fine for {SECRET}")
    house.work(run)
    assert run.status == "failed"
    made = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=1).made
    operations.rewind(
        actor=house.olga,
        run_id=run.pk,
        checkpoint=1,
        reason=f"again for {SECRET}",
        changes={"log": [SECRET, "edited"]},
        exceptions=[call.place for call in made if call.occurrence == SECRET],
    )
    operations.label_branch(actor=house.olga, run_id=run.pk, branch=2, label=f"for {SECRET}")
    house.work(run)
    assert run.status == "waiting"
    return run


def write_mail(to: str) -> dict[str, str]:
    return {"to": to}


def look_up(who: str) -> str:
    return f"found {who}"


def places_of(secret: str) -> list[str]:
    """Every table that has the text in any of its columns."""
    found = []
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_stat_user_tables")
        for (table,) in cursor.fetchall():
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s", [f"%{secret}%"])
            if cursor.fetchone()[0]:
                found.append(table)
    return sorted(found)


def erased(house: House, run: Run) -> Run:
    return operations.erase(actor=house.olga, run_id=run.pk, reason="asked by the person")


def test_nothing_that_a_run_said_is_left_and_its_history_holds(house: House, told: Run) -> None:
    assert places_of(SECRET) == [
        "runs_approval",
        "runs_branch",
        "runs_checkpoint",
        "runs_event",
        "runs_journalentry",
        "runs_message",
        "runs_revision",
        "runs_run",
        "runs_runterm",
        "runs_step",
        "runs_vote",
    ]
    operations.cancel(actor=house.olga, run_id=told.pk, reason=f"enough of {SECRET}")
    before = kinds_of(told)
    run = erased(house, told)
    assert places_of(SECRET) == []
    assert kinds_of(run) == before
    assert history_is_whole(run)
    assert not Event.objects.filter(run=run).exclude(payload=None, salt=None).exists()
    call_command("verify_history", str(run.pk), verbosity=0)
    assert run.erased_at is not None
    assert run.erasure == {"by": house.olga.as_dict(), "reason": "asked by the person"}
    entry = AuditEntry.objects.get(verb="erase")
    assert (entry.target, entry.outcome, entry.reason) == (str(run.pk), "done", "asked by the person")


def test_the_ledger_still_says_what_was_done_to_the_world(house: House, told: Run) -> None:
    operations.cancel(actor=house.olga, run_id=told.pk)
    before = {entry.call_key for entry in JournalEntry.objects.filter(effect="irreversible")}
    erased(house, told)
    left = list(JournalEntry.objects.filter(run=told))
    assert {entry.call_key for entry in left} == before
    assert {(entry.name, entry.result, entry.args_digest) for entry in left} == {("write_mail", "null", "")}


def test_every_verb_on_an_erased_run_says_that_it_was_erased(house: House, told: Run) -> None:
    operations.cancel(actor=house.olga, run_id=told.pk)
    approval = Approval.objects.filter(run=told).first()
    run = erased(house, told)
    for verb in (
        lambda: operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="r"),
        lambda: operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=1),
        lambda: queries.checkpoint(run, 0),
        lambda: queries.head(run),
    ):
        with pytest.raises(Erased):
            verb()
    assert approval is not None
    approval.refresh_from_db()
    assert approval.is_intact
    assert approval.content["actions"] == []
    again = erased(house, run)
    assert again.erased_at == run.erased_at


def test_only_what_has_ended_and_is_not_held_is_erased_by_who_may(house: House, told: Run) -> None:
    with pytest.raises(RunNotEnded):
        erased(house, told)
    operations.cancel(actor=house.olga, run_id=told.pk)
    operations.hold(actor=house.olga, run_id=told.pk, reason="a lawsuit")
    with pytest.raises(OnHold) as held:
        erased(house, told)
    assert held.value.facts["reason"] == "a lawsuit"
    operations.release(actor=house.olga, run_id=told.pk, reason="settled")
    with pytest.raises(Forbidden):
        operations.erase(actor=house.frida, run_id=told.pk, reason="r")
    with pytest.raises(NotFound):
        operations.erase(actor=make_house("other").olga, run_id=told.pk, reason="r")
    with pytest.raises(ReasonRequired):
        operations.erase(actor=house.olga, run_id=told.pk, reason=" ")
    with pytest.raises(StaleVersion):
        operations.erase(actor=house.olga, run_id=told.pk, reason="r", version=1)
    assert SECRET in Run.objects.get(pk=told.pk).input
    verbs = AuditEntry.objects.filter(verb__in=["hold", "release"]).order_by("id")
    assert [(entry.verb, entry.reason) for entry in verbs] == [("hold", "a lawsuit"), ("release", "settled")]


def test_an_erased_run_is_removed_in_its_time_and_never_compacted(house: House, told: Run) -> None:
    operations.cancel(actor=house.olga, run_id=told.pk)
    erased(house, told)
    Run.objects.filter(pk=told.pk).update(finished_at="2001-01-01T00:00:00Z")
    assert not keeping.to_compact().exists()
    assert operations.keep_house().runs == 1


# Columns of text that hold names and ids of ours, never what an author or a person wrote.
PLAIN = {
    "Approval": {
        "address",
        "node",
        "name",
        "status",
        "risk",
        "teams",
        "users",
        "options",
        "outcome",
        "closed_reason",
    },
    "Attempt": {"outcome"},
    "Branch": {"calls", "author", "draws"},
    "Child": {"address", "name", "on_parent_cancel"},
    "Checkpoint": {"kind", "node", "address", "author"},
    "Delivery": {"status", "reason"},
    "Event": {"kind", "node", "address", "actor", "payload_hash", "hash"},
    "IdempotencyRecord": {"endpoint", "key", "fingerprint"},
    "JournalEntry": {"kind"},
    "Message": {"type"},
    "Notice": {"topic"},
    "Migrated": {"from_version", "to_version"},
    "Revision": set(),
    "Signal": {"name", "sender"},
    "Step": {"address", "lane", "node", "status", "overdue"},
    "Stop": {"reason"},
    "Usage": {"address", "node", "call", "model", "currency"},
    "Vote": {"outcome", "method", "ip"},
    "Wait": {"address", "node", "kind", "name", "label"},
}
BY_HAND = {
    "JournalEntry": {
        "address",
        "name",
        "occurrence",
        "node",
        "args_digest",
        "result",
        "effect",
        "call_key",
        "arguments",
        "undo",
    },
    "Step": {"error", "undoes"},
}
TEXTUAL = (models.CharField, models.TextField, models.JSONField, models.BinaryField)


@pytest.mark.parametrize("table", [table for table, _ in keeping.owned()])
def test_every_column_of_text_is_erased_or_known_to_be_plain(table: str) -> None:
    """A column that somebody adds later is either content, and goes, or is named above."""
    from django.apps import apps

    model = next(one for one in apps.get_models() if one._meta.db_table == table)
    if model in keeping.DROPPED:
        return
    textual = {
        field.name
        for field in model._meta.concrete_fields
        if isinstance(field, TEXTUAL) or field.get_internal_type() == "ArrayField"
    }
    name = model.__name__
    known = set(keeping.CONTENT.get(model, {})) | PLAIN.get(name, set()) | BY_HAND.get(name, set())
    assert textual <= known, f"{name}: {sorted(textual - known)}"
