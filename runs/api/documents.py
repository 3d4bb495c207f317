"""What the API answers with: the shape of every document, and how it is made from rows.

The shapes are the description of the API too (`runs.api.schema`), so a field that is not here is not answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from runs import policies, queries, sights, store
from runs.api.shapes import (
    Cursor,
    Id,
    Object,
    PersonDocument,
    Time,
    exact,
    maybe_id,
    maybe_time,
    person,
    time_text,
)
from runs.engine import canonical
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.files import REFERENCE
from runs.engine.patch import difference
from runs.engine.redaction import Sight
from runs.engine.status import ApprovalStatus, RunStatus, StepStatus
from runs.engine.workflow import ApprovalOptions
from runs.models import (
    Approval,
    Attachment,
    Checkpoint,
    Event,
    JournalEntry,
    LegalHold,
    Run,
    Signal,
    Step,
    Vote,
)
from runs.policies import Actor
from runs.queries import CallPlace, Link, Moment, Spent, Standing, Visit
from runs.store import Header, Use


@exact
class WaitDocument(TypedDict):
    """Something a run waits for; of an approval also whom it asks."""

    kind: Annotated[
        str, Field(description="`slot`: it stands in line, see `line` of the run.", examples=["approval"])
    ]
    node: str
    since: Time
    due: Time | None
    approval: NotRequired[Id]
    who: NotRequired[list[str]]
    quorum: NotRequired[int]
    signal: NotRequired[Annotated[str, Field(description="The name of the signal that is waited for.")]]
    child: NotRequired[Id]
    version: NotRequired[
        Annotated[str, Field(description="needs_migration: the version of the workflow whose code is gone.")]
    ]
    code: NotRequired[
        Annotated[
            str,
            Field(
                description="needs_migration: why, by the code of the error.", examples=["migration_missing"]
            ),
        ]
    ]
    detail: NotRequired[str]
    errors: NotRequired[list[Object]]
    step: NotRequired[Annotated[str, Field(description="The node that has no counterpart.")]]


@exact
class UsageDocument(TypedDict):
    """What was used of paid models, each amount once however often the work was repeated."""

    model_tokens_in: int
    model_tokens_out: int
    cost: Annotated[
        dict[str, str], Field(description="Exact decimals by currency.", examples=[{"USD": "0.0042"}])
    ]


@exact
class ProgressDocument(TypedDict):
    """How far an executing step says it is."""

    done: float
    total: float | None
    note: str
    at: Time


@exact
class RunSummary(TypedDict):
    """A run, without its documents."""

    id: Id
    workflow: str
    workflow_version: str
    status: RunStatus
    version: Annotated[int, Field(description="Raised by every change that concerns the run as a whole.")]
    epoch: int
    branch: int
    head_checkpoint: Annotated[int, Field(description="The checkpoint at which the run stands.")]
    waiting_for: Annotated[
        list[WaitDocument], Field(description="Why it waits: for what, since when, until when.")
    ]
    error: Annotated[Object | None, Field(description="Why it failed.")]
    labels: dict[str, str]
    requester: PersonDocument
    queue: Annotated[str, Field(description="Workers that listen to it do the run.")]
    priority: int
    admitted_at: Annotated[
        Time | None, Field(description="Since when it may be at work; null while it stands in line or rests.")
    ]
    created_at: Time
    started_at: Time | None
    updated_at: Time
    finished_at: Time | None
    deadline: Annotated[
        float | None,
        Field(description="Seconds that the run may take; time in which it waits for people is not counted."),
    ]
    deadline_at: Annotated[
        Time | None,
        Field(description="When it fails unless something stops its clock; null while that stands."),
    ]
    time_left: Annotated[float | None, Field(description="Seconds that are left while the clock stands.")]
    compacted_at: Annotated[
        Time | None, Field(description="Since when only some of its checkpoints are there.")
    ]
    erased_at: Annotated[Time | None, Field(description="Since when its content is gone for good.")]


@exact
class HoldDocument(TypedDict):
    """While it stands, nothing of the run is removed, compacted or erased."""

    reason: str
    author: PersonDocument
    since: Time


@exact
class ErasureDocument(TypedDict):
    """Who erased what a run says, and why."""

    by: Annotated[Any, Field(description="Who did it, as in the history.")]
    reason: str


@exact
class ActionDocument(TypedDict):
    """One thing that people are asked about."""

    key: str
    tool: str
    args: Object
    schema: Annotated[Any, Field(description="JSON Schema of the arguments, or null.")]
    allowed: Annotated[
        list[Literal["approve", "edit", "reject", "respond"]], Field(description="Answers that are offered.")
    ]
    editable: Annotated[list[str], Field(description="JSON Pointers that an edit may change.")]
    hidden: Annotated[
        list[str],
        Field(
            description="JSON Pointers of arguments that your roles do not see. An edit leaves them as they are shown."
        ),
    ]
    effect: Literal["none", "reversible", "irreversible"]
    risk: Literal["low", "medium", "high", "critical"] | None
    unchecked: Annotated[
        str, Field(description="Why its schema cannot be used and no edit is offered; empty if it can.")
    ]


@exact
class Fact(TypedDict):
    label: str
    value: Any


@exact
class DecisionDocument(TypedDict):
    key: str
    type: Literal["approve", "edit", "reject", "respond"]
    args: Any
    message: str


@exact
class VoteDocument(TypedDict):
    """One person's answer. `user` is null where the clock answered."""

    user: PersonDocument | None
    in_place_of: Annotated[
        PersonDocument | None, Field(description="Who was away, if a substitute answered.")
    ]
    stage: int
    version: Annotated[int, Field(description="The version that was answered.")]
    outcome: str
    decisions: list[DecisionDocument]
    comment: str
    edited: bool
    decisive: bool
    counts: Annotated[bool, Field(description="False once the action was changed after this answer.")]
    at: Time


