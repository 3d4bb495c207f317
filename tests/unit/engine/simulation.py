"""Runs in memory: what the store and the workers do, without a database, a clock or a thread.

Workers keep their own view of the position, as real ones do. What is decided (targets, items, answers, failures) depends on
addresses alone, so that every interleaving decides alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel

from runs.engine import Workflow, append, canonical, forking, lanes, machine, patch
from runs.engine import position as at
from runs.engine.failures import error_of
from runs.engine.lanes import Lanes
from runs.engine.patch import Recorder
from runs.engine.position import LiveStep
from runs.engine.status import LIVE_STEPS, TERMINAL, RunStatus, StepStatus
from runs.engine.transition import Aggregate, Resolved, Transition
from runs.engine.waits import Satisfied, Wanted

GO = Wanted("signal", "go", "0", "")
ACTIVE = (StepStatus.READY, StepStatus.EXECUTING)


class Log(BaseModel):
    """Everything that ran, in the order that the lanes have."""

    log: Annotated[list[str], append] = []
    found: Annotated[list[Any], append] = []


def number(address: str, salt: str = "") -> int:
    """What is decided at an address."""
    return int(at.address_of(salt, [address])[:8], 16)


class LateResultError(Exception):
    """The fence said no."""


@dataclass
class Row:
    step: LiveStep
    status: str = StepStatus.READY
    token: int = 0
    attempts: int = 0
    error: Any = None


@dataclass
class Point:
    no: int
    branch: int
    parent: int | None
    snapshot_no: int
    patch: str | None
    snapshot: str | None


@dataclass
class Worker:
    """A claimed step, with the position as it was when it was claimed."""

    step: LiveStep
    token: int
    epoch: int
    branch: int
    view: dict[str, Any]
    attempt: int


@dataclass
class Simulation:
    workflow: Workflow
    fails: Callable[[LiveStep, int], bool] = lambda step, attempt: False
    snapshot_every: int = 7
    status: str = RunStatus.QUEUED
    error: Any = None
    output: Any = None
    epoch: int = 1
    branch: int = 1
    head: int = 0
    tokens: int = 0
    points: list[Point] = field(default_factory=list)
    rows: dict[tuple[int, str], Row] = field(default_factory=dict)
    items: dict[str, list[Any]] = field(default_factory=dict)
    committed: list[tuple[int, str]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    waits: Callable[[LiveStep], bool] = lambda step: False
    parked: list[str] = field(default_factory=list)
    answered: dict[str, int] = field(default_factory=dict)  # by address: the head before the answer
    local_commits: int = 0
    start: dict[str, Any] | None = None  # of a fork: where it begins

    def __post_init__(self) -> None:
        document = self.start or lanes.first(self.workflow, self.workflow.first_state({}))
        self._point(document, [], first=True)
        self._begin(at.live_steps(document), StepStatus.READY)
        self._begin(at.opened_steps(document), StepStatus.WAITING)

    # ---- the store

    def read(self, no: int) -> dict[str, Any]:
        """A checkpoint's document: its snapshot and the patches since."""
        last = self.points[no]
        document: Any = None
        for point in self.points[last.snapshot_no : no + 1]:
            if point.branch == last.branch:
                if point.snapshot is not None:
                    document = canonical.loads(point.snapshot)
                else:
                    document = patch.apply(document, canonical.loads(point.patch or ""))
        assert isinstance(document, dict)
        return document

    @property
    def document(self) -> dict[str, Any]:
        return self.read(self.head)

    def _point(self, document: dict[str, Any] | None, ops: Any, *, first: bool = False) -> None:
        no = len(self.points)
        mine = [point for point in self.points if point.branch == self.branch]
        snapshot = document if not mine or len(mine) % self.snapshot_every == 0 else None
        text = canonical.dumps(snapshot) if snapshot is not None else None
        self.points.append(
            Point(
                no,
                self.branch,
                None if first else self.head,
                no if text else mine[-1].snapshot_no,
                None if text else canonical.dumps(ops),
                text,
            )
        )
        self.head = no

    def _wants_snapshot(self) -> bool:
        mine = sum(point.branch == self.branch for point in self.points)
        return mine % self.snapshot_every == 0

    def _begin(self, steps: list[LiveStep], status: StepStatus) -> None:
        for step in steps:
            assert (self.branch, step.address) not in self.rows, "a step is begun twice"
            self.rows[self.branch, step.address] = Row(step, status)

    def row(self, address: str) -> Row:
        return self.rows[self.branch, address]

    def live(self, *statuses: StepStatus) -> list[Row]:
        wanted = statuses or tuple(LIVE_STEPS)
        return [
            row for (branch, _), row in self.rows.items() if branch == self.branch and row.status in wanted
        ]

    def aggregate(self, lane: str | None = None) -> Aggregate:
        document = self.document
        known = {
            step.address: self.row(step.address)
            for step in at.all_steps(document)
            if (self.branch, step.address) in self.rows
        }
        run = Aggregate(
            "run",
            self.workflow,
            self.status,
            self.epoch,
            self.branch,
            document,
            {},
            executing=frozenset(a for a, row in known.items() if row.status == StepStatus.EXECUTING),
            rows={a: row.status for a, row in known.items()},
            errors={a: row.error for a, row in known.items() if row.status == StepStatus.FAILED},
            draining=self.error is not None and self.status not in TERMINAL,
        )
        if lane is not None:
            run.values = self.values(document, lane)
        return run

    def values(self, document: dict[str, Any], lane: str) -> dict[str, Any]:
        flow = at.workflow_of(self.workflow, document, lane)
        return flow.schema.load(at.lane_view(document, lane).state)

    def commit(self, transition: Transition, document: dict[str, Any]) -> None:
        """What the store does with a transition under the run's lock."""
        if transition.close_everything:
            void = transition.close_everything == "rewound"
            for row in self.live():
                if row.step.address not in {change.address for change in transition.steps}:
                    row.status, row.token = StepStatus.VOID if void else StepStatus.CANCELLED, 0
            self.opened.clear()
            self.parked.clear()
        if transition.raise_epoch:
            self.epoch += 1
        self._answer(transition)
        for change in transition.steps:
            changed = self.rows.get((self.branch, change.address))
            if changed is None:
                assert change.status == StepStatus.CANCELLED
                continue
            row = changed
            if transition.forgives or row.status in LIVE_STEPS:
                row.status, row.token = change.status, 0
                row.attempts += change.failed + change.crashed
                row.error = change.error
                if change.status == StepStatus.COMPLETED:
                    self._note_commit(change.address)
        if transition.checkpoint:
            self._point(document, transition.checkpoint.ops)
        self._begin(transition.next_steps, StepStatus.READY)
        self._begin(transition.waiting_steps, StepStatus.WAITING)
        self.opened = [a for a in self.opened if a not in transition.close_waits_of]
        if transition.opened:
            self.opened.append(transition.opened.address)
        self.kinds += [event.kind for event in transition.events]
        self.error = None if transition.forgives else transition.error or self.error
        self.status = transition.status or self.status
        if transition.ended and self.status == RunStatus.COMPLETED:
            self.output = transition.output

    def _answer(self, transition: Transition) -> None:
        """What bodies wait for from now on, and what they wait for no longer."""
        self.parked = [a for a in self.parked if a not in transition.close_waits_of]
        self.parked += [transition.steps[0].address for _ in transition.wanted]
        for address, _, _ in transition.close_places:
            assert address not in self.answered, "something is answered twice"
            self.answered[address] = self.head

    def _note_commit(self, address: str) -> None:
        assert (self.branch, address) not in self.committed, "a step is committed twice"
        self.committed.append((self.branch, address))

    # ---- workers

    def claim(self, address: str) -> Worker | None:
        row = self.rows.get((self.branch, address))
        if row is None or row.status != StepStatus.READY or self.error is not None:
            return None
        if row.step.item is not None and not self._has_room(row.step):
            return None
        self.tokens += 1
        row.status, row.token, self.status = StepStatus.EXECUTING, self.tokens, RunStatus.RUNNING
        return Worker(row.step, self.tokens, self.epoch, self.branch, self.document, row.attempts + 1)

    def _has_room(self, step: LiveStep) -> bool:
        outer = step.lane.partition("#")[0]
        items = [r for r in self.live(StepStatus.EXECUTING) if r.step.lane.startswith(f"{outer}#")]
        return len(items) < int(at.lane_at(self.document, outer)["fan"]["at_once"])

    def _check(self, worker: Worker) -> None:
        row = self.rows.get((worker.branch, worker.step.address))
        if worker.epoch != self.epoch or row is None or row.token != worker.token:
            raise LateResultError

    def finish(self, worker: Worker) -> Worker | None:
        """Run the body and commit what comes of it; returns the worker with the lane's next step if it has that already."""
        step, view = worker.step, worker.view
        node = self.workflow.nodes[step.node]
        run = Aggregate("run", self.workflow, RunStatus.RUNNING, worker.epoch, worker.branch, view, {})
        if self.fails(step, worker.attempt):
            error = {"code": "node_error", "message": f"{step.node} fails"}
            self._under_lock(
                worker, lambda run: machine.fail(run, step, error, attempt=worker.attempt, delay=None)
            )
            return None
        try:
            run.values = at.workflow_of(self.workflow, view, step.lane).schema.load(
                at.lane_state(view, step.lane)
            )
        except Exception as error:  # noqa: BLE001
            facts = error_of(error)
            self._under_lock(worker, lambda run: machine.fail(run, step, facts, attempt=1, delay=None))
            return None
        update: Any = None
        phase = at.phase(view, step, node)
        if phase in ("body", "item") and self.waits(step) and step.address not in self.answered:
            self._under_lock(worker, lambda run: machine.suspend(run, step, [GO]))
            return None
        match phase:
            case "list":
                self.items[step.address] = [
                    f"{step.node}{n}" for n in range(number(step.address, "items") % 4)
                ]
                count = len(self.items[step.address])
                if count:
                    self._under_lock(worker, lambda run: machine.begin_items(run, step, count))
                    return None
                update = {"found": []}
            case "item":
                outer = at.outer_step(view, step.lane)
                assert outer is not None
                item = self.items[outer.address][step.item or 0]
                self._under_lock(worker, lambda run: machine.complete_item(run, step, item))
                return None
            case "gather":
                update = {"found": lanes.results(view, step.lane)}
            case "enter":
                self._under_lock(worker, lambda run: machine.enter(run, step, {"log": [], "found": []}))
                return None
            case "leave":
                update = {"log": at.lane_at(view, step.lane)["scope"]["base"]["log"]}
            case _:
                if node.approval:
                    document = {"title": step.node, "actions": []}
                    self._under_lock(worker, lambda run: machine.park(run, step, document, "digest"))
                    return None
                update = node.body(None, step)
        return self._complete(worker, run, update)

    def _complete(self, worker: Worker, run: Aggregate, update: Any) -> Worker | None:
        step = worker.step
        resolved = machine.resolve(run, step, update)
        transition = machine.settle_alone(run, step, resolved)
        if transition is None:
            self._under_lock(worker, lambda run: machine.settle(run, step, resolved))
            return None
        return self._statement(worker, transition, resolved)

    def _statement(self, worker: Worker, transition: Transition, resolved: Resolved) -> Worker | None:
        """The one statement: no look at the true document. Falls back to the lock where it must."""
        step, alone = worker.step, at.is_alone(worker.view, worker.step.lane)
        self._check(worker)
        if self.error is not None or (not alone and self._wants_snapshot()):
            self._under_lock(worker, lambda run: machine.settle(run, step, resolved))
            return None
        assert transition.checkpoint is not None
        self.local_commits += 1
        self._note_commit(step.address)
        self.row(step.address).status, self.row(step.address).token = StepStatus.COMPLETED, 0
        if alone:
            self._point(worker.view, transition.checkpoint.ops)
            assert canonical.dumps(worker.view) == canonical.dumps(self.document)
        else:
            self._point(None, transition.checkpoint.ops)
            assert at.lane_at(worker.view, step.lane) == at.lane_at(self.document, step.lane)
        assert at.lane_view(worker.view, step.lane) == at.lane_view(self.document, step.lane)
        (following,) = transition.next_steps
        self._begin([following], StepStatus.READY)
        self.tokens += 1
        row = self.row(following.address)
        row.status, row.token = StepStatus.EXECUTING, self.tokens
        return Worker(following, self.tokens, self.epoch, self.branch, worker.view, 1)

    def _under_lock(self, worker: Worker, command: Callable[[Aggregate], Transition]) -> None:
        self._check(worker)
        run = self.aggregate(worker.step.lane)
        transition = command(run)
        self.commit(transition, run.position)

    # ---- sweeper and people

    def take_over(self, address: str) -> None:
        run = self.aggregate()
        step = at.find(run.position, address)
        assert step is not None
        transition = machine.take_over(run, step, reason="gone", crashes=1, limit=99, worker="1")
        self.commit(transition, run.position)

    def answer(self, address: str) -> None:
        run = self.aggregate(at.lane_of(self.document, address))
        step = at.find(run.position, address)
        assert step is not None
        decision = {"approval": address, "actions": [], "at": "", "comment": ""}
        self.commit(machine.answer(run, step, "approve", decision), run.position)

    def wake(self, address: str) -> None:
        """What a step waits for is there: a signal that nothing else takes."""
        run = self.aggregate(at.lane_of(self.document, address))
        step = at.find(run.position, address)
        assert step is not None
        found = Satisfied(
            "signal",
            GO.name,
            GO.occurrence,
            "",
            {},
            "signal_taken",
            checkpoint="signal",
            taken=("go", len(self.points)),
        )
        self.commit(machine.satisfy(run, step, found), run.position)

    def rewind(self, no: int) -> None:
        self.answered = {address: after for address, after in self.answered.items() if after < no}
        document = self.read(no)
        run = self.aggregate()
        transition = machine.rewind(run, document, {}, {}, {})
        for key in [key for key in self.rows if key[0] > self.branch]:
            del self.rows[key]
        for row in self.live():
            row.status, row.token = StepStatus.VOID, 0
        self.branch = max(point.branch for point in self.points) + 1 if self._has_points() else self.branch
        self.head, self.error, self.output = no, None, None
        self.rows = {key: row for key, row in self.rows.items() if key[0] != self.branch}
        self.committed = [entry for entry in self.committed if entry[0] != self.branch]
        self.commit(transition, document)

    def fork(self, no: int) -> Simulation:
        """A run of its own from a checkpoint; what its fan-outs had listed is among the calls before."""
        document = self.read(no)
        forking.detach(self.workflow, document, {asked: asked for asked in forking.decisions(document)})
        machine.fork(document, {})
        return Simulation(self.workflow, items=dict(self.items), start=document)

    def _has_points(self) -> bool:
        return any(point.branch == self.branch for point in self.points)

    def retry(self) -> None:
        run = self.aggregate()
        self.commit(machine.retry(run, reason=""), run.position)

    # ---- what always holds

    def check(self) -> None:
        document = self.document
        rows = {row.step.address: row.status for row in self.live()}
        if self.status in TERMINAL:
            assert rows == {}, "a run that has ended owns steps"
            assert (self.opened, self.parked) == ([], [])
            return
        assert at.live_steps(document), "nothing is left to do, and the run has not ended"
        known = {step.address for step in at.all_steps(document)}
        assert rows.keys() <= known
        opened = {step.address for step in at.opened_steps(document)}
        for step in at.all_steps(document):
            if step.item is None:
                assert step.address in rows or self.error is not None
            if step.address in opened:
                assert rows[step.address] == StepStatus.WAITING
        active = any(status in ACTIVE for status in rows.values())
        if self.error is None:
            assert (self.status == RunStatus.WAITING) == (not active)
        else:
            assert StepStatus.EXECUTING in rows.values(), "a run drains although nothing executes"
        if StepStatus.EXECUTING in rows.values():
            assert self.status == RunStatus.RUNNING
        for lane in at.lanes(document):
            waits = Lanes(self.workflow, Recorder(document), str(lane["lane"]))
            assert waits._ready_slot() is None, "a join waits that nobody can arrive at"
        for scope in scopes(document["root"]):
            arrived = [lane for lane in scope["lanes"].values() if lane.get("status") == at.ARRIVED]
            live = [lane for lane in scope["lanes"].values() if lane.get("status", at.LIVE) == at.LIVE]
            assert live or not arrived, "joins wait for each other"
            assert (list(scope["lanes"]) and set(scope["lanes"]) == set(scope["order"])) or not scope["order"]
            assert ("segments" in scope) == (len(scope["lanes"]) > 1) or len(scope["lanes"]) <= 1


def scopes(scope: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [lane["scope"] for lane in scope["lanes"].values() if "scope" in lane]
    return [scope, *(found for one in inner for found in scopes(one))]


def finish_in_order(simulation: Simulation, *, most: int = 400) -> bool:
    """Run to the end, always the first step that is there; False if it makes too many steps."""
    for _ in range(most):
        simulation.check()
        if simulation.status == RunStatus.FAILED:
            simulation.retry()
            continue
        if simulation.status in TERMINAL:
            return True
        ready = simulation.live(StepStatus.READY)
        if ready:
            worker = next((w for row in ready if (w := simulation.claim(row.step.address))), None)
            assert worker is not None
            while worker is not None:
                worker = simulation.finish(worker)
        elif simulation.parked:
            simulation.wake(simulation.parked[0])
        else:
            simulation.answer(simulation.opened[0])
    return False
