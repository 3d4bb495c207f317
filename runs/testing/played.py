"""`play` and what it returns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from runs.engine import Workflow, canonical, chain
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.hours import Hours
from runs.engine.status import TERMINAL, ApprovalStatus, RunStatus
from runs.engine.versions import way
from runs.engine.waits import length_of
from runs.testing import deciding, looking, steering, waking
from runs.testing.book import (
    MEMORY,
    ApprovalRow,
    Book,
    EventRow,
    PlayError,
    RunRow,
    SaidRow,
    WaitRow,
    WorldRow,
)
from runs.testing.crashing import Boundary, Crash, planned
from runs.testing.deciding import Decisions, Script, Unused
from runs.testing.looking import Attached, Called, Happened, Line, Opened, Point, Spent, Stepped
from runs.testing.people import People, Teams
from runs.testing.replaying import Mismatch
from runs.testing.working import Worker
from runs.testing.writing import World, begin, read_position

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
Length = float | str | timedelta
Children = Mapping[str, Workflow] | Iterable[Workflow]
Crashes = Boundary | Crash | Sequence[Boundary | Crash] | None


class NotDeterministic(PlayError):
    """A body does something else when it runs again."""

    code = "not_deterministic"


@dataclass(frozen=True, slots=True)
class Sent:
    """A signal that is told beforehand. after: so long after the start; without it, when something first waits for it."""

    name: str
    payload: Any = None
    after: Length | None = None


Signals = Sequence[Sent | str | tuple[str, Any]]


@dataclass(slots=True, repr=False)
class Played:
    """A run in memory, or in one SQLite file: to be looked at, and to be gone on with.

    Verbs return the run itself, after it has gone on as far as it can by itself; with `goes_on=False` they change and run
    nothing, and `step()` or `run()` goes on.
    """

    world: World
    worker: Worker
    script: Script
    id: str
    signals: Sequence[Sent] = ()
    jumps: bool = True
    goes_on: bool = True

    # ---- looking

    @property
    def status(self) -> str:
        return self._run.status

    @property
    def output(self) -> Any:
        """What the run has come to; None before it is completed."""
        return self._run.output

    @property
    def error(self) -> Any:
        return self._run.error

    @property
    def state(self) -> dict[str, Any]:
        """The state at the head, of all lanes together."""
        return at.state(self._position)

    @property
    def lanes(self) -> list[dict[str, Any]]:
        return at.lanes(self._position)

    @property
    def now(self) -> datetime:
        """The play's clock."""
        return self.world.now

    @property
    def history(self) -> list[Happened]:
        return looking.history(self.world.book, self.id)

    @property
    def kinds(self) -> list[str]:
        """What the history tells, in order."""
        return [event.kind for event in self.history]

    @property
    def checkpoints(self) -> list[Point]:
        """All of them, those of branches left behind included; a checkpoint's number is its place."""
        return looking.checkpoints(self.world.book, self.id)

    def checkpoint(self, no: int) -> Point:
        """Raises `UnknownCheckpoint`."""
        return looking.checkpoint(self.world.book, self.id, no)

    @property
    def steps(self) -> list[Stepped]:
        return looking.steps(self.world.book, self.id)

    @property
    def calls(self) -> list[Called]:
        """Every committed call."""
        return looking.calls(self.world.book, self.id)

    @property
    def effects(self) -> list[Called]:
        """Calls that did something to the world; those that a rewind took over were not made again. `taken_back` says what
        became of each since."""
        return [call for call in self.calls if call.effect != "none"]

    @property
    def approvals(self) -> list[Opened]:
        """All of them, in the order in which they were opened."""
        return looking.approvals(self.world.book, self.id)

    @property
    def attachments(self) -> list[Attached]:
        """Files that its nodes have attached, in order."""
        return looking.attachments(self.world.book, self.id)

    @property
    def log(self) -> list[Line]:
        return looking.log(self.world.book, self.id)

    @property
    def usage(self) -> Spent:
        return looking.usage(self.world.book, self.id)

    @property
    def waiting_for(self) -> list[dict[str, Json]]:
        return looking.waiting_for(self.world.book, self._run)

    @property
    def children(self) -> list[Played]:
        """The runs that this one started, played in the same book."""
        rows = self.world.book.find(RunRow, parent=self.id)
        return [
            Played(self.world, self.worker, self.script, row.id, self.signals, self.jumps, self.goes_on)
            for row in rows
        ]

    @property
    def unused(self) -> list[str]:
        """Decisions and signals that were told and that nothing has asked for yet."""
        signals = [f"signal {one.name}" for place, one in enumerate(self.signals) if not self._is_sent(place)]
        return self.script.unused(self.world) + signals

    @property
    def mismatches(self) -> list[Mismatch]:
        """Bodies that did something else when they ran again, if `replay_check` was asked for."""
        return self.worker.mismatches

    def verify(self) -> None:
        """Check the history's hash chain. Raises `PlayError`."""
        run = self._run
        links: Any = self.world.book.find(EventRow, run=self.id)
        broken = chain.check(links, head=run.head_hash, seq=run.seq)
        if broken is not None:
            raise PlayError(f"The history is broken at event {broken.seq}: {broken.reason}.")

    def __repr__(self) -> str:
        return looking.drawn(self._run, self.history, self._remarks())

    def _repr_html_(self) -> str:
        return looking.drawn_html(self._run, self.history, self._remarks())

    def _remarks(self) -> list[str]:
        waits = [_waits(one) for one in self.waiting_for]
        replays = [f"not deterministic: {one}" for one in self.mismatches]
        unused = [f"told and not asked for: {', '.join(self.unused)}"] if self.unused else []
        return [*waits, *replays, *unused]

    @property
    def _run(self) -> RunRow:
        return self.world.run(self.id)

    @property
    def _position(self) -> dict[str, Any]:
        return read_position(self.world.book, self.id, self._run.head)

    # ---- going on

    def run(self, max_steps: int | None = None) -> Played:
        """Go on until the run has ended, or waits for what nobody has told. Raises `DecisionMissing`."""
        self.worker.take_over()  # of a process that was killed, or a body that was interrupted
        last = None if max_steps is None else self.world.row.steps + max_steps
        while last is None or self.world.row.steps < last:
            if not self._go_on():
                break
        return self

    def step(self) -> Played:
        """Go on by one step, and by what comes before it: decisions and signals that were told, and time."""
        return self.run(max_steps=1)

    def _go_on(self) -> bool:
        if steering.hold_trees(self.world):
            return True
        found = self.worker.ready()
        if found is not None:
            self.worker.work(*found)
            return True
        if all(run.status in TERMINAL for run in self.world.runs()):
            return False
        return self._decide() or self._send() or waking.fire(self.world) or self._jump()

    def _decide(self) -> bool:
        if self.script.decisions is None:
            return False
        for approval in self._open():
            if not approval.runs_out:
                try:
                    deciding.decide(self.world, self.script, approval)
                except deciding.DecisionMissing as error:
                    error.facts["played"] = self
                    raise
                return True
        return False

    def _open(self) -> list[ApprovalRow]:
        return self.world.book.find(ApprovalRow, status=ApprovalStatus.OPEN.value)

    def _send(self) -> bool:
        for place, one in enumerate(self.signals):
            to = None if self._is_sent(place) else self._receiver(one)
            if to is not None:
                with self.world.book.transaction():
                    self.world.book.add(SaidRow(key=_signal_key(place)))
                    waking.signal(self.world, to, one.name, one.payload, None, steering.PERSON)
                return True
        return False

    def _receiver(self, one: Sent) -> str | None:
        """The run that a signal is for, if its time has come."""
        if one.after is not None:
            is_due = self._sent_at(one) <= self.now and self.status not in TERMINAL
            return self.id if is_due else None
        wait = self.world.book.find(WaitRow, kind="signal", name=one.name, closed_at=None)
        return wait[0].run if wait else None

    def _sent_at(self, one: Sent) -> datetime:
        assert one.after is not None
        return self.world.row.started_at + timedelta(seconds=length_of(one.after))

    def _is_sent(self, place: int) -> bool:
        return self.world.book.one(SaidRow, key=_signal_key(place)) is not None

    def _jump(self) -> bool:
        """Move the clock to the next instant at which something is due; not past the time that people have."""
        if not self.jumps:
            return False
        first = self._next_due()
        if first is None or (self.script.decisions is None and self._is_for_people()):
            return False
        waking.move_clock(self.world, first)
        return True

    def _is_for_people(self) -> bool:
        """Whether what is due next, beside reminders, is the end of the time that people have."""
        first = self._next_due(reminders=False)
        waits = waking.due_waits(self.world)
        return first is None or any(wait.kind == "approval" and wait.due_at == first for wait in waits)

    def _and_on(self) -> Played:
        return self.run() if self.goes_on else self

    # ---- people's verbs

    def decide(self, node: str, said: Any = "approve") -> Played:
        """Answer the open approval of a node: "approve", "reject", `edit(…)`, `respond(…)` and so on."""
        waiting = [one for one in self._open() if one.node == node]
        if not waiting:
            known = ", ".join(repr(one.node) for one in self._open()) or "none"
            raise PlayError(f"No approval of {node!r} is open; open are: {known}.", node=node)
        deciding.say(self.world, waiting[0].id, said)
        return self._and_on()

    def signal(self, name: str, payload: Any = None, *, id: str | None = None) -> Played:
        """Send a message. id: the sender's; the same one again changes nothing."""
        waking.signal(self.world, self.id, name, payload, id, steering.PERSON)
        return self._and_on()

    def advance_time(self, length: Length | None = None, *, until: datetime | None = None) -> Played:
        """Let time pass; everything that is due on the way happens at its instant."""
        if (length is None) == (until is None):
            raise PlayError("Say how long, or until when.")
        end = until if until is not None else self.now + timedelta(seconds=length_of(length))
        self._and_on()
        while (due := self._next_due()) is not None and due <= end:
            waking.move_clock(self.world, due)
            while waking.fire(self.world):
                pass
            self._and_on()
        waking.move_clock(self.world, end)
        return self._and_on()

    def _next_due(self, *, reminders: bool = True) -> datetime | None:
        """The next instant at which something is due: a wait, a reminder, a run's deadline, a signal that was told."""
        instants = [wait.due_at for wait in waking.due_waits(self.world) if wait.due_at]
        if reminders:
            instants += [row.remind_at for row in waking.reminders(self.world) if row.remind_at]
        instants += [run.deadline_at for run in self.world.runs() if run.deadline_at and not run.finished_at]
        if self.status not in TERMINAL:
            told = [one for place, one in enumerate(self.signals) if not self._is_sent(place)]
            instants += [self._sent_at(one) for one in told if one.after is not None]
        return min(instants, default=None)

    def rewind(
        self,
        checkpoint: int,
        changes: Mapping[str, Any] | None = None,
        calls: str = "reuse",
        *,
        reason: str = "played",
        lane: str | None = None,
    ) -> Played:
        """Go back to a checkpoint on a new branch. changes: state to replace there. calls: reuse, or make them again."""
        steering.rewind(
            self.world, self.id, checkpoint, changes=changes, calls=calls, reason=reason, lane=lane
        )
        return self._and_on()

    def edit_state(
        self, changes: Mapping[str, Any], *, reason: str = "played", lane: str | None = None
    ) -> Played:
        """Replace keys of the state of a run that waits or has failed."""
        steering.edit_state(self.world, self.id, changes, reason=reason, lane=lane)
        return self._and_on()

    def retry(self, *, reason: str = "played") -> Played:
        """Let a failed run go on: only what failed or had not run is run."""
        steering.retry(self.world, self.id, reason=reason)
        return self._and_on()

    def migrate(self, to: Workflow, *, reason: str = "played") -> Played:
        """Deploy another version of the workflow, and take the run there by the migrations that `to` declares; what is parked
        stays parked. Other runs of the play stay at their version. Raises `MigrationMissing`, or `MigrationFailed`."""
        to.validate()
        steering.migrate(self.world, self.id, to, reason=reason)
        self.world.deploy(to)
        return self._and_on()

    def cancel(self, *, reason: str = "played", compensate: bool = True) -> Played:
        """End the run. compensate: whether calls with an `undo=` are taken back first."""
        steering.cancel(self.world, self.id, reason=reason, compensate=compensate)
        return self._and_on()

    def pause(self, *, reason: str = "played", children: bool = False) -> Played:
        """Hold the run: no step begins; time, signals and decisions only make steps ready. children: with those below it."""
        steering.pause(self.world, self.id, reason=reason, children=children)
        return self._and_on()

    def resume(self, *, reason: str = "played") -> Played:
        steering.resume(self.world, self.id, reason=reason)
        return self._and_on()

    def crash(self, at: Boundary, *, node: str = "", call: str = "", times: int = 1) -> Played:
        """End the worker at the next such boundary; another one takes over. Raises `PlayError` if the run ends before."""
        self.worker.crashes.append(Crash(at, node, call, times))
        self._and_on()
        self._check_crashes()
        return self

    def _check_crashes(self) -> None:
        left = [crash for crash in self.worker.crashes if crash.times > 0]
        if left and self.status in TERMINAL:
            raise PlayError(f"The run is {self.status}, and nothing came to {left[0]}.", played=self)

    @property
    def is_in_memory(self) -> bool:
        return self.world.book.path == MEMORY

    def close(self) -> None:
        """Close the file; `play.open` opens it again."""
        self.world.book.close()

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def report(self) -> Played:
        """Say what an author has to hear of once a play stands still: raises `NotDeterministic`, warns of what is unused."""
        self._check_crashes()
        if self.mismatches:
            told = "; ".join(str(one) for one in self.mismatches)
            raise NotDeterministic(f"{NotDeterministic.__doc__} {told}", played=self)
        if self.status == RunStatus.COMPLETED and self.unused:
            warnings.warn(f"told and not asked for: {', '.join(self.unused)}", Unused, stacklevel=3)
        return self


