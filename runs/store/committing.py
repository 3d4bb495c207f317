"""Transitions made under the run's row lock, stored in the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.expressions import RawSQL

from runs.engine import canonical, chain, schedule
from runs.engine.canonical import Json
from runs.engine.deadline import Clock, clock_after
from runs.engine.status import LIVE_STEPS, TERMINAL, ApprovalStatus, RunStatus, StepStatus
from runs.engine.transition import Event as EngineEvent
from runs.engine.transition import Opened, StepChange, Transition
from runs.engine.waits import Place
from runs.models import (
    Approval,
    Branch,
    Child,
    Event,
    JournalEntry,
    Migrated,
    Revision,
    Run,
    Slot,
    Step,
    Stop,
    Wait,
)
from runs.store.children import left_children
from runs.store.claiming import Held, check_fence, fence_of
from runs.store.history import linked
from runs.store.lines import NOT_TOLD, come_to_rest
from runs.store.outbox import tell
from runs.store.prepared import ask, together
from runs.store.rows import (
    NewBranch,
    add_checkpoint,
    add_events,
    add_steps,
    add_undo_steps,
    change_step,
    end_live_steps,
    start_branch,
)
from runs.store.surroundings import Surroundings, surroundings
from runs.store.terms import note_labels, note_state
from runs.store.waits import answered, asked_before, open_waits, waiting_for
from runs.store.weights import Weights
from runs.store.written import insert, write


def commit(
    run: Run,
    transition: Transition,
    *,
    position: dict[str, Any] | None = None,
    document: str | None = None,
    actor: Json = None,
    reason: str = "",
    held: Held | None = None,
    branch: NewBranch | None = None,
    opened: Approval | None = None,
    asked: Mapping[Place, Approval | Run] | None = None,
    moment: datetime | None = None,
    compensate: bool = True,
) -> Run:
    """Store a transition of a locked run, inside the caller's transaction. Raises `LateResult` if `held` is not any more.

    position: the document after the transition; document: its text, where that was made already. opened: the row of a new
    approval, with candidates and options set; asked: such rows, and child runs, by the place of what a body waits for.
    compensate: whether children that it stops take back their calls.
    """
    fences = [("fence", fence_of(held))] if held else []
    around, *fenced = surroundings(run.pk, *fences)
    if held:
        check_fence(run, held, *fenced)
    writer = Writer(
        run,
        transition,
        max(moment or around.moment, run.updated_at),  # the history's time never goes back
        around,
        actor=actor,
        reason=reason,
        position=position,
        document=document,
        held=held,
        branch=branch,
        opened=opened,
        asked=asked or {},
        compensate=compensate,
    )
    with together():
        writer.write()
        note_state(run, position)
    return run


def insert_run(run: Run, *, draws: Json = None, slots: Sequence[Slot] = ()) -> None:
    """Store a new run's row, its first branch and its slots; `commit` of its first transition follows."""
    run.head_hash = run.prev_hash = chain.GENESIS
    insert(run)
    insert(Branch(run=run, no=1, epoch=1, draws=draws))
    note_labels(run)
    if slots:
        Slot.objects.bulk_create(slots)


