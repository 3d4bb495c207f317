"""Every change to a run, as a pure function from (run, command) to a `Transition`.

Theory. A run is an aggregate: its position (the document of the head checkpoint) and a few facts beside it. A command
comes from a worker (`complete`, `park`, `fail`), from people (`answer`, `edit_state`, `rewind`, `cancel`) or from the
sweeper (`wake`, `take_over`). The function checks that the command is possible, changes the position through a recorder,
and returns what to store: events, checkpoint patch, step, wait and approval changes. It reads no clock and no database:
waits are durations, and the statement that commits adds the database's time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from runs.engine import canonical
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.patch import Op, Recorder
from runs.engine.position import LiveStep
from runs.engine.retry import Retry
from runs.engine.state import Write, storable
from runs.engine.status import TERMINAL, RunEvent, RunStatus, StepStatus, after
from runs.engine.workflow import END, Node, Workflow
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
)

MAX_MESSAGE = 4_000


@dataclass(slots=True)
class Aggregate:
    """A run as the engine sees it.

    position: the document of the head checkpoint; transitions change it in place.
    values: the state's Python values by field, kept beside the position so that they are not parsed for every step.
    """

    run_id: str
    workflow: Workflow
    status: str
    epoch: int
    branch: int
    position: dict[str, Any]
    values: dict[str, Any]
    executing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    payload: dict[str, Json]
    node: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    kind: str
    ops: Sequence[Op]
    node: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class StepChange:
    """A live step leaves its status. `failed` says that this attempt failed; `error` is kept on the step."""

    address: str
    status: StepStatus
    error: dict[str, Json] | None = None
    failed: bool = False
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Something a step waits for: an approval, or the time to try again. `delay` in seconds, None for no due time."""

    address: str
    node: str
    kind: str
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A new approval, with its document."""

    address: str
    node: str
    document: dict[str, Json]
    digest: str


@dataclass(slots=True)
class Transition:
    """What one command changes. Stored in one transaction, or not at all."""

    events: list[Event] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    status: RunStatus | None = None
    error: dict[str, Json] | None = None
    output: Json = None
    ended: bool = False
    steps: list[StepChange] = field(default_factory=list)
    next_steps: list[LiveStep] = field(default_factory=list)
    wait: Wait | None = None
    opened: Opened | None = None
    close_waits_of: list[str] = field(default_factory=list)
    close_everything: str = ""
    raise_epoch: bool = False
    values: dict[str, Any] | None = None

    @property
    def ready(self) -> list[str]:
        """Addresses of the steps that a worker may take now."""
        woken = [change.address for change in self.steps if change.status is StepStatus.READY]
        return woken + [step.address for step in self.next_steps]


# ---- a worker's commands


def start(run: Aggregate) -> Transition:
    """The first transition of a run: its input is checkpoint 0, its entry is ready."""
    return Transition(
        events=[Event("run_submitted", {"input": at.state(run.position)})],
        checkpoint=Checkpoint("input", ()),
        status=RunStatus.QUEUED,
        next_steps=at.live_steps(run.position),
    )


def complete(run: Aggregate, step: LiveStep, update: Any) -> Transition:
    """A node returned. Raises a `StepError` if its update cannot be taken; then nothing has changed."""
    schema = run.workflow.schema
    writes = schema.writes(run.values, update)
    values = dict(run.values)
    schema.keep(values, writes)
    target = _route(run.workflow, step.node, lambda: (schema.view(values),))
    event = Event("step_completed", {"visit": step.visit}, step.node, step.address)
    return _go_on(run, step, writes=writes, values=values, target=target, kind="step", event=event)


def park(run: Aggregate, step: LiveStep, document: dict[str, Json], digest: str) -> Transition:
    """An approval function has answered: the run waits for people. No checkpoint: the parked one is the one before."""
    options = run.workflow.nodes[step.node].approval
    return Transition(
        events=[
            Event("approval_opened", {"digest": digest, "title": document["title"]}, step.node, step.address)
        ],
        status=after(run.status, RunEvent.PARKED),
        steps=[StepChange(step.address, StepStatus.WAITING)],
        wait=Wait(step.address, step.node, "approval", options.due if options else None),
        opened=Opened(step.address, step.node, document, digest),
    )


def ask_again(run: Aggregate, step: LiveStep, approval_node: str, reason: str) -> Transition:
    """What is about to be done is not what was approved: the lane goes back to the approval, which opens anew."""
    event = Event("approval_superseded", {"reason": reason, "node": approval_node}, step.node, step.address)
    status = after(run.status, RunEvent.ADVANCED)
    back = at.back_to(run.workflow, run.position, lane=step.lane, node=approval_node)
    recorder = Recorder(run.position)
    answers = {k: v for k, v in at.answers(run.position, step.lane).items() if k != approval_node}
    recorder.put(["root", "lanes", step.lane, "answers"], answers)
    following = at.move(recorder, lane=step.lane, to=back)
    return Transition(
        events=[event],
        checkpoint=Checkpoint("step", recorder.ops, step.node, step.address),
        status=status,
        steps=[StepChange(step.address, StepStatus.VOID, error={"code": reason})],
        next_steps=[following] if following else [],
        values=run.values,
    )


def fail(run: Aggregate, step: LiveStep, error: Json, *, attempt: int, delay: float | None) -> Transition:
    """An attempt failed. With `delay` it is tried again after so many seconds, otherwise the run fails."""
    facts = {"attempt": attempt, "error": error}
    if delay is not None:
        return Transition(
            events=[Event("step_retry_scheduled", {**facts, "delay": delay}, step.node, step.address)],
            status=after(run.status, RunEvent.PARKED),
            steps=[StepChange(step.address, StepStatus.WAITING, error=error, failed=True)],
            wait=Wait(step.address, step.node, "retry", delay),
        )
    transition = _failed(run.status, {**error, "step": step.node})
    transition.events.insert(0, Event("step_failed", facts, step.node, step.address))
    transition.steps = [StepChange(step.address, StepStatus.FAILED, error=error, failed=True)]
    return transition


# ---- the sweeper's commands


def wake(run: Aggregate, step: LiveStep) -> Transition:
    """A retry is due: the step is ready again."""
    return Transition(
        status=after(run.status, RunEvent.WOKEN),
        steps=[StepChange(step.address, StepStatus.READY)],
        close_waits_of=[step.address],
    )


def take_over(
    run: Aggregate, step: LiveStep, *, reason: str, crashes: int, limit: int, worker: str
) -> Transition:
    """The worker of a step is gone. The step is ready again, unless it has ended its worker too often."""
    facts: dict[str, Json] = {"reason": reason, "crashes": crashes, "worker": worker}
    if crashes < limit:
        return Transition(
            events=[Event("step_taken_over", facts, step.node, step.address)],
            status=after(run.status, RunEvent.TAKEN_OVER),
            steps=[StepChange(step.address, StepStatus.READY, crashed=True)],
        )
    error = error_of(Poisoned(f"The step ended its worker {crashes} times and was set aside.", **facts))
    transition = _failed(run.status, {**error, "step": step.node})
    transition.events.insert(0, Event("step_failed", {"error": error, **facts}, step.node, step.address))
    transition.steps = [StepChange(step.address, StepStatus.FAILED, error=error, crashed=True)]
    return transition


def reopen(run: Aggregate, step: LiveStep, *, reason: str) -> Transition:
    """An open approval no longer shows what is there: it is superseded, and its node is asked for a fresh one."""
    return Transition(
        events=[Event("approval_superseded", {"reason": reason}, step.node, step.address)],
        status=after(run.status, RunEvent.WOKEN),
        steps=[StepChange(step.address, StepStatus.READY)],
        close_waits_of=[step.address],
    )


def give_up(status: str, error: HitlError) -> Transition:
    """End a run that cannot go on, whatever it is doing."""
    return _failed(status, error_of(error))


# ---- people's commands


def answer(run: Aggregate, step: LiveStep, outcome: str, decision: dict[str, Json]) -> Transition:
    """An approval is decided (or its time is over): the lane goes on where the outcome leads.

    decision: what the nodes after it see; `decision["actions"]` are the approved arguments.
    """
    node = run.workflow.nodes[step.node]
    event = Event("approval_decided", {"outcome": outcome, **decision}, step.node, step.address)
    try:
        target = _way_of(run, node, outcome, decision)
        if target is None:
            return _refused(run, step, outcome, decision, event)
        return _go_on(
            run,
            step,
            values=run.values,
            target=target,
            kind="answer",
            event=event,
            decision=(step.node, decision),
        )
    except Exception as error:  # a router or an output function is an author's code; the decision stands
        if isinstance(error, HitlError) and not isinstance(error, StepError):
            raise  # the run's status does not allow it
        transition = _failed(run.status, {**error_of(error), "step": step.node})
        transition.events.insert(0, event)
        transition.steps = [StepChange(step.address, StepStatus.FAILED, error=error_of(error))]
        return transition


def recheck(run: Aggregate, step: LiveStep, decision: dict[str, Json]) -> Transition:
    """A person edited what is to be checked again: no vote; the lane goes to the checking node, which leads back here.

    decision: as in `answer`, with the edited arguments; the node reads them by `ctx.edited`.
    """
    options = run.workflow.nodes[step.node].approval
    target = options.recheck if options else None
    if target is None:
        raise SchemaViolation(f"{step.node!r} has no recheck.", node=step.node)
    event = Event("approval_superseded", {**decision, "reason": "edited"}, step.node, step.address)
    return _answered(run, step, target, event, decision)


def edit_state(run: Aggregate, lane: str, changes: Mapping[str, Json], *, reason: str) -> Transition:
    """A person changes the state of a parked or failed run. What is asked of people is asked anew."""
    if run.status in TERMINAL and run.status != RunStatus.FAILED:
        raise AlreadyTerminal(
            f"The run is {run.status}; fork it to go on from an edited state.", status=run.status
        )
    if run.executing:
        raise StepExecuting()
    writes = run.workflow.schema.edits(run.values, changes)
    values = dict(run.values)
    run.workflow.schema.keep(values, writes)
    recorder = Recorder(run.position)
    at.write(recorder, writes)
    event = Event("state_edited", {"changes": {w.key: w.value for w in writes}, "reason": reason})
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint("edit", recorder.ops),
        status=after(run.status, RunEvent.EDITED),
        values=values,
    )
    if run.status != RunStatus.FAILED:
        step = next(step for step in at.live_steps(run.position) if step.lane == lane)
        transition.steps = [StepChange(step.address, StepStatus.READY)]
        transition.close_waits_of = [step.address]
    return transition


def rewind(
    run: Aggregate,
    target: dict[str, Any],
    values: dict[str, Any],
    changes: Mapping[str, Json],
    facts: dict[str, Json],
) -> Transition:
    """Go back to an earlier position on a new branch: the epoch rises, everything live is void, all of it is to do again.

    target, values: position and state of the checkpoint. facts: what the history says about it (checkpoint, reason, calls).
    """
    steps = at.live_steps(target)
    if not steps:
        raise NothingToRun("The run had ended at this checkpoint; choose an earlier one.")
    transition = Transition(
        events=[Event("run_rewound", facts)],
        status=after(run.status, RunEvent.REWOUND),
        next_steps=steps,
        close_everything="rewound",
        raise_epoch=True,
        values=values,
    )
    if changes:
        writes = run.workflow.schema.edits(values, changes)
        run.workflow.schema.keep(values, writes)
        recorder = Recorder(target)
        at.write(recorder, writes)
        transition.checkpoint = Checkpoint("edit", recorder.ops)
        payload = {"changes": {write.key: write.value for write in writes}, "reason": facts.get("reason", "")}
        transition.events.append(Event("state_edited", payload))
    return transition


def cancel(status: str, *, reason: str) -> Transition:
    """End a run by a person's word. The epoch rises, so nothing a worker still does can land."""
    return Transition(
        events=[Event("run_cancelled", {"reason": reason})],
        status=after(status, RunEvent.CANCELLED),
        ended=True,
        close_everything="run_cancelled",
        raise_epoch=True,
    )


