"""Every change to a run, as a pure function from (run, command) to a `Transition`.

Theory. A run is an aggregate: its position (the document of the head checkpoint) and a few facts beside it. A command
comes from a worker (`complete`, `park`, `fail`), from people (`answer`, `edit_state`, `rewind`, `retry`, `cancel`) or from
the sweeper (`wake`, `take_over`). The function checks that the command is possible, changes the position through a recorder,
and returns what to store: events, checkpoint patch, step, wait and approval changes. It reads no clock and no database:
waits are durations, and the statement that commits adds the database's time.

Lanes. A worker's position may lack what sibling lanes have committed since it was read. That does no harm to what a lane
does to itself; all else is worked out again on the true document, under the run's lock, from what the body had returned
(`resolve`), so no body runs twice. If a step fails finally the run drains: nothing is claimed any more, steps that execute
may still commit, and when none is left the run has failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.engine import canonical
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.conclusion import begin_more, concluded, draining
from runs.engine.failures import brief, error_of
from runs.engine.lanes import Lanes, Move, finish_item, is_local, open_fan, open_scope
from runs.engine.patch import Recorder
from runs.engine.position import LiveStep
from runs.engine.routing import output_of, route, way_of
from runs.engine.state import Write, storable
from runs.engine.status import TERMINAL, RunEvent, RunStatus, StepStatus, after
from runs.engine.transition import (
    Aggregate,
    Checkpoint,
    Event,
    Opened,
    Resolved,
    StepChange,
    Transition,
    Wait,
)
from runs.engine.waits import Satisfied, Wanted
from runs.engine.workflow import Workflow
from runs.errors import (
    AlreadyTerminal,
    ApprovalTimeout,
    HitlError,
    NothingToRun,
    Poisoned,
    Rejected,
    SchemaViolation,
    StepError,
    StepExecuting,
    Told,
)

MAX_REJECTED = 2_000  # characters of a refused update that its attempt keeps

# ---- a worker's commands


def start(run: Aggregate) -> Transition:
    """The first transition of a run: its input is checkpoint 0, its entry is ready."""
    return Transition(
        events=[Event("run_submitted", {"input": at.state(run.position)})],
        checkpoint=Checkpoint("input", ()),
        status=RunStatus.QUEUED,
        next_steps=at.live_steps(run.position),
    )


def fork(position: dict[str, Any], facts: dict[str, Json]) -> Transition:
    """The first transition of a fork: it stands where its origin stood. position: as `forking.detach` left it.

    facts: what the history says about it (from, checkpoint, reason, digest of the position).
    """
    steps = at.live_steps(position)
    if not steps:
        raise NothingToRun("The run had ended at this checkpoint; choose an earlier one.")
    return Transition(
        events=[Event("run_forked", facts)],
        checkpoint=Checkpoint("input", ()),
        status=RunStatus.QUEUED,
        next_steps=steps,
        waiting_steps=at.opened_steps(position),
    )


def complete(run: Aggregate, step: LiveStep, update: Any) -> Transition:
    """A node returned. Raises a `StepError` if its update cannot be taken; then nothing has changed."""
    return settle(run, step, resolve(run, step, update))


def resolve(run: Aggregate, step: LiveStep, update: Any) -> Resolved:
    """Check what a node returned and ask its router. Raises a `StepError`, or what the router raises."""
    schema = run.workflow_of(step.lane).schema
    try:
        writes, values = schema.take(run.values, update)
    except StepError as error:
        error.facts["rejected"] = _cut(update)
        raise
    targets = route(run, step, lambda: (schema.view(values),))
    return Resolved(writes, values, targets)


def values_of(run: Aggregate, lane: str) -> dict[str, Any]:
    """The state as a lane sees it, by field. Raises a `StepError`: of what a join brought together, naming where it came from."""
    try:
        return run.workflow_of(lane).schema.load(at.lane_state(run.position, lane))
    except SchemaViolation as error:
        joined = at.lane_at(run.position, lane).get("joined")
        if not joined:
            raise
        raise SchemaViolation(
            f"What {' and '.join(map(repr, joined))} have written does not fit together. {error.detail}",
            errors=error.errors,
            steps=list(joined),
        ) from None


def _cut(update: Any) -> str:
    """What a body returned and was refused, for whoever looks for the mistake."""
    try:
        text = canonical.dumps(storable(update))
    except StepError:
        text = _printed(update)
    return text if len(text) <= MAX_REJECTED else f"{text[:MAX_REJECTED]}…"


def _printed(update: Any) -> str:
    try:
        return canonical.visible(repr(update))
    except Exception:  # noqa: BLE001  # an author's object may raise anything, and an int be too long to be printed
        return f"a {type(update).__name__} that cannot be printed"


def settle(run: Aggregate, step: LiveStep, resolved: Resolved) -> Transition:
    """Commit a node's result."""
    return _settled(run, step, resolved, _plan(run, step, resolved.targets, RunEvent.ADVANCED))