@exact
class StageDocument(TypedDict):
    """People who are asked together, and how many of them must agree."""

    teams: list[str]
    users: list[str]
    quorum: int


@exact
class ApprovalDocument(TypedDict):
    """A question to people. Decide with the `version` and, to be quite sure, the `digest` of what you saw."""

    id: Id
    run: Id
    workflow: str
    requester: PersonDocument
    node: str
    branch: int
    status: ApprovalStatus
    version: int
    digest: str
    title: str
    reason: Annotated[str, Field(description="From the workflow's code.")]
    agent_note: Annotated[str, Field(description="The agent's own words: not verified.")]
    facts: list[Fact]
    actions: list[ActionDocument]
    risk: str
    teams: Annotated[list[str], Field(description="Asked now, with `users`; nobody named: every reviewer.")]
    users: list[str]
    quorum: int
    stage: Annotated[int, Field(description="Which of the stages is asked, from 0.")]
    stages: Annotated[list[StageDocument], Field(description="Who is asked, one after the other.")]
    level: Annotated[int, Field(description="How often others were asked too because the time was over.")]
    assignee: Annotated[PersonDocument | None, Field(description="Who works on it: others cannot answer.")]
    assigned_until: Time | None
    votes: list[VoteDocument]
    may_decide: Annotated[bool, Field(description="Whether you may decide it as you are signed in.")]
    outcome: str
    closed_reason: str
    on_timeout: str
    reasons: Annotated[list[str], Field(description="Which the workflow offers to choose from.")]
    opened_at: Time
    due_at: Time | None
    remind_at: Annotated[Time | None, Field(description="When people are reminded next.")]
    closed_at: Time | None
    previous: Annotated[Id | None, Field(description="The approval that this one asks again for.")]


@exact
class WriteDocument(TypedDict):
    node: str
    address: str
    value: Any


@exact
class ConflictDocument(TypedDict):
    """Two writes of one key by lanes that had not seen each other's. `state` shows the value from before the split."""

    key: str
    steps: Annotated[list[WriteDocument], Field(description="Both sides, in lane order.")]


@exact
class LaneDocument(TypedDict):
    """One of the paths of a run that are active at once."""

    lane: Annotated[str, Field(description="Names the lane; `0` while there is only one.")]
    node: Annotated[str, Field(description="Where it stands; `outer/inner` in a nested workflow.")]
    address: Annotated[str, Field(description="The step it stands at.")]
    status: Annotated[
        Literal["live", "arrived", "ended"],
        Field(
            description="Live: its step is to do, under way or waiting. Arrived: done, and waiting at a join."
        ),
    ]
    waits_at: Annotated[
        str | None, Field(description="Arrived: the node at which it waits for its siblings.")
    ]
    version: Annotated[
        int,
        Field(
            description="Raised by every commit of this lane and every edit of its state; not by siblings."
        ),
    ]
    state: Annotated[Object, Field(description="The state as this lane sees it.")]
    conflicts: Annotated[list[ConflictDocument], Field(description="In what it has joined.")]
    approvals: Annotated[list[Id], Field(description="What it asks of people now.")]


