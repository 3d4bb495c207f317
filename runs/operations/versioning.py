"""Change of code under runs: a run whose version is gone is migrated where a way leads on, or says that it waits for code.

A run stays on its version as long as any worker has it. Nobody has it any more if every worker that lives says so; one that has
gone a moment ago may only be restarting. Then whoever needs the code (a worker with a step, a person with a decision, the
sweeper with a due time) migrates it first, in the same transaction and under the run's lock; or it is written down, once, that
the run needs a migration, and nobody is told about its steps until something has changed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from runs import dispatch, policies, queries, store, workflows
from runs.engine import Workflow, migrating
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.merging import Conflict
from runs.engine.migrating import Carried
from runs.engine.versions import Migration, base_of
from runs.errors import (
    Busy,
    CheckpointUnreadable,
    GraphChanged,
    MigrationMissing,
    NeedsMigration,
    NotFound,
    StepExecuting,
    Told,
    UnknownVersion,
    VersionElsewhere,
)
from runs.models import Run, Wait, WorkflowVersion
from runs.operations.door import (
    aggregate,
    as_uuid,
    check_reason,
    check_version,
    commit,
    locked_run,
    pinned_code,
    verb,
)
from runs.operations.registering import version_for
from runs.policies import SYSTEM, Actor
from runs.store import At, Past

MARKS_A_ROUND: Final = 200
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """A checkpoint as the code that is here has it. way: the migrations that led there; none if it was stored like this.
    past: what its run has behind it."""

    position: dict[str, Any]
    workflow: Workflow
    way: list[Migration]
    past: Past


@dataclass(frozen=True, slots=True)
class MigrationPreview:
    """What a migration of a run would come to. Nothing has happened yet.

    way: the versions on the way, from and to included. nodes: steps to do whose node is renamed, as (old, new). begun: nodes that
    begin because a join of the other graph need not wait. conflicts: of the state afterwards.
    """

    run: Run
    from_version: str
    to_version: str
    way: list[str]
    before: dict[str, Json]
    state: dict[str, Json]
    next: list[str]
    nodes: list[tuple[str, str]]
    begun: list[str]
    conflicts: list[Conflict]


# ---- the code of a run


def with_code(run: Run) -> Workflow:
    """The workflow of a locked run. If nobody has its version any more and a way leads on, the run is migrated first.

    Raises `VersionElsewhere` if a worker has it and this process has not, or the `NeedsMigration` that says what is missing.
    """
    found = pinned_code(run)
    if found is not None:
        return found
    target, steps = _way_on(run)
    _move(run, target, steps, actor=SYSTEM, reason="")
    return target


def _way_on(run: Run) -> tuple[Workflow, list[Migration]]:
    """Where a run goes whose version is not here. Raises `VersionElsewhere` if that is for a worker to say."""
    code, place = store.code_of_workers(), At.of(run)
    if code.has_code(place):
        raise _elsewhere(
            run, f"A worker has version {place.version} of {place.workflow}, this process has not"
        )
    try:
        return workflows.way_on(place.workflow, place.version)
    except NeedsMigration:
        if code.can_take(place):
            raise _elsewhere(
                run, f"A worker has a migration of {place.workflow} from version {place.version}"
            ) from None
        raise


def _elsewhere(run: Run, told: str) -> VersionElsewhere:
    return VersionElsewhere(
        Told(
            "{told}. Give this process the same code, or ask again once the workers have changed.", told=told
        ),
        workflow=run.workflow,
        version=run.workflow_version,
    )


def take_along(run_id: uuid.UUID, branch: int, address: str) -> bool:
    """Whether this worker can go on with a run whose version it has not; migrates it if nobody has that any more, and passes
    the hint on to those who have it."""
    try:
        with transaction.atomic(durable=True):
            run = store.lock_run(run_id)
            with_code(run)
    except NeedsMigration as refused:
        note(run_id=run_id, refused=refused)
        return False
    except VersionElsewhere as left:
        logger.info("the run is left to others: %s", left, extra={"run": str(run_id)})
        dispatch.pass_on(run_id, branch, address, queue=run.queue)
        return False
    except (StepExecuting, Busy, NotFound, CheckpointUnreadable) as left:
        logger.info("the run is left for now: %s", left, extra={"run": str(run_id)})
        return False
    return True


@contextmanager
def noting(run_id: uuid.UUID) -> Iterator[None]:
    """Whoever meets a run that needs a migration writes that down, after what was tried has been rolled back."""
    try:
        yield
    except NeedsMigration as refused:
        note(run_id=run_id, refused=refused)
        raise


def note(*, run_id: uuid.UUID, refused: NeedsMigration) -> bool:
    """Write down that a run waits for code, and why; once, however often it is met. Consumes no attempt and ends nothing."""
    with transaction.atomic(durable=True):
        run = store.lock_run(run_id)
        facts: dict[str, Json] = {"version": run.workflow_version, **migrating.fault(refused)}
        mark = store.mark_of(run.pk)
        if run.is_terminal or (mark is not None and mark.facts == facts):
            return False
        commit(run, migrating.needed(facts), actor=SYSTEM)
    logger.warning("%s", refused.detail, extra={"run": str(run_id)})
    return True


def _move(
    run: Run, target: Workflow, steps: Sequence[Migration], *, actor: dict[str, Json], reason: str
) -> None:
    carried, facts = _carried(run, target, steps)
    transition = migrating.migrate(facts, carried, steps, version=version_for(target), reason=reason)
    commit(run, transition, position=carried.position, actor=actor, reason=reason)


def _carried(run: Run, target: Workflow, steps: Sequence[Migration]) -> tuple[Carried, Any]:
    facts = aggregate(run, workflow=target)
    parked = Wait.objects.filter(run=run, branch=run.branch, closed_at=None, kind="approval", name="")
    asked = list(parked.values_list("address", flat=True))
    return migrating.carry(facts.position, steps, target, asked=asked), facts


# ---- checkpoints that are stored as an older version


def standing(run: Run, checkpoint: int, position: dict[str, Any], past: Past) -> Standing:
    """A checkpoint as the code that the run goes on with has it: that of its version, or where migrations lead to from there.

    Raises a `NeedsMigration` or `VersionElsewhere`.
    """
    stored = store.version_at(run, checkpoint) if past.migrated else run.workflow_version
    own = pinned_code(run) or _way_on(run)[0]
    if base_of(stored) == own.version:
        return Standing(position, own, [], past)
    target, steps = workflows.way_on(run.workflow, stored, own.version)
    return Standing(migrating.carry(position, steps, target).position, target, steps, past)


# ---- by an operator


def migrate(
    *,
    actor: Actor,
    run_id: uuid.UUID | str,
    to: str | None = None,
    reason: str,
    version: int | None = None,
) -> Run:
    """Take a run to another version of its workflow, by the migrations that lead there. What is parked stays parked.

    to: the version (default the nearest that is here). version: the run's version that was seen, if it matters. Raises
    `MigrationMissing`, `MigrationFailed` naming node or key, `StepExecuting`. A failed run may be retried afterwards.
    """
    with verb(actor, "migrate", run_id, reason=reason):
        run = locked_run(run_id)
        policies.check_migrate(actor, run)
        if version is not None:
            check_version(run, version)
        check_reason(reason)
        target, steps = _chosen(run, to)
        _move(run, target, steps, actor=actor.as_dict(), reason=reason)
        run.refresh_from_db()
        return run


def preview_migration(*, actor: Actor, run_id: uuid.UUID | str, to: str | None = None) -> MigrationPreview:
    """What `migrate` would come to. Changes nothing; raises what it would raise."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    policies.check_migrate(actor, run)
    target, steps = _chosen(run, to)
    carried, facts = _carried(run, target, steps)
    migrating.migrate(facts, carried, steps, version=target.version, reason="")  # says why not
    was = {step.address: step.node for step in at.all_steps(facts.position)}
    return MigrationPreview(
        run,
        run.workflow_version,
        target.version,
        [steps[0].from_version, *(step.to_version for step in steps)],
        at.state(facts.position),
        at.state(carried.position),
        [step.node for step in at.live_steps(carried.position)],
        [(was[address], node) for address, node in carried.nodes.items()],
        [step.node for step in carried.begun],
        at.every_conflict(carried.position),
    )


