"""Fork: a new run that starts from a checkpoint of another, and the names of branches."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runs import policies, store
from runs.engine import Workflow, canonical, forking, machine
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.limits import Place
from runs.engine.steering import lane_to_edit
from runs.errors import BadRequest, Told, UnknownBranch
from runs.models import Branch, JournalEntry, Run, Slot
from runs.operations.door import aggregate, check_reason, commit, locked_run, pinned_code, verb
from runs.operations.previewing import asked_at, rewindable, still_there
from runs.operations.registering import version_for
from runs.operations.submitting import Idempotency, begin_fork, earlier, stand_in_line
from runs.operations.versioning import Standing
from runs.policies import Actor

MAX_LABEL = 100


@dataclass(frozen=True, slots=True)
class Forked:
    """The fork, and whether an earlier request with the same key had made it."""

    run: Run
    replayed: bool


def fork(
    *,
    actor: Actor,
    run_id: uuid.UUID | str,
    checkpoint: int,
    reason: str,
    changes: Mapping[str, Json] | None = None,
    lane: str | None = None,
    idempotency: Idempotency | None = None,
) -> Forked:
    """Start a new run from a checkpoint of another, whatever that one is doing; it acts for the same requester.

    It has a history, a mailbox and keys of its own. It starts with the calls before the checkpoint; no decision is valid in
    it. changes: state to replace at that point; lane: in which lane, if there are several.
    """
    with verb(actor, "fork", run_id):
        origin = locked_run(
            run_id
        )  # lest it be removed, compacted or erased between what is read and what is written
        policies.check_fork(actor, origin)
        check_reason(reason)
        canonical.check(dict(changes or {}))
        stood = rewindable(origin, checkpoint)
        run = _fork_of(origin, checkpoint, stood.workflow)
        if idempotency and not store.take_key(
            actor.project.pk, idempotency.endpoint, idempotency.key, idempotency.fingerprint, run.pk
        ):
            return Forked(earlier(actor, idempotency), replayed=True)
        _begin(origin, run, stood, actor=actor, reason=reason)
        if changes:
            _edit(run, actor, changes, reason, lane)
        return Forked(run, replayed=False)


def label_branch(*, actor: Actor, run_id: uuid.UUID | str, branch: int, label: str) -> Branch:
    """Give a branch a name that people know it by; an empty one takes it away. The run itself does not change."""
    with verb(actor, "label_branch", run_id):
        run = locked_run(run_id)
        policies.check_steer(actor, run)
        canonical.check(label)
        if len(label) > MAX_LABEL:
            raise BadRequest(Told("A label has at most {max_label} characters.", max_label=MAX_LABEL))
        found = Branch.objects.filter(run=run, no=branch).first() if 0 < branch < 2**31 else None
        if found is None:
            raise UnknownBranch(Told("The run has no branch {branch}.", branch=branch), branch=branch)
        found.label = label.strip()
        Branch.objects.filter(run=run, no=branch).update(label=found.label)
        return found


def _fork_of(origin: Run, checkpoint: int, workflow: Workflow) -> Run:
    """The row of a fork, not stored yet, at the code its origin goes on with. It belongs to no parent: nobody waits for it."""
    own = pinned_code(origin) is workflow
    return Run(
        id=uuid.uuid4(),
        project_id=origin.project_id,
        workflow=origin.workflow,
        workflow_version=origin.workflow_version if own else version_for(workflow),
        fingerprint=origin.fingerprint if own else workflow.fingerprint,
        forked_from=origin,
        forked_checkpoint=checkpoint,
        requester_id=origin.requester_id,
        submitted_by_id=origin.submitted_by_id,
        token_id=origin.token_id,
        labels=origin.labels,
        input=origin.input,
        deadline=origin.deadline,
        queue=origin.queue,
        priority=origin.priority,
    )


def _begin(origin: Run, run: Run, stood: Standing, *, actor: Actor, reason: str) -> None:
    checkpoint, position, workflow = run.forked_checkpoint, stood.position, stood.workflow
    assert checkpoint is not None
    under_way = at.all_steps(position)
    forking.detach(workflow, position, asked_at(position))
    kept = still_there(under_way, position)
    limits = store.lineage_at(origin.pk, checkpoint)
    handed = store.handed_down(origin.pk, limits, kept)
    document = canonical.dumps(position)
    facts: dict[str, Json] = {
        "from": str(origin.pk),
        "checkpoint": checkpoint,
        "reason": reason,
        "digest": canonical.digest_of(document),
    }
    if stood.way:
        facts["migrated"] = [stood.way[0].from_version, *(step.to_version for step in stood.way)]
    begin_fork(
        run,
        position,
        facts,
        document=document,
        actor=actor.as_dict(),
        reason=reason,
        slots=_stand(origin, run),
        draws=_draws(origin, next(iter(limits)), handed.calls),
    )
    store.hand_down(run, handed)


def _stand(origin: Run, run: Run) -> list[Slot]:
    """A fork stands under the limits of its origin, and has to be let in for itself."""
    slots = store.same_slots(run, origin)
    stand_in_line(run, [Place(slot.name, slot.key, slot.most) for slot in slots])
    return slots


def _draws(origin: Run, no: int, handed: Sequence[JournalEntry]) -> dict[str, Json] | None:
    """By address of a step that goes on: whose chance it draws, so that what it asks again is what it asked. no: the branch of
    the origin on which it stood."""
    if not handed:
        return None
    branch = Branch.objects.get(run=origin, no=no)
    own: list[Json] = [str(origin.pk), branch.generation]
    told = branch.draws or {}
    return {row.address: told.get(row.address, own) for row in handed}


def _edit(run: Run, actor: Actor, changes: Mapping[str, Json], reason: str, lane: str | None) -> None:
    position = store.read_position(run.pk, run.head)
    chosen = lane_to_edit(position, lane, status=run.status)
    facts = aggregate(run, position, lane=chosen)
    policies.check_edit(actor, facts.workflow_of(chosen).schema, changes)
    transition = machine.edit_state(facts, chosen, changes, reason=reason)
    commit(run, transition, position=facts.position, actor=actor.as_dict(), reason=reason)
