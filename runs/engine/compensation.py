"""Taking back what a run did: its calls with an `undo=`, the newest first, before it is cancelled or has failed.

Theory. A run that would end, and has calls to take back, does not end yet: everything of it is closed as if it had, and
one step is begun for the newest of them (`put_off`). Each such step is claimed, retried, taken over and committed like any
other; when one has come to its end, good or bad, the next is begun, and after the last one the run ends (`undone`,
`undo_failed`). What could not be taken back is listed in the run's error. Only calls that the run's branch sees are taken back:
what a rewind left behind is a matter of the person who rewound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runs.engine.canonical import Json
from runs.engine.failures import error_of
from runs.engine.lineage import Line, sees
from runs.engine.status import RunEvent, RunStatus, StepStatus, after
from runs.engine.transition import Event, StepChange, Transition, Undo, Wait
from runs.errors import Compensated, Poisoned, Told

Failure = dict[str, Json]
CallPlace = tuple[str, str, str]  # address, name, occurrence


class Made(Protocol):
    """A call as it stands in a journal."""

    branch: int
    address: str
    name: str
    occurrence: str
    node: str
    after: int


def undo_of(made: Made) -> Undo:
    return Undo(made.branch, made.address, made.name, made.occurrence, made.node)


@dataclass(frozen=True, slots=True)
class Ending:
    """A run that takes back its calls.

    ending: as `put_off` left it. left: what is to be taken back after the call in hand, the newest first. failed: what could
    not be, up to now, each with step, call, code and message.
    """

    status: str
    ending: dict[str, Json]
    left: Sequence[Undo] = ()
    failed: Sequence[Failure] = ()


def put_off(transition: Transition, undos: Sequence[Undo], *, status: str) -> Transition:
    """A transition that cancels or fails a run, put off until its calls are taken back; as it is, if there are none.

    status: the run's before it. undos: the newest call first.
    """
    if not undos:
        return transition
    last = transition.events[-1]
    cancels = transition.status is RunStatus.CANCELLED
    kind, event = ("run_cancelling", RunEvent.CANCELLING) if cancels else ("run_failing", RunEvent.FAILING)
    transition.events[-1] = Event(kind, {**last.payload, "calls": len(undos)})
    transition.status, transition.ended = after(status, event), False
    transition.ending = {
        "as": "cancelled" if cancels else "failed",
        "reason": last.payload.get("reason", ""),
        "error": transition.error,
        "calls": len(undos),
    }
    transition.undo = [undos[0]]
    return transition


def undone(run: Ending, undo: Undo) -> Transition:
    """A call is taken back."""
    transition = Transition(
        events=[Event("call_undone", undo.facts, undo.node, undo.step)],
        steps=[StepChange(undo.step, StepStatus.COMPLETED)],
    )
    return _go_on(run, transition, run.failed)


def undo_failed(
    run: Ending, undo: Undo, error: dict[str, Json], *, attempt: int, delay: float | None
) -> Transition:
    """An attempt to take a call back failed. Without `delay` it is not tried again: a person has to see to it."""
    facts: dict[str, Json] = {**undo.facts, "attempt": attempt, "error": error}
    if delay is not None:
        return Transition(
            events=[Event("undo_retry_scheduled", {**facts, "delay": delay}, undo.node, undo.step)],
            steps=[StepChange(undo.step, StepStatus.WAITING, error=error, failed=True)],
            wait=Wait(undo.step, undo.node, "retry", delay),
        )
    failed = StepChange(undo.step, StepStatus.FAILED, error=error, failed=True)
    return _given_up(run, undo, failed, Event("undo_failed", facts, undo.node, undo.step))


def undo_due(undo: Undo) -> Transition:
    """It is time to try once more."""
    return Transition(steps=[StepChange(undo.step, StepStatus.READY)], close_waits_of=[undo.step])


def undo_taken_over(
    run: Ending, undo: Undo, *, reason: str, crashes: int, limit: int, worker: str
) -> Transition:
    """The worker is gone that was taking a call back."""
    facts: dict[str, Json] = {"reason": reason, "crashes": crashes, "worker": worker}
    if crashes < limit:
        return Transition(
            events=[Event("step_taken_over", facts, undo.node, undo.step)],
            steps=[StepChange(undo.step, StepStatus.READY, crashed=True)],
        )
    error = error_of(Poisoned(f"Taking it back ended its worker {crashes} times.", **facts))
    failed = StepChange(undo.step, StepStatus.FAILED, error=error, crashed=True)
    return _given_up(
        run, undo, failed, Event("undo_failed", {**undo.facts, "error": error}, undo.node, undo.step)
    )


def undo_handed_over(undo: Undo, *, worker: str) -> Transition:
    """The worker that was taking a call back was asked to end."""
    facts: dict[str, Json] = {"reason": "worker_left", "worker": worker}
    return Transition(
        events=[Event("step_handed_over", facts, undo.node, undo.step)],
        steps=[StepChange(undo.step, StepStatus.READY)],
    )


def give_up(run: Ending, *, reason: str) -> Transition:
    """A person ends the taking back: the run ends now, and what is left of it (`run.left`) is listed with what failed."""
    given_up = [
        failure(undo, {"code": "given_up", "message": "A person ended the taking back."}) for undo in run.left
    ]
    transition = Transition(
        events=[Event("undo_given_up", {"reason": reason, "calls": len(run.left)})], raise_epoch=True
    )
    return _end(run, transition, [*run.failed, *given_up])


def _given_up(run: Ending, undo: Undo, failed: StepChange, event: Event) -> Transition:
    assert failed.error is not None
    transition = Transition(events=[event], steps=[failed])
    return _go_on(run, transition, [*run.failed, failure(undo, failed.error)])


def failure(undo: Undo, error: dict[str, Json]) -> Failure:
    return {"step": undo.node, "call": undo.name, "code": error.get("code"), "message": error.get("message")}


def _go_on(run: Ending, transition: Transition, failed: Sequence[Failure]) -> Transition:
    if run.left:
        transition.undo = [run.left[0]]
        return transition
    return _end(run, transition, failed)


def _end(run: Ending, transition: Transition, failed: Sequence[Failure]) -> Transition:
    """What was put off happens now."""
    calls, told = int(str(run.ending["calls"])), {"compensation_failed": list(failed)} if failed else {}
    undone = calls - len(failed)
    if run.ending["as"] == "cancelled":
        facts = {"reason": run.ending["reason"], "undone": undone, **told}
        transition.events.append(Event("run_cancelled", facts))
        transition.status, transition.error = after(run.status, RunEvent.CANCELLED), _left_to_do(failed)
    else:
        before = run.ending["error"]
        error: dict[str, Json] = {**(before if isinstance(before, dict) else {}), **told}
        transition.events.append(Event("run_failed", {"error": error, "undone": undone}))
        transition.status, transition.error = after(run.status, RunEvent.FAILED), error
    transition.ended = True
    transition.close_everything = f"run_{run.ending['as']}"
    return transition


def _left_to_do(failed: Sequence[Failure]) -> dict[str, Json] | None:
    if not failed:
        return None
    calls = ", ".join(f"{one['call']} of {one['step']}" for one in failed)
    return {
        "code": "compensation_failed",
        "message": f"Not taken back, to be done by hand: {calls}.",
        "compensation_failed": list(failed),
    }


# ---- what can be built on calls that were taken back: nothing


def check_standing(gone: Iterable[Made], limits: Mapping[int, int]) -> None:
    """Nothing goes on from where a call counts as made that was taken back. Raises `Compensated`, with the last checkpoint
    from which something can.

    limits: of each branch that the checkpoint sees, the first `after` that counts no more.
    """
    seen = [made for made in gone if made.after < limits.get(made.branch, -1)]
    if seen:
        first = min(seen, key=lambda made: made.after)
        raise Compensated(
            Told(
                "The call {first!r} of {node!r} was taken back; the last checkpoint that does not build on it is {after}.",
                first=first.name,
                node=first.node,
                after=first.after,
            ),
            checkpoint=first.after,
        )


def check_unbroken(gone: Iterable[Made], line: Line) -> None:
    """A Retry goes on with what the branch has done. Raises `Compensated` where that was taken back."""
    seen = [made.after for made in gone if sees(line, made.branch, made.after)]
    if seen:
        raise Compensated(
            "What the run did was taken back when it failed; rewind it to before that instead.",
            checkpoint=min(seen),
        )


def to_make_again(made: Iterable[Made], gone: Iterable[Made], limits: Mapping[int, int]) -> set[CallPlace]:
    """Calls after a checkpoint whose newest result was taken back: a branch that begins there makes them again, with a key of
    their own. made: every call that can be taken back."""
    newest: dict[CallPlace, int] = {}
    for one in made:
        newest[place_of(one)] = max(one.branch, newest.get(place_of(one), 0))
    return {
        place_of(one)
        for one in gone
        if one.after >= limits.get(one.branch, -1) and newest[place_of(one)] == one.branch
    }


def place_of(made: Made) -> CallPlace:
    return made.address, made.name, made.occurrence


def left_to_take_back(made: Iterable[Made], line: Line, begun: Iterable[str]) -> list[Undo]:
    """Of calls that can be taken back, the newest first, those that the branch sees and that nobody has begun to take back."""
    known = set(begun)
    found = [undo_of(one) for one in made if sees(line, one.branch, one.after)]
    return [undo for undo in found if undo.step not in known]
