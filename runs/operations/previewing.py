"""What a rewind, a fork or a retry would do, before anybody confirms it. Changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs import policies, queries, store
from runs.engine import canonical, compensation, forking, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.lineage import Line, is_left
from runs.engine.merging import Conflict
from runs.engine.position import LiveStep
from runs.engine.status import RunStatus, StepStatus
from runs.engine.transition import UNDO
from runs.errors import (
    BadRequest,
    Compensating,
    NothingToRun,
    Problem,
    Told,
    UnknownCall,
    UnknownCheckpoint,
)
from runs.models import Approval, Child, JournalEntry, Run, Signal, Step, Wait
from runs.operations.door import aggregate, as_uuid
from runs.operations.versioning import Standing, standing
from runs.policies import Actor
from runs.store import CallAt, Past

CALLS = ("reuse", "again")


@dataclass(frozen=True, slots=True)
class StepPreview:
    """A step that has run, failed or is live, and would run again. item: of a fan-out, which one."""

    node: str
    visit: int
    status: str
    checkpoint: int | None
    item: int | None = None
    attempt: int = 1
    error: dict[str, Json] | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class CallPreview:
    """A call made after the checkpoint, or a child run that completed: what it did to the world, its receipt, and whether it
    would be made again. apart: it was set apart from what is said of all calls."""

    node: str
    name: str
    occurrence: str
    effect: str
    result: Json
    reused: bool
    address: str = ""
    kind: str = "call"
    arguments: str = ""
    branch: int = 1
    apart: bool = False

    @property
    def place(self) -> CallAt:
        return self.address, self.name, self.occurrence


@dataclass(frozen=True, slots=True)
class RetryPreview:
    """What a Retry would run: the steps that failed with their errors, those that had not run, and how many results stay."""

    failed: list[StepPreview]
    not_run: list[str]
    kept: int
    conflicts: list[Conflict]


@dataclass(frozen=True, slots=True)
class RewindPreview:
    """What a rewind to a checkpoint would do.

    made: calls after the checkpoint, on all branches, each place once. stopped: child runs under way that are cancelled.
    given_back: signals that are taken again by whoever waits for them. consumed: the run that started this one has taken its
    result, so a rewind has to say that it does not mind (`detach`).
    """

    checkpoint: int
    branch: int
    calls: str
    next: list[str]
    state: dict[str, Json]
    steps: list[StepPreview] = field(default_factory=list)
    made: list[CallPreview] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    stopped: list[Run] = field(default_factory=list)
    given_back: list[Signal] = field(default_factory=list)
    consumed: bool = False
    version: int = 0

    @property
    def effects(self) -> list[CallPreview]:
        """Calls that did something to the world."""
        return [call for call in self.made if call.effect != "none"]


@dataclass(frozen=True, slots=True)
class ForkPreview:
    """What a fork at a checkpoint would be.

    next: what is to do, after `again`, the approvals that lanes go back to. kept: calls that it starts with; not_kept: calls
    after the checkpoint, which it would make itself. void: how many decisions count no more.
    """

    checkpoint: int
    branch: int
    next: list[str]
    again: list[str]
    state: dict[str, Json]
    kept: list[CallPreview]
    not_kept: list[CallPreview]
    void: int


@dataclass(frozen=True, slots=True)
class CancelPreview:
    """What cancelling would do. back: calls that are taken back, the first one first. stays: effects that are not, for they
    say not how, or stand on a branch that was left. children: runs below that are cancelled too."""

    back: list[CallPreview]
    stays: list[CallPreview]
    children: list[Run]


def preview_rewind(
    *,
    actor: Actor,
    run_id: uuid.UUID | str,
    checkpoint: int,
    calls: str = "reuse",
    exceptions: Iterable[CallAt] = (),
) -> RewindPreview:
    """What a rewind would do: steps that run again, effects already done, approvals that are asked again.

    exceptions: calls that are set apart from `calls`. Raises `UnknownCall` for one that was not made after the checkpoint.
    """
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_steer(actor, run)
    check_calls(calls)
    stood = rewindable(run, checkpoint)
    position = stood.position
    line = store.lineage(run.pk, run.branch)
    apart = set(exceptions)
    preview = RewindPreview(
        checkpoint,
        next(iter(store.lineage_at(run.pk, checkpoint))),
        calls,
        [step.node for step in at.live_steps(position)],
        at.state(position),
        consumed=is_consumed(run),
        version=run.version,
    )
    preview.steps.extend(_steps_after(run, line, checkpoint))
    check_known(apart, calls_after(run, checkpoint, calls=calls, apart=apart))
    apart = set(with_taken_back(run, checkpoint, calls=calls, apart=apart, past=stood.past))
    preview.made.extend(calls_after(run, checkpoint, calls=calls, apart=apart))
    preview.approvals.extend(_approvals_after(run, line, checkpoint))
    preview.stopped.extend(_children_after(run, checkpoint))
    preview.given_back.extend(_given_back(run, position))
    return preview


def preview_cancel(*, actor: Actor, run_id: uuid.UUID | str) -> CancelPreview:
    """What cancelling a run would take back, in which order, and what it would leave as it is."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_cancel(actor, run)
    undos = {undo.step: place for place, undo in enumerate(store.undos(run))}
    entries = list(JournalEntry.objects.filter(run=run, kind="call").order_by("ended_at", "ordinal"))
    back = [
        entry for entry in entries if entry.undo is not None and compensation.undo_of(entry).step in undos
    ]
    stays = [
        entry
        for entry in entries
        if entry.effect != "none" and entry not in back and entry.reused_from is None
    ]
    gone = {entry.pk for entry in store.taken_back(run)}
    return CancelPreview(
        back=[
            _call(entry, calls="again")
            for entry in sorted(back, key=lambda one: undos[compensation.undo_of(one).step])
        ],
        stays=[_call(entry, calls="reuse") for entry in stays if entry.pk not in gone],
        children=list(Run.objects.filter(parent=run, finished_at=None, as_child__on_parent_cancel="cancel")),
    )