def try_migration(
    *, actor: Actor, run_id: uuid.UUID | str, to: str | None = None
) -> tuple[MigrationPreview | None, NeedsMigration | None]:
    """The preview, or why the run cannot be migrated like this: for who looks for a way out."""
    try:
        return preview_migration(actor=actor, run_id=run_id, to=to), None
    except NeedsMigration as fault:
        return None, fault


def _chosen(run: Run, to: str | None) -> tuple[Workflow, list[Migration]]:
    here = base_of(run.workflow_version)
    if to is None:
        near = workflows.reachable(run.workflow, run.workflow_version)
        if not near:
            return workflows.way_on(run.workflow, run.workflow_version)  # says what is missing
        to = near[0]
    if to == here:
        raise UnknownVersion(Told("The run is at version {to} already.", to=to), version=to)
    return workflows.way_on(run.workflow, run.workflow_version, to)


# ---- by the sweeper


def look_after() -> list[At]:
    """Write down which runs wait for code, and let go on those whose code is back. Returns the versions that others have and this
    process has not. Three queries if nothing is the matter."""
    places = store.versions_of_live_runs()
    if not places:
        return []
    code = store.code_of_workers()
    for place, told in _missing(places, code):
        for run_id in store.runs_without_code([place], limit=MARKS_A_ROUND):
            _patiently(run_id, told)
    for run_id in store.marks_to_lift(code, places, limit=MARKS_A_ROUND):
        _lift(run_id)
    return [place for place in places if code.has_code(place) and _here(place) is None]


