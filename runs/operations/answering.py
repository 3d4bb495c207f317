"""What satisfies a waiting step, and how the answer is stored. Under the run's lock; `waking` and `deciding` call it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs import store
from runs.engine import canonical, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.schema import validate
from runs.engine.status import RunStatus
from runs.engine.transition import Aggregate
from runs.engine.waits import ENTRY_OF, FIRST, Candidate, Satisfied, first_satisfied, shape_of
from runs.models import Approval, Run, Signal, Wait
from runs.operations.door import commit


@dataclass(frozen=True, slots=True)
class Given:
    """An answer to one wait: what the body gets, what the history says, and whether it makes a checkpoint."""

    result: Json
    event: str
    facts: dict[str, Json]
    checkpoint: str = ""
    taken: tuple[str, int] | None = None


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
        return _of_signal(found)
    if isinstance(found, Run):
        return _of_child(found, wait)
    due = wait.due_at.isoformat()
    if wait.kind == "signal":
        return Given({"received": False}, "wait_timed_out", {"name": wait.name, "due": due})
    return Given({"due": due}, "timer_fired", {"name": wait.name, "due": due})


def _of_signal(signal: Signal) -> Given:
    result = {
        "received": True,
        "id": signal.sent_id,
        "no": signal.no,
        "at": signal.received_at.isoformat(),
        "payload": canonical.loads(signal.payload),
    }
    facts: dict[str, Json] = {"name": signal.name, "id": signal.sent_id, "no": signal.no}
    return Given(result, "signal_taken", facts, checkpoint="signal", taken=(signal.name, signal.no))


def _of_child(child: Run, wait: Wait) -> Given:
    done = child.status == RunStatus.COMPLETED
    result = {
        "run": str(child.pk),
        "status": child.status,
        "output": canonical.loads(child.output or "null") if done else None,
        "error": child.error,
    }
    return Given(result, "child_ended", {"name": wait.name, "run": str(child.pk), "status": child.status})


def wait_for(run: Run, approval: Approval) -> Wait:
    """The open wait of a question in the middle of code."""
    waits = store.open_waits(run, approval.address).filter(kind="approval")
    return waits.get(name=approval.name, occurrence=approval.occurrence)


def answer(run: Run, facts: Aggregate, wait: Wait, given: Given, actor: dict[str, Any]) -> None:
    """Journal an answer; the step is ready if it waits for nothing else, or only for the first of several."""
    step = at.find(facts.position, wait.address)
    assert step is not None
    waits = list(store.open_waits(run, wait.address).order_by("position", "id"))
    place = {
        "kind": ENTRY_OF[wait.kind],
        "name": wait.name,
        "occurrence": wait.occurrence,
        "digest": wait.digest,
    }
    result, told = given.result, dict(given.facts)
    if wait.race:
        place = {"kind": "first", "name": FIRST, "occurrence": wait.race, "digest": shape_of(waits)}
        result = {"winner": wait.label, "digest": wait.digest, "answer": given.result}
        told["winner"] = wait.label
    found = Satisfied(
        **place,
        result=result,
        event=given.event,
        facts=told,
        wakes=bool(wait.race) or len(waits) == 1,
        checkpoint=given.checkpoint,
        taken=given.taken,
        since=wait.opened_at,
    )
    commit(run, machine.satisfy(facts, step, found), position=facts.position, actor=actor)