def settle_alone(run: Aggregate, step: LiveStep, resolved: Resolved) -> Transition | None:
    """The same if it changes nothing but the step's own lane. If it does, nothing has changed."""
    plan = _plan(run, step, resolved.targets, RunEvent.ADVANCED)
    if not is_local(run.workflow, run.position, step, plan.moves):
        return None
    return _settled(run, step, resolved, plan, local=True)


def _settled(
    run: Aggregate, step: LiveStep, resolved: Resolved, plan: _Plan, *, local: bool = False
) -> Transition:
    event = Event("step_completed", {"visit": step.visit}, step.node, step.address)
    return _go_on(
        run, step, plan, kind="step", event=event, values=resolved.values, writes=resolved.writes, local=local
    )


def begin_items(run: Aggregate, step: LiveStep, count: int) -> Transition:
    """A fan-out has listed its items: the first of them are ready, its own step waits for all."""
    _refuse_ended(run)
    options = run.workflow.nodes[step.node].fan_out
    assert options is not None
    recorder = Recorder(run.position)
    at_once = min(options.concurrency, options.max_open or options.concurrency)
    begun = open_fan(recorder, step, count=count, at_once=at_once)
    event = Event("fan_out_started", {"visit": step.visit, "items": count}, step.node, step.address)
    return _inside(run, step, recorder, event, begun)


def complete_item(
    run: Aggregate, step: LiveStep, result: Json, *, error: dict[str, Json] | None = None
) -> Transition:
    """An item has its result, or an error that is collected. The last one lets the fan-out's own step go on."""
    _refuse_ended(run)
    recorder = Recorder(run.position)
    is_last = finish_item(recorder, step, result)
    facts: dict[str, Json] = {"visit": step.visit, "item": step.item}
    event = Event("step_completed", facts, step.node, step.address)
    if error is not None:
        event = Event("step_failed", {**facts, "error": error, "collected": True}, step.node, step.address)
    ended = StepStatus.COMPLETED if error is None else StepStatus.FAILED
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint("step", recorder.ops, step.node, step.address),
        steps=[StepChange(step.address, ended, error=error, failed=error is not None)],
    )
    if is_last:
        outer = at.outer_step(run.position, step.lane)
        assert outer is not None
        transition.steps.append(StepChange(outer.address, StepStatus.READY))
    else:
        begin_more(run, step, transition)
    return concluded(run, transition, RunEvent.ADVANCED)


def enter(run: Aggregate, step: LiveStep, state: dict[str, Json]) -> Transition:
    """A nested workflow begins with this state; the step around it waits for its end."""
    _refuse_ended(run)
    recorder = Recorder(run.position)
    begun = open_scope(run.workflow, recorder, step, state)
    event = Event("subflow_started", {"visit": step.visit}, step.node, step.address)
    return _inside(run, step, recorder, event, begun)


def park(run: Aggregate, step: LiveStep, document: dict[str, Json], digest: str) -> Transition:
    """An approval function has answered: the lane waits for people. No checkpoint: the parked one is the one before."""
    _refuse_ended(run)
    if run.draining:
        return _let_be(run, step)
    transition = Transition(
        events=[
            Event("approval_opened", {"digest": digest, "title": document["title"]}, step.node, step.address)
        ],
        steps=[StepChange(step.address, StepStatus.WAITING)],
        wait=Wait(step.address, step.node, "approval"),  # due as the approval says
        opened=Opened(step.address, step.node, document, digest),
    )
    begin_more(run, step, transition)
    return concluded(run, transition, RunEvent.PARKED)


