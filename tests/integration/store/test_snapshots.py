"""A checkpoint stores what changed: reading gives what was there, and the bytes grow with what was written."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from pydantic import BaseModel

from runs import operations, store, workflows
from runs.engine import Workflow, append, canonical
from runs.errors import CheckpointUnreadable
from runs.models import Checkpoint, Run
from tests.integration.store.conftest import Define, House
from tests.sizes import size

STEPS = size("history events")
ITEM = "x" * 100


class Log(BaseModel):
    wanted: int
    title: str = "ä" * 50
    log: Annotated[list[str], append] = []


def growing(define: Define) -> Workflow:
    """Appends one item a step, until there are enough."""
    workflow = define("growing", state=Log, max_steps=STEPS + 10)
    workflow.node(name="add", loop_limit=STEPS + 10)(
        lambda state, ctx: {"log": [f"{len(state.log)} é {ITEM}"]}
    )
    workflow.node(name="last")(lambda state, ctx: None)
    workflow.choose(
        "add", lambda state: "last" if len(state.log) >= state.wanted else "add", to=["add", "last"]
    )
    workflows.register(workflow)
    return workflow


def state_at(run: Run, no: int) -> Any:
    return store.read_position(run.pk, no)["root"]["base"]


def expected(items: int) -> list[str]:
    return [f"{number} é {ITEM}" for number in range(items)]


def test_every_checkpoint_of_a_growing_run_is_what_it_was(house: House, define: Define) -> None:
    """C100, the part that is arithmetic."""
    growing(define)
    run = house.work(house.submit("growing", wanted=STEPS))
    assert run.status == "completed"
    for no in {0, 1, 2, *range(0, STEPS, 7), STEPS - 1, STEPS}:
        assert state_at(run, no)["log"] == expected(no), no
    assert state_at(run, run.head)["log"] == expected(STEPS)
    assert run.output is not None
    assert json.loads(run.output)["log"] == expected(STEPS)


def test_its_bytes_are_linear_in_what_was_written(house: House, define: Define) -> None:
    growing(define)
    run = house.work(house.submit("growing", wanted=STEPS))
    written = stored(run, 0, run.head)
    document = len(canonical.dumps(store.read_position(run.pk, STEPS)).encode())
    assert written < 4 * STEPS * (len(ITEM) + 256) + 4 * document
    first, last = stored(run, 1, STEPS // 3), stored(run, 2 * STEPS // 3, STEPS)
    assert last < 2 * first + document


def test_reading_any_checkpoint_reads_at_most_about_two_documents(house: House, define: Define) -> None:
    growing(define)
    run = house.work(house.submit("growing", wanted=STEPS))
    for no in range(1, STEPS, 13):
        start = Checkpoint.objects.get(run=run, no=no).snapshot_no
        document = len(canonical.dumps(store.read_position(run.pk, no)).encode())
        assert stored(run, start, no) <= 2.2 * document + 1_000, no


def test_the_weights_on_the_run_are_the_bytes_of_the_rows(house: House, define: Define) -> None:
    """Kept in memory by the worker and by SQL in the row: both count bytes, not characters."""
    growing(define)
    run = house.work(house.submit("growing", wanted=STEPS // 3))
    since = Checkpoint.objects.filter(run=run, no__gt=run.snapshot_no)
    assert run.patch_weight == sum(len((row.patch or "").encode()) + 256 for row in since)
    last = Checkpoint.objects.get(run=run, no=run.snapshot_no)
    assert run.snapshot_size == len((last.snapshot or "").encode())
    assert list(since.exclude(patch=None)) == list(since)


def test_a_branch_is_read_without_its_parents_rows(house: House, define: Define) -> None:
    """The first checkpoint of a branch is a snapshot: a read is one range of one branch."""
    growing(define)
    run = house.work(house.submit("growing", wanted=30))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=17, reason="again")
    house.work(run)
    first = Checkpoint.objects.filter(run=run, branch=2).order_by("no").first()
    assert first is not None
    assert (first.parent, first.snapshot_no, first.snapshot is not None) == (17, first.no, True)
    with CaptureQueriesContext(connection) as queries:
        there = state_at(run, run.head)["log"]
    assert there == expected(30)
    assert len(queries) == 1
    Checkpoint.objects.filter(run=run, branch=1).update(snapshot="gone", patch=None, snapshot_no=F("no"))
    assert state_at(run, run.head)["log"] == expected(30)


def test_a_patch_is_never_applied_to_another_document_than_its_parent(house: House, define: Define) -> None:
    growing(define)
    run = house.work(house.submit("growing", wanted=30))
    lost = Checkpoint.objects.filter(run=run, no__gt=2, snapshot=None).order_by("no")[0].no
    last = Checkpoint.objects.filter(run=run, no__gt=lost).exclude(snapshot=None).order_by("no")[0].no - 1
    Checkpoint.objects.filter(run=run, no=lost).delete()
    for no in range(lost + 1, last + 1):
        with pytest.raises(CheckpointUnreadable):
            state_at(run, no)
    assert state_at(run, lost - 1)["log"] == expected(lost - 1)
    assert state_at(run, last + 1)["log"] == expected(last + 1)


def test_an_edit_on_the_way_back_is_the_first_of_its_branch(house: House, define: Define) -> None:
    growing(define)
    run = house.work(house.submit("growing", wanted=10))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=4, reason="other", changes={"title": "new"})
    edit = Checkpoint.objects.get(run=run, kind="edit")
    assert (edit.branch, edit.parent, edit.snapshot is not None) == (2, 4, True)
    assert state_at(run, edit.no) == {"wanted": 10, "title": "new", "log": expected(4)}
    assert state_at(run, 4)["title"] == "ä" * 50


def stored(run: Run, first: int, last: int) -> int:
    rows = Checkpoint.objects.filter(run=run, no__gte=first, no__lte=last)
    return sum(len((row.snapshot or row.patch or "").encode()) for row in rows)
