"""The sweeper's verb: what time and death have made due. Each item in a transaction of its own; one that fails is
logged and tried again at the next round, and holds up no other."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from django.conf import settings
from django.db import transaction

from runs import dispatch, store, watching, workflows
from runs.engine import machine
from runs.engine import position as at
from runs.engine.failures import delay_of, error_of
from runs.engine.position import LiveStep
from runs.engine.status import StepStatus
from runs.engine.transition import Aggregate, Transition, WithoutCode, is_undo
from runs.errors import (
    Busy,
    CallTimeout,
    CheckpointUnreadable,
    DeadlineExceeded,
    NeedsMigration,
    StepError,
    StepTimeout,
    VersionElsewhere,
)
from runs.models import Run, Step, Stop, Wait
from runs.operations import pausing, undoing
from runs.operations.admitting import let_in
from runs.operations.deciding import expire, fail_unreadable
from runs.operations.door import aggregate, commit
from runs.operations.escalating import remind
from runs.operations.timing import BATCH, fire_timers
from runs.operations.versioning import look_after, noting
from runs.operations.waking import wake
from runs.policies import SYSTEM

ROUND_SECONDS: Final = 2.0  # after which a round leaves what is due to the next one
LEVELS: Final = 20  # of a tree of runs that one round goes down
QUEUE_FULL_AT: Final = 500  # with so many hints in the broker, more would only fill it
Item = TypeVar("Item")
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Swept:
    """What one round did."""

    taken_over: int = 0
    run_out: int = 0
    woken: int = 0
    expired: int = 0
    reminded: int = 0
    stopped: int = 0
    held: int = 0
    let_in: int = 0
    hinted: int = 0
    suspected_dead: int = 0
    failed: int = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def sweep(lock: psycopg.Connection[Any]) -> Swept | None:
    """One round: takeovers, due retries, due approvals, runs in line, forgotten hints. None if another process sweeps.

    lock: a connection of the sweeper's own, for the lock that lets one work.
    """
    with store.sweeping(lock) as alone:
        if not alone:
            return None
        swept, until = Swept(), time.monotonic() + ROUND_SECONDS
        swept.suspected_dead = len(store.suspect_children())
        swept.taken_over = _each(store.lapsed_steps(), _take_over, swept)
        swept.stopped = _stop_children(swept)
        swept.held = _hold_trees(swept)
        strangers = look_after()
        swept.run_out = _each(store.overdue_runs(), _run_out, swept)
        swept.woken = _fire_timers(until)
        for wait in store.due_waits(strangers):
            if time.monotonic() > until:
                break  # a worker that has died must not wait for all of them
            if wait.name:
                swept.woken += _each([wait], _wake_body, swept)
            elif wait.kind == "retry":
                swept.woken += _each([wait], _wake, swept)
            else:
                swept.expired += _each([wait], _expire, swept)
        swept.reminded = _each(store.due_reminders(), _remind, swept)
        swept.woken += _each(store.ended_children(strangers), _wake_body, swept)
        swept.let_in = _let_in(swept)
        swept.hinted = _hint()
        store.beat(watching.SWEEPER.beat, dict(swept.as_dict()))
        return swept


def _each(items: Iterable[Item], handle: Callable[[Item], bool], swept: Swept) -> int:
    done = 0
    for item in items:
        try:
            done += handle(item)
        except Busy:
            logger.info("somebody holds the run of %r; the sweeper tries again", item)
        except (NeedsMigration, VersionElsewhere) as left:
            logger.info("the run of %r waits for code: %s", item, left)
        except Exception:  # authors' validators and routers run here too; none may stop the others
            if not store.is_connected():
                raise  # nothing else will work either; the next round does
            swept.failed += 1
            logger.exception("the sweeper could not handle %r; it tries again", item)
    return done


def _take_over(step: Step) -> bool:
    """A step whose worker is gone is ready again; the old worker's token is worth nothing from here on."""
    with transaction.atomic(durable=True):
        run = store.lock_run(step.run_id)
        now = Step.objects.select_for_update(no_key=True).get(
            run=run, branch=step.branch, address=step.address
        )
        if now.status != StepStatus.EXECUTING or now.token != step.token or now.epoch != run.epoch:
            return False
        child = store.child_of(now.worker)
        gone = child is not None and child.gone_at is not None
        lapsed = now.lease_until is not None and now.lease_until < store.now()
        if not gone and not lapsed and now.overdue is None:
            return False
        leaving = child is not None and child.leaving_at is not None
        if now.undoes is not None:
            return undoing.taken_over(run, now, gone=gone, leaving=leaving)
        facts = _facts(run)
        if facts is None:
            return False
        live = at.find(facts.position, now.address)
        if live is None:
            return False
        if isinstance(
            facts, WithoutCode
        ):  # whether it was its last attempt is said by the code, once it is back
            transition = machine.hand_over(facts, live, worker=str(now.worker))
        elif now.overdue is not None:
            transition = _timed_out(facts, live, now)
        elif leaving:
            transition = machine.hand_over(facts, live, worker=str(now.worker))
        else:
            transition = machine.take_over(
                facts,
                live,
                reason="worker_gone" if gone else "lease_expired",
                crashes=now.crashes + 1,
                limit=settings.HITL_POISON_CRASHES,
                worker=str(now.worker),
            )
        _commit(run, transition, facts.position)
        logger.warning("%s", transition.events[0].kind, extra={"run": str(run.pk), "step": now.node})
        return True


