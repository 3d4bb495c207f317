"""What every verb does first and last: read the run as the engine sees it, and write down who did what."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import Error, transaction
from django.db.models import QuerySet

from runs import dispatch, queries, store, workflows
from runs.engine import Workflow, canonical
from runs.engine import position as at
from runs.engine.compensation import put_off
from runs.engine.position import LiveStep
from runs.engine.status import RunStatus, StepStatus
from runs.engine.transition import Aggregate, Transition, Undo, WithoutCode
from runs.errors import (
    Forbidden,
    HitlError,
    MigrationMissing,
    NotFound,
    ReasonRequired,
    StaleVersion,
    Told,
    VersionRequired,
)
from runs.models import AuditEntry, Project, Run, Step
from runs.operations.admitting import let_in_soon
from runs.policies import Actor

MAX_REASON = 2_000


@contextmanager
def verb(
    actor: Actor, name: str, target: object, *, reason: str = "", durable: bool = True
) -> Iterator[None]:
    """A transaction for one verb of a person, with its audit entry; a refusal is written down too.

    durable: its own. Without, it joins a caller's transaction and commits with it.
    """
    try:
        with transaction.atomic(durable=durable), store.together():
            yield
            _audit(actor, name, target, "done", reason=reason)
    except (Forbidden, NotFound) as refusal:
        told = queries.gone_or(actor.project.pk, target, refusal)
        audit_denied(actor, name, target, told.code)
        raise told from None
    except Error as error:
        raise store.refusal_of(error) from error


def audit_denied(actor: Actor, name: str, target: object, code: str) -> None:
    _audit(actor, name, target, f"denied: {code}")


def audit_command(project: Project, name: str, target: object, *, reason: str = "") -> None:
    """Somebody at the command line, who needs no name to write into the database."""
    store.insert(
        AuditEntry(
            project=project,
            method="command",
            verb=name,
            target=str(target)[:120],
            outcome="done",
            reason=reason,
        )
    )


def _audit(actor: Actor, name: str, target: object, outcome: str, *, reason: str = "") -> None:
    store.insert(
        AuditEntry(
            project=actor.project,
            user_name=actor.user.username,
            method=actor.method,
            ip=actor.address,
            verb=name,
            target=canonical.visible(str(target)[:120])[:120],
            outcome=outcome,
            reason=reason,
        )
    )


def locked_run(run_id: uuid.UUID | str) -> Run:
    """A run by an id from outside, locked. What is no id leads to `NotFound`."""
    return store.lock_run(as_uuid(run_id))


def as_uuid(value: uuid.UUID | str) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError):
        raise NotFound() from None


def commit(run: Run, transition: Transition, *, compensate: bool = True, **how: Any) -> None:
    """Store a transition of a locked run; workers and open pages are told once the transaction has committed.

    compensate: whether calls are taken back before the run, and the children that it stops, are cancelled.
    """
    if transition.ended and run.ending is None:
        transition = put_off(transition, _to_take_back(run, transition, compensate), status=run.status)
    _stand_again(run, transition)
    store.commit(run, transition, compensate=compensate, **how)
    if not run.is_in_line and run.status != RunStatus.PAUSED:
        for address in transition.ready:
            dispatch.enqueue(run.pk, run.branch, address, queue=run.queue)
    if run.limited and run.admitted_at is None:
        let_in_soon(run)  # it stands in line, or has made room in one
    elif run.is_in_line:
        dispatch.call_in_soon(run.queue)
    if transition.ended and run.parent_id is not None:
        dispatch.tell_parent(run.pk)
    dispatch.announce(run.project_id, run.pk)


def _stand_again(run: Run, transition: Transition) -> None:
    """A run that had ended and goes on takes its turn, as a new one does: many are rewound or retried at once."""
    goes_on = run.is_terminal and transition.status is RunStatus.QUEUED
    if not goes_on or run.limited or dispatch.has_room(run.queue):
        return
    run.admitted_at, run.line = None, store.line_of(run.project_id, run.workflow, ())
    run.save(update_fields=["admitted_at", "line"])


def _to_take_back(run: Run, transition: Transition, compensate: bool) -> list[Undo]:
    """The calls to take back before the run ends as this transition says: if it is cancelled, or fails and its workflow
    asks for it."""
    if transition.status is RunStatus.CANCELLED and compensate:
        return store.undos(run)
    if transition.status is RunStatus.FAILED:
        workflow = workflows.find(run.workflow, run.workflow_version)
        return store.undos(run) if workflow and workflow.compensate else []
    return []


def pinned_code(run: Run) -> Workflow | None:
    """The code of a run's own version, if this process has it with the graph that the run started with."""
    return workflows.pinned(run.workflow, run.workflow_version, run.fingerprint, lenient=settings.DEBUG)


