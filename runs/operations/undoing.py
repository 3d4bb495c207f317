"""A worker's verb for a run that ends: take one of its calls back. What time and death make of that is here too."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings
from django.db import DatabaseError, transaction

from runs import driver, store, workflows
from runs.driver import Completed, Context, Failed, Outcome, Port
from runs.engine import Workflow, compensation
from runs.engine.compensation import Ending
from runs.engine.failures import delay_of, error_of
from runs.engine.transition import Transition, Undo
from runs.errors import Busy, InvalidCall, LateResult, NotFound, StepError, StepTimeout
from runs.models import Branch, Run, Step
from runs.operations.door import commit
from runs.operations.process import Worker
from runs.policies import SYSTEM
from runs.store import ClaimedUndo, Held

Command = Callable[[Ending], Transition]
logger = logging.getLogger(__name__)


class InHand(Protocol):
    """What a port to the journal of a step needs to know of it."""

    held: Held
    branch: Branch
    worker: Worker
    project_id: uuid.UUID


@dataclass(slots=True)
class _InHand:
    held: Held
    branch: Branch
    worker: Worker
    project_id: uuid.UUID


def take_back(
    *, run_id: uuid.UUID, branch: int, address: str, me: Worker, port: Callable[[InHand], Port]
) -> None:
    """Take this step if it is there to be taken, and the call that it names back. port: makes a port to the step's journal."""
    try:
        claimed = store.claim_undo(run_id=run_id, branch=branch, address=address, worker=me.id)
    except (Busy, NotFound) as error:
        logger.info("the step was not taken: %s", error, extra={"run": str(run_id), "step": address})
        return
    if claimed is None:
        logger.debug("duplicate_delivery_ignored", extra={"run": str(run_id), "step": address})
        return
    me.hold(claimed.held.token)
    try:
        _conclude(claimed, _call_back(claimed, me, port))
    except LateResult:
        store.note_late_result(claimed.held, "undo", call=claimed.undo.name)
    except BaseException:
        me.let_go(claimed.held.token)
        with suppress(DatabaseError, *store.LOST):  # then the lease runs out by itself
            store.lapse(claimed.held)
        raise
    finally:
        me.let_go(claimed.held.token)


def _call_back(claimed: ClaimedUndo, me: Worker, port: Callable[[InHand], Port]) -> Outcome:
    held, run = claimed.held, claimed.run
    branch = Branch.objects.get(run=run, no=run.branch)
    context = Context(
        run_id=str(run.pk),
        node=held.step.node,
        attempt=held.attempt,
        address=held.step.address,
        generation=branch.generation,
        branch=branch.no,
        answers={},
        port=port(_InHand(held, branch, me, run.project_id)),
        taking_back=claimed.entry.call_key,
    )
    me.watch_over(held.token, context.expel)
    logger.debug("a call is taken back", extra={"run": str(run.pk), "step": held.step.node})
    return driver.take_back(
        _workflow_of(run), held.step, context, undo=claimed.entry.undo or "", result=claimed.entry.result
    )


def _conclude(claimed: ClaimedUndo, outcome: Outcome) -> None:
    undo = claimed.undo
    if isinstance(outcome, Completed):
        _commit(claimed, lambda run: compensation.undone(run, undo))
        return
    if not isinstance(outcome, Failed):
        wrong = InvalidCall(f"{undo.name!r} cannot be taken back by something that waits.")
        outcome = Failed(wrong, error_of(wrong), _workflow_of(claimed.run).undo_retry)
    held, failed = claimed.held, outcome
    delay = delay_of(
        _workflow_of(claimed.run).undo_retry,
        failed.error,
        attempt=held.attempt,
        failures=held.failures + 1,
        draw=random.random(),  # noqa: S311  # jitter, no secret
    )
    _commit(
        claimed,
        lambda run: compensation.undo_failed(run, undo, failed.facts, attempt=held.attempt, delay=delay),
    )


def _commit(claimed: ClaimedUndo, command: Command) -> None:
    """Under the run's lock, and fenced by the token like every write of a worker."""
    tried: list[Transition] = []

    def once_more() -> None:
        try:
            _store(claimed, command, tried)
        except LateResult:
            kinds = [event.kind for event in tried[-1].events[:1]] if tried else []
            if not kinds or not store.is_written(claimed.held, kinds):
                raise  # it is not that only the answer to the first try was lost

    store.persistently(once_more)


def _store(claimed: ClaimedUndo, command: Command, tried: list[Transition]) -> None:
    with transaction.atomic(durable=True):
        run = store.lock_run(claimed.held.run_id, patience=None)
        store.check_fence(run, claimed.held)
        transition = command(store.ending_of(run))
        tried.append(transition)
        commit(run, transition, held=claimed.held)


# ---- the sweeper's part; the run is locked


def taken_over(run: Run, step: Step, *, gone: bool, leaving: bool) -> bool:
    """The worker of a step that takes a call back is gone, or it held out against its watchdog."""
    undo = store.undo_at(step)
    commit(run, _taken_over(run, step, undo, gone=gone, leaving=leaving), actor=SYSTEM)
    return True


def _taken_over(run: Run, step: Step, undo: Undo, *, gone: bool, leaving: bool) -> Transition:
    if step.overdue is not None:
        return _timed_out(run, step, undo)
    if leaving:
        return compensation.undo_handed_over(undo, worker=str(step.worker))
    return compensation.undo_taken_over(
        store.ending_of(run),
        undo,
        reason="worker_gone" if gone else "lease_expired",
        crashes=step.crashes + 1,
        limit=settings.HITL_POISON_CRASHES,
        worker=str(step.worker),
    )


def _timed_out(run: Run, step: Step, undo: Undo) -> Transition:
    late: StepError = StepTimeout(timeout=(step.overdue or {}).get("timeout"))
    failures = step.failures + 1
    delay = delay_of(
        _workflow_of(run).undo_retry,
        late,
        attempt=failures + step.crashes,
        failures=failures,
        draw=random.random(),  # noqa: S311  # jitter, no secret
    )
    return compensation.undo_failed(
        store.ending_of(run), undo, error_of(late), attempt=step.attempt, delay=delay
    )


def due(run: Run, address: str) -> bool:
    """It is time to try once more to take a call back."""
    step = Step.objects.filter(run=run, branch=run.branch, address=address).first()
    if step is None or run.ending is None:
        return False
    commit(run, compensation.undo_due(store.undo_at(step)), actor=SYSTEM)
    return True


def _workflow_of(run: Run) -> Workflow:
    return workflows.get(run.workflow, run.workflow_version)
