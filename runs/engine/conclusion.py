"""What a change of some steps makes of the run: it goes on, waits, drains or has failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.position import LiveStep
from runs.engine.status import LIVE_STEPS, RunEvent, StepStatus, after
from runs.engine.transition import Aggregate, Event, Transition


def concluded(run: Aggregate, transition: Transition, event: RunEvent) -> Transition:
    """Say what this makes of the run: it waits if nothing of it is ready or executing; if it drains and nothing executes
    any more, it has failed."""
    rows = {**run.rows}
    rows.update({change.address: change.status for change in transition.steps})
    rows.update({step.address: StepStatus.READY for step in transition.next_steps})
    executing = StepStatus.EXECUTING in rows.values()
    if run.draining and not executing:
        return _drained(run, transition)
    if executing and event is RunEvent.TAKEN_OVER:
        event = RunEvent.ADVANCED
    if not executing and StepStatus.READY not in rows.values():
        event = RunEvent.PARKED
    transition.status = (
        after(run.status, event) if event is not RunEvent.PARKED or not _is_active(rows) else None
    )
    return transition


def _is_active(rows: Mapping[str, str]) -> bool:
    return any(status in (StepStatus.READY, StepStatus.EXECUTING) for status in rows.values())


def begin_more(run: Aggregate, step: LiveStep, transition: Transition) -> None:
    """An item has ended or waits: another may be begun, the lowest first, and those that found no room are told again."""
    if step.item is None:
        return
    outer = at.outer_step(run.position, step.lane)
    options = run.workflow.nodes[step.node].fan_out
    assert outer is not None
    assert options is not None
    changed = {change.address: change.status for change in transition.steps}
    lane = at.lane_at(run.position, outer.lane)
    items = [at.item_step(lane, outer, index) for index in at.unfinished(lane)]
    status = {item.address: changed.get(item.address, run.rows.get(item.address)) for item in items}
    begun = [item for item in items if status[item.address] in LIVE_STEPS]
    busy = [item for item in begun if status[item.address] != StepStatus.WAITING]
    room = options.concurrency - len(busy)
    if options.max_open is not None:
        room = min(room, options.max_open - len(begun))
    more = [item for item in items if status[item.address] is None][: max(0, room)]
    transition.next_steps.extend(more)
    transition.hints.extend(item.address for item in busy if status[item.address] == StepStatus.READY)


def draining(run: Aggregate, transition: Transition, errors: Mapping[str, dict[str, Json]]) -> Transition:
    """The run will fail: at once if nothing else executes, otherwise when the last step that executes has ended."""
    others = set(run.executing) | {a for a, status in run.rows.items() if status == StepStatus.EXECUTING}
    others -= {change.address for change in transition.steps}
    if not others:
        return _drained(run, transition, errors)
    transition.error = _first_error(run, errors)
    return transition


def _drained(
    run: Aggregate, transition: Transition, errors: Mapping[str, dict[str, Json]] | None = None
) -> Transition:
    error = _first_error(run, errors or {})
    # Nothing begins and nobody is asked any more; Retry does that.
    transition.next_steps, transition.hints = [], []
    transition.wait, transition.opened, transition.wanted = None, None, []
    asked = ("approval_opened", "wait_opened")
    transition.events = [event for event in transition.events if event.kind not in asked]
    transition.steps = [
        replace(change, status=StepStatus.CANCELLED) if change.status in LIVE_STEPS else change
        for change in transition.steps
    ]
    transition.events.append(Event("run_failed", {"error": error}))
    transition.status = after(run.status, RunEvent.FAILED)
    transition.error, transition.ended, transition.close_everything = error, True, "run_failed"
    return transition


def _first_error(run: Aggregate, errors: Mapping[str, dict[str, Json]]) -> dict[str, Json]:
    """The error of the first failed step in lane order; all of them under `failed` if there are several."""
    every = {**run.errors, **errors}
    order = [step.address for step in at.all_steps(run.position) if step.address in every]
    order += [address for address in every if address not in order]
    first = dict(every[order[0]])
    if len(order) > 1:
        first["failed"] = [
            {name: every[address].get(name) for name in ("step", "code", "message")} for address in order
        ]
    return first