def preview_fork(*, actor: Actor, run_id: uuid.UUID | str, checkpoint: int) -> ForkPreview:
    """What a fork at this checkpoint would start with."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_fork(actor, run)
    stood = rewindable(run, checkpoint)
    position, workflow = stood.position, stood.workflow
    void = len(forking.decisions(position))
    going_on = at.all_steps(position)
    again = forking.detach(workflow, position, asked_at(position))
    return ForkPreview(
        checkpoint,
        next(iter(store.lineage_at(run.pk, checkpoint))),
        [step.node for step in at.live_steps(position)],
        again,
        at.state(position),
        kept=_kept(run, checkpoint, still_there(going_on, position)),
        not_kept=calls_after(run, checkpoint, calls="again", apart=()),
        void=void,
    )


def preview_retry(*, actor: Actor, run_id: uuid.UUID | str) -> RetryPreview:
    """What a Retry of a failed run would run."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_retry(actor, run)
    facts = aggregate(run)
    machine.retry(facts, reason="")  # says why not, if there is nothing to retry
    around = {step.address for step in at.opened_steps(facts.position)}
    check_unbroken(run)
    rows = list(Step.objects.filter(run=run, branch=run.branch).order_by("created_at", "address"))
    return RetryPreview(
        failed=[
            _previewed(step) for step in rows if step.address in facts.errors and step.address not in around
        ],
        not_run=[
            step.node
            for step in at.all_steps(facts.position)
            if step.address not in around and step.address not in facts.errors
        ],
        kept=sum(1 for step in rows if step.status == StepStatus.COMPLETED),
        conflicts=at.every_conflict(facts.position),
    )


# ---- what the verbs themselves check alike


def rewindable(run: Run, checkpoint: int) -> Standing:
    """A checkpoint at which something is to do, as the code that is here has it. Raises `UnknownCheckpoint`, `NothingToRun`,
    `Compensated` where it builds on a call that was taken back, or why it cannot be brought to that code."""
    check_steady(run)
    if not 0 <= checkpoint < 2**31:
        raise UnknownCheckpoint(
            Told("The run has no checkpoint {checkpoint}.", checkpoint=checkpoint), checkpoint=checkpoint
        )
    position = store.read_position(run.pk, checkpoint)
    if not at.live_steps(position):
        raise NothingToRun("The run had ended at this checkpoint; choose an earlier one.")
    past = store.past_of(run.pk)
    if past.taken_back:
        compensation.check_standing(store.taken_back(run), store.lineage_at(run.pk, checkpoint))
    return standing(run, checkpoint, position, past)


def check_steady(run: Run) -> None:
    """A run that takes back its calls ends first."""
    if run.ending is not None:
        raise Compensating()


def check_unbroken(run: Run) -> None:
    """A Retry goes on with what was done; there is nothing to go on with where that was taken back."""
    gone = store.taken_back(run)
    if gone:
        compensation.check_unbroken(gone, store.lineage(run.pk, run.branch))


def with_taken_back(
    run: Run, checkpoint: int, *, calls: str, apart: Iterable[CallAt], past: Past
) -> list[CallAt]:
    """The calls set apart from `calls`, with those made after the checkpoint that were taken back: these are made again."""
    if not past.taken_back:
        return sorted(set(apart))
    gone = store.taken_back(run)
    made = store.can_be_taken_back(run)
    again = compensation.to_make_again(made, gone, store.lineage_at(run.pk, checkpoint))
    return sorted(set(apart) | again if calls == "reuse" else set(apart) - again)


def check_calls(calls: str) -> None:
    if calls not in CALLS:
        raise BadRequest(Told("calls is {choices}, not {calls!r}.", choices=" or ".join(CALLS), calls=calls))


def check_known(apart: Iterable[CallAt], made: Sequence[CallPreview]) -> None:
    """Calls that are set apart are calls that the preview shows."""
    known = {call.place for call in made}
    unknown = [place for place in apart if place not in known]
    if unknown:
        errors = [
            Problem(
                "/exceptions",
                "unknown_call",
                Told("{name} ({occurrence}) at {address}", name=name, occurrence=occurrence, address=address),
            )
            for address, name, occurrence in unknown
        ]
        raise UnknownCall(
            Told(
                "The call {unknown!r} ({occurrence}) was not made after the checkpoint.",
                unknown=unknown[0][1],
                occurrence=unknown[0][2],
            ),
            errors=errors,
        )