# ---- errors as they are stored and shown


def error_of(error: BaseException) -> dict[str, Json]:
    """An exception as data: code, message, type, and the facts it carries."""
    if not isinstance(error, HitlError):
        message = canonical.visible(_text_of(error))[:MAX_MESSAGE] or type(error).__name__
        return {"code": "node_error", "message": message, "type": type(error).__qualname__}
    facts: dict[str, Json] = {}
    for key, value in error.facts.items():
        try:
            facts[key] = storable(value)
        except StepError:
            facts[key] = canonical.visible(repr(value))[:MAX_MESSAGE]
    if error.errors:
        facts["errors"] = [problem.as_dict() for problem in error.errors]
        facts.setdefault("path", error.errors[0].path)
    return {**facts, "code": error.code, "message": canonical.visible(error.detail)[:MAX_MESSAGE]}


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an author's exception may fail to say what it is
        return ""


def delay_of(
    policy: Retry, error: BaseException, *, attempt: int, failures: int, draw: float
) -> float | None:
    """Seconds until the next attempt, or None if there is none. `failures` counts this one."""
    if attempt >= policy.attempts or not policy.wants(error):
        return None
    return policy.delay(failures=failures, draw=draw)


# ---- inside


def _go_on(
    run: Aggregate,
    step: LiveStep,
    *,
    values: dict[str, Any],
    target: str,
    kind: str,
    event: Event,
    writes: Sequence[Write] = (),
    decision: tuple[str, dict[str, Json]] | None = None,
) -> Transition:
    status = after(run.status, RunEvent.ADVANCED if kind == "step" else RunEvent.WOKEN)
    move = at.plan(run.workflow, run.position, lane=step.lane, target=target)
    ends = move.node == END and len(run.position["root"]["order"]) == 1
    output = _output(run, values, writes) if ends else None
    if ends:
        status = after(run.status, RunEvent.ENDED)
    recorder = Recorder(run.position)  # from here on nothing may be refused: the position changes in place
    at.write(recorder, writes)
    if decision and not ends:
        recorder.put(["root", "lanes", step.lane, "answers", decision[0]], decision[1])
    following = at.move(recorder, lane=step.lane, to=move)
    transition = Transition(
        events=[event],
        checkpoint=Checkpoint(kind, recorder.ops, step.node, step.address),
        status=status,
        steps=[StepChange(step.address, StepStatus.COMPLETED)],
        next_steps=[following] if following else [],
        close_waits_of=[step.address] if kind == "answer" else [],
        values=values,
    )
    if ends:
        transition.events.append(Event("run_completed", {}))
        transition.output, transition.ended = output, True
    return transition