def suspend(run: Aggregate, step: LiveStep, wanted: Sequence[Wanted]) -> Transition:
    """A body asks for what is not there yet: its step waits. No checkpoint; the body starts again once it is there."""
    _refuse_ended(run)
    if run.draining:
        return _let_be(run, step)
    transition = Transition(
        events=[event for one in wanted for event in _asked(step, one)],
        steps=[StepChange(step.address, StepStatus.WAITING)],
        wanted=list(wanted),
    )
    begin_more(run, step, transition)
    return concluded(run, transition, RunEvent.PARKED)


def _let_be(run: Aggregate, step: LiveStep) -> Transition:
    """The run fails as soon as the others that execute are done: nobody is asked, no child is started. Retry comes back here."""
    left = Transition(steps=[StepChange(step.address, StepStatus.CANCELLED)])
    return concluded(run, left, RunEvent.PARKED)


def _asked(step: LiveStep, one: Wanted) -> list[Event]:
    told = one.shown()
    if one.document is not None:
        told |= {"digest": one.digest, "title": one.document["title"]}
    kind = "approval_opened" if one.kind == "approval" else "wait_opened"
    opened = Event(kind, {**told, "occurrence": one.occurrence}, step.node, step.address)
    if not one.supersedes:
        return [opened]
    facts: dict[str, Json] = {"approval": one.supersedes, "reason": "payload_changed"}
    return [Event("approval_superseded", facts, step.node, step.address), opened]


def satisfy(run: Aggregate, step: LiveStep, found: Satisfied) -> Transition:
    """Something that a body waited for is there: it is journalled, and the step is ready unless it waits for more.

    What else it waited for is closed with it: the step asks anew for what it still wants.
    """
    _refuse_ended(run)
    recorder = Recorder(run.position)
    if found.taken:
        at.take_signal(recorder, *found.taken)
    transition = Transition(
        events=[Event(found.event, found.facts, step.node, step.address)],
        checkpoint=Checkpoint(found.checkpoint, recorder.ops, step.node, step.address)
        if found.checkpoint
        else None,
        journal=[found],
        close_places=[(step.address, found.name, found.occurrence)],
    )
    if found.wakes:
        transition.steps = [StepChange(step.address, StepStatus.READY)]
        transition.close_waits_of = [step.address]
        transition.abandons = [step.address]
    return concluded(run, transition, RunEvent.WOKEN if found.wakes else RunEvent.PARKED)


def ask_again(run: Aggregate, step: LiveStep, approval_node: str, reason: str) -> Transition:
    """What is about to be done is not what was approved: the lane goes back to the approval, which opens anew."""
    _refuse_ended(run)
    event = Event("approval_superseded", {"reason": reason, "node": approval_node}, step.node, step.address)
    recorder = Recorder(run.position)
    answers = {k: v for k, v in at.answers(run.position, step.lane).items() if k != approval_node}
    recorder.put([*at.lane_path(step.lane), "answers"], answers)
    lanes = Lanes(run.workflow, recorder, step.lane)
    lanes.go_back(_own_name(step.lane), approval_node)
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint("step", recorder.ops, step.node, step.address),
        steps=[StepChange(step.address, StepStatus.VOID, error={"code": reason})],
        next_steps=lanes.begun,
        values=run.values,
    )
    return concluded(run, transition, RunEvent.ADVANCED)


def fail(run: Aggregate, step: LiveStep, error: Json, *, attempt: int, delay: float | None) -> Transition:
    """An attempt failed. With `delay` it is tried again after so many seconds. Otherwise the lane goes where `on_error`
    says, or the run fails, once every step that executes has come to its end."""
    _refuse_ended(run)
    facts = {"attempt": attempt, "error": error}
    if delay is not None:
        transition = Transition(
            events=[Event("step_retry_scheduled", {**facts, "delay": delay}, step.node, step.address)],
            steps=[StepChange(step.address, StepStatus.WAITING, error=error, failed=True)],
            wait=Wait(step.address, step.node, "retry", delay),
        )
        begin_more(run, step, transition)
        return concluded(run, transition, RunEvent.PARKED)
    failed = StepChange(step.address, StepStatus.FAILED, error=error, failed=True)
    return _step_failed(run, step, failed, Event("step_failed", facts, step.node, step.address))


# ---- the sweeper's commands


