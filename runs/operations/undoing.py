"""A worker's verb for a run that ends: take one of its calls back. What time and death make of that is here too."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from django.conf import settings
from django.db import transaction

from runs import driver, store, workflows
from runs.driver import Completed, Context, Failed
from runs.engine import Workflow, compensation
from runs.engine.compensation import Ending
from runs.engine.failures import delay_of, error_of
from runs.engine.transition import Transition, Undo
from runs.errors import LateResult, StepError, StepTimeout
from runs.models import Branch, Run, Step
from runs.operations.door import commit
from runs.operations.landing import Tried, land
from runs.operations.port import StepPort
from runs.operations.process import Worker
from runs.policies import SYSTEM
from runs.store import ClaimedUndo

Command = Callable[[Ending], Transition]
logger = logging.getLogger(__name__)


def take_back(claimed: ClaimedUndo, me: Worker) -> None:
    """Take the call back that a claimed step names."""
    try:
        with me.holding(claimed.held):
            _conclude(claimed, _call_back(claimed, me))
    except LateResult:
        store.note_late_result(claimed.held, "undo", call=claimed.undo.name)


def _call_back(claimed: ClaimedUndo, me: Worker) -> Completed | Failed:
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
        port=StepPort(held, branch, me, run.project_id),
        taking_back=claimed.entry.call_key,
    )
    me.watch_over(held, context.expel)
    logger.debug("a call is taken back", extra={"run": str(run.pk), "step": held.step.node})
    return driver.take_back(
        _workflow_of(run), held.step, context, undo=claimed.entry.undo or "", result=claimed.entry.result
    )


def _conclude(claimed: ClaimedUndo, outcome: Completed | Failed) -> None:
    held, undo = claimed.held, claimed.undo
    if isinstance(outcome, Completed):
        _commit(claimed, lambda run: compensation.undone(run, undo))
        return
    delay = delay_of(
        _workflow_of(claimed.run).undo_retry,
        outcome.error,
        attempt=held.attempt,
        failures=held.failures + 1,
        draw=random.random(),  # noqa: S311  # jitter, no secret
    )
    _commit(
        claimed,
        lambda run: compensation.undo_failed(run, undo, outcome.facts, attempt=held.attempt, delay=delay),
    )


def _commit(claimed: ClaimedUndo, command: Command) -> None:
    """Under the run's lock, and fenced by the token like every write of a worker."""
    land(claimed.held, lambda tried: _store(claimed, command, tried))


def _store(claimed: ClaimedUndo, command: Command, tried: Tried) -> Transition:
    with transaction.atomic(durable=True):
        run = store.lock_held(claimed.held)
        transition = command(store.ending_of(run))
        tried.append(transition)
        commit(run, transition, held=claimed.held)
        return transition


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