@exact
class RelatedRun(TypedDict):
    """A parent or a child. node: where the parent started the child."""

    id: Id
    workflow: str
    status: RunStatus
    node: str


@exact
class ForkedFrom(TypedDict):
    """run is null once the origin is gone."""

    run: Id | None
    checkpoint: int


@exact
class ForkDocument(TypedDict):
    id: Id
    workflow: str
    status: RunStatus
    checkpoint: Annotated[int, Field(description="Of this run.")]


@exact
class LimitUse(TypedDict):
    """A limit, for the key of this run."""

    workflow: Annotated[str | None, Field(description="Whose limit it is; null: the project's.")]
    name: str
    key: Annotated[
        str | None,
        Field(
            description="By which runs are counted; null: all. It is made of the input: hidden with what is hidden there."
        ),
    ]
    limit: int
    per: Annotated[float | None, Field(description="Of a rate: within so many seconds.")]
    taken: Annotated[int, Field(description="How many are at work, or have started within the time.")]
    free_at: Annotated[Time | None, Field(description="Of a rate that is used up: when the next may start.")]


@exact
class LineDocument(TypedDict):
    """Where a run stands in line, and what for. No full limit: its turn has not come yet, workers are busy."""

    before: Annotated[int, Field(description="How many stand before it in its line, counted up to 1,000.")]
    limits: Annotated[list[LimitUse], Field(description="Those of which it has no slot yet.")]


@exact
class PausedDocument(TypedDict):
    """Who paused a run, and why."""

    by: str
    reason: str
    since: Time
    children: Annotated[bool, Field(description="Whether everything below is paused too.")]
    with_run: Annotated[Id | None, Field(description="The run above that it is paused with.")]


@exact
class EndingDocument(TypedDict):
    """What a run ends as, once its calls are taken back."""

    status: Literal["cancelled", "failed"]
    reason: str
    calls: Annotated[int, Field(description="How many calls are taken back in all.")]


@exact
class RunDocument(RunSummary):
    """A run, whole."""

    line: Annotated[LineDocument | None, Field(description="Null unless it stands in line.")]

    input: Annotated[Object | None, Field(description="Null only if it was erased.")]
    state: Annotated[
        Object | None,
        Field(
            description="The state at the head: of all lanes, as if they ended now. Null only if it is unreadable or erased."
        ),
    ]
    lanes: Annotated[
        list[LaneDocument],
        Field(
            description="In lane order; those of a nested workflow after the one around them. Empty at the end."
        ),
    ]
    conflicts: Annotated[list[ConflictDocument], Field(description="Keys that lanes cannot agree on.")]
    unreadable: Annotated[
        str, Field(description="Why the state cannot be read; empty if it can. Rewind past it.")
    ]
    stored_as: Annotated[
        str,
        Field(
            description="The version as which state and lanes are stored, if that is not the one that the run would go on with."
        ),
    ]
    not_migrated: Annotated[
        str,
        Field(
            description="Why they are shown as they are stored; empty if they were migrated for this answer."
        ),
    ]
    next: Annotated[list[str], Field(description="Nodes that are to do, or waiting.")]
    output: Any
    usage: Annotated[UsageDocument, Field(description="Of all its steps, on all branches.")]
    redacted: Annotated[
        bool,
        Field(
            description="Whether your roles do not see everything of this run: what is hidden is "
            '`{"$redacted": [roles that see it]}`.'
        ),
    ]
    pending_approvals: list[ApprovalDocument]
    parent: Annotated[RelatedRun | None, Field(description="The run that started this one.")]
    children: Annotated[list[RelatedRun], Field(description="Runs that this one started, at most 200.")]
    forked_from: Annotated[ForkedFrom | None, Field(description="Where this run began, if it is a fork.")]
    forks: Annotated[list[ForkDocument], Field(description="Runs that began at one of this, at most 200.")]
    paused: Annotated[PausedDocument | None, Field(description="Who paused it, and why; null if it is not.")]
    ending: Annotated[
        EndingDocument | None, Field(description="While it takes back its calls: what it then ends as.")
    ]

    hold: Annotated[HoldDocument | None, Field(description="The legal hold it is under.")]
    erasure: Annotated[ErasureDocument | None, Field(description="By whom and why its content was erased.")]


