"""What the API answers around steering: what would happen, branches, two moments side by side, many runs at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from runs import queries, sights
from runs.api.documents import PatchOp, UsageDocument, live_nodes, patch_between, usage_document
from runs.api.shapes import Id, Object, Time, exact, maybe_id, time_text
from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.engine.status import ApprovalStatus, RunStatus, StepStatus
from runs.models import Approval, Branch, JournalEntry, Run, Step
from runs.operations import (
    Bulk,
    CallPair,
    CallPreview,
    CancelPreview,
    Comparison,
    ForkPreview,
    MigrationPreview,
    RewindPreview,
    Side,
    StepPreview,
)
from runs.policies import Actor


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
        "created_at": time_text(branch.created_at),
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
        "next": live_nodes(side.position),
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
        "next": maybe_id(bulk.next),
    }


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