def _answered(
    run: Aggregate, step: LiveStep, target: str, event: Event, decision: dict[str, Json]
) -> Transition:
    """The lane goes on with a decision. If it cannot (a loop is used up), that is the run's failure, not the person's."""
    told = (step.node, decision)
    try:
        return _go_on(run, step, values=run.values, target=target, kind="answer", event=event, decision=told)
    except StepError as error:
        transition = _failed(run.status, {**error_of(error), "step": step.node})
        transition.events.insert(0, event)
        transition.steps = [StepChange(step.address, StepStatus.FAILED, error=error_of(error))]
        transition.close_waits_of = [step.address]
        return transition


def _failed(status: str, error: dict[str, Json]) -> Transition:
    return Transition(
        events=[Event("run_failed", {"error": error})],
        status=after(status, RunEvent.FAILED),
        error=error,
        ended=True,
        close_everything="run_failed",
    )


def _refused(
    run: Aggregate, step: LiveStep, outcome: str, decision: dict[str, Json], event: Event
) -> Transition:
    """No edge leads on from a reject or a time-out: an outcome of the approval, not a crash of a step."""
    kind: type[StepError] = ApprovalTimeout if outcome == "timeout" else Rejected
    by = decision.get("by") if outcome != "timeout" else None
    error = error_of(kind(rejected_by=by, comment=decision.get("comment", "")))
    transition = _failed(run.status, {**error, "step": step.node})
    transition.events.insert(0, event)
    transition.steps = [StepChange(step.address, StepStatus.FAILED, error=error)]
    transition.close_waits_of = [step.address]
    return transition