def wake(run: Aggregate, step: LiveStep) -> Transition:
    """A retry is due: the step is ready again."""
    transition = Transition(
        steps=[StepChange(step.address, StepStatus.READY)],
        close_waits_of=[step.address],
    )
    return concluded(run, transition, RunEvent.WOKEN)


def take_over(
    run: Aggregate, step: LiveStep, *, reason: str, crashes: int, limit: int, worker: str
) -> Transition:
    """The worker of a step is gone. The step is ready again, unless it has ended its worker too often."""
    _refuse_ended(run)
    facts: dict[str, Json] = {"reason": reason, "crashes": crashes, "worker": worker}
    if crashes < limit:
        transition = Transition(
            events=[Event("step_taken_over", facts, step.node, step.address)],
            steps=[StepChange(step.address, StepStatus.READY, crashed=True)],
        )
        return concluded(run, transition, RunEvent.TAKEN_OVER)
    error = error_of(Poisoned(f"The step ended its worker {crashes} times and was set aside.", **facts))
    failed = StepChange(step.address, StepStatus.FAILED, error=error, crashed=True)
    return _step_failed(
        run, step, failed, Event("step_failed", {"error": error, **facts}, step.node, step.address)
    )


def hand_over(run: Aggregate, step: LiveStep, *, worker: str) -> Transition:
    """The worker of a step was asked to end and has, before the step was done: it is ready again, and nothing counts against
    it. A step of an hour must survive a day of deploys."""
    _refuse_ended(run)
    transition = Transition(
        events=[
            Event("step_handed_over", {"reason": "worker_left", "worker": worker}, step.node, step.address)
        ],
        steps=[StepChange(step.address, StepStatus.READY)],
    )
    return concluded(run, transition, RunEvent.TAKEN_OVER)


def reopen(run: Aggregate, step: LiveStep, *, reason: str) -> Transition:
    """An open approval no longer shows what is there: it is superseded, and its node is asked for a fresh one."""
    transition = Transition(
        events=[Event("approval_superseded", {"reason": reason}, step.node, step.address)],
        steps=[StepChange(step.address, StepStatus.READY)],
        close_waits_of=[step.address],
    )
    return concluded(run, transition, RunEvent.WOKEN)


def give_up(status: str, error: HitlError) -> Transition:
    """End a run that cannot go on, whatever it is doing."""
    facts = error_of(error)
    return Transition(
        events=[Event("run_failed", {"error": facts})],
        status=after(status, RunEvent.FAILED),
        error=facts,
        ended=True,
        close_everything="run_failed",
    )


# ---- people's commands


def answer(run: Aggregate, step: LiveStep, outcome: str, decision: dict[str, Json]) -> Transition:
    """An approval is decided (or its time is over): the lane goes on where the outcome leads.

    decision: what the nodes after it see; `decision["actions"]` are the approved arguments.
    """
    _refuse_ended(run)
    node = run.workflow.nodes[step.node]
    event = Event("approval_decided", {"outcome": outcome, **decision}, step.node, step.address)
    try:
        targets = way_of(run, step, node, outcome, decision)
        if targets is None:
            return _refused(run, step, outcome, decision, event)
        return _go_on(
            run,
            step,
            _plan(run, step, targets, RunEvent.WOKEN),
            kind="answer",
            event=event,
            values=run.values,
            decision=(step.name, decision),
        )
    except Exception as error:  # noqa: BLE001  # a router is an author's code; the decision stands
        return _stands(run, step, error, event)


def recheck(run: Aggregate, step: LiveStep, decision: dict[str, Json]) -> Transition:
    """A person edited what is to be checked again: no vote; the lane goes to the checking node, which leads back here.

    decision: as in `answer`, with the edited arguments; the node reads them by `ctx.edited`.
    """
    _refuse_ended(run)
    options = run.workflow.nodes[step.node].approval
    target = options.recheck if options else None
    if target is None:
        raise SchemaViolation(f"{step.node!r} has no recheck.", node=step.node)
    event = Event("approval_superseded", {**decision, "reason": "edited"}, step.node, step.address)
    told = (step.name, decision)
    try:
        plan = _plan(run, step, [target], RunEvent.WOKEN)
        return _go_on(run, step, plan, kind="answer", event=event, values=run.values, decision=told)
    except Exception as error:  # noqa: BLE001  # a loop that is used up is the run's failure, not the person's
        return _stands(run, step, error, event)