@exact
class SignalDocument(TypedDict):
    """A message to a run. `taken`: whether something that waited for it has it; a rewind may give it back."""

    id: Annotated[str, Field(description="The sender's, or one that was made.")]
    no: Annotated[int, Field(description="Its number in the run.")]
    name: str
    payload: Any
    taken: bool
    sender: Annotated[Object, Field(description="Who sent it.")]
    received_at: Time


@exact
class SignalPage(TypedDict):
    items: list[SignalDocument]
    next: int | None


@exact
class AttachmentDocument(TypedDict):
    """A file of a run. `reference`: what refers to it in state, arguments and signals."""

    id: str
    run: str
    name: Annotated[str, Field(description="A label, no path.")]
    type: Annotated[str, Field(description="An image by its bytes; else as it was told.")]
    size: Annotated[int, Field(description="Bytes.")]
    digest: Annotated[str, Field(description="SHA-256 of the bytes, in hex.")]
    node: Annotated[str, Field(description="In which it was attached; empty if from outside.")]
    author: Annotated[Object | None, Field(description="Who gave it from outside.")]
    created_at: Time
    reference: Object


@exact
class AttachmentPage(TypedDict):
    """Files of a run. `hidden`: there are some that you may not see."""

    items: list[AttachmentDocument]
    hidden: bool


@exact
class RunPage(TypedDict):
    items: list[RunSummary]
    next: Cursor


@exact
class RunExported(RunSummary):
    """A run, without its documents, and by which fields of its state it is found."""

    searchable: Annotated[dict[str, str], Field(description="As it last came to rest.")]


@exact
class RunExportPage(TypedDict):
    items: list[RunExported]
    next: Cursor


@exact
class ApprovalPage(TypedDict):
    items: list[ApprovalDocument]
    next: Cursor


@exact
class Decided(TypedDict):
    """The approval and the run after the answer. Open still: more people have to agree."""

    approval: ApprovalDocument
    run: RunDocument


@exact
class EventDocument(TypedDict):
    """One row of the history. `hash` covers the row before, this one's place and time, and `payload_hash`."""

    seq: int
    kind: str
    at: Time
    branch: int
    epoch: int
    checkpoint: int | None
    node: str
    address: str
    actor: Annotated[Any, Field(description="Who did it; null for the engine.")]
    payload: Any
    payload_hash: str
    hash: str


@exact
class EventPage(TypedDict):
    items: list[EventDocument]
    next: Annotated[int | None, Field(description="`after` of the next page; null on the last one.")]


@exact
class CheckpointSummary(TypedDict):
    no: int
    branch: int
    parent: int | None
    epoch: int
    kind: Literal["input", "step", "answer", "edit", "signal", "migration"]
    node: str
    address: str
    author: Annotated[Any, Field(description="Who, if a person made it.")]
    reason: str
    created_at: Time


@exact
class CheckpointPage(TypedDict):
    items: list[CheckpointSummary]
    next: Annotated[int | None, Field(description="`after` of the next page; null on the last one.")]


@exact
class PatchOp(TypedDict):
    op: Literal["add", "remove", "replace"]
    path: str
    value: NotRequired[Any]


@exact
class CheckpointDocument(CheckpointSummary):
    """A checkpoint with the state at it, and what it changed against its parent (RFC 6902)."""

    state: Object
    lanes: list[LaneDocument]
    conflicts: list[ConflictDocument]
    next: list[str]
    patch: list[PatchOp]
    stored_as: Annotated[
        str,
        Field(
            description="The version as which it is stored, if that is not the one that the run goes on with."
        ),
    ]
    not_migrated: Annotated[
        str, Field(description="Why it is shown as it is stored; empty if it was migrated for this answer.")
    ]


@exact
class CallDocument(TypedDict):
    """A committed call, or the answer to something that was waited for: never computed or asked again on this branch."""

    name: str
    occurrence: str
    kind: Literal["call", "sleep", "signal", "answer", "child", "first"]
    effect: Literal["none", "reversible", "irreversible"]
    result: Any
    attempt: int
    args_digest: str
    arguments: Annotated[
        str, Field(description="The arguments as canonical JSON; cut with … where that is long.")
    ]
    undo: Annotated[str | None, Field(description="The function that takes it back.")]
    taken_back: Annotated[
        StepStatus | None,
        Field(
            description="Of the step that takes it back: `completed` if it is undone, `failed` if it could not be, `cancelled` "
            "if a person left it as it is; null if nobody has begun to."
        ),
    ]
    usage: UsageDocument
    key: str
    reused_from: Annotated[
        int | None,
        Field(description="The branch whose result answered it; 0: the run that this was forked from."),
    ]
    started_at: Time
    ended_at: Time