def _timed_out(facts: Aggregate, live: LiveStep, step: Step) -> Transition:
    """The attempt held out against its watchdog, which ended the process: a failure by the node's policy, not a crash."""
    told = step.overdue or {}
    late: StepError = StepTimeout(timeout=told.get("timeout"))
    if "call" in told:
        late = CallTimeout(f"The call {told['call']!r} took longer than {told['timeout']} s.", **told)
    failures = step.failures + 1
    delay = delay_of(
        facts.workflow.nodes[step.node].retry,
        late,
        attempt=failures + step.crashes,
        failures=failures,
        draw=random.random(),  # noqa: S311  # jitter, no secret
    )
    error = {**error_of(late), "process_ended": True}
    return machine.fail(facts, live, error, attempt=step.attempt, delay=delay)


def _run_out(run: Run) -> bool:
    """The time of a run is over, whatever it is doing: it fails, and everything of it is closed."""
    with transaction.atomic(durable=True):
        now = store.lock_run(run.pk)
        if now.is_terminal or now.deadline_at is None or now.deadline_at > store.now():
            return False
        error = DeadlineExceeded(
            f"The run took longer than {now.deadline:g} s, people's time not counted.", deadline=now.deadline
        )
        commit(now, machine.give_up(now.status, error), actor=SYSTEM)
        return True


def _wake(wait: Wait) -> bool:
    """The time to try again has come."""
    with transaction.atomic(durable=True):
        run = store.lock_run(wait.run_id)
        if not Wait.objects.filter(pk=wait.pk, closed_at=None).exists():
            return False
        if is_undo(wait.address):
            return undoing.due(run, wait.address)
        facts = _facts(run)
        if facts is None:
            return False
        live = at.find(facts.position, wait.address)
        if live is None:
            return False
        _commit(run, machine.wake(facts, live), facts.position)
        return True


def _fire_timers(until: float) -> int:
    """Timers that are all that their runs wait for, batch by batch, for as long as a round may take."""
    fired = 0
    while (some := fire_timers()) > 0:
        fired += some
        if some < BATCH or time.monotonic() > until:
            break
    return fired


def _wake_body(wait: Wait) -> bool:
    """Something that a body waits for is there."""
    try:
        return wake(wait)
    except CheckpointUnreadable as error:
        fail_unreadable(run_id=wait.run_id, error=error)
        return True


def _stop_children(swept: Swept) -> int:
    """Cancel children whose parent wants them no longer, and what they have started: level by level, within bounds."""
    stopped = 0
    for _ in range(LEVELS):
        done = _each(store.to_stop(), _stop, swept)
        stopped += done
        if not done:
            break
    return stopped


def _stop(order: Stop) -> bool:
    with transaction.atomic(durable=True):
        run = store.lock_run(order.run_id)
        Stop.objects.filter(pk=order.pk).delete()
        if run.is_terminal or run.ending is not None:
            return False
        transition = machine.cancel(run.status, reason=order.reason)
        commit(run, transition, actor=SYSTEM, compensate=order.compensate)
        return True


def _hold_trees(swept: Swept) -> int:
    """Pause what goes on below a run that is paused with its children, and let go on what is paused with one that is not."""
    held = 0
    for _ in range(LEVELS):
        done = _each(store.to_follow(), pausing.follow, swept)
        held += done
        if not done:
            break
    return held


def _expire(wait: Wait) -> bool:
    try:
        with noting(wait.run_id):
            return expire(run_id=wait.run_id, address=wait.address)
    except CheckpointUnreadable as error:
        fail_unreadable(run_id=wait.run_id, error=error)
        return True


def _remind(approval_id: uuid.UUID) -> bool:
    return remind(approval_id=approval_id)


def _facts(run: Run) -> Aggregate | None:
    try:
        return aggregate(run)
    except CheckpointUnreadable as error:
        transaction.on_commit(partial(fail_unreadable, run_id=run.pk, error=error))
        return None


def _commit(run: Run, transition: Transition, position: dict[str, Any]) -> None:
    commit(run, transition, position=position, actor=SYSTEM)


def _let_in(swept: Swept) -> int:
    """Let in runs for every queue in which some stand in line."""
    counts: list[int] = []

    def of(queue: str) -> bool:
        counts.append(let_in(queue=queue))
        return True

    _each(store.queues_in_line(), of, swept)
    return sum(counts)


def _hint() -> int:
    """Tell workers once more about steps that nobody took: the first message may be lost, or never have been sent."""
    return sum(_hint_queue(queue) for queue in workflows.queues())


def _hint_queue(queue: str) -> int:
    lying = dispatch.hints([queue])
    room = 0 if lying is None else QUEUE_FULL_AT - lying
    if room <= 0:
        return 0
    sent = 0
    for run_id, branch, address in store.unhinted_steps(queue, limit=room):
        if not dispatch.send(run_id, branch, address, queue=queue):
            break  # the broker is down; a second of waiting is enough
        sent += 1
    return sent
