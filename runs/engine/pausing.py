"""A run that a person holds: what executes is finished and committed, nothing new begins, and what is due only becomes ready."""

from __future__ import annotations

from collections.abc import Mapping

from runs.engine.canonical import Json
from runs.engine.status import RunEvent, RunStatus, StepStatus, after
from runs.engine.transition import Event, Transition


def pause(
    status: str, *, reason: str, children: bool = False, through: str = "", by: Json = None
) -> Transition:
    """Hold a run. children: with every run below it, also those that begin later. through: the run that it is held with.

    by: whoever does it, as a sentence about the run shows it.
    """
    told: dict[str, Json] = {"reason": reason, "children": children, **({"with": through} if through else {})}
    return Transition(
        events=[Event("run_paused", told)],
        status=after(status, RunEvent.PAUSED),
        paused={**told, "by": by},
    )


def resume(status: str, steps: Mapping[str, str], *, reason: str = "", ending: bool = False) -> Transition:
    """Let a paused run go on from where it stands; workers are told of what became ready meanwhile.

    steps: the status of each live step by address. ending: it was taking back its calls.
    """
    status_now = after(status, RunEvent.RESUMED)
    ready = [address for address, step in steps.items() if step == StepStatus.READY]
    if ending or StepStatus.EXECUTING in steps.values():
        status_now = RunStatus.RUNNING
    elif not ready:
        status_now = RunStatus.WAITING
    return Transition(events=[Event("run_resumed", {"reason": reason})], status=status_now, hints=ready)
