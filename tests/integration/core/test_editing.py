"""Edits: of an approval's arguments, of a run's state, on the way back; stale ones, damaged checkpoints (C07, C09, C47, C57)."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from runs import operations, store, workflows
from runs.engine import Action, Workflow
from runs.errors import (
    AlreadyDecided,
    AlreadyTerminal,
    ApprovalClosed,
    CheckpointUnreadable,
    InputRequired,
    InvalidJson,
    PayloadChanged,
    ReasonRequired,
    StaleVersion,
    StepExecuting,
    Unprocessable,
    VersionRequired,
)
from runs.models import Approval, Checkpoint, Run, Step
from tests.integration.core.conftest import (
    House,
    by_sql,
    history_is_whole,
    kinds_of,
    open_approval,
    pay_flow,
    state_of,
)

Define = Callable[..., Workflow]
FIVE: list[Any] = [None, False, 0, "", [], {}]


# ---- null, false, 0, "" and missing are different (C09)


@pytest.mark.parametrize("value", FIVE, ids=repr)
def test_what_an_edit_says_is_what_the_node_gets(house: House, define: Define, value: Any) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x="something")
    house.answer(approval, "edit", args={"amount": value})
    house.work(run)
    assert run.status == "completed"
    assert _same(state_of(run)["log"][-1], {"amount": value})


def test_an_argument_that_is_left_out_is_missing(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "edit", args={})
    house.work(run)
    assert state_of(run)["log"][-1] == {}


def test_an_argument_that_its_schema_wants_cannot_be_left_out(house: House, define: Define) -> None:
    class Pay(BaseModel):
        amount: int | None

    workflow = define("pay")

    @workflow.approval(editor_may_approve=True)
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": 5}, schema=Pay, editable=["amount"])

    workflows.register(workflow)
    run, approval = house.parked("pay")
    with pytest.raises(Unprocessable) as refused:
        house.answer(approval, "edit", args={})
    assert [(problem.path, problem.code) for problem in refused.value.errors] == [("", "required")]
    house.answer(approval, "edit", args={"amount": None})
    assert house.work(run).status == "completed"


@pytest.mark.parametrize("value", FIVE, ids=repr)
def test_what_is_written_into_the_state_is_what_comes_out(house: House, define: Define, value: Any) -> None:
    pay_flow(define("pay"))
    run, _ = house.parked("pay", x="something")
    edited = operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": value}, reason="so"
    )
    assert _same(state_of(edited)["x"], value)
    house.work(run)
    assert _same(open_approval(run).content["actions"][0]["args"], {"amount": value})


def test_no_input_is_not_an_empty_input(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    with pytest.raises(InputRequired):
        operations.submit(actor=house.shop, workflow="pay", input=None)
    nothing: list[Any] = [[], "", 0, False]
    for wrong in nothing:
        with pytest.raises(Unprocessable):
            operations.submit(actor=house.shop, workflow="pay", input=wrong)
    run = house.submit("pay")
    assert state_of(run) == {"x": None, "log": []}
    assert Run.objects.count() == 1


@pytest.mark.parametrize("output", [None, False, 0, "", [], {}], ids=repr)
def test_an_output_of_null_is_not_no_output(house: House, define: Define, output: Any) -> None:
    workflow = define("says", output=lambda state: output)
    workflow.node(name="only")(lambda state, ctx: None)
    workflows.register(workflow)
    run = house.submit("says")
    assert run.output is None
    assert house.work(run).output == {"None": "null", "False": "false"}.get(str(output), str(output) or '""')


def _same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)


# ---- what cannot be stored (C07)


class Odd:
    """Something of an author's own."""


ODD: dict[str, Any] = {
    "set": {(1, 2)},
    "bytes": b"x",
    "datetime": datetime.datetime(2026, 1, 1),  # noqa: DTZ001
    "Decimal": Decimal("1.10"),
    "complex": complex(1, 2),
    "StringIO": io.StringIO(),
    "Odd": Odd(),
    "an int too long": 10**5000,
    "not a number": float("nan"),
    "a NUL": "a\0b",
    "half a character": "\ud800",
}


