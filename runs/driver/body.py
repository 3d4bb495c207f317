"""Runs one node's body and says what came of it. Nothing an author's code does escapes from here."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runs.driver.context import AskAgain, Context
from runs.driver.port import Interrupted
from runs.driver.waits import Suspend
from runs.engine import canonical
from runs.engine.approval import document_of
from runs.engine.canonical import Json
from runs.engine.machine import error_of
from runs.engine.position import LiveStep
from runs.engine.retry import Retry
from runs.engine.waits import Wanted
from runs.engine.workflow import Workflow

_MAX_TRACEBACK = 8_000


Body = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class StepScope:
    """What a body works on: the step, the state as it sees it, and its context.

    workflow: the run's. body: what runs instead of the node's own; extra: what it is given besides (an item).
    """

    workflow: Workflow
    step: LiveStep
    state: Any
    context: Context
    body: Body | None = None
    extra: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    update: Any


@dataclass(frozen=True, slots=True)
class Asked:
    document: dict[str, Json]
    digest: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt failed. `policy` is the call's if a call failed with one of its own, else the node's."""

    error: Exception | SystemExit
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
    """Run the body. What a port raises passes through, first of all `LateResult`: the worker lets go of the step."""
    node = scope.workflow.nodes[scope.step.node]
    try:
        value = (scope.body or node.body)(scope.state, scope.context, *scope.extra)
        if node.approval is None:
            return Completed(value)
        document = document_of(
            value, way=scope.workflow.way(scope.step.node), options=node.approval, node=node.name
        )
        return Asked(document, canonical.digest(document))
    except Interrupted as interruption:
        raise interruption.error from None
    except AskAgain as again:
        return Reopened(again.node, again.reason)
    except Suspend as asked:
        return Suspended(asked.wanted)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # an author's code may raise anything
        return _failed(error, scope.context, node.retry)


def _failed(error: Exception | SystemExit, context: Context, policy: Retry) -> Failed:
    call = next((call for call in context.failed if call.error is error), None)
    if call is None:
        return Failed(error, facts_of(error), policy)
    return Failed(error, {**facts_of(error), "call": call.name}, call.retry or policy)


def facts_of(error: BaseException) -> dict[str, Json]:
    """An exception as data, with its traceback from the author's frame on."""
    frames = traceback.format_exception(type(error), error, error.__traceback__)
    return {**error_of(error), "traceback": canonical.visible("".join(frames))[-_MAX_TRACEBACK:]}
