"""Stores transitions in a book: what `runs.store` does with them in Postgres, without leases and without rivals."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from runs.driver import Entry
from runs.driver.clock import identifier, number
from runs.engine import Workflow, canonical, chain, lanes, machine, patch, schedule
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.compensation import CallPlace
from runs.engine.deadline import Clock, clock_after
from runs.engine.lineage import line_of, sees
from runs.engine.status import LIVE_STEPS, TERMINAL, ApprovalStatus, RunStatus, StepStatus
from runs.engine.transition import Aggregate, Event, Opened, StepChange, Transition
from runs.engine.versions import Move, stored_as
from runs.engine.waits import Place, Satisfied, Wanted
from runs.errors import LateResult, UnknownCheckpoint
from runs.testing.book import (
    ApprovalRow,
    Book,
    BranchRow,
    CheckpointRow,
    ChildRow,
    EventRow,
    JournalRow,
    MigratedRow,
    PlayError,
    RevisionRow,
    RunRow,
    StepRow,
    WaitRow,
    WorldRow,
)
from runs.testing.people import People

PATCH_OVERHEAD: Final = 256  # bytes that a patch counts for beside its own
SYSTEM: Final[dict[str, Json]] = {"type": "system", "id": None, "name": "system"}


@dataclass(slots=True)
class World:
    """A book with the code of what is played in it. older: versions that newer ones have replaced, by name and version.
    people: who there is to answer, and when they work."""

    book: Book
    workflows: dict[str, Workflow]
    older: dict[tuple[str, str], Workflow] = field(default_factory=dict)
    people: People = field(default_factory=People)

    @property
    def row(self) -> WorldRow:
        return self.book.get(WorldRow)

    @property
    def now(self) -> datetime:
        return self.row.now

    def workflow_of(self, run: RunRow) -> Workflow:
        return self.older.get((run.workflow, run.version)) or self.workflow(run.workflow)

    def deploy(self, workflow: Workflow) -> None:
        """From now on new runs have this version; what is under way stays at its own."""
        before = self.workflows.get(workflow.name)
        if before is not None and before.version != workflow.version:
            self.older[before.name, before.version] = before
        self.workflows[workflow.name] = workflow

    def workflow(self, name: str) -> Workflow:
        if name not in self.workflows:
            raise PlayError(
                f"No workflow {name!r} is known here; give it to play(…, children=[…]). Known: "
                f"{', '.join(sorted(self.workflows))}."
            )
        return self.workflows[name]

    def new_id(self) -> str:
        """An id that is drawn from the seed: the same play gives the same ids, and so the same keys and chances."""
        row = self.row
        row.drawn += 1
        self.book.save(row)
        return str(identifier(f"{row.seed}\n{row.drawn}"))

    def draw(self, *what: object) -> float:
        """A number from 0 up to 1, from the seed."""
        return number("\n".join([self.row.seed, *map(str, what)]))

    def runs(self) -> list[RunRow]:
        return self.book.find(RunRow)

    def run(self, run_id: str) -> RunRow:
        return self.book.get(RunRow, id=run_id)


@dataclass(frozen=True, slots=True)
class Held:
    """A step that is being executed."""

    step: StepRow
    token: int


@dataclass(frozen=True, slots=True)
class NewBranch:
    parent_checkpoint: int
    calls: str
    reason: str
    again: Sequence[CallPlace] = ()


# ---- reading


def read_position(book: Book, run: str, no: int) -> dict[str, Any]:
    """The document of a checkpoint: its snapshot, and the patches since."""
    head = book.one(CheckpointRow, run=run, no=no)
    if head is None:
        raise UnknownCheckpoint(f"The run has no checkpoint {no}.", checkpoint=no)
    document: Any = None
    for point in book.find(CheckpointRow, run=run, branch=head.branch, no=range_of(head.snapshot_no, no)):
        if point.snapshot is not None:
            document = canonical.loads(point.snapshot)
        else:
            document = patch.apply_fresh(document, canonical.loads(point.patch or "[]"))
    found: dict[str, Any] = document
    return found


def range_of(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def lineage(book: Book, run: str, branch: int) -> dict[int, int | None]:
    """A branch and its ancestors, each with the checkpoint at which it was left; None for the branch itself."""
    rows = book.find(BranchRow, run=run)
    return line_of(branch, {row.no: (row.parent_branch, row.parent_checkpoint) for row in rows})


def version_at(book: Book, run: RunRow, checkpoint: int) -> str:
    """The version as which a checkpoint is stored."""
    rows = book.find(MigratedRow, run=run.id)
    moves = [Move(row.branch, row.checkpoint, row.from_version, row.to_version) for row in rows]
    branch = book.get(CheckpointRow, run=run.id, no=checkpoint).branch
    line = lineage(book, run.id, branch)
    seen = {no: checkpoint if limit is None else min(limit, checkpoint) for no, limit in line.items()}
    return stored_as(moves, seen, now=run.version)


def journal(book: Book, run: RunRow, address: str) -> list[Entry]:
    """Every entry of an address that this branch sees, and those that it may reuse."""
    line = lineage(book, run.id, run.branch)
    branch = book.get(BranchRow, run=run.id, no=run.branch)
    again = branch.again or []
    rows = [row for row in book.find(JournalRow, run=run.id, address=address) if row.branch <= run.branch]
    found = [(row, sees(line, row.branch, row.after)) for row in rows]
    return [
        Entry.of(row, visible=visible)
        for row, visible in found
        if visible or (branch.calls == "reuse" and [row.address, row.name, row.occurrence] not in again)
    ]


def aggregate(
    world: World,
    run: RunRow,
    position: dict[str, Any] | None = None,
    *,
    address: str | None = None,
    lane: str | None = None,
    workflow: Workflow | None = None,
) -> Aggregate:
    """A run as the engine sees it, at its head or at `position`; `values` are those of the acting step or lane."""
    book, document = world.book, position
    if document is None:
        document = read_position(book, run.id, run.head)
    facts = Aggregate(
        run_id=run.id,
        workflow=workflow or world.workflow_of(run),
        status=run.status,
        epoch=run.epoch,
        branch=run.branch,
        position=document,
        values={},
        draining=run.error is not None and run.status not in TERMINAL,
    )
    addresses = [step.address for step in at.all_steps(document)]
    rows = book.find(StepRow, run=run.id, branch=run.branch, address=addresses)
    rows = [row for row in rows if row.status not in (StepStatus.COMPLETED, StepStatus.VOID)]
    facts.executing = frozenset(row.address for row in rows if row.status == StepStatus.EXECUTING)
    if len(addresses) > 1 or run.status == RunStatus.FAILED:
        facts.rows = {row.address: row.status for row in rows}
        failed = [row for row in rows if row.status == StepStatus.FAILED]
        facts.errors = {row.address: {**(row.error or {}), "step": row.node} for row in failed}
    acting = lane if address is None else at.lane_of(document, address)
    if acting is not None:
        schema, seen = facts.workflow_of(acting).schema, at.lane_view(document, acting).state
        facts.values = schema.load(seen) if lane is None else schema.load_to_edit(seen)
    return facts


def open_waits(book: Book, run: RunRow, address: str) -> list[WaitRow]:
    waits = book.find(WaitRow, run=run.id, branch=run.branch, address=address, closed_at=None)
    return sorted(waits, key=lambda wait: (wait.position, wait.row))


def open_approvals(book: Book, run: str) -> list[ApprovalRow]:
    return book.find(ApprovalRow, run=run, status=ApprovalStatus.OPEN.value)


# ---- starting


def begin(world: World, workflow: Workflow, given: Json, *, parent: str = "") -> RunRow:
    """Store a new run with its first transition. Raises `Unprocessable` if the input does not fit."""
    state = workflow.first_state(given)
    now, book = world.now, world.book
    run = book.add(
        RunRow(
            id=world.new_id(),
            workflow=workflow.name,
            version=workflow.version,
            fingerprint=workflow.fingerprint,
            status=RunStatus.QUEUED.value,
            input=given,
            created_at=now,
            updated_at=now,
            deadline=workflow.deadline,
            parent=parent,
        )
    )
    book.add(BranchRow(run=run.id, no=1))
    document = lanes.first(workflow, state)
    facts = Aggregate(run.id, workflow, run.status, 1, 1, document, {})
    commit(world, run, machine.start(facts), position=document)
    return run


# ---- committing


def commit(world: World, run: RunRow, transition: Transition, **how: Any) -> None:
    """Store a transition: all of it, or nothing. Raises `LateResult` if `held` is not held any more.

    The run is read anew: whoever holds an older row of it (a body that steers its own run) must not write that back.
    """
    with world.book.transaction():
        _Writer(world, world.run(run.id), transition, world.now, **how).write()


@dataclass(slots=True)
class _Writer:
    """position: the document after the transition. opened: the row of a new approval; asked: such rows, and child runs, by
    the place of what a body waits for."""

    world: World
    run: RunRow
    transition: Transition
    moment: datetime
    position: dict[str, Any] | None = None
    held: Held | None = None
    actor: Json = None
    reason: str = ""
    branch: NewBranch | None = None
    opened: ApprovalRow | None = None
    asked: Mapping[Place, ApprovalRow | RunRow] = field(default_factory=dict)

    @property
    def book(self) -> Book:
        return self.world.book

    def write(self) -> None:
        if self.held:
            check_held(self.world, self.run, self.held)
        self._journal()
        self._close()
        if self.transition.raise_epoch:
            self.run.epoch += 1
        if self.branch:
            self._start_branch(self.branch)
        self._end_steps()
        self._checkpoint()
        self._move()
        self._begin_steps()
        self._begin_undo()
        self._open_waits()
        self._ask()
        self._events()
        self._finish()
        self.book.save(self.run)

    # ---- what was waited for

    def _journal(self) -> None:
        for found in self.transition.journal:
            address = self.transition.close_places[0][0]
            step = self.book.get(StepRow, run=self.run.id, branch=self.run.branch, address=address)
            self.book.add(self._entry(step, found))

    def _entry(self, step: StepRow, found: Satisfied) -> JournalRow:
        return JournalRow(
            run=self.run.id,
            branch=self.run.branch,
            address=step.address,
            name=found.name,
            occurrence=found.occurrence,
            kind=found.kind,
            node=step.node,
            after=self.run.head,
            attempt=attempt_of(step),
            args_digest=found.digest,
            result=canonical.dumps(found.result),
            at=self.moment,
        )

    def _close(self) -> None:
        waits = self.book.find(WaitRow, run=self.run.id, closed_at=None)
        approvals = open_approvals(self.book, self.run.id)
        if self.transition.close_everything:
            self._end_live(self.transition.ends_steps_as)
        else:
            addresses, places = self.transition.close_waits_of, self.transition.close_places
            waits = [
                w for w in waits if w.address in addresses or (w.address, w.name, w.occurrence) in places
            ]
            approvals = [one for one in approvals if one.address in addresses]
        for wait in waits:
            wait.closed_at = self.moment
        status, reason = self.transition.closes_as
        for approval in approvals:
            approval.status, approval.closed_at, approval.closed_reason = status.value, self.moment, reason
        self.book.save(*waits, *approvals)

    def _end_live(self, status: StepStatus) -> None:
        kept = [change.address for change in self.transition.steps]
        live = self.book.find(StepRow, run=self.run.id, status=[one.value for one in LIVE_STEPS])
        for step in live:
            if step.address not in kept:
                step.status, step.token = status.value, 0
                self.book.save(step)

    # ---- branch, steps, checkpoint

    def _start_branch(self, new: NewBranch) -> None:
        book, run = self.book, self.run
        origin = book.get(CheckpointRow, run=run.id, no=new.parent_checkpoint)
        parent = book.get(BranchRow, run=run.id, no=origin.branch)
        no = book.find(BranchRow, run=run.id)[-1].no + 1
        book.add(
            BranchRow(
                run=run.id,
                no=no,
                parent_branch=parent.no,
                parent_checkpoint=new.parent_checkpoint,
                calls=new.calls,
                generation=no if new.calls == "again" else parent.generation,
                reason=new.reason,
                again=[list(place) for place in new.again],
                generations=self._generations(parent, new, no),
            )
        )
        run.branch, run.head = no, new.parent_checkpoint
        run.snapshot_no = run.snapshot_size = run.patch_weight = 0
        run.finished_at, run.error, run.output = None, None, None

    def _generations(self, parent: BranchRow, new: NewBranch, no: int) -> dict[str, int]:
        kept = {} if new.calls == "again" else parent.generations or {}
        return {**kept, **{canonical.dumps(list(place)): no for place in new.again}}

    def _end_steps(self) -> None:
        for change in self.transition.steps:
            step = self.book.one(StepRow, run=self.run.id, branch=self.run.branch, address=change.address)
            if step is not None:
                self._end_step(step, change)
                self.book.save(step)

    def _end_step(self, step: StepRow, change: StepChange) -> None:
        if self.transition.forgives:
            step.status, step.earlier = change.status.value, step.earlier + step.failures + step.crashes
            step.failures = step.crashes = 0
        elif step.status in LIVE_STEPS:
            step.status, step.token, step.error = change.status.value, 0, change.error
            step.failures += change.failed
            step.crashes += change.crashed

    def _checkpoint(self) -> None:
        point, run = self.transition.checkpoint, self.run
        if point is None:
            return
        first = point.kind == "input"
        no = 0 if first else run.checkpoint_no + 1
        ops = canonical.dumps(point.ops)
        size = len(ops.encode()) + PATCH_OVERHEAD
        fresh = first or point.kind == "migration" or (run.snapshot_no == 0 and run.branch > 1)
        whole = (
            canonical.dumps(self.position) if fresh or run.patch_weight + size > run.snapshot_size else None
        )
        self.book.add(
            CheckpointRow(
                run=run.id,
                no=no,
                branch=run.branch,
                parent=None if first else run.head,
                kind=point.kind,
                node=point.node,
                address=point.address,
                snapshot_no=run.snapshot_no if whole is None else no,
                snapshot=whole,
                patch=ops if whole is None else None,
                reason=self.reason,
                at=self.moment,
            )
        )
        run.head = run.checkpoint_no = no
        if whole is None:
            run.patch_weight += size
        else:
            run.snapshot_no, run.snapshot_size, run.patch_weight = no, len(whole.encode()), 0
        step = self.book.one(StepRow, run=run.id, branch=run.branch, address=point.address)
        if step is not None:
            step.checkpoint = no
            self.book.save(step)

    def _move(self) -> None:
        moved, run = self.transition.moved, self.run
        if moved is None:
            return
        self.book.add(
            MigratedRow(
                run=run.id,
                branch=run.branch,
                checkpoint=run.head,
                from_version=moved.from_version,
                to_version=moved.to_version,
            )
        )
        run.version, run.fingerprint = moved.to_version, moved.fingerprint
        for address, node in moved.nodes.items():
            self._rename(address, node)

    def _rename(self, address: str, node: str) -> None:
        there = {"run": self.run.id, "branch": self.run.branch, "address": address}
        rows: list[StepRow | WaitRow | ApprovalRow] = [
            *self.book.find(StepRow, **there),
            *self.book.find(WaitRow, **there, closed_at=None),
            *self.book.find(ApprovalRow, **there, status=ApprovalStatus.OPEN.value),
        ]
        for row in rows:
            row.node = node
        self.book.save(*rows)

    def _begin_steps(self) -> None:
        ready = [(step, StepStatus.READY) for step in self.transition.next_steps]
        for step, status in [*ready, *((one, StepStatus.WAITING) for one in self.transition.waiting_steps)]:
            self.book.add(
                StepRow(
                    run=self.run.id,
                    branch=self.run.branch,
                    address=step.address,
                    lane=step.lane,
                    node=step.node,
                    visit=step.visit,
                    status=status.value,
                    epoch=self.run.epoch,
                )
            )

    def _begin_undo(self) -> None:
        for undo in self.transition.undo:
            self.book.add(
                StepRow(
                    run=self.run.id,
                    branch=self.run.branch,
                    address=undo.step,
                    lane="undo",
                    node=undo.node,
                    visit=1,
                    status=StepStatus.READY.value,
                    epoch=self.run.epoch,
                    undoes=undo.call,
                )
            )

    # ---- what is waited for from now on

    def _open_waits(self) -> None:
        wait = self.transition.wait
        if wait is None:
            return
        due = schedule.due_after(self.opened.options, self.moment) if self.opened else wait.due(self.moment)
        self.book.add(
            WaitRow(
                run=self.run.id,
                branch=self.run.branch,
                address=wait.address,
                node=wait.node,
                kind=wait.kind,
                opened_at=self.moment,
                due_at=due,
            )
        )
        if self.transition.opened and self.opened:
            self._open_approval(self.transition.opened, self.opened, due)

    def _ask(self) -> None:
        if not self.transition.wanted:
            return
        assert self.held is not None
        earlier = self._asked_before(self.held.step.address)
        for position, one in enumerate(self.transition.wanted):
            before = earlier.get(one.place) if one.keeps_its_instant else None
            self._ask_one(self.held.step, one, position, before)

    def _ask_one(self, step: StepRow, one: Wanted, position: int, before: WaitRow | None) -> None:
        due = before.due_at if before else one.due(self.moment)
        made = self.asked.get(one.place)
        if isinstance(made, ApprovalRow):
            due = schedule.due_after(made.options, self.moment)
        self.book.add(
            WaitRow(
                run=self.run.id,
                branch=self.run.branch,
                address=step.address,
                node=step.node,
                kind=one.kind,
                name=one.name,
                occurrence=one.occurrence,
                label=one.label,
                race=one.race,
                position=position,
                after=before.after if before else self.run.head,
                digest=one.digest,
                schema=one.schema,
                child=made.id if isinstance(made, RunRow) else "",
                opened_at=before.opened_at if before else self.moment,
                due_at=due,
            )
        )
        if isinstance(made, ApprovalRow):
            assert one.document is not None
            self._supersede(one.supersedes)
            made.name, made.occurrence = one.place
            self._open_approval(Opened(step.address, step.node, one.document, one.digest), made, due)

    def _asked_before(self, address: str) -> dict[Place, WaitRow]:
        """An instant that was recorded before counts on, where this branch sees it."""
        line = lineage(self.book, self.run.id, self.run.branch)
        rows = self.book.find(WaitRow, run=self.run.id, address=address)
        return {
            (row.name, row.occurrence): row
            for row in sorted(rows, key=lambda row: (row.branch, row.row))
            if sees(line, row.branch, row.after)
        }

    def _supersede(self, approval_id: str) -> None:
        old = self.book.one(ApprovalRow, id=approval_id) if approval_id else None
        if old is not None:
            old.status, old.closed_reason = ApprovalStatus.SUPERSEDED.value, "payload_changed"
            self.book.save(old)

    def _open_approval(self, opened: Opened, approval: ApprovalRow, due: datetime | None) -> None:
        approval.document, approval.digest = opened.document, opened.digest
        approval.title = str(opened.document["title"])
        approval.opened_at, approval.due_at = self.moment, due
        approval.remind_at = schedule.remind_at(approval.options, due, after=self.moment)
        approval.branch = self.run.branch
        self.book.add(approval)
        self.book.add(RevisionRow(approval=approval.id, version=1, author=""))

    # ---- history and status

    def _events(self) -> None:
        actor = canonical.dumps(self.actor) if self.actor is not None else ""
        for event in self.transition.events:
            salt = random.randbytes(16)  # noqa: S311  # it hides nothing here
            payload = canonical.dumps(self._payload(event))
            hashed = chain.payload_hash(salt, payload)
            body = chain.body(
                kind=event.kind,
                node=event.node,
                address=event.address,
                branch=self.run.branch,
                epoch=self.run.epoch,
                actor=actor,
                payload_hash=hashed,
            )
            checkpoint = self.run.head if self.transition.checkpoint else None
            self.run.seq += 1
            self.run.head_hash = chain.link(
                self.run.head_hash, seq=self.run.seq, at=self.moment, checkpoint=checkpoint, body=body
            )
            self.book.add(
                EventRow(
                    run=self.run.id,
                    seq=self.run.seq,
                    kind=event.kind,
                    branch=self.run.branch,
                    epoch=self.run.epoch,
                    checkpoint=checkpoint,
                    node=event.node,
                    address=event.address,
                    actor=actor,
                    at=self.moment,
                    payload=payload,
                    salt=salt,
                    payload_hash=hashed,
                    hash=self.run.head_hash,
                )
            )

    def _payload(self, event: Event) -> dict[str, Json]:
        if event.kind == "approval_opened" and self.opened:
            return {**event.payload, "approval": self.opened.id}
        made = self.asked.get((str(event.payload.get("name")), str(event.payload.get("occurrence"))))
        if made is not None and event.kind in ("approval_opened", "wait_opened"):
            return {**event.payload, "approval" if isinstance(made, ApprovalRow) else "run": made.id}
        return event.payload

    def _finish(self) -> None:
        transition, run = self.transition, self.run
        if transition.status is not None:
            run.status = transition.status.value
        if transition.error is not None:
            run.error = transition.error
        if transition.forgives:
            run.error, run.finished_at = None, None
        if transition.ended and run.status == RunStatus.COMPLETED:
            run.output = transition.output
        if transition.ended and run.status in TERMINAL:
            run.finished_at, run.ending = self.moment, None
        if transition.ending is not None:
            run.ending = transition.ending
        if transition.paused is not None or run.status != RunStatus.PAUSED:
            run.paused = transition.paused
        self._clock()
        run.updated_at = self.moment

    def _clock(self) -> None:
        run = self.run
        if run.deadline is None:
            return
        clock = clock_after(
            Clock(run.deadline_at, run.time_left),
            deadline=run.deadline,
            moment=self.moment,
            status=run.status,
            for_people=bool(self.book.find(WaitRow, run=run.id, closed_at=None, kind="approval")),
            anew=self.branch is not None or self.transition.forgives,
            over=run.ending is not None,
        )
        run.deadline_at, run.time_left = clock.at, clock.left


def check_held(world: World, run: RunRow, held: Held) -> None:
    """Raises `LateResult` if a step is not being executed by whoever holds it."""
    epoch = world.run(run.id).epoch
    step = world.book.get(StepRow, row=held.step.row)
    if (step.token, step.epoch) != (held.token, epoch):
        raise LateResult()


def attempt_of(step: StepRow) -> int:
    return step.earlier + step.failures + step.crashes + 1


# ---- children


def children_to_stop(
    world: World, run: RunRow, transition: Transition, *, rewound: bool
) -> tuple[list[RunRow], str]:
    """The children that a transition leaves behind, and why they are cancelled. One that fails lets its children run."""
    rows = world.book.find(ChildRow, parent=run.id, on_parent_cancel="cancel")
    if rewound:
        line = lineage(world.book, run.id, run.branch)
        return _live(world, (row for row in rows if not sees(line, row.branch, row.after))), "parent_rewound"
    if transition.status in (RunStatus.COMPLETED, RunStatus.CANCELLED, RunStatus.CANCELLING):
        done = transition.status is RunStatus.COMPLETED
        return _live(world, rows), "parent_completed" if done else "parent_cancelled"
    left = [row for row in rows if row.branch == run.branch and row.address in transition.abandons]
    return _live(world, left), "not_awaited"


def _live(world: World, rows: Iterable[ChildRow]) -> list[RunRow]:
    return [run for row in rows if (run := world.run(row.run)).finished_at is None]