def test_what_cannot_be_stored_fails_the_step_once_and_loudly(house: House, define: Define) -> None:
    seen: list[str] = []
    workflow = define("odd")

    @workflow.node
    def odd(state: Any, ctx: Any) -> dict[str, Any]:
        seen.append(state.x)
        return {"log": ["ok"], "x": ODD[state.x]}

    workflow.node(name="after")(lambda state, ctx: seen.append("after"))
    workflow.edge("odd", "after")
    workflows.register(workflow)
    for kind in ODD:
        run = house.work(house.submit("odd", x=kind))
        assert run.error is not None
        assert (run.status, run.error["code"], run.error["path"]) == ("failed", "state_not_storable", "/x"), (
            kind
        )
        assert " " in kind or run.error["type"] == kind
        assert (run.head, state_of(run)) == (0, {"x": kind, "log": []})
        assert history_is_whole(run)
    assert seen == list(ODD)


def damaged(run: Run, no: int, text: str) -> None:
    row = Checkpoint.objects.get(run=run, no=no)
    column = "snapshot" if row.snapshot is not None else "patch"
    by_sql(f"UPDATE runs_checkpoint SET {column} = %s WHERE run_id = %s AND no = %s", text, run.pk, no)


@pytest.mark.parametrize(
    "text",
    [
        '"oops"',
        "null",
        "{}",
        "[]",
        "",
        "{",
        '[{"op":"add"}]',
        '{"root":{"base":1}}',
        '{"root":{"base":{},"lanes":{},"order":["0"]}}',
    ],
)
def test_a_damaged_checkpoint_fails_the_run_and_names_itself(house: House, define: Define, text: str) -> None:
    """C07. Never a silent null; the other checkpoints can be chosen."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    row = Checkpoint.objects.get(run=run, no=1)
    if text == "[]" and row.patch is not None:
        pytest.skip("an empty patch is a patch")
    damaged(run, 1, text)
    with pytest.raises(CheckpointUnreadable) as refused:
        house.answer(approval, "approve")
    assert refused.value.facts["checkpoint"] == 1
    run.refresh_from_db()
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["checkpoint"]) == ("failed", "checkpoint_unreadable", 1)
    assert not Approval.objects.filter(run=run, status="open").exists()
    with pytest.raises(CheckpointUnreadable):
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="no")
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="before it")
    house.work(run)
    house.answer(open_approval(run), "approve")
    assert house.work(run).status == "completed"
    assert history_is_whole(run)


def test_a_damaged_checkpoint_is_found_when_a_worker_wants_it(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    damaged(run, 2, '"oops"')
    house.work(run)
    assert run.error is not None
    assert (run.status, run.error["checkpoint"]) == ("failed", 2)


def test_a_damaged_approval_is_asked_anew(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    by_sql("UPDATE runs_approval SET document = 'no json' WHERE id = %s", approval.pk)
    with pytest.raises(PayloadChanged):
        house.answer(approval, "approve")
    house.work(run)
    assert open_approval(run).content["actions"][0]["args"] == {"amount": 1}


# ---- drafts and stale versions (C47 f, C57)


def test_two_drafts_and_an_approval_make_one_checkpoint_with_the_last(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    points, events = Checkpoint.objects.filter(run=run).count(), run.seq
    for amount in (10, 20):
        approval = operations.revise(
            actor=house.frida,
            approval_id=approval.pk,
            version=approval.version,
            args={"pay": {"amount": amount}},
            comment=f"draft {amount}",
        )
    run.refresh_from_db()
    assert (Checkpoint.objects.filter(run=run).count(), run.seq) == (points, events + 2)
    house.answer(approval, "approve", by=house.felix)
    assert Checkpoint.objects.filter(run=run).count() == points + 1
    assert [step.node for step in Step.objects.filter(run=run, status="ready")] == ["after"]
    house.work(run)
    assert state_of(run)["log"][-1] == {"amount": 20}
    assert list(approval.revisions.order_by("version").values_list("comment", flat=True)) == [
        "", "draft 10", "draft 20",
    ]  # fmt: skip


def test_a_draft_without_a_change_is_no_version(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    same = operations.revise(
        actor=house.frida, approval_id=approval.pk, version=1, args={"pay": {"amount": 1}}
    )
    run.refresh_from_db()
    assert (same.version, kinds_of(run).count("approval_revised")) == (1, 0)


def test_who_saw_an_older_version_gets_the_three_sides_and_overwrites_nothing(
    house: House, define: Define
) -> None:
    """C57."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=7)
    saved = operations.revise(
        actor=house.frida, approval_id=approval.pk, version=1, args={"pay": {"amount": 10}}
    )
    assert saved.version == 2
    for late in (
        lambda: operations.revise(
            actor=house.felix, approval_id=approval.pk, version=1, args={"pay": {"amount": 5}}
        ),
        lambda: house.answer(approval, "edit", args={"amount": 5}, by=house.felix),
        lambda: house.answer(approval, "reject", by=house.felix),
    ):
        with pytest.raises(StaleVersion) as stale:
            late()
        facts = stale.value.facts
        assert facts["version"] == 2
        assert facts["base"]["actions"][0]["args"] == {"amount": 7}
        assert facts["document"]["actions"][0]["args"] == {"amount": 10}
    with pytest.raises(VersionRequired):
        operations.revise(
            actor=house.felix, approval_id=approval.pk, version=None, args={"pay": {"amount": 5}}
        )
    approval.refresh_from_db()
    assert approval.content["actions"][0]["args"] == {"amount": 10}
    run.refresh_from_db()
    assert kinds_of(run).count("approval_revised") == 1
    house.answer(approval, "approve")
    with pytest.raises(AlreadyDecided):
        operations.revise(actor=house.felix, approval_id=approval.pk, version=2, args={"pay": {"amount": 5}})