@dataclass(slots=True)
class Writer:
    """Stores one transition of a locked run. Use `commit`."""

    run: Run
    transition: Transition
    moment: datetime
    around: Surroundings
    actor: Json = None
    reason: str = ""
    position: dict[str, Any] | None = None
    document: str | None = None
    held: Held | None = None
    branch: NewBranch | None = None
    requester_id: int | None = None
    opened: Approval | None = None
    asked: Mapping[Place, Approval | Run] = field(default_factory=dict)
    compensate: bool = True
    changed: dict[str, Any] = field(default_factory=dict)
    closed: int = 0  # waits

    def write(self) -> None:
        self._journal()
        self._close()
        if self.transition.raise_epoch:
            self._set(epoch=self.run.epoch + 1)
        if self.branch:
            self._start_branch(self.branch)
        self._end_steps()
        self._checkpoint()
        self._move()
        self._begin_steps()
        add_undo_steps(self.run, self.transition.undo, hinted_at=self.moment)
        self._open_waits()
        self._ask()
        events = self._events()
        self._finish()
        tell(self.run, events, actor=self.actor, noticed=self.around.notices)
        self._stop_children()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.run, name, value)
        self.changed.update(values)

    def _close(self) -> None:
        """Close what the transition leaves behind: waits and approvals of some steps, or of the whole run."""
        approvals = Approval.objects.filter(run=self.run, status=ApprovalStatus.OPEN)
        addresses = None
        if not self.transition.close_everything:
            addresses = list(self.transition.close_waits_of)
            approvals = approvals.filter(address__in=addresses)
            self._close_places()
        else:
            kept = [change.address for change in self.transition.steps]
            end_live_steps(self.run, self.transition.ends_steps_as, kept=kept, moment=self.moment)
        if self.around.waits:
            told = {"run": self.run.pk, "moment": self.moment, "addresses": addresses}
            self.closed += len(ask("close_waits", told))
        if self.around.approvals:
            status, reason = self.transition.closes_as
            approvals.update(status=status, closed_at=self.moment, closed_reason=reason, outcome="")

    def _close_places(self) -> None:
        """Close single waits of steps that go on waiting for others."""
        for address, name, occurrence in self.transition.close_places:
            place = open_waits(self.run, address).filter(name=name, occurrence=occurrence)
            self.closed += place.update(closed_at=self.moment)

    def _journal(self) -> None:
        """Write down answers to what a step waited for. A checkpoint that comes with them follows the head of now."""
        if not self.transition.journal:
            return
        address = self.transition.close_places[0][0]
        step = Step.objects.get(run=self.run, branch=self.run.branch, address=address)
        before = JournalEntry.objects.filter(run=self.run, branch=self.run.branch, address=address).count()
        JournalEntry.objects.bulk_create(
            answered(
                found,
                run_id=self.run.pk,
                branch=self.run.branch,
                address=address,
                node=step.node,
                ordinal=ordinal,
                after=self.run.head,
                attempt=step.attempt,
                at=self.moment,
            )
            for ordinal, found in enumerate(self.transition.journal, before)
        )

    def _stop_children(self) -> None:
        """Say which children are to be cancelled: of an ended run all, of a rewound one those of the line that was left, else
        those that a step waits for no longer. A run that fails lets its children run: Retry or a rewind may want them."""
        if not self.around.children:
            return
        transition = self.transition
        children = Child.objects.filter(parent=self.run, run__finished_at=None, on_parent_cancel="cancel")
        if self.branch:
            lost = left_children(self.run, children)
            reason = "parent_rewound"
        elif transition.status in (RunStatus.COMPLETED, RunStatus.CANCELLED, RunStatus.CANCELLING):
            lost = list(children)
            reason = "parent_completed" if transition.status is RunStatus.COMPLETED else "parent_cancelled"
        elif transition.abandons:
            lost = list(children.filter(branch=self.run.branch, address__in=transition.abandons))
            reason = "not_awaited"
        else:
            return
        Stop.objects.bulk_create(
            (
                Stop(run_id=child.run_id, reason=reason, compensate=self.compensate, since=self.moment)
                for child in lost
            ),
            ignore_conflicts=True,
        )

    def _start_branch(self, new: NewBranch) -> None:
        no = start_branch(self.run, new)
        self._set(
            branch=no,
            head=new.parent_checkpoint,
            snapshot_no=0,
            patch_weight=0,
            snapshot_size=0,
            finished_at=None,
            error=None,
            output=None,
        )

    def _end_steps(self) -> None:
        told_at = self._told_at()
        for change in self.transition.steps:
            ended = change.status not in LIVE_STEPS
            rows = Step.objects.filter(run=self.run, branch=self.run.branch, address=change.address)
            self._count_work(rows, change)
            if self.transition.forgives:
                attempts = F("earlier") + F("failures") + F("crashes")
                rows.update(status=change.status, ended_at=None, hinted_at=told_at, earlier=attempts)
                rows.update(failures=0, crashes=0)
                continue
            change_step(self.run, change, ended_at=self.moment if ended else None, hinted_at=told_at)

    def _told_at(self) -> datetime:
        """When workers are told about steps that are ready now: they are not, as long as the run stands in line."""
        status = self.transition.status or self.run.status
        stands = self.run.admitted_at is None and status == RunStatus.QUEUED
        return NOT_TOLD if stands else self.moment

    def _count_work(self, rows: QuerySet[Step], change: StepChange) -> None:
        """An attempt that waits has worked so far; the next attempt begins with nothing."""
        if change.failed or change.crashed or self.transition.forgives:
            rows.update(worked=0.0)
        elif change.status == StepStatus.WAITING:
            worked = RawSQL("worked + extract(epoch FROM %s - entered_at)", [self.moment])
            rows.filter(status=StepStatus.EXECUTING).update(worked=worked)

    def _checkpoint(self) -> None:
        point = self.transition.checkpoint
        if point is None:
            return
        assert self.position is not None
        first = point.kind == "input"
        no = 0 if first else self.run.checkpoint_no + 1
        ops = canonical.dumps(point.ops)
        weights, size = Weights.of(self.run), len(ops.encode())
        whole = first or point.kind == "migration" or weights.wants_snapshot(size)
        snapshot = (self.document or canonical.dumps(self.position)) if whole else None
        add_checkpoint(
            self.run,
            point,
            no=no,
            ops=ops,
            snapshot=snapshot,
            author=self.actor,
            reason=self.reason,
            moment=self.moment,
        )
        weights.note(patch_size=size, snapshot_size=None if snapshot is None else len(snapshot.encode()))
        self._set(head=no, checkpoint_no=no, patch_weight=weights.patches, snapshot_size=weights.snapshot)
        if snapshot is not None:
            self._set(snapshot_no=no)

    def _move(self) -> None:
        """The run is at another version from this checkpoint on; what is unfinished goes by the new names."""
        moved = self.transition.moved
        if moved is None:
            return
        insert(
            Migrated(
                run=self.run,
                checkpoint=self.run.head,
                branch=self.run.branch,
                from_version=moved.from_version,
                to_version=moved.to_version,
                at=self.moment,
            )
        )
        self._set(workflow_version=moved.to_version, fingerprint=moved.fingerprint)
        for address, node in moved.nodes.items():
            at_step = {"run": self.run, "branch": self.run.branch, "address": address}
            Step.objects.filter(**at_step).update(node=node)
            Wait.objects.filter(**at_step, closed_at=None).update(node=node)
            Approval.objects.filter(**at_step, status=ApprovalStatus.OPEN).update(node=node)

    def _begin_steps(self) -> None:
        ready = [(step, StepStatus.READY) for step in self.transition.next_steps]
        waiting = [(step, StepStatus.WAITING) for step in self.transition.waiting_steps]
        add_steps(self.run, [*ready, *waiting], hinted_at=self._told_at())

    def _open_waits(self) -> None:
        wait = self.transition.wait
        if wait is None:
            return
        due = schedule.due_after(self.opened.options, self.moment) if self.opened else wait.due(self.moment)
        insert(
            Wait(
                run=self.run,
                branch=self.run.branch,
                address=wait.address,
                node=wait.node,
                kind=wait.kind,
                facts=wait.facts,
                opened_at=self.moment,
                due_at=due,
            )
        )
        if self.transition.opened and self.opened:
            self._open_approval(self.transition.opened, self.opened, due)

    def _ask(self) -> None:
        """Open what a body waits for, each with the place of its answer. An instant that was recorded before counts on."""
        if not self.transition.wanted:
            return
        assert self.held is not None
        step = self.held.step
        kept = [one.place for one in self.transition.wanted if one.keeps_its_instant]
        earlier = asked_before(self.run, step.address, kept)
        for position, one in enumerate(self.transition.wanted):
            before = earlier.get(one.place) if one.keeps_its_instant else None
            made = self.asked.get(one.place)
            due = before.due_at if before else one.due(self.moment)
            if isinstance(made, Approval):
                due = schedule.due_after(made.options, self.moment)
            insert(
                Wait(
                    run=self.run,
                    branch=self.run.branch,
                    address=step.address,
                    node=step.node,
                    kind=one.kind,
                    name=one.name,
                    occurrence=one.occurrence,
                    label=one.label,
                    race=one.race,
                    position=position,
                    after=self.run.head if before is None else before.after,
                    digest=one.digest,
                    schema=one.schema,
                    child=made if isinstance(made, Run) else None,
                    opened_at=before.opened_at if before else self.moment,
                    due_at=due,
                )
            )
            if isinstance(made, Approval):
                assert one.document is not None
                self._supersede(one.supersedes)
                made.name, made.occurrence = one.place
                self._open_approval(Opened(step.address, step.node, one.document, one.digest), made, due)

    def _supersede(self, approval_id: str) -> None:
        """What was decided is not what is asked for now."""
        if approval_id:
            Approval.objects.filter(run=self.run, pk=uuid.UUID(approval_id)).update(
                status=ApprovalStatus.SUPERSEDED, closed_reason="payload_changed"
            )

    def _open_approval(self, opened: Opened, approval: Approval, due: datetime | None) -> None:
        """Complete the row that the operation prepared (candidates, options) and store it with its first version."""
        approval.run, approval.project_id = self.run, self.run.project_id
        approval.branch, approval.epoch = self.run.branch, self.run.epoch
        approval.address, approval.node = opened.address, opened.node
        approval.title, approval.digest = opened.document["title"], opened.digest
        approval.document = canonical.dumps(opened.document)
        approval.opened_at, approval.due_at = self.moment, due
        approval.remind_at = schedule.remind_at(approval.options, due, after=self.moment)
        insert(approval)
        insert(
            Revision(
                approval=approval,
                version=1,
                document=approval.document,
                digest=approval.digest,
                created_at=self.moment,
            )
        )

    def _events(self) -> list[Event]:
        actor = canonical.dumps(self.actor) if self.actor is not None else ""
        links = [bytes(self.run.head_hash)]
        rows = []
        for seq, event in enumerate(self.transition.events, self.run.seq + 1):
            row = linked(
                replace(event, payload=self._payload(event)),
                run_id=self.run.pk,
                branch=self.run.branch,
                epoch=self.run.epoch,
                actor=actor,
                seq=seq,
                at=self.moment,
                before=links[-1],
                checkpoint=self.run.head if self.transition.checkpoint else None,
            )
            rows.append(row)
            links.append(bytes(row.hash))
        add_events(self.run, rows)
        before = links[-2] if rows else links[-1]
        self._set(seq=self.run.seq + len(rows), head_hash=links[-1], prev_hash=before)
        return rows

    def _payload(self, event: EngineEvent) -> dict[str, Json]:
        if event.kind == "approval_opened" and self.opened:
            return {**event.payload, "approval": str(self.opened.pk)}
        made = self.asked.get((str(event.payload.get("name")), str(event.payload.get("occurrence"))))
        if made is not None and event.kind in ("approval_opened", "wait_opened"):
            return {**event.payload, "approval" if isinstance(made, Approval) else "run": str(made.pk)}
        return event.payload

    def _finish(self) -> None:
        transition = self.transition
        if transition.status is not None:
            self._set(status=transition.status.value)
        if transition.error is not None:
            self._set(error=transition.error)
        if transition.forgives:
            self._set(error=None, finished_at=None)
        if transition.ended and self.run.status == RunStatus.COMPLETED:
            self._set(output=canonical.dumps(transition.output))
        if transition.ended and self.run.status in TERMINAL:
            self._set(finished_at=self.moment, ending=None)
        if transition.ending is not None:
            self._set(ending=transition.ending)
        if transition.paused is not None:
            self._set(paused={**transition.paused, "since": self.moment.isoformat()})
        elif self.run.paused is not None and self.run.status != RunStatus.PAUSED:
            self._set(paused=None)
        self._set(waiting_for=waiting_for(self.run) if self._may_wait() else [])
        self._clock()
        self._rest()
        self._set(version=self.run.version + 1, updated_at=self.moment)
        write(self.run, *self.changed)

    def _may_wait(self) -> bool:
        """Whether the run has an open wait after this."""
        left = self.around.waits > self.closed
        return left or self.transition.wait is not None or bool(self.transition.wanted)

    def _rest(self) -> None:
        """A limited run gives back its slots when it has nothing to do, and has to be let in again after that. What it does at
        its end, without having been let in, is held up by no limit."""
        if not self.run.limited:
            return
        if self.run.admitted_at is None:
            if self.run.status == RunStatus.RUNNING:
                self._set(admitted_at=self.moment)
            return
        line = come_to_rest(self.run)
        if line is not None:
            self._set(admitted_at=None, line=line)

    def _clock(self) -> None:
        run = self.run
        if run.deadline is None:
            return
        clock = clock_after(
            Clock(run.deadline_at, run.time_left),
            deadline=run.deadline,
            moment=self.moment,
            status=run.status,
            for_people=any(reason["kind"] == "approval" for reason in run.waiting_for),
            anew=self.branch is not None or self.transition.forgives,
            over=run.ending is not None,
        )
        self._set(deadline_at=clock.at, time_left=clock.left)
