"""What the answer to a wait says: to the body that waits, to the history, and to the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from runs.engine.canonical import Json
from runs.engine.status import RunStatus
from runs.engine.waits import ENTRY_OF, FIRST, Contender, Satisfied, shape_of


@dataclass(frozen=True, slots=True)
class Given:
    """An answer to one wait: what the body gets, what the history says, and whether it makes a checkpoint."""

    result: Json
    event: str
    facts: dict[str, Json]
    checkpoint: str = ""
    taken: tuple[str, int] | None = None


class Waiting(Contender, Protocol):
    """An open wait, as it stands in a row."""

    @property
    def occurrence(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def race(self) -> str: ...
    @property
    def opened_at(self) -> datetime: ...


def of_signal(name: str, *, id: str, no: int, at: datetime, payload: Json) -> Given:
    result = {"received": True, "id": id, "no": no, "at": at.isoformat(), "payload": payload}
    facts: dict[str, Json] = {"name": name, "id": id, "no": no}
    return Given(result, "signal_taken", facts, checkpoint="signal", taken=(name, no))


def of_child(name: str, *, run: str, status: str, output: Json, error: Json) -> Given:
    done = status == RunStatus.COMPLETED
    result = {"run": run, "status": status, "output": output if done else None, "error": error}
    return Given(result, "child_ended", {"name": name, "run": run, "status": status})


def of_time(kind: str, name: str, due: datetime) -> Given:
    """The time of a wait has come: it is what was waited for, or nothing was received by then."""
    facts: dict[str, Json] = {"name": name, "due": due.isoformat()}
    if kind == "signal":
        return Given({"received": False}, "wait_timed_out", facts)
    return Given({"due": due.isoformat()}, "timer_fired", facts)


def of_decision(outcome: str, decision: Mapping[str, Json], *, on_timeout: str) -> Given:
    """What people, or the clock, decided about a question in the middle of code."""
    fails = outcome == "timeout" and on_timeout == "fail"
    told = {"outcome": outcome, **decision}
    return Given({**decision, "fails": fails}, "approval_decided", told, checkpoint="answer")


def satisfied(wait: Waiting, waits: Sequence[Waiting], given: Given) -> Satisfied:
    """The answer at its place in the journal. waits: all open ones of the step; it is ready if it waits for nothing else, or
    only for the first of several."""
    kind, name, occurrence, digest = ENTRY_OF[wait.kind], wait.name, wait.occurrence, wait.digest
    result, told = given.result, dict(given.facts)
    if wait.race:
        kind, name, occurrence, digest = "first", FIRST, wait.race, shape_of(waits)
        result = {"winner": wait.label, "digest": wait.digest, "answer": given.result}
        told["winner"] = wait.label
    return Satisfied(
        kind,
        name,
        occurrence,
        digest,
        result,
        event=given.event,
        facts=told,
        wakes=bool(wait.race) or len(waits) == 1,
        checkpoint=given.checkpoint,
        taken=given.taken,
        since=wait.opened_at,
    )