def test_an_approval_of_a_state_that_was_edited_is_closed(house: House, define: Define) -> None:
    """C57: its facts changed, so it is asked anew, and nobody answers the old one."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=7)
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 8}, reason="typo"
    )
    with pytest.raises(ApprovalClosed) as closed:
        house.answer(approval, "approve")
    assert closed.value.reason == "state_edited"
    house.work(run)
    assert open_approval(run).previous_id == approval.pk


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"amount": 1, "to": "me"}, "not_editable"),
        ({"amount": 1}, None),
        ([], "object_type"),
        ("text", "object_type"),
        (None, "object_type"),
    ],
)
def test_an_edit_keeps_to_what_may_be_edited(
    house: House, define: Define, args: Any, code: str | None
) -> None:
    pay_flow(define("pay"))
    _, approval = house.parked("pay", x=7)
    if code is None:
        house.answer(approval, "edit", args=args)
        return
    with pytest.raises(Unprocessable) as refused:
        house.answer(approval, "edit", args=args)
    assert refused.value.errors[0].code == code
    approval.refresh_from_db()
    assert (approval.status, approval.version) == ("open", 1)


def test_text_that_cannot_be_stored_is_refused_before_anything_is(house: House, define: Define) -> None:
    """C01 (b), K1, behind the parser too."""
    pay_flow(define("pay"))
    _, approval = house.parked("pay", x=7)
    draft: dict[str, Any] = {"actor": house.frida, "approval_id": approval.pk, "version": 1}
    doors: list[Callable[[], Any]] = [
        lambda: house.answer(approval, "reject", comment="a\0b"),
        lambda: house.answer(approval, "reject", message="a\0b"),
        lambda: operations.revise(**draft, args={"pay": {"amount": 1}}, comment="a\0b"),
        lambda: operations.submit(actor=house.shop, workflow="pay", input={}, labels={"a": "\0"}),
    ]
    for door in doors:
        with pytest.raises(InvalidJson):
            door()
    approval.refresh_from_db()
    assert (approval.status, approval.version, approval.votes.count()) == ("open", 1, 0)


# ---- the run's state (C47 a, b)


def test_an_edit_at_an_approval_does_not_lose_the_next_step(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "edit", args={"amount": 2})
    assert [step.node for step in Step.objects.filter(run=run, status="ready")] == ["after"]


def test_a_rewind_with_an_edit_runs_from_there_with_it(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="typo", changes={"x": 5})
    assert [step.node for step in Step.objects.filter(run=run, status="ready")] == ["ask"]
    house.work(run)
    assert open_approval(run).content["actions"][0]["args"] == {"amount": 5}
    assert kinds_of(run)[-3:] == ["run_rewound", "state_edited", "approval_opened"]


def test_a_router_is_asked_with_the_edited_state(house: House, define: Define) -> None:
    """C47: conditional edges see the edit."""
    workflow = define("routed")
    workflow.node(name="start")(lambda state, ctx: None)

    @workflow.approval
    def ask(state: Any, ctx: Any) -> Action:
        return Action("go")

    workflow.node(name="left")(lambda state, ctx: {"log": ["left"]})
    workflow.node(name="right")(lambda state, ctx: {"log": ["right"]})
    workflow.edge("start", "ask")
    workflow.choose("ask", lambda state, decision: state.x, to=["left", "right"])
    workflows.register(workflow)
    run, _ = house.parked("routed", x="left")
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": "right"}, reason="other way"
    )
    house.work(run)
    house.answer(open_approval(run), "approve")
    assert state_of(house.work(run))["log"] == ["right"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"log": "no list"}, Unprocessable),
        ({"unknown": 1}, Unprocessable),
        ({"x": "a\0b"}, InvalidJson),
        ({"x": float("inf")}, InvalidJson),
    ],
)
def test_an_edit_that_does_not_fit_changes_nothing(
    house: House, define: Define, changes: dict[str, Any], error: type[Exception]
) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    with pytest.raises(error):
        operations.edit_state(
            actor=house.olga, run_id=run.pk, version=run.version, changes=changes, reason="so"
        )
    seq, version = run.seq, run.version
    run.refresh_from_db()
    assert (run.seq, run.version, open_approval(run).pk) == (seq, version, approval.pk)


def test_an_edit_needs_version_reason_and_a_run_that_rests(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    given: dict[str, Any] = {"actor": house.olga, "run_id": run.pk, "changes": {"x": 2}}
    with pytest.raises(VersionRequired):
        operations.edit_state(**given, version=None, reason="so")
    with pytest.raises(StaleVersion):
        operations.edit_state(**given, version=run.version - 1, reason="so")
    with pytest.raises(ReasonRequired):
        operations.edit_state(**given, version=run.version, reason=" ")
    house.answer(approval, "approve")
    run.refresh_from_db()
    step = Step.objects.get(run=run, status="ready")
    assert store.claim(run_id=run.pk, branch=1, address=step.address, worker=1)
    with pytest.raises(StepExecuting):
        operations.edit_state(**given, version=run.version, reason="so")


def test_a_failed_run_can_be_edited_and_a_completed_one_not(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "reject", comment="no")
    run.refresh_from_db()
    edited = operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 2}, reason="for the record"
    )
    assert (edited.status, state_of(edited)["x"]) == ("failed", 2)
    done, approval = house.parked("pay", x=1)
    house.answer(approval, "approve")
    house.work(done)
    with pytest.raises(AlreadyTerminal):
        operations.edit_state(
            actor=house.olga, run_id=done.pk, version=done.version, changes={"x": 2}, reason="late"
        )
