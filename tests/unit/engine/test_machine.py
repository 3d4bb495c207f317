"""Each command by itself: what it changes, where the lane goes, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runs.engine import END, Action, Retry, Workflow, append, canonical, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.failures import MAX_MESSAGE, delay_of, error_of
from runs.engine.status import RunStatus, StepStatus
from runs.engine.transition import Wait
from runs.errors import (
    AlreadyTerminal,
    EventNotAllowed,
    JournalMismatch,
    LoopLimit,
    NothingToRun,
    Problem,
    Rejected,
    SchemaViolation,
    StateNotStorable,
    StepExecuting,
    StepLimit,
    Unprocessable,
)
from tests.unit.engine.tape import Tape


class State(BaseModel):
    n: int = 0
    wish: str = ""
    log: Annotated[list[str], append] = []
    anything: Any = None


class Result(BaseModel):
    n: int
    log: list[str] = []


def nothing(state: Any, ctx: Any) -> None:
    return None


def ask(state: Any, ctx: Any) -> Action:
    return Action("pay")


def line(*names: str, approvals: str = "", **options: Any) -> Workflow:
    """Nodes one after the other."""
    workflow = Workflow("shop", state=State, **options)
    for name in names:
        if name in approvals.split():
            workflow.approval(name=name)(ask)
        else:
            workflow.node(name=name)(nothing)
    for before, after in pairwise(names):
        workflow.edge(before, after)
    return workflow


def gate(**outcomes: Any) -> Workflow:
    """One approval whose outcomes lead to nodes of their names, or one plain edge to `next` if none is given."""
    options = {name: outcomes.pop(name) for name in ("on_timeout", "due") if name in outcomes}
    workflow = Workflow("shop", state=State)
    workflow.approval(name="gate", **options)(ask)
    for name in dict.fromkeys(outcomes.values() if outcomes else ["next"]):
        workflow.node(name=name)(nothing)
    if outcomes:
        workflow.choose("gate", None, to=(), limit=None, **outcomes)
    else:
        workflow.edge("gate", "next")
    return workflow


def parked(workflow: Workflow) -> Tape:
    tape = Tape.submitted(workflow)
    tape.park()
    return tape


# ---- from start to end


def test_a_run_goes_through_its_nodes_and_ends_with_its_state() -> None:
    tape = Tape.submitted(line("a", "b"), {"n": 1})
    assert (tape.status, tape.node, tape.head) == (RunStatus.QUEUED, "a", 0)
    tape.complete({"n": 2, "log": ["a"]})
    assert (tape.status, tape.node, tape.head) == (RunStatus.RUNNING, "b", 1)
    transition = tape.complete({"log": ["b"]})
    assert transition.ended
    assert tape.status is RunStatus.COMPLETED
    assert tape.output == tape.state == {"n": 2, "wish": "", "log": ["a", "b"], "anything": None}
    assert tape.events == ["run_submitted", "step_completed", "step_completed", "run_completed"]
    assert [point.kind for point in tape.points] == ["input", "step", "step"]


def test_a_step_that_goes_on_names_the_next_as_ready() -> None:
    tape = Tape.submitted(line("a", "b"))
    transition = tape.complete()
    assert transition.ready == [tape.step.address]
    assert transition.next_steps == [tape.step]
    assert transition.wait is None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (Result, {"n": 5, "log": ["x"]}),
        (lambda state: {"twice": state.n * 2}, {"twice": 10}),
        (lambda state: None, None),
        (lambda state: Result(n=state.n), {"n": 5, "log": []}),
        (lambda state: [state.log, 1.0], [["x"], 1.0]),
    ],
)
def test_the_output_is_what_the_workflow_makes_of_its_state(output: Any, expected: Json) -> None:
    """C09: null is an output too."""
    tape = Tape.submitted(line("a", output=output))
    tape.complete({"n": 5, "log": ["x"]})
    assert tape.status is RunStatus.COMPLETED
    assert canonical.same(tape.output, expected)


def test_an_output_function_cannot_change_the_state() -> None:
    def output(state: State) -> int:
        state.log.append("changed")
        return 1

    tape = Tape.submitted(line("a", output=output))
    tape.complete({"log": ["x"]})
    assert tape.state["log"] == tape.run.values["log"] == ["x"]


@pytest.mark.parametrize("output", [lambda state: {1}, lambda state: float("nan"), lambda state: 1 / 0])
def test_an_output_that_cannot_be_is_the_last_steps_failure_and_changes_nothing(output: Any) -> None:
    tape = Tape.submitted(line("a", output=output))
    step, before = tape.claim(), canonical.dumps(tape.run.position)
    with pytest.raises((StateNotStorable, ZeroDivisionError)):
        machine.complete(tape.run, step, {"n": 5})
    assert (canonical.dumps(tape.run.position), tape.run.values["n"]) == (before, 0)


@pytest.mark.parametrize(
    ("update", "error"),
    [
        ({"n": "x"}, SchemaViolation),
        ({"unknown": 1}, SchemaViolation),
        ({"anything": {1}}, StateNotStorable),
        ({"n": 1, "anything": "\0"}, StateNotStorable),
        ("text", SchemaViolation),
    ],
)
def test_an_update_that_cannot_be_taken_changes_nothing(update: Any, error: type[Exception]) -> None:
    """C01, C07."""
    tape = Tape.submitted(line("a"))
    step, before = tape.claim(), canonical.dumps(tape.run.position)
    with pytest.raises(error):
        machine.complete(tape.run, step, update)
    assert canonical.dumps(tape.run.position) == before


# ---- routers


def routed(router: Callable[..., Any]) -> Workflow:
    workflow = Workflow("shop", state=State)
    workflow.node(name="a")(nothing)

    @workflow.node(name="the-other")
    def other(state: Any, ctx: Any) -> None: ...

    def choose(state: State) -> Any:
        return other if state.wish == "function" else router(state)

    workflow.choose("a", choose, to=[other, END])
    return workflow


@pytest.mark.parametrize(("wish", "node"), [("the-other", "the-other"), ("function", "the-other")])
def test_a_router_answers_a_name_or_a_function_and_sees_the_update(wish: str, node: str) -> None:
    tape = Tape.submitted(routed(lambda state: state.wish))
    tape.complete({"wish": wish})
    assert tape.node == node


def test_a_router_may_end_the_run() -> None:
    tape = Tape.submitted(routed(lambda state: END))
    tape.complete()
    assert tape.status is RunStatus.COMPLETED


@pytest.mark.parametrize("answer", ["nowhere", "a", None, 5, nothing, ["the-other", 5], "x" * 10_000])
def test_a_router_that_answers_something_else_is_the_steps_failure(answer: Any) -> None:
    tape = Tape.submitted(routed(lambda state: answer))
    step = tape.claim()
    with pytest.raises(SchemaViolation, match="The router of 'a' answered") as caught:
        machine.complete(tape.run, step, {"n": 1})
    assert len(caught.value.detail) < 400
    assert caught.value.facts == {"node": "a"}
    assert tape.run.values["n"] == 0


def test_a_router_cannot_change_the_state() -> None:
    def router(state: State) -> str:
        state.log.append("changed")
        return "the-other"

    tape = Tape.submitted(routed(router))
    tape.complete({"log": ["x"]})
    assert tape.state["log"] == tape.run.values["log"] == ["x"]


# ---- loops and limits


def looping(limit: int = 4, out: str | None = None, **options: Any) -> Workflow:
    workflow = Workflow("shop", state=State, **options)
    workflow.approval(name="gate", loop_limit=limit)(ask)
    workflow.node(name="again")(nothing)
    workflow.node(name="enough")(nothing)
    workflow.choose("gate", approve="enough", reject="again")
    workflow.choose("again", lambda state: "gate", to=["gate", END], limit=out)
    return workflow


def test_a_loop_counts_over_pauses_and_then_takes_its_limit_edge() -> None:
    """C79."""
    tape = Tape.submitted(looping(limit=4, out=END))
    asked = 0
    while not tape.ended:
        if tape.node == "gate":
            asked += 1
            tape.park()
            tape.answer("reject")
        else:
            tape.complete({"log": [f"round {asked}"]})
    assert (asked, tape.status) == (4, RunStatus.COMPLETED)
    assert tape.state["log"] == ["round 1", "round 2", "round 3", "round 4"]


def test_a_loop_without_a_limit_edge_fails_and_its_last_state_can_be_read() -> None:
    """C79."""
    tape = Tape.submitted(looping(limit=2))
    for _ in range(2):
        tape.park()
        tape.answer("reject")
        if tape.run.position["visits"]["gate"] < 2:
            tape.complete({"n": 1})
    step = tape.claim()
    with pytest.raises(LoopLimit) as caught:
        machine.complete(tape.run, step, {"n": 2})
    tape.take(machine.fail(tape.run, step, error_of(caught.value), attempt=1, delay=None), "fail")
    assert tape.error is not None
    assert (tape.status, tape.error["code"], tape.state["n"]) == (RunStatus.FAILED, "loop_limit", 1)


def test_a_loop_closed_by_an_answer_that_is_used_up_is_the_runs_failure_and_not_the_persons() -> None:
    """C79."""
    workflow = Workflow("shop", state=State)
    workflow.approval(name="gate", loop_limit=2)(ask)
    workflow.choose("gate", approve=END, reject="gate")
    tape = parked(workflow)
    tape.answer("reject")
    tape.park()
    transition = tape.answer("reject", by={"user": "felix"})
    assert tape.error is not None
    assert (tape.status, tape.error["code"], tape.error["step"]) == (RunStatus.FAILED, "loop_limit", "gate")
    assert [event.kind for event in transition.events] == ["approval_decided", "run_failed"]


def test_a_rewind_gives_a_loop_the_count_it_had_there() -> None:
    """C79."""
    tape = Tape.submitted(looping(limit=3))
    tape.park()
    tape.answer("reject")
    tape.complete()
    at_second = tape.head
    for _ in range(2):
        assert at.live_steps(tape.run.position)[0].node == "gate"
        assert tape.run.position["root"]["lanes"]["0"]["loops"] == {"gate": 1}
        tape.park()
        tape.answer("reject")
        tape.complete()
        assert tape.run.position["root"]["lanes"]["0"]["loops"] == {"gate": 2}
        tape.rewind(at_second)


def test_a_run_makes_its_steps_and_no_more() -> None:
    """C79."""
    workflow = Workflow("shop", state=State, max_steps=50)
    workflow.node(name="a", loop_limit=1000)(nothing)
    workflow.choose("a", lambda state: "a", to=["a", END])
    tape = Tape.submitted(workflow)
    for _ in range(50):
        tape.complete()
    with pytest.raises(StepLimit):
        tape.complete()
    assert (tape.head, tape.run.position["commits"]) == (50, 50)


# ---- approvals


def test_a_parked_run_waits_and_writes_no_checkpoint() -> None:
    tape = Tape.submitted(gate(due="1h"))
    transition = tape.park()
    assert tape.status is RunStatus.WAITING
    assert (transition.checkpoint, tape.head) == (None, 0)
    assert transition.wait == Wait(tape.step.address, "gate", "approval")
    assert transition.opened is not None
    assert tape.approvals == {tape.step.address: transition.opened.digest}
    assert tape.events[-1] == "approval_opened"


ALL = {name: name for name in ("approve", "reject", "mixed", "timeout", "respond")}
WAYS: list[tuple[dict[str, str], str, str | None]] = [
    (ALL, "approve", "approve"),
    (ALL, "reject", "reject"),
    (ALL, "mixed", "mixed"),
    (ALL, "timeout", "timeout"),
    (ALL, "respond", "respond"),
    ({"approve": "yes", "reject": "no"}, "mixed", "no"),
    ({"approve": "yes", "reject": "no"}, "timeout", "no"),
    ({"approve": "yes", "reject": "no"}, "respond", "yes"),
    ({"approve": "yes", "reject": "no", "on_timeout": "approve"}, "timeout", "yes"),
    ({"approve": "yes", "reject": "no", "on_timeout": "fail"}, "timeout", None),
    ({"approve": "yes", "timeout": "late", "on_timeout": "fail"}, "timeout", "late"),
    ({"approve": "yes"}, "approve", "yes"),
    ({"approve": "yes"}, "reject", None),
    ({"approve": "yes"}, "mixed", None),
    ({"approve": "yes"}, "timeout", None),
    ({}, "approve", "next"),
    ({}, "respond", "next"),
    ({}, "reject", None),
    ({}, "timeout", None),
    ({"on_timeout": "approve"}, "timeout", "next"),
]


@pytest.mark.parametrize(("outcomes", "outcome", "expected"), WAYS)
def test_an_answer_goes_where_its_outcome_leads(
    outcomes: dict[str, str], outcome: str, expected: str | None
) -> None:
    """DESIGN, an approval: without an edge of its own mixed goes where reject goes, time-out where on_timeout says."""
    tape = parked(gate(**outcomes))
    tape.answer(outcome, comment="because")
    assert not tape.approvals
    if expected:
        assert (tape.status, tape.node) == (RunStatus.QUEUED, expected)
        assert at.answers(tape.run.position, "0")["gate"]["comment"] == "because"
        assert tape.points[-1].kind == "answer"
    else:
        assert tape.error is not None
        assert tape.status is RunStatus.FAILED
        assert tape.error["code"] == ("approval_timeout" if outcome == "timeout" else "rejected")
        assert (tape.error["step"], tape.error["comment"]) == ("gate", "because")


def test_a_reject_without_a_way_says_who_and_a_timeout_says_nobody() -> None:
    rejected, late = parked(gate()), parked(gate())
    rejected.answer("reject")
    late.answer("timeout")
    assert rejected.error is not None
    assert late.error is not None
    assert rejected.error["rejected_by"] == {"user": "frida"}
    assert late.error["rejected_by"] is None
    assert rejected.error["message"] == (Rejected.__doc__ or "").strip()


def deciding(router: Callable[..., Any], **options: Any) -> Workflow:
    workflow = Workflow("shop", state=State, **options)
    workflow.approval(name="gate")(ask)
    workflow.node(name="next")(nothing)
    workflow.choose("gate", router, to=["next", END])
    return workflow


def test_a_router_after_an_approval_sees_state_and_decision() -> None:
    def router(state: State, decision: Mapping[str, Any]) -> str:
        return "next" if decision["comment"] == "go" and state.n == 0 else END

    tape = parked(deciding(router))
    tape.answer("approve", comment="go")
    assert tape.node == "next"


@pytest.mark.parametrize(
    "router", [lambda state, decision: 1 / 0, lambda state, decision: "nowhere", lambda state: END]
)
def test_a_router_that_fails_after_an_answer_fails_the_run_and_the_answer_stands(router: Any) -> None:
    tape = parked(deciding(router))
    transition = tape.answer("approve")
    assert tape.status is RunStatus.FAILED
    assert [event.kind for event in transition.events] == ["approval_decided", "run_failed"]
    assert tape.error is not None
    assert tape.error["step"] == "gate"


@pytest.mark.parametrize("error", [SystemExit("enough"), asyncio.CancelledError("enough")])
def test_a_router_that_raises_what_is_no_exception_fails_alike(error: BaseException) -> None:
    def router(state: State, decision: Mapping[str, Any]) -> str:
        raise error

    tape = parked(deciding(router))
    tape.answer("approve")
    assert tape.status is RunStatus.FAILED
    assert tape.error is not None
    assert (tape.error["type"], tape.error["message"]) == (type(error).__name__, "enough")


@pytest.mark.parametrize("output", [lambda state: 1 / 0, lambda state: {1}, Result])
def test_an_output_that_fails_after_an_answer_fails_the_run_and_the_answer_stands(output: Any) -> None:
    class Renamed(BaseModel):
        other: int

    chosen = Renamed if output is Result else output
    tape = parked(deciding(lambda state, decision: END, output=chosen))
    tape.answer("approve")
    assert tape.status is RunStatus.FAILED


def test_the_newest_answer_of_an_approval_is_the_one_that_counts() -> None:
    tape = Tape.submitted(looping())
    for comment in ("first", "second"):
        tape.park()
        tape.answer("reject", comment=comment)
        assert at.answers(tape.run.position, "0")["gate"]["comment"] == comment
        tape.complete()


def test_being_asked_again_takes_the_answer_back_and_opens_the_approval_anew() -> None:
    """C62."""
    tape = Tape.submitted(line("gate", "pay", approvals="gate"))
    tape.park()
    tape.answer("approve")
    first, step = tape.points[0].document, tape.claim()
    transition = tape.take(machine.ask_again(tape.run, step, "gate", "payload_changed"), "ask_again")
    assert (tape.node, tape.step.visit, tape.status) == ("gate", 2, RunStatus.RUNNING)
    assert tape.step.address not in first
    assert at.answers(tape.run.position, "0") == {}
    assert tape.rows[1, step.address].status is StepStatus.VOID
    assert transition.events[0].payload == {"reason": "payload_changed", "node": "gate"}


def test_a_reopened_approval_is_asked_anew_at_the_same_step() -> None:
    """C62."""
    tape = parked(gate())
    step = tape.step
    tape.take(machine.reopen(tape.run, step, reason="payload_changed"), "reopen")
    assert (tape.status, tape.step, tape.row.status) == (RunStatus.QUEUED, step, StepStatus.READY)
    assert not tape.approvals
    tape.park()
    assert tape.status is RunStatus.WAITING


def checked() -> Workflow:
    workflow = Workflow("shop", state=State)
    workflow.node(name="check")(nothing)
    workflow.approval(name="gate", recheck="check", loop_limit=3)(ask)
    workflow.edge("check", "gate")
    return workflow


def test_an_edit_that_is_rechecked_goes_to_its_node_and_comes_back() -> None:
    tape = Tape.submitted(checked())
    tape.complete()
    tape.park()
    decision: dict[str, Json] = {
        "by": {"user": "frida"},
        "edited": True,
        "actions": [{"args": {"amount": 70}}],
    }
    transition = tape.take(machine.recheck(tape.run, tape.step, decision), "recheck")
    assert (tape.node, tape.status) == ("check", RunStatus.QUEUED)
    assert transition.events[0].kind == "approval_superseded"
    assert at.answers(tape.run.position, "0")["gate"]["actions"] == [{"args": {"amount": 70}}]
    assert tape.run.position["root"]["lanes"]["0"]["loops"] == {"check": 1}
    assert not tape.approvals


def test_only_a_node_with_a_recheck_is_rechecked() -> None:
    tape = parked(gate())
    with pytest.raises(SchemaViolation, match="'gate' has no recheck"):
        machine.recheck(tape.run, tape.step, {})


# ---- failing, crashing


def test_a_failed_attempt_waits_for_the_next_and_writes_no_checkpoint() -> None:
    tape = Tape.submitted(line("a"))
    step = tape.claim()
    transition = tape.take(machine.fail(tape.run, step, {"code": "x"}, attempt=1, delay=2.5), "fail")
    assert (tape.status, tape.row.failures, transition.checkpoint) == (RunStatus.WAITING, 1, None)
    assert transition.wait == Wait(step.address, "a", "retry", 2.5)
    tape.take(machine.wake(tape.run, step), "wake")
    assert (tape.status, tape.step, tape.waits) == (RunStatus.QUEUED, step, {})
    tape.complete()
    assert tape.status is RunStatus.COMPLETED


def test_a_step_that_fails_finally_fails_the_run_which_keeps_its_position() -> None:
    tape = Tape.submitted(line("a", "b"))
    tape.complete({"n": 1})
    step = tape.claim()
    transition = tape.take(machine.fail(tape.run, step, {"code": "x"}, attempt=3, delay=None), "fail")
    assert (tape.status, tape.error) == (RunStatus.FAILED, {"code": "x", "step": "b"})
    assert [event.kind for event in transition.events] == ["step_failed", "run_failed"]
    assert at.live_steps(tape.run.position) == [step]
    assert tape.state["n"] == 1


def test_a_step_taken_over_is_ready_again_until_it_has_ended_too_many_workers() -> None:
    tape = Tape.submitted(line("a"))
    for crashes in (1, 2, 3):
        step = tape.claim()
        transition = tape.take(
            machine.take_over(tape.run, step, reason="lease_expired", crashes=crashes, limit=3, worker="7"),
            "take_over",
        )
        assert tape.rows[1, step.address].crashes == crashes
        if crashes < 3:
            assert (tape.status, transition.ready) == (RunStatus.QUEUED, [step.address])
    assert tape.error is not None
    assert (tape.status, tape.error["code"], tape.error["crashes"]) == (RunStatus.FAILED, "poisoned", 3)


def test_a_step_that_was_handed_over_is_ready_and_nothing_counts_against_it() -> None:
    """A worker was asked to end, as often as there are deploys."""
    tape = Tape.submitted(line("a"))
    for _ in range(5):
        step = tape.claim()
        transition = tape.take(machine.hand_over(tape.run, step, worker="7"), "take_over")
        assert (tape.status, transition.ready) == (RunStatus.QUEUED, [step.address])
    row = tape.rows[1, step.address]
    assert (row.crashes, row.failures) == (0, 0)
    assert transition.events[0].kind == "step_handed_over"


def test_a_run_that_cannot_go_on_is_given_up_whatever_it_does() -> None:
    for status in RunStatus:
        if status in ("completed", "failed", "cancelled"):
            with pytest.raises(AlreadyTerminal):
                machine.give_up(status, LoopLimit())
        else:
            assert machine.give_up(status, LoopLimit()).status is RunStatus.FAILED


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no"), {"code": "node_error", "message": "no", "type": "ValueError"}),
        (
            ValueError("bad \0 byte"),
            {"code": "node_error", "message": "bad \\u0000 byte", "type": "ValueError"},
        ),
        (ValueError("\ud800"), {"code": "node_error", "message": "\\ud800", "type": "ValueError"}),
        (ValueError(), {"code": "node_error", "message": "ValueError", "type": "ValueError"}),
        (KeyError("x"), {"code": "node_error", "message": "'x'", "type": "KeyError"}),
        (
            StateNotStorable("no", path="/v", type="set"),
            {"code": "state_not_storable", "message": "no", "path": "/v", "type": "set"},
        ),
        (
            SchemaViolation("no", errors=[Problem("/n", "int_type", "a number")]),
            {
                "code": "schema_violation",
                "message": "no",
                "path": "/n",
                "errors": [{"path": "/n", "code": "int_type", "message": "a number"}],
            },
        ),
        (
            JournalMismatch("no", asked={"a": {1}}),
            {"code": "journal_mismatch", "message": "no", "asked": "{'a': {1}}"},
        ),
    ],
)
def test_an_error_is_stored_as_data_that_can_be_shown(error: Exception, told: dict[str, Json]) -> None:
    """C01, C07."""
    assert error_of(error) == told
    canonical.check(told)


def test_an_exception_that_cannot_say_what_it_is_has_at_least_its_type() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert error_of(Silent())["message"] == "Silent"


def test_a_message_without_end_is_cut() -> None:
    assert len(error_of(ValueError("x" * 10_000))["message"]) == MAX_MESSAGE
    assert len(error_of(Rejected("x" * 10_000))["message"]) == MAX_MESSAGE


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), StateNotStorable()])
def test_what_no_policy_wants_is_not_tried_again(error: BaseException) -> None:
    assert delay_of(Retry(attempts=9), error, attempt=1, failures=1, draw=0) is None


# ---- people


def test_a_persons_edit_is_a_checkpoint_of_its_own_and_what_was_asked_is_asked_anew() -> None:
    tape = parked(gate())
    step = tape.step
    transition = tape.take(machine.edit_state(tape.run, "0", {"log": ["z"], "n": 5}, reason="why"), "edit")
    assert (tape.status, tape.step, tape.row.status) == (RunStatus.QUEUED, step, StepStatus.READY)
    assert (tape.state["log"], tape.run.values["n"], tape.points[-1].kind) == (["z"], 5, "edit")
    assert transition.events[0].payload == {"changes": {"log": ["z"], "n": 5}, "reason": "why"}
    assert (tape.waits, tape.approvals) == ({}, {})


def test_an_edit_of_a_failed_run_is_kept_and_starts_nothing() -> None:
    tape = Tape.submitted(line("a"))
    tape.take(machine.fail(tape.run, tape.claim(), {"code": "x"}, attempt=1, delay=None), "fail")
    transition = tape.take(machine.edit_state(tape.run, "0", {"n": 5}, reason="why"), "edit")
    assert (tape.status, transition.ready, tape.state["n"]) == (RunStatus.FAILED, [], 5)


def test_an_edit_is_refused_while_a_step_executes_and_after_the_end() -> None:
    tape = Tape.submitted(line("a"))
    step = tape.claim()
    with pytest.raises(StepExecuting):
        machine.edit_state(tape.run, "0", {"n": 5}, reason="why")
    tape.take(machine.complete(tape.run, step, None), "complete")
    with pytest.raises(AlreadyTerminal, match="fork it"):
        machine.edit_state(tape.run, "0", {"n": 5}, reason="why")


@pytest.mark.parametrize("changes", [{"n": "x"}, {"unknown": 1}, {"anything": "\0"}])
def test_an_edit_that_does_not_fit_changes_nothing(changes: dict[str, Json]) -> None:
    """C13."""
    tape = parked(gate())
    before = canonical.dumps(tape.run.position)
    with pytest.raises(Unprocessable):
        machine.edit_state(tape.run, "0", changes, reason="why")
    with pytest.raises(Unprocessable):
        tape.rewind(0, changes)
    assert (canonical.dumps(tape.run.position), tape.status) == (before, RunStatus.WAITING)


def test_a_rewind_goes_on_from_there_on_a_branch_of_its_own_with_the_same_addresses() -> None:
    tape = Tape.submitted(line("a", "b", "c"))
    tape.complete({"log": ["a"]})
    second = tape.step
    tape.complete({"log": ["b"]})
    tape.complete({"log": ["c"]})
    transition = tape.rewind(1)
    assert (tape.run.branch, tape.run.epoch, tape.head) == (2, 2, 1)
    assert (tape.status, tape.step, tape.state["log"]) == (RunStatus.QUEUED, second, ["a"])
    assert (transition.checkpoint, transition.raise_epoch, transition.close_everything) == (
        None,
        True,
        "rewound",
    )
    tape.complete({"log": ["b2"]})
    tape.complete()
    assert tape.output["log"] == ["a", "b2"]
    assert [point.parent for point in tape.points] == [None, 0, 1, 2, 1, 4]


def test_a_rewind_with_changes_begins_its_branch_with_an_edit() -> None:
    tape = Tape.submitted(line("a", "b"))
    tape.complete({"n": 1, "log": ["a"]})
    tape.complete()
    transition = tape.rewind(1, {"log": ["z"], "n": 7})
    assert [event.kind for event in transition.events] == ["run_rewound", "state_edited"]
    assert (tape.state["log"], tape.run.values["n"]) == (["z"], 7)
    assert (tape.points[-1].kind, tape.points[-1].parent, tape.points[-1].branch) == ("edit", 1, 2)


def test_there_is_nothing_to_rewind_to_at_the_end() -> None:
    """C47."""
    tape = Tape.submitted(line("a"))
    tape.complete()
    with pytest.raises(NothingToRun):
        tape.rewind(1)
    assert (tape.status, tape.head) == (RunStatus.COMPLETED, 1)


def test_a_rewind_to_before_an_approval_forgets_its_answer() -> None:
    """C42."""
    tape = Tape.submitted(line("a", "gate", "pay", approvals="gate"))
    tape.complete()
    tape.park()
    tape.answer("approve")
    tape.complete()
    tape.rewind(1)
    assert (tape.node, at.answers(tape.run.position, "0")) == ("gate", {})


def test_a_cancelled_run_closes_all_and_raises_its_epoch() -> None:
    tape = parked(gate())
    transition = tape.take(machine.cancel(tape.status, reason="enough"), "cancel")
    assert (tape.status, tape.run.epoch, tape.live, tape.approvals) == (RunStatus.CANCELLED, 2, [], {})
    assert transition.events[0].payload == {"reason": "enough"}
    with pytest.raises(AlreadyTerminal):
        machine.cancel(tape.status, reason="again")


@pytest.mark.parametrize("status", ["queued", "waiting"])
def test_a_step_cannot_be_completed_by_nobody(status: str) -> None:
    tape = Tape.submitted(line("a"))
    tape.run.status = status
    before = canonical.dumps(tape.run.position)
    with pytest.raises(EventNotAllowed, match=f"A run that is {status} cannot be advanced"):
        machine.complete(tape.run, tape.step, {"n": 1})
    assert canonical.dumps(tape.run.position) == before