def _way_of(run: Aggregate, node: Node, outcome: str, decision: dict[str, Json]) -> str | None:
    way, options = run.workflow.way(node.name), node.approval
    if way.router:
        view = run.workflow.schema.view(run.values)
        return _route(run.workflow, node.name, lambda: (view, decision))
    edges = {"approve": way.plain, **way.outcomes} if way.plain else dict(way.outcomes)
    if outcome in edges:
        return edges[outcome]
    on_timeout = options.on_timeout if options else "reject"
    fallback = {
        "mixed": "reject",
        "respond": "approve",
        "timeout": {"approve": "approve", "reject": "reject"}.get(on_timeout, ""),
    }.get(outcome, "")
    return edges.get(fallback)


def _route(workflow: Workflow, node: str, arguments: Callable[[], tuple[Any, ...]]) -> str:
    way = workflow.way(node)
    if way.plain:
        return way.plain
    if way.router is None:
        raise SchemaViolation(f"{node!r} has no way on.", node=node)
    target = way.router(*arguments())
    name = workflow.name_of(target) if isinstance(target, str) or callable(target) else repr(target)
    if name not in way.to:
        raise SchemaViolation(
            f"The router of {node!r} answered {name!r:.200}; it may answer {', '.join(way.to)}.", node=node
        )
    return name


def _output(run: Aggregate, values: dict[str, Any], writes: Sequence[Write]) -> Json:
    """The final state as it is stored, or what the workflow makes of it."""
    output = run.workflow.output
    if output is None:
        return at.written(at.state(run.position), writes)
    if isinstance(output, type) and issubclass(output, BaseModel):
        known = {name: value for name, value in values.items() if name in output.model_fields}
        return storable(output.model_validate(known, by_alias=True, by_name=True), path="/output")
    function: Callable[[Any], Any] = output
    return storable(function(run.workflow.schema.view(values)), path="/output")
