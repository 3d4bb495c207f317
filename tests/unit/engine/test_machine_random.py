"""A random workflow in memory, under random commands of workers, people and the sweeper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import BaseModel

from runs.engine import END, START, Action, Workflow, append, canonical, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.position import LiveStep
from runs.engine.status import RUN, TERMINAL, RunEvent, RunStatus, StepStatus
from runs.engine.transition import Transition
from runs.engine.versions import Migration
from runs.errors import AlreadyTerminal, HitlError, NothingToRun, StepError, StepExecuting, Unprocessable
from tests.unit.engine.documents import TEXTS
from tests.unit.engine.graphs import Edges, sensible_graphs
from tests.unit.engine.tape import Tape

MOST_STEPS = 25
VALUES: st.SearchStrategy[Json] = st.sampled_from([None, 0, 0.0, -0.0, 2**70, "é", [], {"a/b": [1.0, {}]}])


class Story(BaseModel):
    wish: str = ""
    anything: Any = None
    log: Annotated[list[str], append] = []


def ask(state: Any, ctx: Any) -> Action:
    return Action("go_on")


def by_wish(state: Story, decision: Mapping[str, Any] | None = None) -> str:
    return str(decision["comment"]) if decision else state.wish


@st.composite
def workflows(draw: st.DrawFn) -> tuple[Workflow, Edges]:
    """Function nodes and approvals, in a line, choosing, looping; some approvals have a way for every outcome."""
    edges = draw(sensible_graphs(most=5))
    workflow = Workflow("story", state=Story, max_steps=MOST_STEPS)
    approvals = {node for node in edges if node != START and draw(st.booleans())}
    for node in edges:
        limit = draw(st.integers(1, 4))
        if node in approvals:
            workflow.approval(name=node, loop_limit=limit)(ask)
        elif node != START:
            workflow.node(name=node, loop_limit=limit)(lambda state, ctx: None)
    for source, targets in edges.items():
        limit_target = draw(st.none() | st.sampled_from(targets))
        if source == START:
            workflow.edge(START, targets[0])
        elif source in approvals and len(targets) <= 3 and draw(st.booleans()):
            outcomes = dict(zip(("approve", "reject", "mixed"), targets, strict=False))
            workflow.choose(source, None, limit=limit_target, **outcomes)
        else:
            workflow.choose(source, by_wish, to=targets, limit=limit_target)
    workflow.validate()
    return workflow, edges


class Run(RuleBasedStateMachine):
    """What the rules try is what workers, people and the sweeper do; the invariants must hold after each."""

    @initialize(drawn=workflows())
    def submit(self, drawn: tuple[Workflow, Edges]) -> None:
        self.workflow, self.edges = drawn
        self.tape = Tape.submitted(self.workflow)
        self.last: LiveStep = self.tape.step

    # ---- trying

    def attempt(self, command: str, expected: RunEvent, make: Callable[[], Transition]) -> Transition | None:
        """Run a command. Whatever refuses it must have changed nothing; what it comes to must follow the table."""
        tape, before = self.tape, self.told()
        status = tape.status
        try:
            transition = make()
        except HitlError as error:
            refusal = error
        else:
            if transition.ended and expected is not RunEvent.CANCELLED:
                expected = RunEvent.FAILED if transition.error else RunEvent.ENDED
            assert transition.status is RUN[status, expected]
            tape.take(transition, command)
            event(f"{command}: {tape.status}")
            return transition
        event(f"{command}: {refusal.code}")
        assert self.told() == before
        assert isinstance(refusal, StepError | Unprocessable) or type(refusal) is RUN[status, expected]
        return None

    def told(self) -> tuple[str, str, str]:
        run = self.tape.run
        return canonical.dumps(run.position), repr(run.values), run.status

    def at_work(self, *, approval: bool) -> bool:
        live = self.tape.live
        return (
            bool(live)
            and live[0].status is StepStatus.EXECUTING
            and self.is_approval(live[0].step) == approval
        )

    def is_approval(self, step: LiveStep) -> bool:
        return self.workflow.nodes[step.node].approval is not None

    def waits_for(self, kind: str) -> bool:
        return self.tape.waits.get(self.tape.live[0].step.address) == kind if self.tape.live else False

    # ---- what mostly happens

    @precondition(lambda self: not self.tape.ended)
    @rule(choices=st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def go_on(self, choices: list[int]) -> None:
        """As far as it goes: steps are taken and completed, approvals asked and answered, retries come due."""
        for choice in choices:
            if self.tape.ended:
                return
            if self.tape.row.status is StepStatus.READY:
                self.claim()
            elif self.waits_for("retry"):
                self.wake()
            elif self.waits_for("approval"):
                self.answer(outcome=("approve", "approve", "mixed", "reject")[choice], choice=choice)
            elif self.at_work(approval=True):
                self.park()
            else:
                self.complete(choice=choice, log=["went on"], anything=choice)

    # ---- workers

    @precondition(lambda self: any(row.status is StepStatus.READY for row in self.tape.live))
    @rule()
    def claim(self) -> None:
        self.last = self.tape.claim()

    @precondition(lambda self: self.at_work(approval=False))
    @rule(choice=st.integers(0, 3), log=st.lists(TEXTS, max_size=2), anything=VALUES)
    def complete(self, choice: int, log: list[str], anything: Json) -> None:
        targets = self.edges[self.tape.node]
        update = {"wish": targets[choice % len(targets)], "log": log, "anything": anything}
        done = self.attempt(
            "complete", RunEvent.ADVANCED, lambda: machine.complete(self.tape.run, self.last, update)
        )
        if done is None:
            self.give_up()

    def give_up(self) -> None:
        """What a worker does with a result that cannot be taken: a loop or the run has used up its steps."""
        error: dict[str, Json] = {"code": "loop_limit", "message": "used up"}
        failed = self.attempt(
            "fail",
            RunEvent.FAILED,
            lambda: machine.fail(self.tape.run, self.last, error, attempt=1, delay=None),
        )
        assert failed is not None

    @precondition(lambda self: self.at_work(approval=False))
    @rule(
        update=st.sampled_from(
            [{"wish": "nowhere"}, {"unknown": 1}, {"log": "x"}, {"anything": "\0"}, 5, {"wish": 5}]
        )
    )
    def return_nonsense(self, update: Any) -> None:
        assert (
            self.attempt(
                "nonsense", RunEvent.ADVANCED, lambda: machine.complete(self.tape.run, self.last, update)
            )
            is None
        )

    @precondition(lambda self: self.at_work(approval=True))
    @rule()
    def park(self) -> None:
        document: dict[str, Json] = {"title": self.last.node, "actions": []}
        digest = canonical.digest(document)
        parked = self.attempt(
            "park", RunEvent.PARKED, lambda: machine.park(self.tape.run, self.last, document, digest)
        )
        assert parked is not None
        assert parked.checkpoint is None

    @precondition(lambda self: self.at_work(approval=True) or self.at_work(approval=False))
    @rule(delay=st.sampled_from([1.0, 1.0, 1.0, None]))
    def fail(self, delay: float | None) -> None:
        expected = RunEvent.FAILED if delay is None else RunEvent.PARKED
        error: dict[str, Json] = {"code": "node_error", "message": "no"}
        self.attempt(
            "fail", expected, lambda: machine.fail(self.tape.run, self.last, error, attempt=1, delay=delay)
        )

    @precondition(lambda self: self.at_work(approval=False) and bool(at.answers(self.tape.run.position, "0")))
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(at.answers(self.tape.run.position, "0"))))
        self.attempt(
            "ask again",
            RunEvent.ADVANCED,
            lambda: machine.ask_again(self.tape.run, self.last, node, "payload_changed"),
        )
        assert node not in at.answers(self.tape.run.position, "0")
        assert self.tape.node == node

    # ---- the sweeper

    @precondition(lambda self: self.waits_for("retry"))
    @rule()
    def wake(self) -> None:
        self.attempt("wake", RunEvent.WOKEN, lambda: machine.wake(self.tape.run, self.tape.step))

    @precondition(lambda self: self.at_work(approval=True) or self.at_work(approval=False))
    @rule()
    def take_over(self) -> None:
        crashes = self.tape.row.crashes + 1
        self.attempt(
            "take over",
            RunEvent.TAKEN_OVER,
            lambda: machine.take_over(
                self.tape.run, self.last, reason="lease_expired", crashes=crashes, limit=3, worker="1"
            ),
        )
        assert self.tape.ended == (crashes == 3)

    @precondition(lambda self: self.at_work(approval=True) or self.at_work(approval=False))
    @rule()
    def hand_over(self) -> None:
        row = self.tape.row
        counted = row.crashes, row.failures
        self.attempt(
            "hand over",
            RunEvent.TAKEN_OVER,
            lambda: machine.hand_over(self.tape.run, self.last, worker="1"),
        )
        assert (self.tape.row.crashes, self.tape.row.failures) == counted
        assert not self.tape.ended

    # ---- people

    @precondition(lambda self: self.waits_for("approval"))
    @rule(
        outcome=st.sampled_from(["approve", "reject", "mixed", "respond", "timeout"]),
        choice=st.integers(0, 3),
    )
    def answer(self, outcome: str, choice: int) -> None:
        step = self.tape.step
        targets = self.edges[step.node]
        decision: dict[str, Json] = {"comment": targets[choice % len(targets)], "by": {}, "actions": []}
        answered = self.attempt(
            "answer", RunEvent.WOKEN, lambda: machine.answer(self.tape.run, step, outcome, decision)
        )
        assert answered is not None
        assert answered.events[0].kind == "approval_decided"
        assert not self.tape.approvals
        if not self.tape.ended:
            assert at.answers(self.tape.run.position, "0")[step.node] == decision

    @precondition(lambda self: self.waits_for("approval"))
    @rule()
    def reopen(self) -> None:
        self.attempt(
            "reopen",
            RunEvent.WOKEN,
            lambda: machine.reopen(self.tape.run, self.tape.step, reason="payload_changed"),
        )

    @precondition(lambda self: not self.tape.run.executing)
    @rule(changes=st.sampled_from([{"log": ["edited"]}, {"anything": {"x": 1.0}}, {"log": [1]}, {"no": 1}]))
    def edit(self, changes: dict[str, Json]) -> None:
        done = self.attempt(
            "edit", RunEvent.EDITED, lambda: machine.edit_state(self.tape.run, "0", changes, reason="test")
        )
        if done is not None:
            assert changes.items() <= self.tape.state.items()

    @rule(data=st.data(), changes=st.sampled_from([None, None, {"log": ["rewound"]}, {"wish": 5}]))
    def rewind(self, data: st.DataObject, changes: dict[str, Json] | None) -> None:
        tape = self.tape
        no = data.draw(st.integers(0, len(tape.points) - 1))
        before, epoch, live = self.told(), tape.run.epoch, at.live_steps(tape.refolded(no))
        refused = not live or (changes is not None and "wish" in changes)
        if refused:
            with pytest.raises((NothingToRun, Unprocessable)):
                tape.rewind(no, changes)
            assert (self.told(), tape.run.epoch) == (before, epoch)
            return
        transition = tape.rewind(no, changes)
        assert tape.status is RunStatus.QUEUED
        assert transition.ready == [step.address for step in live]
        assert tape.run.epoch == epoch + 1
        assert [row.step for row in tape.live] == live
        assert tape.head == (no if changes is None else len(tape.points) - 1)
        assert not tape.waits

    @precondition(lambda self: self.tape.status not in TERMINAL - {RunStatus.FAILED})
    @rule(mark=TEXTS)
    def migrate(self, mark: str) -> None:
        """At any moment: what is live, waited for and asked stays so; only the state and the code are others."""
        tape, steps = (
            self.tape,
            [Migration("story", "1", "2", lambda document: {**document, "anything": mark})],
        )
        before, status, points = self.told(), tape.status, len(tape.points)
        waits, live = dict(tape.waits), [(row.step, row.status) for row in tape.live]
        if tape.run.executing:
            with pytest.raises(StepExecuting):
                tape.migrate(steps, self.workflow)
            assert self.told() == before
            return
        told = tape.migrate(steps, self.workflow)
        assert [made.kind for made in told.events] == ["state_migrated"]
        assert (tape.status, dict(tape.waits)) == (status, waits)
        assert [(row.step, row.status) for row in tape.live] == live
        assert len(tape.points) == points + 1
        if at.lanes(tape.run.position):
            assert tape.state["anything"] == mark

    @precondition(lambda self: not self.tape.ended)
    @rule(rarely=st.integers(0, 7))
    def cancel(self, rarely: int) -> None:
        if rarely == 0:
            self.attempt("cancel", RunEvent.CANCELLED, lambda: machine.cancel(self.tape.status, reason=""))
            assert self.tape.status is RunStatus.CANCELLED

    # ---- what can no longer happen

    @precondition(lambda self: self.tape.ended)
    @rule()
    def nothing_but_a_rewind_moves_a_run_that_has_ended(self) -> None:
        """I3."""
        run, step, before = self.tape.run, self.last, self.told()
        decision: dict[str, Json] = {"comment": END, "by": {}, "actions": []}
        commands: list[Callable[[], Transition]] = [
            lambda: machine.park(run, step, {"title": ""}, ""),
            lambda: machine.fail(run, step, {}, attempt=1, delay=None),
            lambda: machine.fail(run, step, {}, attempt=1, delay=1.0),
            lambda: machine.ask_again(run, step, step.node, "payload_changed"),
            lambda: machine.wake(run, step),
            lambda: machine.take_over(run, step, reason="", crashes=1, limit=3, worker=""),
            lambda: machine.take_over(run, step, reason="", crashes=3, limit=3, worker=""),
            lambda: machine.hand_over(run, step, worker=""),
            lambda: machine.reopen(run, step, reason=""),
            lambda: machine.cancel(run.status, reason=""),
            lambda: machine.answer(run, step, "approve", decision),
            lambda: machine.answer(run, step, "reject", decision),
        ]
        if self.tape.status is not RunStatus.FAILED:
            commands.append(lambda: machine.edit_state(run, "0", {"anything": 1}, reason=""))
        for command in commands:
            if (
                command.__code__.co_names
                and self.is_approval(step)
                and "complete" in command.__code__.co_names
            ):
                continue
            with pytest.raises(AlreadyTerminal):
                command()
            assert self.told() == before

    # ---- what always holds

    @invariant()
    def the_position_refolds_from_its_patches(self) -> None:
        tape = self.tape
        for point in (tape.points[-1], tape.points[tape.head]):
            assert canonical.dumps(tape.refolded(point.no)) == point.document
        assert canonical.dumps(tape.run.position) == tape.points[tape.head].document
        assert at.is_position(tape.run.position)

    @invariant()
    def what_nodes_see_is_what_is_stored(self) -> None:
        """I6, K2."""
        state = self.tape.state
        canonical.check(state)
        assert self.workflow.schema.load(canonical.loads(canonical.dumps(state))) == self.tape.run.values

    @invariant()
    def no_step_is_committed_twice_on_a_branch(self) -> None:
        """I1: the rows are checked when they are made; here the checkpoints."""
        tape = self.tape
        for branch in {point.branch for point in tape.points}:
            made = [p.address for p in tape.points if p.branch == branch and p.kind in ("step", "answer")]
            assert len(made) == len(set(made))
        line = [p.address for p in tape.line(tape.head) if p.kind in ("step", "answer")]
        assert len(line) == len(set(line))

    @invariant()
    def the_live_step_is_the_positions(self) -> None:
        """I7: what has ended has nothing that lives."""
        tape = self.tape
        if tape.ended:
            assert not tape.live
            assert not tape.waits
            assert not tape.approvals
        else:
            assert [row.step for row in tape.live] == at.live_steps(tape.run.position)
            assert len(tape.live) == 1
        assert (tape.status is RunStatus.COMPLETED) == (not at.live_steps(tape.run.position))
        assert (tape.status is RunStatus.FAILED) == (tape.error is not None)

    @invariant()
    def the_status_tells_what_the_live_step_does(self) -> None:
        tape = self.tape
        if tape.status in TERMINAL:
            return
        expected = {
            StepStatus.READY: {RunStatus.QUEUED, RunStatus.RUNNING},
            StepStatus.EXECUTING: {RunStatus.RUNNING},
            StepStatus.WAITING: {RunStatus.WAITING},
        }
        assert tape.status in expected[tape.row.status]
        assert bool(tape.waits) == (tape.row.status is StepStatus.WAITING)

    @invariant()
    def limits_hold(self) -> None:
        """C79."""
        position = self.tape.run.position
        for lane in position["root"]["lanes"].values():
            assert all(
                passes < self.workflow.nodes[header].loop_limit for header, passes in lane["loops"].items()
            )

    @invariant()
    def a_completed_run_has_its_state_as_output(self) -> None:
        """I6."""
        if self.tape.status is RunStatus.COMPLETED:
            assert canonical.same(self.tape.output, self.tape.state)

    def teardown(self) -> None:
        if hasattr(self, "tape"):
            for point in self.tape.points:
                assert canonical.dumps(self.tape.refolded(point.no)) == point.document


TestRun = Run.TestCase
