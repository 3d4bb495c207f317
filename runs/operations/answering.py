"""What satisfies a waiting step, and how the answer is stored. Under the run's lock; `waking` and `deciding` call it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from runs import store
from runs.engine import canonical, given, machine
from runs.engine import position as at
from runs.engine.given import Given
from runs.engine.schema import validate
from runs.engine.transition import Aggregate
from runs.engine.waits import Candidate, first_satisfied
from runs.models import Approval, Run, Signal, Wait
from runs.operations.door import commit


def first_due(run: Run, facts: Aggregate, address: str, moment: datetime) -> Candidate | None:
    """The first thing that satisfies a step by `moment`: by instant, then by declaration."""
    waits = store.open_waits(run, address).select_related("child").order_by("position", "id")
    return first_satisfied([found for wait in waits for found in _candidates(run, facts, wait, moment)])


def _candidates(run: Run, facts: Aggregate, wait: Wait, moment: datetime) -> Iterator[Candidate]:
    if wait.due_at is not None and wait.due_at <= moment and wait.kind != "retry":
        yield Candidate(wait.due_at, wait.position, late=True, wait=wait)
    if wait.kind == "signal":
        signal = _fitting(run, facts, wait)
        if signal is not None:
            yield Candidate(signal.received_at, wait.position, late=False, wait=wait, found=signal)
    if wait.child is not None and wait.child.finished_at is not None:
        yield Candidate(wait.child.finished_at, wait.position, late=False, wait=wait, found=wait.child)


def _fitting(run: Run, facts: Aggregate, wait: Wait) -> Signal | None:
    """The oldest signal of a name that nothing took and that fits the wait's schema."""
    free = store.free_signals(run, wait.name, at.taken(facts.position, wait.name))
    if wait.schema is None:
        return free[0] if free else None
    return next(
        (signal for signal in free if not validate(canonical.loads(signal.payload), wait.schema)), None
    )


def given_by(candidate: Candidate) -> Given:
    """The answer that a candidate gives; for approvals see `deciding`."""
    wait, found = candidate.wait, candidate.found
    if isinstance(found, Signal):
        payload = canonical.loads(found.payload)
        return given.of_signal(
            found.name, id=found.sent_id, no=found.no, at=found.received_at, payload=payload
        )
    if isinstance(found, Run):
        output = canonical.loads(found.output or "null")
        return given.of_child(
            wait.name, run=str(found.pk), status=found.status, output=output, error=found.error
        )
    return given.of_time(wait.kind, wait.name, wait.due_at)


def wait_for(run: Run, approval: Approval) -> Wait:
    """The open wait of a question in the middle of code."""
    waits = store.open_waits(run, approval.address).filter(kind="approval")
    return waits.get(name=approval.name, occurrence=approval.occurrence)


def answer(run: Run, facts: Aggregate, wait: Wait, told: Given, actor: dict[str, Any]) -> None:
    """Journal an answer; the step is ready if it waits for nothing else, or only for the first of several."""
    step = at.find(facts.position, wait.address)
    assert step is not None
    waits = list(store.open_waits(run, wait.address).order_by("position", "id"))
    found = given.satisfied(wait, waits, told)
    commit(run, machine.satisfy(facts, step, found), position=facts.position, actor=actor)