@exact
class CallReference(TypedDict):
    branch: int
    address: str
    name: str
    occurrence: str


@exact
class StepDocument(TypedDict):
    """One visit of one node. attempt counts failures and crashes; entries counts every time a worker took it."""

    address: str
    lane: Annotated[
        str, Field(description="`outer/inner` in a nested workflow, `lane#2` for item 2 of a fan-out.")
    ]
    node: str
    branch: int
    visit: int
    status: StepStatus
    epoch: int
    attempt: int
    failures: int
    crashes: int
    entries: int
    error: Object | None
    progress: ProgressDocument | None
    usage: UsageDocument
    checkpoint: int | None
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    calls: list[CallDocument]
    undoes: Annotated[CallReference | None, Field(description="Of a step that takes a call back: that call.")]
    effects: Annotated[list[str], Field(description="Names of the calls that did something to the world.")]


@exact
class StepPage(TypedDict):
    items: list[StepDocument]
    next: Cursor


@exact
class ProblemKind(TypedDict):
    code: str
    status: int
    title: str
    type: str


@exact
class ProblemKinds(TypedDict):
    items: list[ProblemKind]


# `in` is a word of the language, so this member cannot be written in a class.
Where = TypedDict(
    "Where",
    {
        "in": NotRequired[
            Annotated[
                Literal["input", "args", "changes", "state", "payload", "query", "header"],
                Field(description="Where the pointer starts, if not at the top of the body."),
            ]
        ]
    },
)


@exact
class FaultDocument(Where):
    """One fault: where, which kind, in words."""

    path: Annotated[str, Field(description="JSON Pointer (RFC 6901).", examples=["/amount"])]
    code: str
    message: str


