"""What the API answers with: the shape of every document, and how it is made from rows.

The shapes are the description of the API too (`runs.api.schema`), so a field that is not here is not answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from runs import policies, queries, sights
from runs.engine import Workflow, canonical
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.limits import Limit, Rate, window
from runs.engine.patch import difference
from runs.engine.redaction import Sight
from runs.engine.status import ApprovalStatus, RunStatus, StepStatus
from runs.engine.workflow import ApprovalOptions
from runs.models import (
    Absence,
    Approval,
    Branch,
    Checkpoint,
    Delivery,
    Endpoint,
    Event,
    JournalEntry,
    LegalHold,
    Project,
    Run,
    Signal,
    Step,
    User,
    Vote,
)
from runs.operations import (
    Bulk,
    CallPair,
    CallPreview,
    CancelPreview,
    Comparison,
    ForkPreview,
    MigrationPreview,
    Result,
    RewindPreview,
    Side,
    StepPreview,
    Together,
)
from runs.policies import Actor
from runs.queries import CallPlace, Link, Moment, Spent, Standing, VersionRow, Visit
from runs.store import Use

Id = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Object = dict[str, Any]
Cursor = Annotated[str | None, Field(description="`cursor` of the next page; null on the last one.")]

exact = with_config(ConfigDict(extra="forbid"))  # a member that is not described here is a mistake


@exact
class PersonDocument(TypedDict):
    username: str
    name: str
    is_service: Annotated[bool, Field(description="A service account, not a person.")]


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
    """A pause. with: the run above that this one is paused with."""

    by: str
    reason: str
    since: Annotated[str, Field(description="RFC 3339.")]
    children: Annotated[bool, Field(description="Whether everything below is paused too.")]
    with_run: Annotated[Id | None, Field(description="The run above that it is paused with.")]


@exact
class EndingDocument(TypedDict):
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
class EndpointDocument(TypedDict):
    """Where webhooks go. The secret is told when it is made, and never again."""

    id: Id
    url: str
    description: str
    events: list[str]
    created_at: Time
    disabled_at: Annotated[Time | None, Field(description="Nothing is sent there since.")]
    disabled_reason: Annotated[
        str, Field(description="`by_hand`, or `gone` if the receiver has answered 410.")
    ]
    earlier_secret_until: Annotated[
        Time | None, Field(description="Until then the secret before the last rotation signs as well.")
    ]


@exact
class EndpointSecret(TypedDict):
    """An endpoint with its secret, which is told this once."""

    endpoint: EndpointDocument
    secret: Annotated[
        str, Field(description="As libraries for Standard Webhooks take it.", examples=["whsec_MfKQ…"])
    ]


@exact
class EndpointList(TypedDict):
    items: list[EndpointDocument]


@exact
class AttemptDocument(TypedDict):
    """One attempt of a delivery."""

    no: Annotated[int, Field(description="As in the header Webhook-Attempt.")]
    at: Time
    seconds: float
    outcome: Annotated[
        str,
        Field(
            description="delivered, refused, redirect_refused, gone, timeout, connection_failed, blocked,"
            " secret_unreadable, mailbox_refused or error."
        ),
    ]
    http_status: int | None
    detail: str
    answer: Annotated[
        str | None, Field(description="The beginning of what the receiver said; null for who is no admin.")
    ]


@exact
class DeliverySummary(TypedDict):
    """A message on its way to an endpoint, or by mail to a person."""

    id: Id
    message: Annotated[str, Field(description="As in the header Webhook-Id.")]
    type: Annotated[str, Field(description="What happened.", examples=["run.completed"])]
    channel: Literal["webhook", "mail"]
    endpoint: Id | None
    recipient: Annotated[PersonDocument | None, Field(description="Of a mail.")]
    run: Id | None
    seq: Annotated[int | None, Field(description="The event of the run's history that it tells of.")]
    status: Literal["pending", "delivered", "dead", "blocked", "cancelled"]
    reason: Annotated[str, Field(description="What came of the last attempt, or why there is none.")]
    attempts: Annotated[int, Field(description="How many were begun.")]
    next_attempt_at: Time | None
    created_at: Time
    ended_at: Time | None


@exact
class DeliveryDocument(DeliverySummary):
    """A delivery with every attempt, and the body as it is sent."""

    body: Annotated[Any, Field(description="What is sent; the same at every attempt. Null for a mail.")]
    tried: list[AttemptDocument]


@exact
class DeliveryPage(TypedDict):
    items: list[DeliverySummary]
    next: Cursor


@exact
class RunPage(TypedDict):
    items: list[RunSummary]
    next: Cursor


@exact
class TogetherItem(TypedDict):
    """What came, or would come, of one approval."""

    approval: Id
    status: Annotated[
        Literal["decided", "recorded", "possible", "refused"],
        Field(
            description="recorded: more people must agree. possible: nothing was stored, `dry` was asked for."
        ),
    ]
    code: Annotated[str, Field(description="Of the refusal.")]
    detail: str


@exact
class TogetherDocument(TypedDict):
    """A result for each, in the order of the request."""

    items: list[TogetherItem]
    dry: bool


@exact
class AbsenceDocument(TypedDict):
    """Somebody is away; the substitute answers in their place."""

    id: Id
    user: PersonDocument
    substitute: PersonDocument
    starts_at: Time
    ends_at: Time
    note: str
    ended_at: Annotated[Time | None, Field(description="When it was taken back.")]


@exact
class AbsenceList(TypedDict):
    items: list[AbsenceDocument]


@exact
class HoursDocument(TypedDict):
    """When the people of a team work. `standard`: nothing was said; these are the hours of everybody."""

    team: str
    zone: str
    week: dict[str, list[str]]
    holidays: list[str]
    standard: bool


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
class StepAgain(TypedDict):
    address: str
    node: str
    visit: int
    status: str
    checkpoint: int | None


@exact
class CallAgain(TypedDict):
    """`address`, `name` and `occurrence` name it among the `exceptions` of a rewind."""

    node: str
    address: str
    name: str
    occurrence: str
    kind: Annotated[Literal["call", "child"], Field(description="`child`: a child run that has completed.")]
    branch: Annotated[int, Field(description="The branch that made it.")]
    effect: Literal["none", "reversible", "irreversible"]
    arguments: str
    result: Any
    reused: Annotated[
        bool,
        Field(description="Answered from the journal if its arguments are equal; if false it is made again."),
    ]
    exception: Annotated[bool, Field(description="Set apart from what is said of all calls.")]


@exact
class ApprovalAgain(TypedDict):
    id: Id
    node: str
    title: str
    status: ApprovalStatus
    outcome: str


@exact
class SignalAgain(TypedDict):
    id: str
    no: int
    name: str


@exact
class PlaceDocument(TypedDict):
    address: str
    name: str
    occurrence: str


@exact
class DecidedThere(TypedDict):
    id: Id
    node: str
    title: str
    status: ApprovalStatus
    outcome: str
    by: str
    comment: str


@exact
class PreviewDocument(TypedDict):
    """What a rewind would do. Nothing has happened yet."""

    checkpoint: int
    branch: int
    calls: Literal["reuse", "again"]
    next: list[str]
    state: Object
    steps: Annotated[list[StepAgain], Field(description="Steps that run again.")]
    made: Annotated[
        list[CallAgain], Field(description="Calls made after the checkpoint, with their receipts.")
    ]
    approvals: Annotated[list[ApprovalAgain], Field(description="Approvals that are asked again.")]
    children: Annotated[list[Id], Field(description="Child runs under way that are cancelled.")]
    signals: Annotated[
        list[SignalAgain], Field(description="Signals that were taken since and lie in the mailbox again.")
    ]
    result_consumed: Annotated[
        bool, Field(description="The parent has taken this run's result already: a rewind needs `detach`.")
    ]
    version: Annotated[int, Field(description="Of the run. Send it with the rewind.")]


@exact
class RenamedNode(TypedDict):
    before: str
    after: str


@exact
class MigrationPreviewDocument(TypedDict):
    """What a migration would come to. Nothing has happened yet."""

    way: Annotated[list[str], Field(description="The versions on the way, both ends included.")]
    before: Annotated[Object, Field(description="The state as it is.")]
    state: Annotated[Object, Field(description="The state afterwards.")]
    patch: list[PatchOp]
    next: list[str]
    nodes: Annotated[
        list[RenamedNode], Field(description="Steps to do whose node has another name afterwards.")
    ]
    begun: Annotated[list[str], Field(description="Nodes that begin because a join need not wait any more.")]
    version: Annotated[int, Field(description="Of the run. Send it with the migration.")]


@exact
class CancelPreviewDocument(TypedDict):
    """What cancelling would do. Nothing has happened yet."""

    taken_back: Annotated[
        list[CallAgain], Field(description="Calls that are taken back, the first one first.")
    ]
    stays: Annotated[
        list[CallAgain],
        Field(
            description="Effects that stay: nothing says how they are taken back, or they are on a branch that was left."
        ),
    ]
    children: Annotated[list[Id], Field(description="Runs below that are cancelled too.")]


@exact
class ForkPreviewDocument(TypedDict):
    """What a fork would start with. Nothing has happened yet."""

    checkpoint: int
    branch: int
    next: list[str]
    asked_again: Annotated[
        list[str], Field(description="Approvals that it stood directly behind: it goes back to them.")
    ]
    state: Object
    kept: Annotated[list[CallAgain], Field(description="Calls of unfinished steps that it starts with.")]
    not_kept: Annotated[
        list[CallAgain],
        Field(
            description="Calls after the checkpoint: it makes those that it comes to, under keys of its own."
        ),
    ]
    void_decisions: Annotated[int, Field(description="How many decisions before it count no more.")]


@exact
class BranchDocument(TypedDict):
    """A line of checkpoints. `head`: where it stands, or was left."""

    no: int
    parent_branch: int | None
    parent_checkpoint: int | None
    head: int
    checkpoints: Annotated[int, Field(description="How many are its own.")]
    current: bool
    label: str
    author: Annotated[Any, Field(description="Who rewound to start it.")]
    reason: str
    calls: Literal["reuse", "again"]
    exceptions: list[PlaceDocument]
    created_at: Time


@exact
class BranchList(TypedDict):
    items: list[BranchDocument]


@exact
class SideDocument(TypedDict):
    run: Id
    workflow: str
    workflow_version: str
    checkpoint: int
    branch: int
    next: list[str]
    steps: Annotated[int, Field(description="How many led to it, those of a fork's origin included.")]
    usage: UsageDocument
    decisions: list[DecidedThere]


@exact
class StepThere(TypedDict):
    run: Id
    address: str
    node: str
    branch: int
    visit: int
    status: StepStatus
    attempt: int
    checkpoint: int | None


@exact
class CallThere(TypedDict):
    run: Id
    result: Any
    arguments: str
    reused_from: int | None


@exact
class CallBeside(TypedDict):
    """A call with different results, or one that only one side has made: null on the other."""

    node: str
    address: str
    name: str
    occurrence: str
    effect: Literal["none", "reversible", "irreversible"]
    left: CallThere | None
    right: CallThere | None


@exact
class ComparisonDocument(TypedDict):
    """Two checkpoints. `patch` turns the state of the left one into that of the right one (RFC 6902)."""

    left: SideDocument
    right: SideDocument
    patch: list[PatchOp]
    common_steps: int
    only_left: list[StepThere]
    only_right: list[StepThere]
    calls: list[CallBeside]


@exact
class BulkItem(TypedDict):
    """What came of one run, or would come of it. `code` and `detail` say why it is refused."""

    run: Id
    workflow: str
    status: RunStatus
    version: int
    refused: bool
    code: str
    detail: str


@exact
class BulkDocument(TypedDict):
    dry_run: bool
    done: Annotated[int, Field(description="How many runs it was done to; in a dry run, would be.")]
    refused: int
    items: Annotated[list[BulkItem], Field(description="In the order of ids, at most 200.")]
    next: Annotated[Id | None, Field(description="`after` of the next request, if more runs match.")]


@exact
class InUse(TypedDict):
    key: Annotated[
        str | None,
        Field(
            description="Null: of a limit without keys. It is made of the input: hidden with what is hidden there."
        ),
    ]
    taken: int


@exact
class LimitDocument(TypedDict):
    """A limit that a workflow declares; it counts by project, and by key if it has one."""

    name: str
    kind: Literal["concurrency", "rate"]
    limit: int
    per: Annotated[float | None, Field(description="Of a rate: within so many seconds.")]
    keyed: Annotated[bool, Field(description="Whether runs are counted apart by a key of their input.")]
    holds: Annotated[
        Literal["work", "run"] | None,
        Field(
            description="Of a concurrency limit: the slot is kept while there is work, or for the whole run."
        ),
    ]
    in_use: NotRequired[
        Annotated[list[InUse], Field(description="In this project, the most first; with `usage=true`.")]
    ]


@exact
class ProjectLimit(TypedDict):
    max_concurrent_runs: Annotated[int | None, Field(description="Of all workflows; null: any number.")]
    taken: NotRequired[Annotated[int, Field(description="With `usage=true`.")]]


@exact
class WorkflowNode(TypedDict):
    name: str
    kind: Literal["function", "approval", "fan_out", "subflow"]
    next: Annotated[list[str], Field(description="All of them are taken, or the one that is chosen.")]


@exact
class VersionDocument(TypedDict):
    """A version of a workflow, and the live runs that are at it."""

    version: str
    fingerprint: Annotated[str, Field(description="Of graph and schemas.")]
    registered_at: Time | None
    live_runs: int
    is_newest: Annotated[bool, Field(description="Whether new runs get it.")]
    is_here: Annotated[bool, Field(description="Whether the process that answers has its code.")]
    has_worker: Annotated[bool, Field(description="Whether a worker that lives has its code.")]
    leads_to: Annotated[list[str], Field(description="Versions to which runs at it can be migrated.")]
    refused: Annotated[
        Object | None,
        Field(
            description="The newest attempt to register another graph under this version: what was different, and when."
        ),
    ]


@exact
class WorkflowDocument(TypedDict):
    name: str
    title: str
    version: Annotated[str, Field(description="The version that new runs get.")]
    input: Annotated[Object, Field(description="JSON Schema of the input.")]
    state: Annotated[Object, Field(description="JSON Schema of the state.")]
    nodes: list[WorkflowNode]
    queue: str
    priority: int
    limits: list[LimitDocument]
    usage: NotRequired[
        Annotated[
            UsageDocument,
            Field(description="Of all its runs in this project, of all versions; with `usage=true`."),
        ]
    ]
    versions: NotRequired[
        Annotated[list[VersionDocument], Field(description="The newest first; with `versions=true`.")]
    ]


@exact
class WorkflowList(TypedDict):
    items: list[WorkflowDocument]
    project: ProjectLimit


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


def person(user: User) -> PersonDocument:
    return {"username": user.username, "name": user.name, "is_service": user.is_service}


def run_summary(run: Run, *, actor: Actor) -> RunSummary:
    sights.run(run, sights.of(actor, run))
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
        "admitted_at": _maybe(run.admitted_at),
        "created_at": _text(run.created_at),
        "started_at": _maybe(run.started_at),
        "updated_at": _text(run.updated_at),
        "finished_at": _maybe(run.finished_at),
        "deadline": run.deadline,
        "deadline_at": _maybe(run.deadline_at),
        "time_left": run.time_left,
        "compacted_at": _maybe(run.compacted_at),
        "erased_at": _maybe(run.erased_at),
    }


def _slot(run: Run) -> list[WaitDocument]:
    """What a run in line waits for."""
    return (
        [{"kind": "slot", "node": "", "since": _text(run.updated_at), "due": None}] if run.is_in_line else []
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
        "free_at": _maybe(use.until),
    }


def usage_document(spent: Spent) -> UsageDocument:
    return {
        "model_tokens_in": spent.model_tokens_in,
        "model_tokens_out": spent.model_tokens_out,
        "cost": {currency: f"{amount.normalize():f}" for currency, amount in sorted(spent.cost.items())},
    }


def run_document(run: Run, *, actor: Actor) -> RunDocument:
    """A run, whole. Reads what it stands at, what it asks of people, and its relations: eight queries at most, and two for
    one that stands in line."""
    found, fault = queries.head_as_here(run)
    head = found.position if found else None
    pending = queries.pending(run.pk)
    sight = sights.of(actor, run)
    return {
        **run_summary(run, actor=actor),
        "line": _line(queries.standing_of(run), sight),
        "input": canonical.loads(run.input),
        "state": None if head is None else sight.of_state(at.state(head)),
        "lanes": [] if head is None else _lanes(head, pending, sight),
        "conflicts": [] if head is None else _conflicts(head, sight),
        "unreadable": fault,
        "stored_as": found.stored_as if found else "",
        "not_migrated": sight.text(found.fault) if found else "",
        "next": [] if head is None else _nodes(head),
        "output": None if run.output is None else canonical.loads(run.output),
        "usage": usage_document(queries.spent_by(run.pk)),
        "redacted": sight.narrow,
        "pending_approvals": [approval_document(approval, actor=actor) for approval in pending],
        "parent": _related(queries.parent_of(run)),
        "children": [_related_run(child) for child in queries.children_of(run.pk)],
        "paused": _paused(run),
        "ending": _ending(run),
        "hold": _hold(queries.hold_of(run)),
        "erasure": _erasure(run),
        "forked_from": None
        if run.forked_checkpoint is None
        else {"run": _id(run.forked_from_id), "checkpoint": run.forked_checkpoint},
        "forks": [_fork(fork) for fork in queries.forks_of(run.pk)],
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


def signal_document(signal: Signal, *, taken: Collection[int], sight: Sight) -> SignalDocument:
    sights.signal(signal, sight)
    return {
        "id": signal.sent_id,
        "no": signal.no,
        "name": signal.name,
        "payload": canonical.loads(signal.payload),
        "taken": signal.no in taken,
        "sender": signal.sender,
        "received_at": _text(signal.received_at),
    }


def endpoint_document(endpoint: Endpoint) -> EndpointDocument:
    return {
        "id": str(endpoint.pk),
        "url": endpoint.url,
        "description": endpoint.description,
        "events": list(endpoint.events),
        "created_at": _text(endpoint.created_at),
        "disabled_at": _maybe(endpoint.disabled_at),
        "disabled_reason": endpoint.disabled_reason,
        "earlier_secret_until": _maybe(endpoint.earlier_until),
    }


def delivery_summary(delivery: Delivery) -> DeliverySummary:
    message, is_mail = delivery.message, delivery.channel == "mail"
    return {
        "id": str(delivery.pk),
        "message": f"msg_{message.pk.hex}",
        "type": message.type,
        "channel": "mail" if is_mail else "webhook",
        "endpoint": _id(delivery.endpoint_id),
        "recipient": person(delivery.user) if delivery.user else None,
        "run": _id(message.run_id),
        "seq": message.seq,
        "status": delivery.status,  # type: ignore[typeddict-item]  # a constraint of the table says so
        "reason": delivery.reason,
        "attempts": delivery.attempt,
        "next_attempt_at": _text(delivery.due_at) if delivery.status == "pending" else None,
        "created_at": _text(delivery.created_at),
        "ended_at": _maybe(delivery.ended_at),
    }


def delivery_document(delivery: Delivery, *, actor: Actor) -> DeliveryDocument:
    full = policies.can_webhooks(actor)
    return {
        **delivery_summary(delivery),
        "body": canonical.loads(delivery.message.body) if delivery.channel == "webhook" else None,
        "tried": [
            {
                "no": attempt.no,
                "at": _text(attempt.at),
                "seconds": attempt.seconds,
                "outcome": attempt.outcome,
                "http_status": attempt.http_status,
                "detail": attempt.detail,
                "answer": attempt.answer if full else None,
            }
            for attempt in delivery.attempts.all()
        ],
    }


def _hold(hold: LegalHold | None) -> HoldDocument | None:
    if hold is None:
        return None
    return {"reason": hold.reason, "author": person(hold.author), "since": _text(hold.created_at)}


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
        {**action, "hidden": sight.hidden_args(action)} for action in approval.content["actions"]
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
        "assigned_until": _maybe(approval.assigned_until),
        "votes": [vote_document(vote, approval) for vote in approval.votes.all()],
        "may_decide": approval.status == ApprovalStatus.OPEN
        and policies.can_decide(actor, approval.run, approval),
        "outcome": approval.outcome,
        "closed_reason": approval.closed_reason,
        "on_timeout": str(approval.options.get("on_timeout", "reject")),
        "opened_at": _text(approval.opened_at),
        "due_at": _maybe(approval.due_at),
        "remind_at": _maybe(approval.remind_at) if approval.status == ApprovalStatus.OPEN else None,
        "closed_at": _maybe(approval.closed_at),
        "previous": _id(approval.previous_id),
    }


def together_document(done: Together) -> TogetherDocument:
    return {"items": [_together_item(item, dry=done.dry) for item in done.items], "dry": done.dry}


def _together_item(item: Result, *, dry: bool) -> TogetherItem:
    if item.error is not None:
        return {
            "approval": item.approval_id,
            "status": "refused",
            "code": item.error.code,
            "detail": item.error.detail,
        }
    status: Any = "possible" if dry else "decided" if item.decided else "recorded"
    return {"approval": item.approval_id, "status": status, "code": "", "detail": ""}


def absence_document(absence: Absence) -> AbsenceDocument:
    return {
        "id": str(absence.pk),
        "user": person(absence.user),
        "substitute": person(absence.substitute),
        "starts_at": _text(absence.starts_at),
        "ends_at": _text(absence.ends_at),
        "note": absence.note,
        "ended_at": _maybe(absence.ended_at),
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
        "at": _text(vote.at),
    }


def event_document(event: Event, *, sight: Sight) -> EventDocument:
    sights.events([event], sight)
    return {
        "seq": event.seq,
        "kind": event.kind,
        "at": _text(event.at),
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


def checkpoint_summary(checkpoint: Checkpoint) -> CheckpointSummary:
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
        "created_at": _text(checkpoint.created_at),
    }


def checkpoint_document(moment: Moment, *, sight: Sight) -> CheckpointDocument:
    before = {} if moment.before is None else at.state(moment.before)
    state = sight.of_state(moment.state)
    return {
        **checkpoint_summary(moment.checkpoint),
        "state": state,
        "lanes": _lanes(moment.position, [], sight),
        "conflicts": _conflicts(moment.position, sight),
        "next": _nodes(moment.position),
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
        "created_at": _text(step.created_at),
        "started_at": _maybe(step.started_at),
        "ended_at": _maybe(step.ended_at),
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
        "started_at": _text(call.started_at),
        "ended_at": _text(call.ended_at),
    }


def preview_document(preview: RewindPreview, *, sight: Sight) -> PreviewDocument:
    calls: Any = preview.calls
    return {
        "checkpoint": preview.checkpoint,
        "branch": preview.branch,
        "calls": calls,
        "next": preview.next,
        "state": sight.of_state(preview.state),
        "steps": [_step_again(step) for step in preview.steps],
        "made": [_call_again(call) for call in sights.previews(preview.made, sight)],
        "approvals": [_approval_again(approval, sight) for approval in preview.approvals],
        "children": [str(run.pk) for run in preview.stopped],
        "signals": [{"id": one.sent_id, "no": one.no, "name": one.name} for one in preview.given_back],
        "result_consumed": preview.consumed,
        "version": preview.version,
    }


def cancel_preview_document(preview: CancelPreview, *, sight: Sight) -> CancelPreviewDocument:
    return {
        "taken_back": [_call_again(call) for call in sights.previews(preview.back, sight)],
        "stays": [_call_again(call) for call in sights.previews(preview.stays, sight)],
        "children": [str(run.pk) for run in preview.children],
    }


def migration_preview_document(preview: MigrationPreview, *, sight: Sight) -> MigrationPreviewDocument:
    state = sight.of_state(preview.state)
    before = sight.of_state(preview.before, against=preview.state)
    return {
        "way": preview.way,
        "before": before,
        "state": state,
        "patch": patch_between(before, state),
        "next": preview.next,
        "nodes": [{"before": before, "after": after} for before, after in preview.nodes],
        "begun": preview.begun,
        "version": preview.run.version,
    }


def fork_preview_document(preview: ForkPreview, *, sight: Sight) -> ForkPreviewDocument:
    return {
        "checkpoint": preview.checkpoint,
        "branch": preview.branch,
        "next": preview.next,
        "asked_again": preview.again,
        "state": sight.of_state(preview.state),
        "kept": [_call_again(call) for call in sights.previews(preview.kept, sight)],
        "not_kept": [_call_again(call) for call in sights.previews(preview.not_kept, sight)],
        "void_decisions": preview.void,
    }


def branch_list(run: Run) -> BranchList:
    """Every branch of a run, oldest first. Two queries."""
    branches, heads = queries.branches_of(run.pk)
    return {"items": [branch_document(branch, heads, current=run.branch) for branch in branches]}


def branch_document(branch: Branch, heads: Mapping[int, tuple[int, int]], *, current: int) -> BranchDocument:
    """heads: (last checkpoint, how many) by branch number."""
    calls: Any = branch.calls
    head, some = heads.get(branch.no, (branch.parent_checkpoint or 0, 0))
    return {
        "no": branch.no,
        "parent_branch": branch.parent_branch,
        "parent_checkpoint": branch.parent_checkpoint,
        "head": head,
        "checkpoints": some,
        "current": branch.no == current,
        "label": branch.label,
        "author": branch.author,
        "reason": branch.reason,
        "calls": calls,
        "exceptions": [
            {"address": address, "name": name, "occurrence": occurrence}
            for address, name, occurrence in branch.exceptions
        ],
        "created_at": _text(branch.created_at),
    }


def comparison_document(found: Comparison, *, actor: Actor) -> ComparisonDocument:
    before, after = sights.compared(found.left, found.right, actor)
    return {
        "left": _side(found.left, sights.of(actor, found.left.run)),
        "right": _side(found.right, sights.of(actor, found.right.run)),
        "patch": patch_between(before, after),
        "common_steps": found.common,
        "only_left": [_step_there(step) for step in found.only_left],
        "only_right": [_step_there(step) for step in found.only_right],
        "calls": [_call_beside(pair) for pair in found.calls],
    }


def _side(side: Side, sight: Sight) -> SideDocument:
    return {
        "run": str(side.run.pk),
        "workflow": side.run.workflow,
        "workflow_version": side.run.workflow_version,
        "checkpoint": side.checkpoint,
        "branch": side.branch,
        "next": _nodes(side.position),
        "steps": len(side.steps),
        "usage": usage_document(side.usage),
        "decisions": [_decided_there(approval, sight) for approval in side.decisions],
    }


def _decided_there(approval: Approval, sight: Sight) -> DecidedThere:
    vote = next((vote for vote in approval.votes.all() if vote.decisive), None)
    return {
        **_approval_again(approval, sight),
        "by": str(vote.user) if vote and vote.user else "system",
        "comment": vote.comment if vote else "",
    }


def _step_there(step: Step) -> StepThere:
    return {
        "run": str(step.run_id),
        "address": step.address,
        "node": step.node,
        "branch": step.branch,
        "visit": step.visit,
        "status": StepStatus(step.status),
        "attempt": step.attempt,
        "checkpoint": step.checkpoint,
    }


def _call_beside(pair: CallPair) -> CallBeside:
    one = pair.left or pair.right
    assert one is not None
    effect: Any = one.effect
    return {
        "node": one.node,
        "address": one.address,
        "name": one.name,
        "occurrence": one.occurrence,
        "effect": effect,
        "left": _call_there(pair.left),
        "right": _call_there(pair.right),
    }


def _call_there(call: JournalEntry | None) -> CallThere | None:
    if call is None:
        return None
    return {
        "run": str(call.run_id),
        "result": canonical.loads(call.result),
        "arguments": call.arguments,
        "reused_from": call.reused_from,
    }


def bulk_document(bulk: Bulk) -> BulkDocument:
    return {
        "dry_run": bulk.dry,
        "done": len(bulk.done),
        "refused": len(bulk.refused),
        "items": [
            {
                "run": str(item.run.pk),
                "workflow": item.run.workflow,
                "status": RunStatus(item.run.status),
                "version": item.run.version,
                "refused": item.is_refused,
                "code": item.refusal,
                "detail": item.detail,
            }
            for item in bulk.items
        ],
        "next": _id(bulk.next),
    }


def _progress(step: Step) -> ProgressDocument | None:
    said: Any = step.progress if step.status == StepStatus.EXECUTING else None
    return said or None


def workflow_document(
    workflow: Workflow,
    spent: Mapping[str, Spent] | None = None,
    *,
    actor: Actor,
    taken: Sequence[Use] | None = None,
    versions: Mapping[str, Sequence[VersionRow]] | None = None,
) -> WorkflowDocument:
    """spent: what all runs of each workflow used, taken: what is in use of limits, versions: all there ever were, if that was
    asked for."""
    sight = sights.of_workflow(actor, workflow)
    document: WorkflowDocument = {
        "name": workflow.name,
        "title": workflow.title,
        "version": workflow.version,
        "input": workflow.input_schema.json_schema,
        "state": workflow.schema.json_schema,
        "nodes": [_node(workflow, name) for name in workflow.nodes],
        "queue": workflow.queue,
        "priority": workflow.priority,
        "limits": [_limit(workflow, limit, taken, sight) for limit in workflow.limits],
    }
    if spent is not None:
        document["usage"] = usage_document(spent.get(workflow.name, Spent()))
    if versions is not None:
        document["versions"] = [_version(row) for row in versions.get(workflow.name, ())]
    return document


def _limit(workflow: Workflow, limit: Limit, taken: Sequence[Use] | None, sight: Sight) -> LimitDocument:
    document: LimitDocument = {
        "name": limit.name,
        "kind": "rate" if isinstance(limit, Rate) else "concurrency",
        "limit": limit.limit,
        "per": window(limit) if isinstance(limit, Rate) else None,
        "keyed": limit.key is not None,
        "holds": None if isinstance(limit, Rate) else limit.holds,
    }
    if taken is not None:
        document["in_use"] = [
            {"key": sight.text(use.key) or None, "taken": use.taken}
            for use in taken
            if (use.workflow, use.name) == (workflow.name, limit.name)
        ]
    return document


def project_limit(project: Project, taken: Sequence[Use] | None = None) -> ProjectLimit:
    document: ProjectLimit = {"max_concurrent_runs": project.max_concurrent_runs}
    if taken is not None:
        document["taken"] = sum(use.taken for use in taken if not use.workflow)
    return document


def _version(row: VersionRow) -> VersionDocument:
    return {
        "version": row.version,
        "fingerprint": row.fingerprint,
        "registered_at": _text(row.registered_at) if row.registered_at else None,
        "live_runs": row.live_runs,
        "is_newest": row.is_newest,
        "is_here": row.is_here,
        "has_worker": row.has_worker,
        "leads_to": row.leads_to,
        "refused": row.refused,
    }


def _node(workflow: Workflow, name: str) -> WorkflowNode:
    kind: Any = workflow.nodes[name].kind
    return {"name": name, "kind": kind, "next": list(workflow.way(name).targets)}


def _step_again(step: StepPreview) -> StepAgain:
    return {
        "address": step.address,
        "node": step.node,
        "visit": step.visit,
        "status": step.status,
        "checkpoint": step.checkpoint,
    }


def _call_again(call: CallPreview) -> CallAgain:
    effect: Any = call.effect
    kind: Any = call.kind
    return {
        "node": call.node,
        "address": call.address,
        "name": call.name,
        "occurrence": call.occurrence,
        "kind": kind,
        "branch": call.branch,
        "effect": effect,
        "arguments": call.arguments,
        "result": call.result,
        "reused": call.reused,
        "exception": call.apart,
    }


def _approval_again(approval: Approval, sight: Sight) -> ApprovalAgain:
    return {
        "id": str(approval.pk),
        "node": approval.node,
        "title": sight.text(approval.title),
        "status": ApprovalStatus(approval.status),
        "outcome": approval.outcome,
    }


def _nodes(position: dict[str, Any]) -> list[str]:
    return [step.node for step in at.live_steps(position)]


def _text(moment: datetime) -> str:
    return moment.isoformat()


def _maybe(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _id(value: UUID | None) -> str | None:
    return None if value is None else str(value)
