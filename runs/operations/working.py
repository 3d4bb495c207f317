"""A worker's verb: take a step and drive its lane until it waits, ends, or has used its slice."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import transaction

from runs import dispatch, store, workflows
from runs.driver import (
    ITEMS,
    Asked,
    Completed,
    Context,
    Entered,
    Failed,
    ItemDone,
    Listed,
    Outcome,
    Reopened,
    StepScope,
    Suspended,
    run_step,
    secrets,
)
from runs.engine import Workflow, canonical, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.failures import delay_of, error_of
from runs.engine.retry import Retry
from runs.engine.transition import Aggregate, Event, Resolved, Transition, is_undo
from runs.errors import (
    Busy,
    CheckpointUnreadable,
    LateResult,
    MigrationMissing,
    NotFound,
    RunCancelled,
    StepError,
)
from runs.models import Approval, Run
from runs.operations import parking, undoing
from runs.operations.deciding import fail_unreadable
from runs.operations.door import aggregate, check_code, commit
from runs.operations.landing import Tried, land
from runs.operations.parking import Prepared
from runs.operations.port import StepPort
from runs.operations.process import Worker, worker
from runs.operations.versioning import take_along
from runs.operations.waking import settle
from runs.store import Claimed, ClaimedUndo, Held, Weights

SOON: Final = Retry(
    attempts=1_000, initial=1.0, max=1.0, jitter=0.0
)  # until the sweeper has cancelled the run
Result = TypeVar("Result")
Command = Callable[[Aggregate], Transition]
WorkOut = Callable[[Run], tuple[Transition, dict[str, Any]]]
logger = logging.getLogger(__name__)


def advance(*, run_id: uuid.UUID, branch: int, address: str) -> None:
    """Take this step if it is there to be taken, and drive its lane. A message that comes twice finds nothing to do."""
    me = worker()
    try:
        claimed = _claim(run_id, branch, address, me)
    except CheckpointUnreadable as error:
        fail_unreadable(run_id=run_id, error=error)
        return
    except (Busy, NotFound) as error:
        # A slot is worth more than this hint: the sweeper gives another one while the step is ready.
        logger.info("the step was not taken: %s", error, extra={"run": str(run_id), "step": address})
        return
    if claimed is None:
        logger.debug("duplicate_delivery_ignored", extra={"run": str(run_id), "step": address})
    elif isinstance(claimed, ClaimedUndo):
        undoing.take_back(claimed, me)
    else:
        Slice(claimed, me).drive()


def advance_alone(run_id: uuid.UUID, branch: int, address: str) -> None:
    """The same for a step that nobody was told about, in a thread of its own: nothing that goes wrong leaves it."""
    logger.info("a step that nobody was told about is taken", extra={"run": str(run_id), "step": address})
    try:
        advance(run_id=run_id, branch=branch, address=address)
    except Exception:
        logger.exception("the step could not be advanced", extra={"run": str(run_id), "step": address})
    finally:
        store.disconnect()


def _claim(run_id: uuid.UUID, branch: int, address: str, me: Worker) -> Claimed | ClaimedUndo | None:
    """Claim a step. If its run's code is not here, the run is left to a worker that has it, or migrated if nobody has."""
    verb: Callable[..., Claimed | ClaimedUndo | None] = store.claim_undo if is_undo(address) else store.claim
    claim = partial(verb, run_id=run_id, branch=branch, address=address, worker=me.id, check=check_code)
    try:
        return store.once_more_if_lost(claim)
    except MigrationMissing:
        return claim() if take_along(run_id, branch, address) else None