def _missing(places: Sequence[At], code: store.Code) -> Iterator[tuple[At, NeedsMigration]]:
    lost = [place for place in places if not code.can_take(place)]
    if (
        code.newest is None
    ):  # no worker at all: that is another trouble, unless workers would not start because of this
        names = {place.workflow for place in lost}
        rows = WorkflowVersion.objects.filter(name__in=names, refused__isnull=False)
        refused = {(row.name, row.version, row.fingerprint) for row in rows}
        lost = [place for place in lost if (place.workflow, place.version, place.fingerprint) in refused]
    for place in lost:
        yield place, _why(place)


def _here(place: At) -> Workflow | None:
    return workflows.pinned(place.workflow, place.version, place.fingerprint)


def _why(place: At) -> NeedsMigration:
    """Why nobody can go on with runs at a version."""
    row = WorkflowVersion.objects.filter(name=place.workflow, version=place.version).first()
    if row is not None and row.refused and row.fingerprint == place.fingerprint:
        return _changed(place, row.refused)
    if _here(place) is None:
        try:
            workflows.way_on(place.workflow, place.version)
        except NeedsMigration as told:
            return told
    return MigrationMissing(
        Told(
            "No worker has version {version} of {workflow}, nor a migration from it.",
            version=place.version,
            workflow=place.workflow,
        )
    )


def _changed(place: At, refused: dict[str, Any]) -> NeedsMigration:
    different = "; ".join(refused.get("changes", ()))
    return GraphChanged(
        Told(
            "{workflow} version {version} was deployed with another graph or schema and refused: {different}.",
            workflow=place.workflow,
            version=place.version,
            different=different,
        )
    )


def _patiently(run_id: uuid.UUID, told: NeedsMigration) -> None:
    try:
        note(run_id=run_id, refused=told)
    except Busy:
        logger.info("somebody holds the run; the sweeper tries again", extra={"run": str(run_id)})


def _lift(run_id: uuid.UUID) -> None:
    """A worker has the code again, or there is other code to try: the run goes on by itself."""
    try:
        _lifted(run_id)
    except Busy:
        logger.info("somebody holds the run; the sweeper tries again", extra={"run": str(run_id)})


def _lifted(run_id: uuid.UUID) -> None:
    with transaction.atomic(durable=True):
        run = store.lock_run(run_id)
        if store.mark_of(run.pk) is None:
            return
        commit(run, migrating.not_needed(run.workflow_version), actor=SYSTEM)