def _signal_key(place: int) -> str:
    return f"signal {place}"


def _waits(one: Mapping[str, Json]) -> str:
    what = one.get("title") or one.get("signal") or one.get("child") or ""
    due = f", due {one['due']}" if one["due"] else ""
    return f"waits for {one['kind']} {what}".rstrip() + f" at {one['node']}{due}"


class Play:
    """`play(workflow, input)` plays a run; `play.open(path, workflow)` goes on with one that is kept in a file."""

    def __call__(
        self,
        workflow: Workflow,
        input: Any = None,
        *,
        decisions: Decisions | None = None,
        signals: Signals = (),
        children: Children = (),
        now: datetime = START,
        path: str | Path | None = None,
        seed: int | str | None = None,
        crash: Crashes = None,
        max_steps: int | None = None,
        replay_check: bool = False,
        jumps: bool = True,
        poison: int = 3,
        teams: Teams | None = None,
        requester: str = "",
        hours: Mapping[str, Hours] | None = None,
    ) -> Played:
        """Run a workflow here and now, by the engine and the driver that the workers use. Limits, priority and queue have no
        effect: there is one run.

        decisions: what people say, by node; None stops at approvals, for `Played.decide`. signals: names, (name, payload)
        or `Sent`. children: workflows that `ctx.run_child` names. now: where the clock begins; it jumps to whatever is due
        next (unless jumps=False). path: a file that keeps the run. seed: ids, chance and the order of lanes come from it;
        without it lanes go in their order. crash: where the worker ends. max_steps: stop after so many, and then run
        nothing by itself. replay_check: run each body twice. poison: crashes after which a step is set aside.
        teams: usernames by team; then only who is asked may answer (`by=`), and who nobody names is the next of them.
        requester: who may not. hours: when teams work, and ("") the rest. Claims, substitutes and snoozes are of the product,
        not of a play.
        """
        if now.utcoffset() is None:
            raise PlayError(f"now= is an aware datetime, as datetime(2026, 1, 1, tzinfo=UTC); not {now!r}.")
        known = _known(workflow, children)
        canonical.check(input)
        book = Book.at(path)
        world = World(book, known, people=People(teams, requester, hours or {}))
        if book.one(WorldRow) is not None:
            book.close()
            raise PlayError(f"{path} holds a run already; play.open(path, workflow) goes on with it.")
        try:
            with book.transaction():
                moment, chance = now.astimezone(UTC), "play" if seed is None else str(seed)
                book.add(WorldRow(now=moment, seed=chance, shuffled=seed is not None, started_at=moment))
                run = begin(world, workflow, {} if input is None else input)
        except BaseException:
            book.close()
            raise
        worker = Worker(world, planned(crash), poison, replay_check)
        played = Played(world, worker, Script(decisions), run.id, _signals(signals), jumps, max_steps is None)
        return _begun(played, max_steps)

    def open(
        self,
        path: str | Path,
        workflow: Workflow,
        *,
        decisions: Decisions | None = None,
        signals: Signals = (),
        children: Children = (),
        crash: Crashes = None,
        max_steps: int | None = None,
        replay_check: bool = False,
        jumps: bool = True,
        poison: int = 3,
        teams: Teams | None = None,
        requester: str = "",
        hours: Mapping[str, Hours] | None = None,
    ) -> Played:
        """Go on with a run that is kept in a file, whatever became of the process that played it.

        The file holds no code: workflow and children are given again, and must have the graph that they had; or the workflow is
        a newer version with a migration, and the run is taken there. decisions and signals that were told before and used are
        not used again.
        """
        if not Path(path).exists():
            raise PlayError(f"There is no file {path}; play(…, path=…) makes one.")
        book = Book.at(path)
        world = World(book, _known(workflow, children), people=People(teams, requester, hours or {}))
        try:
            run_id = _found(world, workflow)
        except PlayError:
            book.close()
            raise
        worker = Worker(world, planned(crash), poison, replay_check)
        played = Played(world, worker, Script(decisions), run_id, _signals(signals), jumps, max_steps is None)
        return _begun(played, max_steps)


