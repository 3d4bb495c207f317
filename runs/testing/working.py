"""The worker of a played run: takes a step, runs its body with the driver, commits what came of it by the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from runs.driver import (
    ITEMS,
    Asked,
    Call,
    Completed,
    Context,
    Entered,
    Entry,
    Failed,
    ItemDone,
    Listed,
    LogLine,
    Outcome,
    Port,
    Reopened,
    StepScope,
    Suspended,
    Used,
    run_step,
    secrets,
    take_back,
)
from runs.engine import canonical, compensation, failures, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.files import LIMIT, MOST, REFERENCE, File
from runs.engine.position import LiveStep
from runs.engine.status import RunStatus, StepStatus
from runs.engine.transition import Aggregate, Transition
from runs.errors import LateResult, StepError, TooManyAttachments
from runs.testing import asking, undoing, waking
from runs.testing.book import (
    ApprovalRow,
    BranchRow,
    FileRow,
    JournalRow,
    LogRow,
    RunRow,
    StepRow,
    UsageRow,
    VoteRow,
)
from runs.testing.crashing import Crash, Crashed
from runs.testing.replaying import Mismatch, Replay, replayed
from runs.testing.writing import (
    SYSTEM,
    Held,
    World,
    aggregate,
    attempt_of,
    check_held,
    journal,
    read_position,
)

Told = Outcome | Listed | ItemDone | Entered
Command = Callable[[Aggregate], Transition]


@dataclass(slots=True)
class Worker:
    """poison: crashes after which a step is set aside. mismatches: filled if replays are checked."""

    world: World
    crashes: list[Crash] = field(default_factory=list)
    poison: int = 3
    replays: bool = False
    mismatches: list[Mismatch] = field(default_factory=list)

    def strike(self, boundary: str, node: str, call: str = "") -> None:
        if any(crash.strikes(boundary, node, call) for crash in self.crashes):
            raise Crashed(f"{boundary} of {call or node}")

    def ready(self) -> tuple[RunRow, StepRow] | None:
        """The step that is next: of the run that was started first, the first in lane order; shuffled if the play is."""
        found = [(run, step) for run in self.world.runs() for step in self._ready_of(run)]
        world = self.world.row
        if world.shuffled and found:
            return found[int(self.world.draw("order", world.steps) * len(found))]
        return found[0] if found else None

    def _ready_of(self, run: RunRow) -> list[StepRow]:
        book = self.world.book
        if run.ending is not None and run.status != RunStatus.PAUSED:
            return book.find(StepRow, run=run.id, branch=run.branch, status=StepStatus.READY.value)
        if run.status not in (RunStatus.QUEUED, RunStatus.RUNNING) or run.error is not None:
            return []
        rows = book.find(StepRow, run=run.id, branch=run.branch, status=StepStatus.READY.value)
        if len(rows) < 2:
            return rows
        position = read_position(book, run.id, run.head)
        order = {step.address: place for place, step in enumerate(at.all_steps(position))}
        return sorted(rows, key=lambda row: order[row.address])

    def take_over(self) -> None:
        """Steps whose worker is gone are ready again, or set aside."""
        for run in self.world.runs():
            for step in self.world.book.find(StepRow, run=run.id, status=StepStatus.EXECUTING.value):
                self._take_over(run, step)

    def _take_over(self, run: RunRow, step: StepRow) -> None:
        if step.undoes:
            again = undoing.taken_over(self.world, run, step, crashes=step.crashes + 1, limit=self.poison)
            waking.store(self.world, run, again, actor=SYSTEM)
            return
        facts = aggregate(self.world, run)
        live = at.find(facts.position, step.address)
        assert live is not None
        transition = machine.take_over(
            facts, live, reason="worker_gone", crashes=step.crashes + 1, limit=self.poison, worker="1"
        )
        waking.store(self.world, run, transition, position=facts.position, actor=SYSTEM)

    def work(self, run: RunRow, step: StepRow) -> None:
        """Execute one step. After a crash it is taken over at once."""
        held = self._claim(run, step)
        try:
            self.strike("before_body", step.node)
            turn = _UndoTurn(self, run.id, held) if step.undoes else _Turn(self, run.id, held)
            turn.drive()
        except Crashed:
            self.take_over()

    def _claim(self, run: RunRow, step: StepRow) -> Held:
        with self.world.book.transaction():
            world = self.world.row
            world.steps += 1
            step.status, step.token, step.epoch = StepStatus.EXECUTING.value, world.steps, run.epoch
            step.entries, step.progress = step.entries + 1, None
            if run.ending is None:
                run.status = RunStatus.RUNNING.value
            self.world.book.save(world, step, run)
        return Held(step, world.steps)


@dataclass(slots=True)
class _InHand:
    """A step that is being executed."""

    worker: Worker
    run_id: str
    held: Held

    @property
    def world(self) -> World:
        return self.worker.world

    @property
    def run(self) -> RunRow:
        return self.world.run(self.run_id)


@dataclass(slots=True)
class _Turn(_InHand):
    """One step in the hands of the worker."""

    @property
    def step(self) -> LiveStep:
        row = self.held.step
        return LiveStep(row.lane, row.node, row.address, row.visit)

    def drive(self) -> None:
        try:
            port = BookPort(self.worker, self.run_id, self.held)
            outcome, has_failed = self._body(port)
            if self.worker.replays and not isinstance(outcome, Failed) and not has_failed:
                again = replayed(self.step, outcome, lambda: self._body(Replay(port))[0])
                self.worker.mismatches += again
            self.worker.strike("before_commit", self.step.node)
            self._conclude(outcome)
        except LateResult:
            return  # the run was steered meanwhile: by the body itself, or a thread of the author's
        self.worker.strike("after_commit", self.step.node)

    def _body(self, port: Port) -> tuple[Told, bool]:
        """What the body came to, and whether calls failed in it: those are in no journal, so a replay makes them again."""
        facts = aggregate(self.world, self.run)
        row, step, lane = self.held.step, self.step, self.step.lane
        node, schema = facts.workflow.nodes[step.node], facts.workflow_of(lane).schema
        try:
            values = machine.values_of(facts, lane)
        except StepError as error:
            return Failed(error, _facts_of(error), node.retry), False
        branch = self.world.book.get(BranchRow, run=self.run.id, no=self.run.branch)
        context = Context(
            run_id=self.run.id,
            node=step.node,
            attempt=attempt_of(row),
            address=step.address,
            generation=branch.generation,
            branch=branch.no,
            answers=at.answers(facts.position, lane),
            port=port,
            failures=at.errors(facts.position, lane),
            earlier=row.earlier,
            generations=generations(branch, step.address),
        )
        scope = StepScope(facts.workflow, step, schema.view(values), context, seconds=node.timeout)
        return run_step(scope, facts.position, items=self._items), bool(context.failed)

    def _items(self) -> list[Json]:
        outer = at.outer_step(read_position(self.world.book, self.run.id, self.run.head), self.step.lane)
        assert outer is not None
        listed = [e for e in journal(self.world.book, self.run, outer.address) if e.name == ITEMS]
        items: list[Json] = canonical.loads(max(listed, key=lambda e: (e.visible, e.branch)).result)
        return items

    def _conclude(self, outcome: Told) -> None:
        step = self.step
        match outcome:
            case Completed(update):
                self._refusing(lambda run: machine.complete(run, step, update))
            case Asked(document, digest, options):
                opened = asking.approval_of_node(self.world, self.run, step, options)
                news = asking.unanswerable(self.world, opened, step)
                self._commit(
                    lambda run: asking.told(machine.park(run, step, document, digest), news), opened=opened
                )
            case Suspended():
                self._suspend(outcome)
            case Failed():
                self._fail(outcome)
            case Reopened(node, reason):
                self._commit(lambda run: machine.ask_again(run, step, node, reason))
            case Listed(count):
                self._refusing(lambda run: machine.begin_items(run, step, count))
            case ItemDone(result):
                self._commit(lambda run: machine.complete_item(run, step, result))
            case Entered(state):
                self._refusing(lambda run: machine.enter(run, step, state))

    def _suspend(self, asked: Suspended) -> None:
        try:
            with self.world.book.transaction():
                made = asking.rows(self.world, self.run, self.held, asked.wanted)
                questions = [row for row in made.values() if isinstance(row, ApprovalRow)]
                news = [one for row in questions for one in asking.unanswerable(self.world, row, self.step)]
                self._commit(
                    lambda run: asking.told(machine.suspend(run, self.step, asked.wanted), news), asked=made
                )
                waking.settle(self.world, self.run.id, self.step.address)
        except StepError as error:
            self._fail(Failed(error, failures.error_of(error), self._policy()))

    def _fail(self, failed: Failed) -> None:
        row = self.held.step
        delay = failures.delay_of(
            failed.policy,
            failed.error,
            attempt=row.failures + row.crashes + 1,
            failures=row.failures + 1,
            draw=self.world.draw("jitter", self.run.id, row.address, row.failures),
        )
        attempt = attempt_of(row)
        self._commit(lambda run: machine.fail(run, self.step, failed.facts, attempt=attempt, delay=delay))

    def _refusing(self, command: Command) -> None:
        """What an update, a router or an output function makes impossible is a failure of the step."""
        facts = self._facts()
        try:
            transition = command(facts)
        except Exception as error:  # noqa: BLE001  # an author's code may raise anything
            self._fail(Failed(error, _facts_of(error), self._policy()))
            return
        self._store(transition, facts)

    def _policy(self) -> Any:
        return self.world.workflow_of(self.run).nodes[self.step.node].retry

    def _facts(self) -> Aggregate:
        check_held(self.world, self.run, self.held)
        return aggregate(self.world, self.run, lane=self.step.lane)

    def _commit(self, command: Command, **how: Any) -> None:
        facts = self._facts_or_bare()
        self._store(command(facts), facts, **how)

    def _facts_or_bare(self) -> Aggregate:
        """Without values where the state cannot be loaded: failing needs none."""
        check_held(self.world, self.run, self.held)
        try:
            return aggregate(self.world, self.run, lane=self.step.lane)
        except StepError:
            return aggregate(self.world, self.run)

    def _store(self, transition: Transition, facts: Aggregate, **how: Any) -> None:
        waking.store(self.world, self.run, transition, position=facts.position, held=self.held, **how)


@dataclass(slots=True)
class _UndoTurn(_InHand):
    """A call that is taken back."""

    def drive(self) -> None:
        row, run = self.held.step, self.run
        entry = undoing.entry_of(self.world, row)
        try:
            context = Context(
                run_id=run.id,
                node=row.node,
                attempt=attempt_of(row),
                address=row.address,
                generation=0,
                branch=run.branch,
                answers={},
                port=BookPort(self.worker, self.run_id, self.held),
                taking_back=entry.key,
            )
            live = LiveStep(row.lane, row.node, row.address, row.visit)
            outcome = take_back(
                self.world.workflow_of(run), live, context, undo=entry.undo, result=entry.result
            )
            self.worker.strike("before_commit", row.node)
            self._conclude(outcome)
        except LateResult:
            return
        self.worker.strike("after_commit", row.node)

    def _conclude(self, outcome: Completed | Failed) -> None:
        row, undo = self.held.step, undoing.undo_at(self.held.step)
        ending = undoing.ending_of(self.world, self.run)
        if isinstance(outcome, Completed):
            self._store(compensation.undone(ending, undo))
            return
        delay = failures.delay_of(
            self.world.workflow_of(self.run).undo_retry,
            outcome.error,
            attempt=row.failures + row.crashes + 1,
            failures=row.failures + 1,
            draw=self.world.draw("jitter", self.run.id, row.address, row.failures),
        )
        attempt = attempt_of(row)
        self._store(compensation.undo_failed(ending, undo, outcome.facts, attempt=attempt, delay=delay))

    def _store(self, transition: Transition) -> None:
        waking.store(self.world, self.run, transition, held=self.held)


def generations(branch: BranchRow, address: str) -> dict[tuple[str, str], int]:
    """Of single calls of a step that are made again."""
    places = [(canonical.loads(text), number) for text, number in (branch.generations or {}).items()]
    return {(name, occurrence): number for (where, name, occurrence), number in places if where == address}


def _facts_of(error: Exception) -> dict[str, Json]:
    facts: dict[str, Json] = secrets.redacted(failures.error_of(error))
    return facts


@dataclass(slots=True)
class BookPort(_InHand):
    """The journal of one step in the book, as the driver sees it."""

    def entries(self) -> list[Entry]:
        return journal(self.world.book, self.run, self.held.step.address)

    def before_call(self) -> None:
        check_held(self.world, self.run, self.held)
        self.worker.strike("before_call", self.held.step.node)

    def commit_call(self, call: Call) -> None:
        self.worker.strike("after_call", self.held.step.node, call.name)
        with self.world.book.transaction():
            check_held(self.world, self.run, self.held)
            self._keep(call)
        self.worker.strike("after_call_commit", self.held.step.node, call.name)

    def commit_time(self, call: Call) -> str:
        told = replace(call, result=canonical.dumps(self.world.now.isoformat(timespec="microseconds")))
        self.commit_call(told)
        return told.result

    def commit_file(self, call: Call, file: File) -> None:
        self.worker.strike("after_call", self.held.step.node, call.name)
        with self.world.book.transaction():
            check_held(self.world, self.run, self.held)
            if len(self.world.book.find(FileRow, run=self.run.id)) >= MOST:
                raise TooManyAttachments(limit=MOST)
            row = FileRow(
                id=canonical.loads(call.result)[REFERENCE],
                run=self.run.id,
                node=self.held.step.node,
                name=file.name,
                type=file.type,
                digest=file.digest,
                body=file.body,
                at=self.world.now,
            )
            self.world.book.add(row)
            self._keep(call)
        self.worker.strike("after_call_commit", self.held.step.node, call.name)

    def file_limit(self) -> int:
        return LIMIT

    def _keep(self, call: Call) -> None:
        step = self.held.step
        self.world.book.add(
            JournalRow(
                run=self.run.id,
                branch=self.run.branch,
                address=step.address,
                name=call.name,
                occurrence=call.occurrence,
                kind="call",
                node=step.node,
                after=self.run.head,
                attempt=attempt_of(step),
                args_digest=call.args_digest,
                result=call.result,
                at=self.world.now,
                effect=call.effect,
                key=call.key,
                arguments=call.arguments,
                undo=call.undo,
                took=call.took,
                reused_from=call.reused_from,
            )
        )
        self._use(call.name, call.occurrence, call.used, failed=False)

    def _use(self, call: str, occurrence: str, used: Sequence[Used], *, failed: bool) -> None:
        step = self.held.step
        place = partial(
            UsageRow, run=self.run.id, branch=self.run.branch, address=step.address, node=step.node
        )
        for amount in used:
            self.world.book.add(place(call=call, occurrence=occurrence, failed=failed, **amount.as_dict()))

    def note_usage(self, call: str, occurrence: str, used: Sequence[Used]) -> None:
        with self.world.book.transaction():
            check_held(self.world, self.run, self.held)
            self._use(call, occurrence, used, failed=True)

    def note_log(self, line: LogLine) -> None:
        step, book = self.held.step, self.world.book
        row = LogRow(
            run=self.run.id,
            branch=self.run.branch,
            address=step.address,
            node=step.node,
            attempt=line.attempt,
            no=line.no,
            message=line.message,
            facts=line.facts,
            at=self.world.now,
        )
        place = {name: getattr(row, name) for name in ("run", "branch", "address", "attempt", "no")}
        with book.transaction():
            check_held(self.world, self.run, self.held)
            if book.one(LogRow, **place) is None:  # said again after a wait
                book.add(row)

    def note_progress(self, progress: Json) -> None:
        with self.world.book.transaction():
            check_held(self.world, self.run, self.held)
            row = self.world.book.get(StepRow, row=self.held.step.row)
            row.progress = progress
            self.world.book.save(row)

    def note_overdue(self, facts: Json) -> None:
        return

    def disconnect(self) -> None:
        return

    def approved_digest(self, approval_id: str) -> str:
        if self.world.book.one(ApprovalRow, id=approval_id) is None:
            return ""
        vote = self.world.book.one(VoteRow, approval=approval_id, decisive=True)
        return vote.approved_digest if vote else ""
