"""What is made when a body begins to wait: approvals that are asked in the middle of code, and child runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Q

from runs import queries, store, workflows
from runs.engine import Workflow, canonical, limits, machine, schedule
from runs.engine.canonical import Json
from runs.engine.hours import STANDARD
from runs.engine.position import LiveStep
from runs.engine.stages import Lack, lacking
from runs.engine.status import RunStatus
from runs.engine.transition import Event, Transition
from runs.engine.waits import MAX_DEPTH, Place, Wanted, too_deep
from runs.engine.workflow import RISKS, ApprovalOptions
from runs.errors import (
    HitlError,
    InvalidCall,
    InvalidJson,
    JournalMismatch,
    RunCancelled,
    SchemaViolation,
    TooManyChildren,
    Unprocessable,
)
from runs.models import Approval, Branch, Child, Run
from runs.operations.door import commit
from runs.operations.finding import put_words
from runs.operations.submitting import begin, new_run, stand
from runs.policies import SYSTEM
from runs.store import Held

MAX_TREE: Final = 10_000  # runs under one first run


@dataclass(frozen=True, slots=True)
class FirstOf:
    """How a child run begins, and under which limits it stands."""

    workflow: Workflow
    state: dict[str, Json]
    places: list[limits.Place]


@dataclass(slots=True)
class Prepared:
    """Made before the run is locked: the rows of approvals, and how child runs begin."""

    approvals: dict[Place, Approval] = field(default_factory=dict)
    lacks: dict[Place, Lack] = field(default_factory=dict)
    children: dict[Place, FirstOf] = field(default_factory=dict)


def prepare(held: Held, wanted: Sequence[Wanted]) -> Prepared:
    """Check what a body waits for against what there is. Raises a `StepError`."""
    prepared = Prepared()
    for one in wanted:
        if one.document is not None and one.options is not None:
            before = Approval.objects.filter(_same_place(one), run=held.run_id, node=held.step.node)
            previous = before.order_by("-opened_at").first()
            run = asking_run(held)
            prepared.approvals[one.place] = approval_row(
                run, one.options, one.document, previous, node=held.step.node
            )
            lack = lack_of(run, one.options)
            if lack is not None:
                prepared.lacks[one.place] = lack
        elif one.child is not None:
            prepared.children[one.place] = _child(one)
    return prepared


def approval_row(
    run: Run,
    options: ApprovalOptions,
    document: Mapping[str, Any],
    previous: Approval | None,
    *,
    node: str,
) -> Approval:
    """The row of a new approval: whom it asks and by which rules, and how it is found; the store fills in the rest."""
    risks = [action["risk"] for action in document["actions"] if action["risk"]]
    first = options.asked[0]
    hours = (
        queries.hours_of(run.project_id, schedule.first_team(options)) if options.counts_hours else STANDARD
    )
    row = Approval(
        teams=first.teams,
        users=first.users,
        quorum=first.quorum,
        options=schedule.with_hours(options, hours),
        risk=max(risks, key=RISKS.index, default=""),
        previous=previous,
    )
    return put_words(run, row, node, document)


def lack_of(run: Run, options: ApprovalOptions) -> Lack | None:
    """Why nobody, or too few people, can answer what a run is about to ask, if that is so."""
    barred = queries.barred_names(run, options.as_dict())
    return lacking(options.asked, queries.known_people(run.project_id), barred=barred)


def asking_run(held: Held) -> Run:
    """The run of a step, with those who asked for it."""
    return Run.objects.select_related("requester", "submitted_by").get(pk=held.run_id)


def unanswerable(approval: Approval, lack: Lack, step: LiveStep) -> Event:
    """What the history says of a question that nobody can answer as things are."""
    facts: dict[str, Json] = {"approval": str(approval.pk), **lack.as_dict()}
    return Event("approval_unanswerable", facts, step.node, step.address)


def news_of(step: LiveStep, prepared: Prepared) -> list[Event]:
    """The same for what a body asks."""
    return [unanswerable(prepared.approvals[place], lack, step) for place, lack in prepared.lacks.items()]


def told(transition: Transition, news: Sequence[Event]) -> Transition:
    """A transition that tells of the questions it opens, if it opens any."""
    if transition.opened or transition.wanted:
        transition.events.extend(news)
    return transition


def rows(run: Run, held: Held, wanted: Sequence[Wanted], prepared: Prepared) -> dict[Place, Approval | Run]:
    """The rows that waits refer to, by place; child runs are started, or found if they were. The run is locked."""
    made: dict[Place, Approval | Run] = dict(prepared.approvals)
    for one in wanted:
        if one.child is not None:
            made[one.place] = _child_run(run, held, one, prepared)
    return made


def _same_place(one: Wanted) -> Q:
    first = one.occurrence.partition("~")[0]
    return Q(name=one.name) & (Q(occurrence=first) | Q(occurrence__startswith=f"{first}~"))


# ---- children


def _child(one: Wanted) -> FirstOf:
    assert one.child is not None
    try:
        chosen = workflows.get(one.child.workflow, one.child.version)
        return FirstOf(chosen, chosen.first_state(one.child.input), chosen.places(one.child.input))
    except (Unprocessable, InvalidJson) as error:
        raise SchemaViolation(
            f"The input of the child run of {one.name!r} cannot be taken: {error.detail}", errors=error.errors
        ) from None
    except HitlError as error:
        raise InvalidCall(error.detail) from None


def _child_run(parent: Run, held: Held, one: Wanted, prepared: Prepared) -> Run:
    address = held.step.address
    seen = store.visible_child(parent, address, one.place)
    if seen is not None:
        return _same(seen, one).run
    mended = _mended(parent, address, one)
    if mended is not None:
        return mended
    if store.has_stopped_ancestor(parent):
        raise RunCancelled()
    _check_tree(parent, one)
    everywhere = store.children_at(parent, address, one.place)
    done = _completed(parent, address, everywhere, one)
    if done is not None:
        return done
    for old in everywhere:
        _end(old)
    return _start(parent, held, one, prepared.children[one.place])


def _check_tree(parent: Run, one: Wanted) -> None:
    """A workflow that starts itself, by itself or through others, must come to an end."""
    if store.depth_of(parent, limit=MAX_DEPTH) >= MAX_DEPTH:
        raise too_deep(one.name)
    if store.size_of_tree(parent, limit=MAX_TREE) >= MAX_TREE:
        raise TooManyChildren(
            f"The first run of this tree has {MAX_TREE:,} runs under it already; {one.name!r} is not started.",
            child=one.name,
            limit=MAX_TREE,
        )


def _mended(parent: Run, address: str, one: Wanted) -> Run | None:
    """A child that had failed when it was waited for, and has completed since by a Retry or a rewind of its own."""
    first, again, _ = one.occurrence.partition("~")
    seen = store.visible_child(parent, address, (one.name, first)) if again else None
    if seen is None or seen.digest != one.digest or seen.run.status != RunStatus.COMPLETED:
        return None
    return seen.run


def _completed(parent: Run, address: str, everywhere: Sequence[Child], one: Wanted) -> Run | None:
    """A child that a branch left behind has completed, if this branch reuses what was done there."""
    done = [
        old.run for old in everywhere if old.run.status == RunStatus.COMPLETED and old.digest == one.digest
    ]
    if not done or not Branch.objects.get(run=parent, no=parent.branch).reuses(address, *one.place):
        return None
    return done[0]


def _same(child: Child, one: Wanted) -> Child:
    if child.digest != one.digest:
        raise JournalMismatch(
            f"The child run of {one.name!r} ({one.occurrence}) was started with another input than it is asked for now.",
            call=one.name,
            occurrence=one.occurrence,
            recorded=canonical.loads(child.run.input),
            asked=one.child.input if one.child else None,
        )
    return child


def _end(old: Child) -> None:
    """Of one place, one child at a time is under way."""
    if old.run.finished_at is None and old.on_parent_cancel == "cancel":
        run = store.lock_run(old.run_id, patience=None)
        if not run.is_terminal and run.ending is None:
            commit(run, machine.cancel(run.status, reason="parent_rewound"), actor=SYSTEM)


def _start(parent: Run, held: Held, one: Wanted, first: FirstOf) -> Run:
    assert one.child is not None
    run = new_run(
        first.workflow,
        project=parent.project,
        requester=parent.requester,
        submitted_by_id=parent.submitted_by_id,
        token=parent.token,
        input=one.child.input,
        parent=parent,
        root_id=parent.root_id or parent.pk,
    )
    places = stand(run, first.places)
    begin(run, first.workflow, first.state, actor=SYSTEM, places=places)
    store.insert(
        Child(
            run=run,
            parent=parent,
            branch=parent.branch,
            address=held.step.address,
            name=one.name,
            occurrence=one.occurrence,
            after=parent.head,
            digest=one.digest,
            on_parent_cancel=one.child.on_parent_cancel,
        )
    )
    return run
