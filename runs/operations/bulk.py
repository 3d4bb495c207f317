"""One verb for many runs: those that match a filter, looked at first and then done, each in a transaction of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from runs import policies, runlists
from runs.engine.canonical import Json
from runs.errors import (
    BadRequest,
    EventNotAllowed,
    HitlError,
    NothingToRun,
    ResultConsumed,
    SelectionChanged,
    Told,
)
from runs.models import Checkpoint, Run, Step
from runs.operations.door import as_uuid, check_reason
from runs.operations.pausing import check_pause, check_resume, pause, resume
from runs.operations.previewing import check_calls, is_consumed, preview_retry, rewindable
from runs.operations.steering import cancel, check_cancellable, retry, rewind
from runs.policies import Actor
from runs.runlists import RunFilter

VERBS: Final = ("rewind", "retry", "cancel", "pause", "resume")
AT_ONCE: Final = 200

Check = Callable[[Actor, Run], None]
Do = Callable[..., Run]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done. checkpoint or node: where a rewind goes, to a number, or to where the newest visit of a node began."""

    verb: str
    reason: str = ""
    checkpoint: int | None = None
    node: str = ""
    calls: str = "reuse"


@dataclass(frozen=True, slots=True)
class Item:
    """What came, or would come, of one run. refusal: why not; empty if it is done, or would be."""

    run: Run
    refusal: str = ""
    detail: str = ""
    facts: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        return bool(self.refusal)


@dataclass(frozen=True, slots=True)
class Bulk:
    """A result per run, in the order of their ids. next: the id after which there are more that match; None if that was all.

    dry: nothing was done.
    """

    items: list[Item]
    next: uuid.UUID | None
    dry: bool

    @property
    def done(self) -> list[Item]:
        return [item for item in self.items if not item.is_refused]

    @property
    def refused(self) -> list[Item]:
        return [item for item in self.items if item.is_refused]


def bulk(
    *,
    actor: Actor,
    order: Order,
    which: RunFilter,
    dry: bool,
    expect: Sequence[uuid.UUID | str] | None = None,
    after: uuid.UUID | None = None,
    limit: int = AT_ONCE,
) -> Bulk:
    """Do a verb to the runs that match, at most `limit` after the id `after`; each is refused by itself.

    dry: only say what would be done, and what refused. expect: the runs that were looked at; `SelectionChanged` if others
    match now, before anything is done.
    """
    _check(order)
    policies.check_view(actor, actor.project.pk)
    policies.check_scope(actor, "runs:read")
    page = runlists.by_id(actor.project.pk, which, after=after, limit=min(limit, AT_ONCE))
    if expect is not None and {as_uuid(one) for one in expect} != {run.pk for run in page.rows}:
        raise SelectionChanged(matching=len(page.rows))
    one = _would if dry else _do
    items = [one(actor, order, run) for run in page.rows]
    return Bulk(items, page.rows[-1].pk if page.more else None, dry)


def _check(order: Order) -> None:
    if order.verb not in VERBS:
        raise BadRequest(
            Told(
                "Many runs at once can be told to {choices}; not to {verb!r:.50}.",
                choices=", ".join(VERBS),
                verb=order.verb,
            )
        )
    check_calls(order.calls)
    if order.verb != "rewind":
        if order.checkpoint is not None or order.node:
            raise BadRequest("Only a rewind goes to a checkpoint or a node.")
        return
    check_reason(order.reason)
    if (order.checkpoint is None) == (not order.node):
        raise BadRequest("Say where to rewind to: a checkpoint, or a node; one of them.")


def _would(actor: Actor, order: Order, run: Run) -> Item:
    """What the verb would say to this run now."""
    try:
        if order.verb in _CHECKS:
            _CHECKS[order.verb](actor, run)
        elif order.verb == "retry":
            preview_retry(actor=actor, run_id=run.pk)
        else:
            policies.check_steer(actor, run)
            if is_consumed(run):
                raise ResultConsumed(parent=str(run.parent_id))
            rewindable(run, _target(run, order))
    except HitlError as error:
        return _refused(run, error)
    return Item(run)


def _do(actor: Actor, order: Order, run: Run) -> Item:
    """A transaction of its own: what is refused, or fails, holds up nobody else."""
    try:
        if order.verb in _CHECKS:
            _CHECKS[order.verb](actor, run)
            return Item(_VERBS[order.verb](actor=actor, run_id=run.pk, reason=order.reason))
        if order.verb == "retry":
            return Item(retry(actor=actor, run_id=run.pk, reason=order.reason))
        return Item(
            rewind(
                actor=actor,
                run_id=run.pk,
                checkpoint=_target(run, order),
                reason=order.reason,
                calls=order.calls,
                version=run.version,
            )
        )
    except HitlError as error:
        return _refused(run, error)


def _refused(run: Run, error: HitlError) -> Item:
    return Item(run, error.code, error.detail, error.facts)


def _check_cancel(actor: Actor, run: Run) -> None:
    policies.check_cancel(actor, run)
    check_cancellable(run, compensate=True)


def _check_pause(actor: Actor, run: Run) -> None:
    check_pause(actor, run)
    if run.paused is not None:
        raise EventNotAllowed("The run is paused.", status=run.status)


def _check_resume(actor: Actor, run: Run) -> None:
    check_resume(actor, run)
    if run.paused is None:
        raise EventNotAllowed("The run is not paused.", status=run.status)


_CHECKS: Final[dict[str, Check]] = {"cancel": _check_cancel, "pause": _check_pause, "resume": _check_resume}
_VERBS: Final[dict[str, Do]] = {"cancel": cancel, "pause": pause, "resume": resume}


def _target(run: Run, order: Order) -> int:
    """The checkpoint that a rewind of this run goes to. At a node: where its newest visit on this branch was to do."""
    if order.checkpoint is not None:
        return order.checkpoint
    visits = Step.objects.filter(run=run, branch=run.branch, node=order.node, undoes__isnull=True).exclude(
        status="void"
    )
    newest = visits.order_by("-created_at").values_list("checkpoint", flat=True).first()
    if newest is None and not visits.exists():
        raise NothingToRun(
            Told("The run has not come to {node!r} on its branch.", node=order.node), node=order.node
        )
    if newest is None:
        return run.head
    parent = Checkpoint.objects.filter(run=run, no=newest).values_list("parent", flat=True).first()
    return parent if parent is not None else 0