def edit_state(run: Aggregate, lane: str, changes: Mapping[str, Json], *, reason: str) -> Transition:
    """A person changes the state of a lane of a parked or failed run. What the lane asks of people is asked anew."""
    if run.status in TERMINAL and run.status != RunStatus.FAILED:
        raise AlreadyTerminal(
            Told("The run is {status}; fork it to go on from an edited state.", status=run.status),
            status=run.status,
        )
    own = [step for step in at.all_steps(run.position) if step.lane.partition("#")[0] == lane]
    if any(step.address in run.executing for step in own):
        raise StepExecuting()
    writes, values = _edited(run, lane, run.values, changes)
    recorder = Recorder(run.position)
    _write_edit(run.workflow, recorder, lane, writes)
    event = Event("state_edited", {"changes": {w.key: w.value for w in writes}, "reason": reason})
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint("edit", recorder.ops),
        status=after(run.status, RunEvent.EDITED),
        values=values,
    )
    if run.status == RunStatus.FAILED:
        return transition
    opened = at.opened_steps(run.position)
    asked = [step.address for step in own if step not in opened and _is_to_do(run, step)]
    if not asked:
        transition.status = None  # the lane has only arrived, or waits for what is inside its step
        return transition
    transition.steps = [StepChange(address, StepStatus.READY) for address in asked]
    transition.close_waits_of = asked
    return concluded(run, transition, RunEvent.EDITED)


def rewind(
    run: Aggregate,
    target: dict[str, Any],
    values: dict[str, Any],
    changes: Mapping[str, Json],
    facts: dict[str, Json],
    *,
    lane: str = at.ROOT_LANE,
) -> Transition:
    """Go back to an earlier position on a new branch: the epoch rises, everything live is void, all of it is to do again.

    target, values: position and state of the checkpoint. facts: what the history says about it (checkpoint, reason, calls).
    changes: what a person changes there, in the state as `lane` sees it.
    """
    steps = at.live_steps(target)
    if not steps:
        raise NothingToRun("The run had ended at this checkpoint; choose an earlier one.")
    transition = Transition(
        events=[Event("run_rewound", facts)],
        status=after(run.status, RunEvent.REWOUND),
        next_steps=steps,
        waiting_steps=at.opened_steps(target),
        close_everything="rewound",
        raise_epoch=True,
        values=values,
    )
    if changes:
        writes, transition.values = _edited(run, lane, values, changes)
        recorder = Recorder(target)
        _write_edit(run.workflow, recorder, lane, writes)
        transition.checkpoint = Checkpoint("edit", recorder.ops)
        payload = {"changes": {write.key: write.value for write in writes}, "reason": facts.get("reason", "")}
        transition.events.append(Event("state_edited", payload))
    return transition


def retry(run: Aggregate, *, reason: str) -> Transition:
    """Let a failed run go on: what failed or had not run is to do again, with its attempts allowed anew. rows is needed."""
    if run.status != RunStatus.FAILED:
        after(run.status, RunEvent.RETRIED)  # says why not
    waiting = at.opened_steps(run.position)
    opened = {step.address for step in waiting}
    known = [step for step in at.all_steps(run.position) if step.address in run.rows]
    to_do = [step for step in at.live_steps(run.position) if step.address not in run.rows]
    if not known and not to_do:
        raise NothingToRun("Every lane of the run had ended; rewind to a checkpoint before.")
    return Transition(
        events=[
            Event(
                "run_retried", {"reason": reason, "steps": [s.node for s in known if s.address not in opened]}
            )
        ],
        status=after(run.status, RunEvent.RETRIED),
        steps=[
            StepChange(step.address, StepStatus.WAITING if step.address in opened else StepStatus.READY)
            for step in known
        ],
        next_steps=to_do,
        waiting_steps=[step for step in waiting if step.address not in run.rows],
        forgives=True,
    )


def cancel(status: str, *, reason: str) -> Transition:
    """End a run by a person's word. The epoch rises, so nothing a worker still does can land."""
    return Transition(
        events=[Event("run_cancelled", {"reason": reason})],
        status=after(status, RunEvent.CANCELLED),
        ended=True,
        close_everything="run_cancelled",
        raise_epoch=True,
    )


