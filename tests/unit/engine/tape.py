"""A run in memory: takes transitions as the store does, and keeps every checkpoint, so that tests can look at all of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.engine import Workflow, canonical, lanes, machine, migrating, patch
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.position import LiveStep
from runs.engine.status import LIVE_STEPS, TERMINAL, RunEvent, RunStatus, StepStatus, after
from runs.engine.transition import Aggregate, Transition
from runs.engine.versions import Migration
from runs.engine.waits import Place, Satisfied, Wanted


@dataclass(frozen=True)
class Point:
    """A checkpoint: what changed since its parent, and the whole document as it was then, as text."""

    no: int
    parent: int | None
    branch: int
    kind: str
    address: str
    ops: str
    document: str


@dataclass
class Row:
    """A step's row."""

    step: LiveStep
    status: StepStatus = StepStatus.READY
    failures: int = 0
    crashes: int = 0


@dataclass
class Tape:
    """The run, the rows of its steps by (branch, address), what is open, and all its checkpoints."""

    run: Aggregate
    points: list[Point] = field(default_factory=list)
    rows: dict[tuple[int, str], Row] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)
    approvals: dict[str, str] = field(default_factory=dict)
    places: dict[str, dict[Place, Wanted]] = field(default_factory=dict)
    journal: list[Satisfied] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    head: int = 0
    branches: int = 1
    output: Json = None
    error: dict[str, Json] | None = None

    @classmethod
    def submitted(cls, workflow: Workflow, document: Mapping[str, Json] | None = None) -> Tape:
        state = workflow.schema.accept(dict(document or {}))
        position = lanes.first(workflow, state)
        run = Aggregate("run", workflow, RunStatus.QUEUED.value, 1, 1, position, workflow.schema.load(state))
        tape = cls(run)
        tape.take(machine.start(run), "submitted")
        return tape

    # ---- what there is

    @property
    def status(self) -> RunStatus:
        return RunStatus(self.run.status)

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def live(self) -> list[Row]:
        return [row for row in self.rows.values() if row.status in LIVE_STEPS]

    @property
    def row(self) -> Row:
        """The one live step."""
        (row,) = self.live
        return row

    @property
    def step(self) -> LiveStep:
        return self.row.step

    @property
    def node(self) -> str:
        return self.step.node

    @property
    def state(self) -> dict[str, Json]:
        return at.state(self.run.position)

    def line(self, no: int) -> list[Point]:
        """A checkpoint and all before it, the first one first."""
        line: list[Point] = []
        here: int | None = no
        while here is not None:
            line.insert(0, self.points[here])
            here = self.points[here].parent
        return line

    def refolded(self, no: int) -> Any:
        """The document of a checkpoint, from the first one of its run by every patch on the way."""
        first, *line = self.line(no)
        document = canonical.loads(first.document)
        for point in line:
            if point.kind == "migration":  # stored whole
                document = canonical.loads(point.document)
            else:
                document = patch.apply(document, canonical.loads(point.ops))
        return document

    # ---- what happens

    def take(self, transition: Transition, command: str) -> Transition:
        """Store a transition: all of it, in the order of the store."""
        if transition.close_everything:
            kept = {change.address for change in transition.steps}
            void = StepStatus.VOID if transition.close_everything == "rewound" else StepStatus.CANCELLED
            for row in self.live:
                row.status = row.status if row.step.address in kept else void
            self.waits.clear()
            self.approvals.clear()
            self.places.clear()
        self.journal += transition.journal
        for address, name, occurrence in transition.close_places:
            self.places.get(address, {}).pop((name, occurrence), None)
        for address in transition.close_waits_of:
            self.waits.pop(address, None)
            self.approvals.pop(address, None)
            self.places.pop(address, None)
        self.run.epoch += transition.raise_epoch
        for change in transition.steps:
            row = self.rows[self.run.branch, change.address]
            row.status = change.status
            row.failures += change.failed
            row.crashes += change.crashed
        if command == "rewind":
            self.branches += 1
            self.run.branch = self.branches
        if transition.checkpoint is not None:
            ops = canonical.dumps(list(transition.checkpoint.ops))
            document = canonical.dumps(self.run.position)
            parent = self.head if self.points else None
            made = transition.checkpoint
            point = Point(len(self.points), parent, self.run.branch, made.kind, made.address, ops, document)
            self.points.append(point)
            self.head = point.no
        for step in transition.next_steps:
            assert (self.run.branch, step.address) not in self.rows, "a step that has been there already"
            self.rows[self.run.branch, step.address] = Row(step)
        if transition.wait is not None:
            self.waits[transition.wait.address] = transition.wait.kind
        if transition.opened is not None:
            self.approvals[transition.opened.address] = transition.opened.digest
        if transition.wanted:
            self.places[transition.steps[0].address] = {one.place: one for one in transition.wanted}
        self.events += [event.kind for event in transition.events]
        self.run.values = transition.values if transition.values is not None else self.run.values
        self.run.status = (transition.status or self.status).value
        self.error = transition.error if transition.ended or command == "rewind" else self.error
        self.output = transition.output if transition.ended else self.output
        self._show_who_executes()
        return transition

    def claim(self) -> LiveStep:
        row = self.row
        assert row.status is StepStatus.READY
        self.run.status = after(self.run.status, RunEvent.CLAIMED).value
        row.status = StepStatus.EXECUTING
        self._show_who_executes()
        return row.step

    def _show_who_executes(self) -> None:
        rows = [row.step.address for row in self.live if row.status is StepStatus.EXECUTING]
        self.run.executing = frozenset(rows)

    # ---- shorthands for tests of one command after the other

    def complete(self, update: Any = None) -> Transition:
        return self.take(machine.complete(self.run, self.claim(), update), "complete")

    def park(self) -> Transition:
        document: dict[str, Json] = {"title": "sure?", "actions": []}
        return self.take(machine.park(self.run, self.claim(), document, canonical.digest(document)), "park")

    def answer(self, outcome: str = "approve", **decision: Json) -> Transition:
        told = {"by": {"user": "frida"}, "comment": "", "actions": [], **decision}
        return self.take(machine.answer(self.run, self.step, outcome, told), "answer")

    def migrate(self, steps: Sequence[Migration], to: Workflow) -> Transition:
        """The run goes on with another version; on any error it stays as it is."""
        there = copy.copy(self.run)
        there.workflow = to
        asked = [address for address, kind in self.waits.items() if kind == "approval"]
        carried = migrating.carry(self.run.position, steps, to, asked=asked)
        transition = migrating.migrate(there, carried, steps, version=to.version, reason="test")
        self.run.workflow, self.run.position = to, carried.position
        self.run.values = to.schema.load(at.state(carried.position)) if self.run.values else {}
        return self.take(transition, "migrate")

    def rewind(self, no: int, changes: Mapping[str, Json] | None = None) -> Transition:
        """Go back; on any error the run stays as it is."""
        position = self.refolded(no)
        there = copy.copy(self.run)
        there.position, there.values = position, self.run.workflow.schema.load(at.state(position))
        facts: dict[str, Json] = {"checkpoint": no, "reason": "test"}
        transition = machine.rewind(there, position, there.values, changes or {}, facts)
        self.head = no
        self.run.position = position
        return self.take(transition, "rewind")