def is_consumed(run: Run) -> bool:
    """Whether the parent of an ended run has taken its result: it goes on with that whatever comes out now."""
    if run.parent_id is None or not run.is_terminal:
        return False
    waits = Wait.objects.filter(child=run)
    return waits.exists() and not waits.filter(closed_at=None).exists()


def asked_at(position: dict[str, Any]) -> dict[str, str]:
    """The address of the step that asked, for every decision that a position holds."""
    known = [found for text in forking.decisions(position) if (found := _uuid(text))]
    rows = Approval.objects.filter(pk__in=known).values_list("pk", "address")
    return {str(pk): address for pk, address in rows}


def still_there(steps: Sequence[LiveStep], position: dict[str, Any]) -> list[LiveStep]:
    """Of these steps, those that are unfinished at a position."""
    there = {step.address for step in at.all_steps(position)}
    return [step for step in steps if step.address in there]


def calls_after(run: Run, checkpoint: int, *, calls: str, apart: Iterable[CallAt]) -> list[CallPreview]:
    """Calls that the checkpoint cannot see, the newest of each place: what a rewind to it may reuse or make again."""
    limits, newest, apart = store.lineage_at(run.pk, checkpoint), {}, set(apart)
    rows = JournalEntry.objects.filter(run=run, kind__in=("call", "child"))
    rows = rows.exclude(address__startswith=UNDO)
    for row in rows.order_by("branch", "ended_at", "ordinal"):
        if row.after >= limits.get(row.branch, -1) and row.name != "ctx.usage":
            newest[row.address, row.name, row.occurrence] = row
    made = sorted(newest.values(), key=lambda row: (row.ended_at, row.ordinal))
    shown = [_call(row, calls=calls, apart=apart) for row in made]
    return [call for call in shown if call.kind == "call" or _has_completed(call)]


def _has_completed(call: CallPreview) -> bool:
    return isinstance(call.result, dict) and call.result.get("status") == RunStatus.COMPLETED


def _call(row: JournalEntry, *, calls: str, apart: Iterable[CallAt] = ()) -> CallPreview:
    is_apart = (row.address, row.name, row.occurrence) in apart
    return CallPreview(
        row.node,
        row.name,
        row.occurrence,
        row.effect,
        canonical.loads(row.result),
        (calls == "reuse") != is_apart,
        row.address,
        row.kind,
        row.arguments,
        row.branch,
        is_apart,
    )


def _kept(run: Run, checkpoint: int, steps: Sequence[LiveStep]) -> list[CallPreview]:
    handed = store.handed_down(run.pk, store.lineage_at(run.pk, checkpoint), steps)
    return [_call(row, calls="reuse") for row in handed.calls if row.kind in ("call", "child")]


# ---- what lies after the checkpoint on the line that is left


def _steps_after(run: Run, line: Line, checkpoint: int) -> list[StepPreview]:
    rows = Step.objects.filter(run=run, branch__in=line, undoes__isnull=True).order_by(
        "created_at", "checkpoint"
    )
    return [
        _previewed(step) for step in rows if step.status != "void" and _lies_after(line, step, checkpoint)
    ]


def _previewed(step: Step) -> StepPreview:
    _, _, item = step.lane.partition("#")
    return StepPreview(
        step.node,
        step.visit,
        step.status,
        step.checkpoint,
        item=int(item) if item else None,
        attempt=step.attempt,
        error=step.error,
        address=step.address,
    )


def _lies_after(line: Line, step: Step, checkpoint: int) -> bool:
    """Whether a step is on the run's line, and after the checkpoint. One that never committed counts where it stands."""
    if is_left(line, step.branch, step.checkpoint):
        return False
    return step.checkpoint is None or step.checkpoint > checkpoint


def _approvals_after(run: Run, line: Line, checkpoint: int) -> list[Approval]:
    after = {
        (step.branch, step.address)
        for step in Step.objects.filter(run=run, branch__in=line)
        if _lies_after(line, step, checkpoint)
    }
    rows = Approval.objects.filter(run=run, branch__in=line).order_by("opened_at")
    return [approval for approval in rows if (approval.branch, approval.address) in after]


def _children_after(run: Run, checkpoint: int) -> list[Run]:
    """Children under way that the checkpoint cannot see: a rewind cancels them."""
    limits = store.lineage_at(run.pk, checkpoint)
    rows = Child.objects.filter(parent=run, run__finished_at=None, on_parent_cancel="cancel")
    return [child.run for child in rows.select_related("run") if child.after >= limits.get(child.branch, -1)]


def _given_back(run: Run, position: dict[str, Any]) -> list[Signal]:
    """Signals that were taken since: they lie in the mailbox again."""
    kept = {number for numbers in position.get("taken", {}).values() for number in numbers}
    free = queries.taken_signals(run) - kept
    return list(Signal.objects.filter(run=run, no__in=free).order_by("no")) if free else []


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