def prioritise(status: str, *, was: int, priority: int, reason: str) -> Transition:
    """Say who goes first among runs that stand in line. Nothing else about the run changes."""
    if status in TERMINAL:
        after(status, RunEvent.ADVANCED)  # says why not
    return Transition(
        events=[Event("priority_changed", {"from": was, "to": priority, "reason": reason})],
    )


# ---- inside


def _refuse_ended(run: Aggregate) -> None:
    """Before anything changes: the position changes in place."""
    if run.status in TERMINAL:
        after(run.status, RunEvent.ADVANCED)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a lane is about to go, and what makes of the run that it goes on. Nothing has changed yet."""

    lanes: Lanes
    moves: Sequence[Move]
    event: RunEvent


def _plan(run: Aggregate, step: LiveStep, targets: Sequence[str], event: RunEvent) -> _Plan:
    after(run.status, event)  # what the status refuses is refused before anything changes
    lanes = Lanes(run.workflow, Recorder(run.position), step.lane)
    return _Plan(lanes, lanes.plan(_own_name(step.lane), targets), event)


def _own_name(lane: str) -> str:
    return lane.partition("#")[0].rpartition("/")[2]


def _go_on(
    run: Aggregate,
    step: LiveStep,
    plan: _Plan,
    *,
    kind: str,
    event: Event,
    values: dict[str, Any],
    writes: Sequence[Write] = (),
    decision: tuple[str, dict[str, Json]] | None = None,
    local: bool = False,
) -> Transition:
    lanes, lane, recorder = plan.lanes, _own_name(step.lane), plan.lanes.recorder
    output = _Output(run.workflow)
    ends = lanes.is_top and not plan.moves and at.is_alone(run.position, step.lane)
    if ends:
        output.value = output_of(run.workflow, at.written(at.state(run.position), writes), values)
    lanes.write(lane, writes, address=step.address)
    if decision and not ends:
        recorder.put([*at.lane_path(step.lane), "answers", decision[0]], decision[1])
    lanes.go(lane, plan.moves, finish=None if ends or not lanes.is_top else output.of, local=local)
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint(kind, recorder.ops, step.node, step.address),
        steps=[StepChange(step.address, StepStatus.COMPLETED)],
        next_steps=lanes.begun,
        close_waits_of=[step.address] if kind == "answer" else [],
        values=values,
    )
    return _moved(run, step.lane, lanes, transition, output.value, plan.event)


def _moved(
    run: Aggregate, lane: str, lanes: Lanes, transition: Transition, output: Json, event: RunEvent
) -> Transition:
    """A lane has gone on. If it was the last of its scope, the run has ended, or the step around the scope is ready."""
    if not lanes.is_finished:
        return concluded(run, transition, event)
    if not lanes.is_top:
        outer = at.outer_step(run.position, lane)
        assert outer is not None
        transition.steps.append(StepChange(outer.address, StepStatus.READY))
        return concluded(run, transition, event)
    transition.events.append(Event("run_completed", {}))
    transition.status = after(run.status, RunEvent.ENDED)
    transition.output, transition.ended = output, True
    return transition


@dataclass(slots=True)
class _Output:
    """The output of a run, worked out once its final state is known."""

    workflow: Workflow
    value: Json = None

    def of(self, state: dict[str, Json]) -> None:
        self.value = output_of(self.workflow, state, self.workflow.schema.load(state))


def _inside(
    run: Aggregate, step: LiveStep, recorder: Recorder, event: Event, begun: list[LiveStep]
) -> Transition:
    """A step has opened something inside itself and waits for it."""
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint("step", recorder.ops, step.node, step.address),
        steps=[StepChange(step.address, StepStatus.WAITING)],
        next_steps=begun,
    )
    return concluded(run, transition, RunEvent.ADVANCED)


def _is_to_do(run: Aggregate, step: LiveStep) -> bool:
    """Whether a step was begun and waits or is ready; without rows (a lane alone) it is."""
    return not run.rows or run.rows.get(step.address) in (StepStatus.READY, StepStatus.WAITING)


# ---- failing


def _step_failed(run: Aggregate, step: LiveStep, failed: StepChange, event: Event) -> Transition:
    """A step has failed finally: its lane, or one around it, goes on by `on_error`; or the run drains and fails."""
    options = run.workflow.nodes[step.node].fan_out
    if options and step.item is not None and options.on_item_error == "collect":
        assert failed.error is not None
        return complete_item(run, step, {"error": brief(failed.error)}, error=failed.error)
    caught = _caught(run, step, failed, event)
    if caught is not None:
        return caught
    assert failed.error is not None
    transition = Transition(events=[event], steps=[failed])
    return draining(run, transition, {step.address: {**failed.error, "step": step.node}})


def _caught(run: Aggregate, step: LiveStep, failed: StepChange, event: Event) -> Transition | None:
    """Follow the `on_error` of the step's node, or of the nearest node around it that has one."""
    handler: LiveStep | None = step
    while handler is not None:
        target = run.workflow.way(handler.node).on_error
        if handler.item is None and target is not None:
            break
        handler = at.outer_step(run.position, handler.lane)
    if handler is None or target is None:
        return None
    gone = [
        StepChange(other.address, StepStatus.FAILED, error=failed.error)
        if other == handler
        else StepChange(other.address, StepStatus.CANCELLED)
        for other in at.all_steps(run.position)
        if _is_inside(other.lane, handler.lane) and other.address != step.address
        if not run.rows or other.address in run.rows
    ]
    recorder = Recorder(run.position)
    lanes, lane = Lanes(run.workflow, recorder, handler.lane), _own_name(handler.lane)
    try:
        moves = lanes.plan(lane, [target])
    except StepError:
        return None  # a loop that is used up catches nothing
    known = {name: value for name, value in (failed.error or {}).items() if name != "traceback"}
    output = _Output(run.workflow)
    lanes.catch(lane, moves, {handler.name: {**known, "step": step.node}}, finish=output.of)
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint("step", recorder.ops, step.node, step.address),
        steps=[failed, *gone],
        next_steps=lanes.begun,
        close_waits_of=[change.address for change in gone],
        abandons=[change.address for change in gone],
    )
    return _moved(run, handler.lane, lanes, transition, output.value, _moving(run))