def check_code(run: Run) -> None:
    """Raises `MigrationMissing` if this process has no code for a run."""
    if pinned_code(run) is None:
        raise _absent(run)


def aggregate(
    run: Run,
    position: dict[str, Any] | None = None,
    *,
    address: str | None = None,
    lane: str | None = None,
    workflow: Workflow | None = None,
    rows: bool = True,
) -> Aggregate:
    """A locked run as the engine sees it, standing at its head (or at `position`).

    address, lane: the step or lane that acts; its state is in `values`. Without them there are no values. workflow: the code
    to see it with (default that of its version; if that is not here, whatever asks for it raises `MigrationMissing`). rows:
    whether it matters which steps execute and which have failed.
    """
    document = position if position is not None else store.read_position(run.pk, run.head)
    told: dict[str, Any] = {
        "run_id": str(run.pk),
        "status": run.status,
        "epoch": run.epoch,
        "branch": run.branch,
        "position": document,
        "values": {},
        "draining": run.error is not None and not run.is_terminal,
    }
    code = workflow or pinned_code(run)
    facts = WithoutCode(_absent(run), **told) if code is None else Aggregate(workflow=code, **told)
    if rows:
        _add_rows(facts, run, at.all_steps(document))
    acting = lane if address is None else at.lane_of(document, address)
    if acting is not None:
        schema, seen = facts.workflow_of(acting).schema, at.lane_view(document, acting).state
        facts.values = schema.load(seen) if lane is None else schema.load_to_edit(seen)
    return facts


def _absent(run: Run) -> HitlError:
    return MigrationMissing(
        Told(
            "This process does not have version {workflow_version} of {workflow}.",
            workflow_version=run.workflow_version,
            workflow=run.workflow,
        ),
        workflow=run.workflow,
        version=run.workflow_version,
    )


def _add_rows(facts: Aggregate, run: Run, steps: Sequence[LiveStep]) -> None:
    if len(steps) <= 1 and run.status != RunStatus.FAILED:
        rows = store.answers("executing", _executing, run=run.pk, branch=run.branch)
        facts.executing = frozenset(address for (address,) in rows)
        return
    rows = store.unfinished_rows(run, [step.address for step in steps])
    facts.rows = {row.address: row.status for row in rows}
    facts.executing = frozenset(row.address for row in rows if row.status == StepStatus.EXECUTING)
    facts.errors = {
        row.address: {**(row.error or {}), "step": row.node}
        for row in rows
        if row.status == StepStatus.FAILED
    }


def _executing() -> QuerySet[Step, Any]:
    mine = Step.objects.filter(run=store.Given("run"), branch=store.Given("branch"))
    return mine.filter(status=StepStatus.EXECUTING).values_list("address")


# ---- what several verbs ask of a request


def check_version(run: Run, version: int | None) -> None:
    if version is None:
        raise VersionRequired("Send the version of the run that you saw.", version=run.version)
    if version != run.version:
        raise StaleVersion(
            Told(
                "You saw version {version} of the run; version {current} is there now.",
                version=version,
                current=run.version,
            ),
            version=run.version,
        )


def check_reason(reason: str) -> None:
    if not reason.strip():
        raise ReasonRequired("Give a reason; it stands in the history.")
    if len(reason) > MAX_REASON:
        raise ReasonRequired(Told("A reason has at most {max_reason:,} characters.", max_reason=MAX_REASON))
    canonical.check(reason)