def _begun(played: Played, max_steps: int | None) -> Played:
    try:
        return played.run(max_steps).report()
    except BaseException:
        if not played.is_in_memory:
            played.close()  # so that it can be opened again
        raise


def _known(workflow: Workflow, children: Children) -> dict[str, Workflow]:
    given = children.values() if isinstance(children, Mapping) else children
    known = {one.name: one for one in [workflow, *given]}
    for one in known.values():
        one.validate()
    return known


def _found(world: World, workflow: Workflow) -> str:
    """The run of a file, if the code that was given is that of its runs."""
    for run in world.runs():
        code = world.workflow_of(run)
        if code.fingerprint == run.fingerprint:
            continue
        if code.version != run.version and way(code.migrations, run.version, [code.version]):
            steering.migrate(world, run.id, code, reason="opened")
        else:
            raise PlayError(
                f"The run of {run.workflow!r} began with another graph or schema than it has now."
            )
    root = world.book.one(RunRow, parent="")
    if root is None or root.workflow != workflow.name:
        raise PlayError(f"The file holds {root.workflow if root else 'no run'!r}, not {workflow.name!r}.")
    return root.id


def _signals(given: Signals) -> list[Sent]:
    found = []
    for one in given:
        if isinstance(one, str):
            found.append(Sent(one))
        elif isinstance(one, Sent):
            found.append(one)
        else:
            found.append(Sent(*one))
    return found


play = Play()