def _moving(run: Aggregate) -> RunEvent:
    """A lane goes on: by itself, or because a person or the clock let it."""
    return RunEvent.ADVANCED if run.status == RunStatus.RUNNING else RunEvent.WOKEN


def _is_inside(lane: str, outer: str) -> bool:
    return lane == outer or lane.startswith((f"{outer}/", f"{outer}#"))


def _stands(run: Aggregate, step: LiveStep, error: Exception, event: Event) -> Transition:
    """A person's decision stands although the lane cannot go on with it."""
    if isinstance(error, HitlError) and not isinstance(error, StepError):
        raise error  # the run's status does not allow it
    facts = error_of(error)
    transition = Transition(
        events=[event],
        steps=[StepChange(step.address, StepStatus.FAILED, error=facts)],
        close_waits_of=[step.address],
    )
    return draining(run, transition, {step.address: {**facts, "step": step.node}})


def _refused(
    run: Aggregate, step: LiveStep, outcome: str, decision: dict[str, Json], event: Event
) -> Transition:
    """No edge leads on from a reject or a time-out: an outcome of the approval, not a crash of a step."""
    kind: type[StepError] = ApprovalTimeout if outcome == "timeout" else Rejected
    by = decision.get("by") if outcome != "timeout" else None
    error = error_of(kind(rejected_by=by, comment=decision.get("comment", "")))
    failed = StepChange(step.address, StepStatus.FAILED, error=error)
    transition = _step_failed(run, step, failed, event)
    transition.close_waits_of.append(step.address)
    return transition


# ---- people's changes of the state


def _edited(
    run: Aggregate, lane: str, values: dict[str, Any], changes: Mapping[str, Json]
) -> tuple[list[Write], dict[str, Any]]:
    schema = run.workflow_of(lane).schema
    writes = schema.edits(values, changes)
    changed = dict(values)
    schema.keep(changed, writes)
    return writes, changed


def _write_edit(workflow: Workflow, recorder: Recorder, lane: str, writes: Sequence[Write]) -> None:
    lanes = Lanes(workflow, recorder, lane)
    lanes.write(_own_name(lane), writes, edit=True)
    lanes.fold()
