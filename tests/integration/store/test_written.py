"""Rows that are written by prepared statements are the rows that the ORM would have written."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, models, transaction

from runs import store
from runs.models import Approval, AuditEntry, Run, User
from tests.integration.store.conftest import Define, House, pay_flow

EVERY_BYTE = bytes(range(256))
TEXTS = ["'", "\\", '"', "{a,b}", "NULL", "", "%(x)s", "100 %", "é 漢 \u202e 🦉", "a\nb"]


def as_stored(row: models.Model) -> dict[str, Any]:
    """What the database has of a row, by field; read by the ORM."""
    names = [one.attname for one in row._meta.concrete_fields]
    found = type(row)._base_manager.values(*names).get(pk=row.pk)
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in found.items()}


def test_hostile_values_come_back_as_they_were(house: House, define: Define) -> None:
    """Bytes above all: their text form has backslashes and quotes twice."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    run.head_hash = run.prev_hash = EVERY_BYTE
    run.labels = {text: text for text in TEXTS}
    run.error, run.paused = {"message": TEXTS, "n": 2**70, "f": 0.1}, None
    run.updated_at = store.now() + timedelta(microseconds=1)
    store.write(run, "head_hash", "prev_hash", "labels", "error", "paused", "updated_at")
    approval.teams, approval.title = TEXTS, "".join(TEXTS)
    approval.assignee, approval.assigned_until = house.frida.user, store.now()
    store.write(approval, "teams", "title", "assignee", "assigned_until")
    stored_run, stored_approval = as_stored(run), as_stored(approval)
    assert stored_run["head_hash"] == stored_run["prev_hash"] == EVERY_BYTE
    assert {name: stored_run[name] for name in ("labels", "error", "paused", "updated_at")} == {
        "labels": run.labels,
        "error": run.error,
        "paused": None,
        "updated_at": run.updated_at,
    }
    assert stored_approval["teams"] == TEXTS
    assert (stored_approval["title"], stored_approval["assignee_id"]) == ("".join(TEXTS), house.frida.user.pk)


def test_an_inserted_row_is_the_one_that_is_saved(house: House, define: Define) -> None:
    """And knows afterwards what the database gave it: numbers, defaults, generated columns."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    for model, row in ((Run, run), (Approval, approval)):
        told = {
            one.attname: getattr(row, one.attname)
            for one in model._meta.concrete_fields
            if not one.generated and one.attname not in ("id", "words", "created_at", "opened_at")
        }
        one, other = model(pk=uuid.uuid4(), **told), model(pk=uuid.uuid4(), **told)
        if isinstance(one, Approval) and isinstance(other, Approval):
            one.address, other.address = "one", "other"  # asked at two places
        store.insert(one)
        other.save(force_insert=True)
        left = {"id", "created_at", "opened_at", "address"}
        ours, djangos = as_stored(one), as_stored(other)
        assert {k: v for k, v in ours.items() if k not in left} == {
            k: v for k, v in djangos.items() if k not in left
        }
        given = [name for name in ("created_at", "opened_at") if hasattr(one, name)]
        assert [getattr(one, name) for name in given] == [ours[name] for name in given]
    entry = AuditEntry(project=house.project, verb="told", outcome="done", target="'\\")
    store.insert(entry)
    assert AuditEntry.objects.get(pk=entry.pk).target == "'\\"
    assert entry.at is not None


def test_what_contradicts_is_refused_as_the_orm_would(house: House) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        store.insert(User(username=house.frida.user.username))
