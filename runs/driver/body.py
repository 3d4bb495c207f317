"""Runs one node's body and says what came of it. Nothing an author's code raises escapes from here, but for Ctrl-C."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from runs.driver import secrets
from runs.driver.context import AskAgain, Context
from runs.driver.port import Halted, Interrupted
from runs.driver.waits import Suspend
from runs.driver.watchdog import StepLost, TimeIsUp, Watch
from runs.engine import canonical
from runs.engine.approval import document_of, options_of
from runs.engine.canonical import Json
from runs.engine.failures import error_of
from runs.engine.position import LiveStep
from runs.engine.redaction import quotable
from runs.engine.retry import Retry
from runs.engine.state import storable
from runs.engine.waits import Wanted
from runs.engine.workflow import ApprovalOptions, Node, Workflow
from runs.errors import LateResult, StepError, StepTimeout

_MAX_TRACEBACK = 8_000


Body = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class StepScope:
    """What a body works on: the step, the state as it sees it, and its context.

    workflow: the run's. body: what runs instead of the node's own; extra: what it is given besides (an item).
    seconds: how long it may work from now on. node: if it is none of the workflow's.
    """

    workflow: Workflow
    step: LiveStep
    state: Any
    context: Context
    body: Body | None = None
    extra: tuple[Any, ...] = ()
    seconds: float | None = None
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    update: Any


@dataclass(frozen=True, slots=True)
class Asked:
    document: dict[str, Json]
    digest: str
    options: ApprovalOptions


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt failed. `policy` is the call's if a call failed with one of its own, else the node's."""

    error: BaseException
    facts: dict[str, Json]
    policy: Retry


@dataclass(frozen=True, slots=True)
class Reopened:
    """The approved action is not the one that would be used; the approval opens anew."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """The body asked for what is not there yet."""

    wanted: Sequence[Wanted]


Outcome = Completed | Asked | Failed | Reopened | Suspended


def run_body(scope: StepScope) -> Outcome:
    """Run the body. What a port raises passes through, first of all `LateResult`: the worker lets go of the step. So it does
    where the body was told that it is lost."""
    node = scope.node or scope.workflow.nodes[scope.step.node]
    scope.context.unsaid = _unsaid(scope)
    watch = _watched(scope, node)
    outcome = _outcome(scope, node, watch)
    if watch.lost:  # whatever it made of it
        raise LateResult()
    return outcome


def _outcome(scope: StepScope, node: Node, watch: Watch) -> Outcome:
    try:
        try:
            with watch:
                value = _value_of(scope, scope.body or node.body)
        finally:
            watch.leave()  # once more: the exception may have struck at the end of the `with` itself
            scope.context.close()
        if watch.timed_out:
            return _timed_out(node, None)
        if scope.context.leaving is not None:  # past a bare `except`, or a `return` in a `finally`
            return Suspended(scope.context.leaving.wanted)
        if node.approval is None:
            return Completed(_clean(value))
        options = options_of(value, node.approval, node=node.name)
        document = secrets.redacted(
            document_of(value, way=scope.workflow.way(scope.step.node), options=options, node=node.name)
        )
        return Asked(document, canonical.digest(document), options)
    except Interrupted as interruption:
        raise interruption.error from None
    except AskAgain as again:
        return Reopened(again.node, again.reason)
    except Suspend as asked:
        return Suspended(asked.wanted)
    except StepLost:
        raise LateResult() from None
    except TimeIsUp as late:
        return _timed_out(node, late)
    except (Halted, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  # an author's code may raise anything, and libraries have such of their own
        if scope.context.leaving is not None and not watch.timed_out:
            return Suspended(scope.context.leaving.wanted)
        return _timed_out(node, error) if watch.timed_out else _failed(error, scope.context, node.retry)


def _value_of(scope: StepScope, body: Body) -> Any:
    """An `asyncio.TaskGroup` packs what its tasks raise into a group. What the driver raised is taken out again, first that the
    step is somebody else's by now; and an error that is alone in its group, for a retry policy goes by its class."""
    try:
        return settled(body(scope.state, scope.context, *scope.extra), scope.context)
    except BaseExceptionGroup as group:
        for kind in (Halted, Interrupted, TimeIsUp, AskAgain, Suspend):
            if found := _within(group, kind):
                raise found from None
        raise _alone(group) from None


def _within(group: BaseExceptionGroup[Any], kind: type[BaseException]) -> BaseException | None:
    """The first of a kind in a group, however deep."""
    found: BaseException | None = group.subgroup(kind)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _alone(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def settled(value: Any, context: Context) -> Any:
    """What a body has come to: an `async def` one is run to its end here."""
    return asyncio.run(context.run_async(value)) if inspect.iscoroutine(value) else value


def _watched(scope: StepScope, node: Node) -> Watch:
    facts: dict[str, Json] = {"timeout": node.timeout}
    watch = Watch(scope.seconds, at_end=partial(scope.context.port.note_overdue, facts), always=True)
    scope.context.watched_by(watch)
    return watch


def _unsaid(scope: StepScope) -> Sequence[str]:
    """Values of the state that are marked for certain roles; none are read where nothing is marked."""
    schema = scope.workflow.schema
    if not schema.has_marks or scope.state is None:  # what takes a call back is handed no state
        return ()
    return quotable(schema.dump(scope.state), schema.json_schema)


def _clean(value: Any) -> Any:
    """A result without secrets. As it is if none was ever read here, or none is in it."""
    if not secrets.any_known():
        return value
    try:
        stored = storable(value)
    except StepError:
        return value  # whoever stores it says where
    clean = secrets.redacted(stored)
    return value if clean == stored else clean


def _timed_out(node: Node, error: BaseException | None) -> Failed:
    """The traceback is of where it was when its time was up."""
    late = StepTimeout(f"The step worked longer than {node.timeout:g} s.", timeout=node.timeout)
    if error is not None:
        late.__traceback__ = error.__traceback__
    return Failed(late, facts_of(late), node.retry)


def _failed(error: BaseException, context: Context, policy: Retry) -> Failed:
    call = next((call for call in context.failed if call.error is error), None)
    if call is None:
        return Failed(error, facts_of(error), policy)
    return Failed(error, {**facts_of(error), "call": call.name}, call.retry or policy)


def facts_of(error: BaseException) -> dict[str, Json]:
    """An exception as data, with its traceback from the author's frame on, and without secrets."""
    frames = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    facts = {**error_of(error), "traceback": canonical.visible(secrets.redact(frames))[-_MAX_TRACEBACK:]}
    clean: dict[str, Json] = secrets.redacted(facts)
    return clean