class Slice:
    """One lane, driven step by step. The run's position stays in memory between steps.

    Beside other lanes it may lack what those have committed meanwhile. What this lane does to itself needs none of that and
    is committed in one statement all the same; everything else is worked out on the document as it is under the run's lock.
    """

    def __init__(self, claimed: Claimed, me: Worker) -> None:
        self.worker = me
        self.held = claimed.held
        self.branch = claimed.branch
        self.project_id = claimed.run.project_id
        self.queue = claimed.run.queue
        self.workflow: Workflow = workflows.get(claimed.run.workflow, claimed.run.workflow_version)
        self.head = claimed.run.head
        self.weights = Weights.of(claimed.run)
        self.steps_left = settings.HITL_SLICE_STEPS
        self.until = time.monotonic() + settings.HITL_SLICE_SECONDS
        self.run = Aggregate(
            run_id=str(claimed.run.pk),
            workflow=self.workflow,
            status=claimed.run.status,
            epoch=claimed.run.epoch,
            branch=claimed.run.branch,
            position=claimed.position,
            values={},
        )

    def drive(self) -> None:
        """Run steps until the lane waits or ends, or the slice is used up."""
        held: Held | None = self.held
        while held is not None:
            self.held = held
            try:
                with self.worker.holding(held):
                    held = self._one_step()
            except LateResult:
                self._note_late()
                return

    def _one_step(self) -> Held | None:
        outcome = self._run_body()
        if isinstance(outcome, Completed | Suspended):
            ended = self._complete(outcome) if isinstance(outcome, Completed) else self._suspend(outcome)
            if not isinstance(ended, Failed):
                return ended
            outcome = ended
        step = self.held.step
        match outcome:
            case Asked():
                self._park(outcome)
            case Failed():
                self._fail(outcome)
            case Reopened():
                again = outcome
                self._commit(lambda run: machine.ask_again(run, step, again.node, again.reason))
            case Listed():
                count = outcome.count
                self._commit(lambda run: machine.begin_items(run, step, count))
            case ItemDone():
                result = outcome.result
                self._commit(lambda run: machine.complete_item(run, step, result))
            case Entered():
                state = outcome.state
                self._commit(lambda run: machine.enter(run, step, state))
        return None

    def _run_body(self) -> Outcome | Listed | ItemDone | Entered:
        held, lane = self.held, self.held.step.lane
        schema = self.run.workflow_of(lane).schema
        try:
            if not self.run.values:
                self.run.values = machine.values_of(self.run, lane)
        except StepError as error:
            return Failed(error, _facts_of(error), self.workflow.nodes[held.step.node].retry)
        context = Context(
            run_id=self.run.run_id,
            node=held.step.node,
            attempt=held.attempt,
            address=held.step.address,
            generation=self.branch.generation,
            branch=self.branch.no,
            answers=at.answers(self.run.position, lane),
            port=StepPort(held, self.branch, self.worker, self.project_id),
            failures=at.errors(self.run.position, lane),
            earlier=held.earlier,
            generations=self._generations(),
            draws=self._draws(),
        )
        self.worker.watch_over(held, context.expel)
        logger.debug("step starts", extra={"run": self.run.run_id, "step": held.step.node})
        limit = self.workflow.nodes[held.step.node].timeout
        scope = StepScope(
            self.workflow,
            held.step,
            schema.view(self.run.values),
            context,
            seconds=None if limit is None else max(0.0, limit - held.worked),
        )
        return run_step(scope, self.run.position, items=self._items)

    def _generations(self) -> dict[tuple[str, str], int]:
        """Of single calls of this step that a rewind has set apart."""
        if not self.branch.generations:
            return {}
        places = [(canonical.loads(place), number) for place, number in self.branch.generations.items()]
        return {
            (name, occurrence): number
            for (address, name, occurrence), number in places
            if address == self.held.step.address
        }

    def _draws(self) -> tuple[str, int] | None:
        """Where chance comes from, for a step that was under way when the run was forked: what it drew stays the same."""
        told = (self.branch.draws or {}).get(self.held.step.address)
        return None if told is None else (str(told[0]), int(told[1]))

    def _items(self) -> list[Json]:
        """What the fan-out around this item has listed."""
        outer = at.outer_step(self.run.position, self.held.step.lane)
        assert outer is not None
        entries = store.persistently(partial(store.journal, self.held.run_id, self.branch, outer.address))
        listed = [entry for entry in entries if entry.name == ITEMS]
        newest = max(listed, key=lambda entry: (entry.visible, entry.branch))
        items: list[Json] = canonical.loads(newest.result)
        return items

    def _complete(self, done: Completed) -> Held | Failed | None:
        """Commit a completed step: in one statement if it concerns this lane alone, otherwise under the run's lock."""
        step, node = self.held.step, self.workflow.nodes[self.held.step.node]
        try:
            resolved, transition = _refusing(partial(self._resolve, done.update))
            if transition is not None:
                return self._commit_step(transition, resolved)
            return self._take_next(self._commit(lambda run: machine.settle(run, step, resolved)))
        except _Refused as refused:
            return Failed(refused.error, _facts_of(refused.error), node.retry)

    def _resolve(self, update: Any) -> tuple[Resolved, Transition | None]:
        """What the update comes to, and the transition if it concerns this lane alone."""
        resolved = machine.resolve(self.run, self.held.step, update)
        return resolved, machine.settle_alone(self.run, self.held.step, resolved)

    def _commit_step(self, transition: Transition, resolved: Resolved) -> Held | None:
        alone = at.is_alone(self.run.position, self.held.step.lane)
        go_on = self._may_go_on()
        try:
            committed = store.commit_step(
                self.held,
                transition,
                position=self.run.position if alone else None,
                head=self.head if alone else None,
                weights=self.weights,
                go_on=go_on,
            )
        except (LateResult, store.SnapshotDue):
            # A snapshot is due, or the run is paused, or drains after a sibling's failure, or the step is not ours any more:
            # the run's row knows which. The position in hand has been changed already.
            settle_there = partial(
                self._on_true_document, lambda run: machine.settle(run, self.held.step, resolved)
            )
            return self._take_next(self._commit_under_lock(settle_there))
        self.head = committed.checkpoint
        self.run.values = transition.values or self.run.values
        dispatch.announce_step(self.project_id, self.held.run_id)
        if committed.next is None:
            dispatch.send(
                self.held.run_id, self.held.branch, transition.next_steps[0].address, queue=self.queue
            )
        return committed.next

    def _may_go_on(self) -> bool:
        self.steps_left -= 1
        return self.steps_left > 0 and time.monotonic() < self.until and not self.worker.stopping

    def _take_next(self, transition: Transition) -> Held | None:
        """Go on with one of the steps that a commit under the lock has begun; workers were told about all of them."""
        if not transition.next_steps or not self._may_go_on():
            return None
        address = transition.next_steps[0].address
        try:
            claimed = store.claim(
                run_id=self.held.run_id, branch=self.held.branch, address=address, worker=self.worker.id
            )
        except (Busy, CheckpointUnreadable):
            return None  # whoever gets the hint sees to it
        if claimed is None:
            return None
        self.run.position, self.run.values, self.run.status = claimed.position, {}, claimed.run.status
        self.head, self.weights = claimed.run.head, Weights.of(claimed.run)
        return claimed.held

    def _park(self, asked: Asked) -> None:
        step = self.held.step
        opened, news = store.persistently(partial(self._approval, asked))
        self._commit(
            lambda run: parking.told(machine.park(run, step, asked.document, asked.digest), news),
            opened=opened,
        )

    def _suspend(self, asked: Suspended) -> Failed | None:
        """The body waits. What is there already satisfies it at once, in the same transaction."""
        held = self.held
        try:
            prepared = store.persistently(partial(parking.prepare, held, asked.wanted))
            news = parking.news_of(held.step, prepared)
            self._commit(
                lambda run: parking.told(machine.suspend(run, held.step, asked.wanted), news),
                prepared=prepared,
            )
        except RunCancelled as error:
            return Failed(error, error_of(error), SOON)
        except StepError as error:
            return Failed(error, error_of(error), self.workflow.nodes[held.step.node].retry)
        return None

    def _fail(self, failed: Failed) -> None:
        held = self.held
        delay = delay_of(
            failed.policy,
            failed.error,
            attempt=held.attempt - held.earlier,
            failures=held.failures + 1,
            draw=random.random(),  # noqa: S311  # jitter, no secret
        )
        self._commit(
            lambda run: machine.fail(run, held.step, failed.facts, attempt=held.attempt, delay=delay)
        )

    def _commit(
        self, command: Command, *, opened: Approval | None = None, prepared: Prepared | None = None
    ) -> Transition:
        """Store a transition that is not an ordinary step: under the run's lock, still fenced by the token.

        Alone, the position in hand is the run's, and the transition is worked out before the lock is taken.
        """
        work_out: WorkOut = partial(self._on_true_document, command)
        if at.is_alone(self.run.position, self.held.step.lane):
            known = _refusing(partial(command, self.run)), self.run.position
            work_out = partial(self._known_unless_moved, known, work_out)
        return self._commit_under_lock(work_out, opened, prepared)

    def _commit_under_lock(
        self, work_out: WorkOut, opened: Approval | None = None, prepared: Prepared | None = None
    ) -> Transition:
        return land(self.held, partial(self._store, work_out, opened, prepared))

    def _known_unless_moved(
        self, known: tuple[Transition, dict[str, Any]], work_out: WorkOut, run: Run
    ) -> tuple[Transition, dict[str, Any]]:
        """What was worked out before the lock was taken, unless the run was paused meanwhile."""
        return known if run.status == self.run.status else work_out(run)

    def _on_true_document(self, command: Command, run: Run) -> tuple[Transition, dict[str, Any]]:
        facts = aggregate(run)
        facts.values = self.run.values  # as the body saw them: nobody else writes what this lane sees
        return _refusing(partial(command, facts)), facts.position

    def _store(
        self,
        work_out: WorkOut,
        opened: Approval | None,
        prepared: Prepared | None,
        tried: Tried,
    ) -> Transition:
        with transaction.atomic(durable=True):
            # However long it takes: giving up would throw away what the body did, and the keeper renews meanwhile.
            run = store.lock_held(self.held)
            transition, position = work_out(run)
            tried.append(transition)
            wanted = transition.wanted
            asked = parking.rows(run, self.held, wanted, prepared) if prepared and wanted else None
            commit(run, transition, position=position, held=self.held, opened=opened, asked=asked)
            if wanted:
                settle(run, self.held.step.address, store.now())
            return transition

    def _approval(self, asked: Asked) -> tuple[Approval, list[Event]]:
        step = self.held.step
        before = Approval.objects.filter(run=self.held.run_id, node=step.node, name="")
        run = parking.asking_run(self.held)
        previous = before.order_by("-opened_at").first()
        row = parking.approval_row(run, asked.options, asked.document, previous, node=step.node)
        lack = parking.lack_of(run, asked.options)
        return row, [parking.unanswerable(row, lack, step)] if lack else []

    def _note_late(self) -> None:
        logger.warning("late_result_discarded", extra={"run": self.run.run_id, "step": self.held.step.node})
        store.note_late_result(self.held, "step result")


class _Refused(Exception):
    """The engine, or an author's router or output function that it asked, says no: the step has failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _refusing(command: Callable[[], Result]) -> Result:
    try:
        return command()
    except Exception as error:
        raise _Refused(error) from error


def _facts_of(error: Exception) -> dict[str, Json]:
    """An error of a validator or a router as data; it may quote what the body returned."""
    facts: dict[str, Json] = secrets.redacted(error_of(error))
    return facts