class ProblemDocument(TypedDict):
    """An error (RFC 9457). Further members hold what else is known, such as `winner` or the present `version`."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Field(description="Stable; every code is listed at /api/v1/problems.")]
    errors: NotRequired[list[FaultDocument]]


# ---- from rows


def run_summary(run: Run, *, sight: Sight) -> RunSummary:
    sights.run(run, sight)
    return {
        "id": str(run.pk),
        "workflow": run.workflow,
        "workflow_version": run.workflow_version,
        "status": RunStatus(run.status),
        "version": run.version,
        "epoch": run.epoch,
        "branch": run.branch,
        "head_checkpoint": run.head,
        "waiting_for": [*run.waiting_for, *_slot(run)],
        "error": run.error,
        "labels": run.labels,
        "requester": person(run.requester),
        "queue": run.queue,
        "priority": run.priority,
        "admitted_at": maybe_time(run.admitted_at),
        "created_at": time_text(run.created_at),
        "started_at": maybe_time(run.started_at),
        "updated_at": time_text(run.updated_at),
        "finished_at": maybe_time(run.finished_at),
        "deadline": run.deadline,
        "deadline_at": maybe_time(run.deadline_at),
        "time_left": run.time_left,
        "compacted_at": maybe_time(run.compacted_at),
        "erased_at": maybe_time(run.erased_at),
    }


def _slot(run: Run) -> list[WaitDocument]:
    """What a run in line waits for."""
    return (
        [{"kind": "slot", "node": "", "since": time_text(run.updated_at), "due": None}]
        if run.is_in_line
        else []
    )


def _line(standing: Standing | None, sight: Sight) -> LineDocument | None:
    if standing is None:
        return None
    return {"before": standing.before, "limits": [_limit_use(use, sight) for use in standing.uses]}


def _limit_use(use: Use, sight: Sight) -> LimitUse:
    return {
        "workflow": use.workflow or None,
        "name": use.name,
        "key": sight.text(use.key) or None,
        "limit": use.most,
        "per": use.per,
        "taken": use.taken,
        "free_at": maybe_time(use.until),
    }


def usage_document(spent: Spent) -> UsageDocument:
    return {
        "model_tokens_in": spent.model_tokens_in,
        "model_tokens_out": spent.model_tokens_out,
        "cost": {currency: f"{amount.normalize():f}" for currency, amount in sorted(spent.cost.items())},
    }


def run_document(run: Run, *, actor: Actor) -> RunDocument:
    """A run, whole. Reads what it stands at, what it asks of people, and its relations: two queries for one that has none of
    these, eight at most, and two for one that stands in line."""
    found, fault = queries.head_as_here(run)
    head = found.position if found else None
    has = store.relations_of(run.pk)
    pending = queries.pending(run.pk) if has.approvals else []
    sight = sights.of(actor, run)
    return {
        **run_summary(run, sight=sight),
        "line": _line(queries.standing_of(run), sight),
        "input": canonical.loads(run.input),
        "state": None if head is None else sight.of_state(at.state(head)),
        "lanes": [] if head is None else _lanes(head, pending, sight),
        "conflicts": [] if head is None else _conflicts(head, sight),
        "unreadable": fault,
        "stored_as": found.stored_as if found else "",
        "not_migrated": sight.text(found.fault) if found else "",
        "next": [] if head is None else live_nodes(head),
        "output": None if run.output is None else canonical.loads(run.output),
        "usage": usage_document(queries.spent_by(run.pk) if has.usage else Spent()),
        "redacted": sight.narrow,
        "pending_approvals": [approval_document(approval, actor=actor) for approval in pending],
        "parent": _related(queries.parent_of(run)),
        "children": [_related_run(child) for child in queries.children_of(run.pk)] if has.children else [],
        "paused": _paused(run),
        "ending": _ending(run),
        "hold": _hold(queries.hold_of(run)),
        "erasure": _erasure(run),
        "forked_from": None
        if run.forked_checkpoint is None
        else {"run": maybe_id(run.forked_from_id), "checkpoint": run.forked_checkpoint},
        "forks": [_fork(fork) for fork in queries.forks_of(run.pk)] if has.forks else [],
    }


def _paused(run: Run) -> PausedDocument | None:
    if run.paused is None:
        return None
    told = run.paused
    return {
        "by": str(told["by"]),
        "reason": told["reason"],
        "since": told["since"],
        "children": told["children"],
        "with_run": told.get("with"),
    }


def _ending(run: Run) -> EndingDocument | None:
    if run.ending is None:
        return None
    return {"status": run.ending["as"], "reason": run.ending["reason"], "calls": run.ending["calls"]}


def _fork(fork: Run) -> ForkDocument:
    assert fork.forked_checkpoint is not None
    return {
        "id": str(fork.pk),
        "workflow": fork.workflow,
        "status": RunStatus(fork.status),
        "checkpoint": fork.forked_checkpoint,
    }


def _related(link: Link | None) -> RelatedRun | None:
    return None if link is None else _related_run(link)


def _related_run(link: Link) -> RelatedRun:
    run = link.run
    return {"id": str(run.pk), "workflow": run.workflow, "status": RunStatus(run.status), "node": link.node}


def attachment_document(row: Attachment) -> AttachmentDocument:
    told = {"name": row.name, "type": row.type, "size": row.content.size, "digest": row.content.digest}
    return {
        "id": str(row.pk),
        "run": str(row.run_id),
        "name": row.name,
        "type": row.type,
        "size": row.content.size,
        "digest": row.content.digest,
        "node": row.node,
        "author": row.author,
        "created_at": time_text(row.created_at),
        "reference": {REFERENCE: str(row.pk), **told},
    }


def signal_document(signal: Signal, *, taken: Collection[int], sight: Sight) -> SignalDocument:
    sights.signal(signal, sight)
    return {
        "id": signal.sent_id,
        "no": signal.no,
        "name": signal.name,
        "payload": canonical.loads(signal.payload),
        "taken": signal.no in taken,
        "sender": signal.sender,
        "received_at": time_text(signal.received_at),
    }


def _hold(hold: LegalHold | None) -> HoldDocument | None:
    if hold is None:
        return None
    return {"reason": hold.reason, "author": person(hold.author), "since": time_text(hold.created_at)}


def _erasure(run: Run) -> ErasureDocument | None:
    return None if run.erasure is None else {"by": run.erasure["by"], "reason": run.erasure["reason"]}


def _lanes(head: dict[str, Any], pending: Sequence[Approval], sight: Sight) -> list[LaneDocument]:
    asked: dict[str, list[str]] = {}
    lane_of = {step.address: step.lane.partition("#")[0] for step in at.all_steps(head)}
    for approval in pending:
        asked.setdefault(lane_of.get(approval.address, ""), []).append(str(approval.pk))
    rows: Any = [
        {
            **row,
            "state": sight.of_lane(row["state"]),
            "conflicts": [_lane_conflict(found, sight) for found in row["conflicts"]],
            "approvals": asked.get(str(row["lane"]), []),
        }
        for row in at.lanes(head)
    ]
    return list(rows)


def _lane_conflict(found: dict[str, Any], sight: Sight) -> dict[str, Any]:
    steps = [
        {**step, "value": sight.of_lane({found["key"]: step["value"]})[found["key"]]}
        for step in found["steps"]
    ]
    return {**found, "steps": steps}


def _conflicts(position: dict[str, Any], sight: Sight) -> list[ConflictDocument]:
    found: Any = [sights.conflict(conflict, sight).as_dict() for conflict in at.every_conflict(position)]
    return list(found)


def approval_document(approval: Approval, *, actor: Actor) -> ApprovalDocument:
    sight = sights.of(actor, approval.run)
    actions: list[Any] = [
        {"unchecked": "", **action, "hidden": sight.hidden_args(action)}
        for action in approval.content["actions"]
    ]
    content = sights.approval(approval, sight).content
    for action, shown in zip(actions, content["actions"], strict=True):
        action["args"] = shown["args"]
    return {
        "id": str(approval.pk),
        "run": str(approval.run_id),
        "workflow": approval.run.workflow,
        "requester": person(approval.run.requester),
        "node": approval.node,
        "branch": approval.branch,
        "status": ApprovalStatus(approval.status),
        "version": approval.version,
        "digest": approval.digest,
        "title": content["title"],
        "reason": content["reason"],
        "agent_note": content["agent_note"],
        "facts": content["facts"],
        "actions": actions,
        "risk": approval.risk,
        "teams": approval.teams,
        "users": approval.users,
        "quorum": approval.quorum,
        "stage": approval.stage,
        "stages": [
            {"teams": stage.teams, "users": stage.users, "quorum": stage.quorum}
            for stage in ApprovalOptions.of(approval.options).asked_at(approval.level)
        ],
        "level": approval.level,
        "assignee": person(approval.assignee) if approval.assignee else None,
        "assigned_until": maybe_time(approval.assigned_until),
        "votes": [vote_document(vote, approval) for vote in approval.votes.all()],
        "may_decide": approval.status == ApprovalStatus.OPEN
        and policies.can_decide(actor, approval.run, approval),
        "outcome": approval.outcome,
        "closed_reason": approval.closed_reason,
        "on_timeout": str(approval.options.get("on_timeout", "reject")),
        "reasons": list(approval.options.get("reasons", ())),
        "opened_at": time_text(approval.opened_at),
        "due_at": maybe_time(approval.due_at),
        "remind_at": maybe_time(approval.remind_at) if approval.status == ApprovalStatus.OPEN else None,
        "closed_at": maybe_time(approval.closed_at),
        "previous": maybe_id(approval.previous_id),
    }


def vote_document(vote: Vote, approval: Approval) -> VoteDocument:
    return {
        "user": person(vote.user) if vote.user else None,
        "in_place_of": person(vote.in_place_of) if vote.in_place_of else None,
        "stage": vote.stage,
        "version": vote.version,
        "outcome": vote.outcome,
        "decisions": canonical.loads(vote.decisions),
        "comment": vote.comment,
        "edited": vote.edited,
        "decisive": vote.decisive,
        "counts": vote.decisive or vote.version == approval.version,
        "at": time_text(vote.at),
    }


def event_document(event: Event, *, sight: Sight) -> EventDocument:
    sights.events([event], sight)
    return {
        "seq": event.seq,
        "kind": event.kind,
        "at": time_text(event.at),
        "branch": event.branch,
        "epoch": event.epoch,
        "checkpoint": event.checkpoint,
        "node": event.node,
        "address": event.address,
        "actor": canonical.loads(event.actor) if event.actor else None,
        "payload": None if event.payload is None else canonical.loads(event.payload),
        "payload_hash": bytes(event.payload_hash).hex(),
        "hash": bytes(event.hash).hex(),
    }


def checkpoint_summary(checkpoint: Checkpoint | Header) -> CheckpointSummary:
    kind: Any = checkpoint.kind
    return {
        "no": checkpoint.no,
        "branch": checkpoint.branch,
        "parent": checkpoint.parent,
        "epoch": checkpoint.epoch,
        "kind": kind,
        "node": checkpoint.node,
        "address": checkpoint.address,
        "author": checkpoint.author,
        "reason": checkpoint.reason,
        "created_at": time_text(checkpoint.created_at),
    }


def checkpoint_document(moment: Moment, *, sight: Sight) -> CheckpointDocument:
    before = {} if moment.before is None else at.state(moment.before)
    state = sight.of_state(moment.state)
    return {
        **checkpoint_summary(moment.checkpoint),
        "state": state,
        "lanes": _lanes(moment.position, [], sight),
        "conflicts": _conflicts(moment.position, sight),
        "next": live_nodes(moment.position),
        "patch": patch_between(sight.of_state(before, against=moment.state), state),
        "stored_as": moment.stored_as,
        "not_migrated": sight.text(moment.fault),
    }


def patch_between(before: Json, after: Json) -> list[PatchOp]:
    """The RFC 6902 patch that turns one document into another."""
    ops: list[PatchOp] = []
    removed: list[PatchOp] = []
    for change in difference(before, after):
        if change.kind == "removed":
            removed.append({"op": "remove", "path": change.path})
        else:
            ops.append(
                {
                    "op": "add" if change.kind == "added" else "replace",
                    "path": change.path,
                    "value": change.after,
                }
            )
    # Items of a list are removed from the end, so that no removal moves what the next one names.
    return [*ops, *reversed(removed)]


def step_document(
    visit: Visit, spent: Mapping[CallPlace, Spent], undone: Mapping[CallPlace, Step], *, sight: Sight
) -> StepDocument:
    """spent: what the calls of the run used. undone: by call, the steps that take calls back."""
    step: Step = visit.step
    sights.steps([step], sight)
    sights.calls(visit.calls, sight)
    total = Spent()
    for place, used in spent.items():
        if place[:2] == (step.branch, step.address):
            total.add(used)
    return {
        "address": step.address,
        "lane": step.lane,
        "node": step.node,
        "branch": step.branch,
        "visit": step.visit,
        "status": StepStatus(step.status),
        "epoch": step.epoch,
        "attempt": step.attempt,
        "failures": step.failures,
        "crashes": step.crashes,
        "entries": step.entries,
        "error": step.error,
        "progress": _progress(step),
        "usage": usage_document(total),
        "checkpoint": step.checkpoint,
        "created_at": time_text(step.created_at),
        "started_at": maybe_time(step.started_at),
        "ended_at": maybe_time(step.ended_at),
        "calls": [call_document(call, spent, undone) for call in visit.calls],
        "undoes": _reference(step),
        "effects": [call.name for call in visit.calls if call.effect != "none"],
    }


def _reference(step: Step) -> CallReference | None:
    if step.undoes is None:
        return None
    branch, address, name, occurrence = step.undoes
    return {"branch": branch, "address": address, "name": name, "occurrence": occurrence}


def call_document(
    call: JournalEntry, spent: Mapping[CallPlace, Spent], undone: Mapping[CallPlace, Step]
) -> CallDocument:
    taking = undone.get((call.branch, call.address, call.name, call.occurrence))
    effect: Any = call.effect
    kind: Any = call.kind
    undo: Any = canonical.loads(call.undo) if call.undo else {}
    return {
        "name": call.name,
        "occurrence": call.occurrence,
        "kind": kind,
        "effect": effect,
        "result": canonical.loads(call.result),
        "attempt": call.attempt,
        "args_digest": call.args_digest,
        "arguments": call.arguments,
        "undo": undo.get("function"),
        "taken_back": None if taking is None else StepStatus(taking.status),
        "usage": usage_document(spent.get((call.branch, call.address, call.name, call.occurrence), Spent())),
        "key": call.call_key,
        "reused_from": call.reused_from,
        "started_at": time_text(call.started_at),
        "ended_at": time_text(call.ended_at),
    }


def _progress(step: Step) -> ProgressDocument | None:
    said: Any = step.progress if step.status == StepStatus.EXECUTING else None
    return said or None


def live_nodes(position: dict[str, Any]) -> list[str]:
    return [step.node for step in at.live_steps(position)]
