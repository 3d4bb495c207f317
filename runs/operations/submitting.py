from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs import dispatch, policies, store, workflows
from runs.engine import Workflow, canonical, lanes, machine
from runs.engine.canonical import Json
from runs.engine.durations import seconds
from runs.engine.limits import OF_PROJECT, PRIORITIES, Place
from runs.engine.transition import Aggregate
from runs.errors import BadRequest, InputRequired, KeyReused, Problem, Told, Unprocessable, WorkflowError
from runs.models import IdempotencyRecord, Run, Slot, User
from runs.operations.door import commit, verb
from runs.operations.registering import version_for
from runs.policies import Actor

MAX_LABELS = 20
MAX_LABEL_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A request that may come twice. fingerprint: digest of its body, whatever the order of its keys."""

    endpoint: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """The run, and whether an earlier request with the same key had made it."""

    run: Run
    replayed: bool


def submit(
    *,
    actor: Actor,
    workflow: str,
    input: Json,
    version: str | None = None,
    labels: Mapping[str, str] | None = None,
    idempotency: Idempotency | None = None,
    deadline: str | float | None = None,
    priority: int | None = None,
    on_behalf_of: str | None = None,
) -> Submitted:
    """Start a run. Joins the caller's transaction: the run is there exactly if that commits, and is enqueued then.

    input: a JSON object that fits the workflow's input model. deadline: how long this run may take, in seconds or as "2h",
    people's time not counted (default the workflow's). priority: -100 to 100, among the project's own runs that stand in line
    (default the workflow's). on_behalf_of: username of a member who counts as the requester; who submits in their place may
    not decide either, and needs the scope `runs:submit_for_others`.

    Raises `UnknownWorkflow`, `Unprocessable` with pointers,
    `KeyReused` if the idempotency key came with another body.
    """
    with verb(actor, "submit", workflow, durable=False):
        policies.check_submit(actor)
        # Checked before the key is taken: a refused body does not use it up.
        chosen = workflows.get(workflow, version)
        if input is None:
            raise InputRequired()
        state, places = chosen.first_state(input), chosen.places(input)
        run = new_run(
            chosen,
            project=actor.project,
            requester=_member(actor, on_behalf_of) if on_behalf_of is not None else actor.user,
            submitted_by=None if on_behalf_of is None else actor.user,
            token=actor.token,
            input=input,
            labels=_checked_labels(labels),
            deadline=chosen.deadline if deadline is None else _checked_deadline(deadline),
            priority=chosen.priority if priority is None else checked_priority(priority),
        )
        places = stand(run, places)
        if idempotency and not store.take_key(
            actor.project.pk, idempotency.endpoint, idempotency.key, idempotency.fingerprint, run.pk
        ):
            return Submitted(earlier(actor, idempotency), replayed=True)
        told = {} if on_behalf_of is None else {"on_behalf_of": str(run.requester)}
        begin(run, chosen, state, actor={**actor.as_dict(), **told}, places=places)
        return Submitted(run, replayed=False)


def _member(actor: Actor, username: str) -> User:
    """The person for whom a run is submitted."""
    policies.check_submit_for(actor)
    canonical.check({"on_behalf_of": username})
    found = User.objects.filter(username=username, is_active=True, memberships__project=actor.project).first()
    if found is None:
        told = Told("{username!r} is no member of this project", username=username[:150])
        raise Unprocessable(f"{told}.", errors=[Problem("/on_behalf_of", "unknown_person", told)])
    return found


def new_run(chosen: Workflow, *, input: Json, **told: Any) -> Run:
    """The row of a run of a workflow, not stored yet."""
    told.setdefault("priority", chosen.priority)
    return Run(
        id=uuid.uuid4(),
        workflow=chosen.name,
        workflow_version=version_for(chosen),
        queue=chosen.queue,
        fingerprint=chosen.fingerprint,
        input=canonical.dumps(input),
        **told,
    )


def stand(run: Run, places: Sequence[Place]) -> list[Place]:
    """Say whether a new run has to stand in line. places: under the workflow's limits. Returns those under all limits."""
    most = run.project.max_concurrent_runs
    every = [*places] if most is None else [*places, Place(OF_PROJECT, "", most)]
    stand_in_line(run, every)
    return every


def stand_in_line(run: Run, places: Sequence[Place]) -> None:
    run.line = store.line_of(run.project_id, run.workflow, places)
    run.limited = bool(places)
    if run.limited or not dispatch.has_room(run.queue):
        run.admitted_at = None


def begin(
    run: Run, chosen: Workflow, state: dict[str, Json], *, actor: Json, places: Sequence[Place] = ()
) -> None:
    """Store a new run with its first transition: its entry is ready, and enqueued on commit unless it stands in line."""
    store.insert_run(run, slots=store.slots_for(run, places))
    document = lanes.first(chosen, state)
    facts = Aggregate(str(run.pk), chosen, run.status, 1, 1, document, {})
    commit(run, machine.start(facts), position=document, actor=actor)


def begin_fork(
    run: Run,
    position: dict[str, Any],
    facts: dict[str, Json],
    *,
    document: str,
    actor: Json,
    reason: str,
    draws: Json,
    slots: Sequence[Slot],
) -> None:
    """Store a fork with its first transition; what was to do in its origin is ready. document: the text of its position."""
    store.insert_run(run, draws=draws, slots=slots)
    transition = machine.fork(position, facts)
    commit(run, transition, position=position, document=document, actor=actor, reason=reason)


def _checked_deadline(deadline: str | float) -> float:
    try:
        length = seconds(deadline, where="submit", what="deadline")
    except WorkflowError as error:
        raise BadRequest(
            error.detail, errors=[Problem("/deadline", "invalid_duration", error.detail)]
        ) from None
    assert length is not None
    return length


def checked_priority(priority: int) -> int:
    if type(priority) is not int or priority not in PRIORITIES:
        detail = Told(
            "A priority is a whole number from {lowest} to {highest}.",
            lowest=PRIORITIES[0],
            highest=PRIORITIES[-1],
        )
        raise BadRequest(detail, errors=[Problem("/priority", "out_of_range", detail)])
    return priority


def _checked_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    given = dict(labels or {})
    canonical.check(given)
    if len(given) > MAX_LABELS or any(
        len(k) > MAX_LABEL_LENGTH or len(v) > MAX_LABEL_LENGTH for k, v in given.items()
    ):
        raise BadRequest(
            Told(
                "A run has at most {max_labels} labels of at most {max_label_length} characters.",
                max_labels=MAX_LABELS,
                max_label_length=MAX_LABEL_LENGTH,
            )
        )
    return given


def earlier(actor: Actor, idempotency: Idempotency) -> Run:
    """What an earlier request with this key has made. Raises `KeyReused` if its body was another."""
    record = IdempotencyRecord.objects.select_related("run").get(
        project=actor.project, endpoint=idempotency.endpoint, key=idempotency.key
    )
    if record.fingerprint != idempotency.fingerprint:
        raise KeyReused()
    return record.run
