"""One tree of errors. The docstring is the default message, the class says `code` and `http_status`.

Operations raise only these; the API and the pages turn them into responses, once a door.
Extra facts (who won, the new version, what would be right) travel as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class Told(str):
    """A text with values in it: English as a text, and told in another language by its template and values.

    template: with the values by name, as in "{name} has left". Told("{name} has left", name="Ada") == "Ada has left".
    """

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, object]

    def __new__(cls, template: str, /, **values: object) -> Told:
        told = super().__new__(cls, template.format(**values))
        told.template, told.values = template, values
        return told

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        return (self.template,), dict(self.values)


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a document: where (JSON Pointer), which kind, and in words."""

    path: str
    code: str
    message: str

    def as_dict(self) -> dict[str, str]:
        return {"path": self.path, "code": self.code, "message": self.message}


class HitlError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500

    def __init__(self, detail: str | None = None, *, errors: Sequence[Problem] = (), **facts: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.errors = list(errors)
        self.facts = facts
        super().__init__(self.detail)


# ---- 400: cannot be parsed, or breaks a rule that holds for every document


class BadRequest(HitlError):
    """The request cannot be understood."""

    code = "bad_request"
    http_status = 400


class InvalidJson(BadRequest):
    """The document is not JSON that can be stored."""

    code = "invalid_json"


class UnknownField(BadRequest):
    """The request has a field that nothing here reads."""

    code = "unknown_field"


class InputRequired(BadRequest):
    """The run needs an input object."""

    code = "input_required"


class InvalidIdempotencyKey(BadRequest):
    """An Idempotency-Key has 1 to 255 printable ASCII characters."""

    code = "invalid_idempotency_key"


class ForbiddenTarget(BadRequest):
    """A webhook cannot go there."""

    code = "forbidden_target"


class TooLarge(HitlError):
    """The document is larger than the limit."""

    code = "too_large"
    http_status = 413


# ---- 401 to 404


class NotSignedIn(HitlError):
    """Sign in, or send an API token that is valid."""

    code = "not_authenticated"
    http_status = 401


class Forbidden(HitlError):
    """You may not do this."""

    code = "forbidden"
    http_status = 403


class MissingScope(Forbidden):
    """The API token lacks the scope that this needs."""

    code = "missing_scope"


class LinkRefused(Forbidden):
    """This link is not for you, or its person may not use it any more."""

    code = "link_refused"


class NotACandidate(Forbidden):
    """Only the people and teams who were asked may decide."""

    code = "not_a_candidate"


class SelfApproval(Forbidden):
    """Whoever requested the run may not decide about it."""

    code = "self_approval"


class EditorMayNotApprove(Forbidden):
    """Whoever edited an irreversible action may not be its only approver."""

    code = "editor_may_not_approve"


class DecisionNotAllowed(Forbidden):
    """This answer is not offered for this action."""

    code = "decision_not_allowed"


class RiskTooHigh(Forbidden):
    """Only what is of low risk, and can be undone, is decided together with others."""

    code = "risk_too_high"


class FieldNotEditable(Forbidden):
    """Your roles do not let you edit this field of the state."""

    code = "field_not_editable"


class InvitedSomebodyElse(Forbidden):
    """This invitation is for another mail address."""

    code = "invited_somebody_else"


class WorksElsewhere(Forbidden):
    """The account is also a member of projects that you do not administer; take it out of this one instead."""

    code = "works_elsewhere"


class NotFound(HitlError):
    """There is nothing here that you may see."""

    code = "not_found"
    http_status = 404


class UnknownWorkflow(NotFound):
    """No workflow of this name and version is registered."""

    code = "unknown_workflow"


class UnknownBranch(NotFound):
    """The run has no such branch."""

    code = "unknown_branch"


class UnknownCheckpoint(NotFound):
    """The run has no checkpoint of this number."""

    code = "unknown_checkpoint"


# ---- 410: it was there


class LinkSpent(HitlError):
    """This link was good for one answer, until a certain time, to what was asked then. That is over."""

    code = "link_spent"
    http_status = 410


class Gone(NotFound):
    """Retention has removed this run; its history is no longer here."""

    code = "gone"
    http_status = 410


class CheckpointRemoved(UnknownCheckpoint):
    """This checkpoint was removed when the run was compacted."""

    code = "checkpoint_removed"
    http_status = 410


class InvitationOver(Gone):
    """This invitation is over; ask for another."""

    code = "invitation_over"


# ---- 409 to 428: somebody else was first, or the ground has moved


class Conflict(HitlError):
    """The state of things has changed in between."""

    code = "conflict"
    http_status = 409


class StillPending(Conflict):
    """It is on its way already; it is tried again by itself."""

    code = "still_pending"


class EndpointOff(Conflict):
    """The endpoint is switched off or gone: nothing can be sent there."""

    code = "endpoint_off"


class AlreadyDecided(Conflict):
    """Somebody has already decided this."""

    code = "already_decided"


class AlreadyVoted(Conflict):
    """You have already said something else about this version."""

    code = "already_voted"


class AlreadyAssigned(Conflict):
    """Somebody else works on this; take it over with a reason, or wait until it is released."""

    code = "already_assigned"


class NothingDecided(Conflict):
    """Not every one of these approvals can be decided so; nothing was stored."""

    code = "nothing_decided"


class ApprovalClosed(Conflict):
    """This approval is closed."""

    code = "approval_closed"

    def __init__(self, detail: str | None = None, *, reason: str, **facts: Any) -> None:
        self.reason = reason
        super().__init__(detail, reason=reason, **facts)


class TimedOut(Conflict):
    """The time to decide was over."""

    code = "timed_out"


class StaleVersion(Conflict):
    """What you saw is not what is there now."""

    code = "stale_version"


class TooManyAttachments(Conflict):
    """The run has as many attachments as a run may have."""

    code = "too_many_attachments"


class LastAdmin(Conflict):
    """A project keeps at least one person who administers it; make somebody else an admin first."""

    code = "last_admin"


class TeamInUse(Conflict):
    """Open approvals ask this team."""

    code = "team_in_use"


class NameTaken(Conflict):
    """This name is taken."""

    code = "name_taken"


class PayloadChanged(Conflict):
    """The action is not the one that was shown; it will be asked again."""

    code = "payload_changed"


class PreconditionFailed(StaleVersion):
    """What you saw is not what is there now."""

    http_status = 412


class VersionRequired(HitlError):
    """Say which version you saw."""

    code = "version_required"
    http_status = 428


class AlreadyTerminal(Conflict):
    """The run has already ended."""

    code = "already_terminal"


class Compensating(Conflict):
    """The run is taking back what it did; it ends by itself."""

    code = "compensating"


class Compensated(Conflict):
    """Calls that this would build on were taken back."""

    code = "compensated"


class PausedAbove(Conflict):
    """The run is paused together with one above it; resume that."""

    code = "paused_above"


class StepExecuting(Conflict):
    """A step of this lane is executing; wait, or rewind."""

    code = "step_executing"


class NothingToRepair(Conflict):
    """What was to be put right is right by now."""

    code = "nothing_to_repair"


class NothingToRun(Conflict):
    """Nothing is left to run at this checkpoint."""

    code = "nothing_to_run"


class AmbiguousTarget(Conflict):
    """Several are open; say which one is meant."""

    code = "ambiguous_target"


class SelectionChanged(Conflict):
    """Other runs match now than when you looked."""

    code = "selection_changed"


class UnknownLane(Conflict):
    """The run has no such lane, or has it no longer."""

    code = "unknown_lane"


class CheckpointUnreadable(Conflict):
    """A stored checkpoint cannot be read."""

    code = "checkpoint_unreadable"


class Erased(CheckpointUnreadable):
    """The content of this run was erased; its history still holds, without it."""

    code = "erased"
    http_status = 410


class OnHold(Conflict):
    """The run is under a legal hold; nothing of it may be removed."""

    code = "on_hold"


class StillNeeded(Conflict):
    """Something else still needs this run."""

    code = "still_needed"


class RunNotEnded(Conflict):
    """Only what has ended can be erased; cancel the run first."""

    code = "run_not_ended"


class VersionElsewhere(Conflict):
    """Another process has the code of the run's version, this one has not; ask again where it is, or deploy it here."""

    code = "version_elsewhere"


class NeedsMigration(Conflict):
    """The code of the run's version is gone: bring it back, migrate the run, or rewind it."""

    code = "needs_migration"


class MigrationMissing(NeedsMigration):
    """The code of the run's version is gone, and no migration leads from it to a version that is here."""

    code = "migration_missing"


class MigrationFailed(NeedsMigration):
    """The run's state, or where it stands, cannot be taken to the other version."""

    code = "migration_failed"


class SchemaNewerThanCode(NeedsMigration):
    """The run is at a version newer than every one that is here: the deployment went back."""

    code = "schema_newer_than_code"


class GraphChanged(NeedsMigration):
    """The graph or the schema changed, and the version did not: raise version=."""

    code = "graph_changed_without_version"


class UnknownVersion(Conflict):
    """The workflow has no such version here."""

    code = "unknown_version"


class Busy(Conflict):
    """Another transaction holds this run; try again."""

    code = "busy"


class IdempotencyInProgress(Conflict):
    """The first request with this Idempotency-Key is still being answered."""

    code = "in_progress"


class SignalReused(Conflict):
    """A signal with this id was sent with another name or payload."""

    code = "signal_reused"


class ResultConsumed(Conflict):
    """The run that started this one has already taken its result."""

    code = "result_already_consumed"


class EventNotAllowed(Conflict):
    """This cannot happen in the present status."""

    code = "event_not_allowed"


# ---- 422: parses, but breaks a schema


class Unprocessable(HitlError):
    """The document does not fit its schema."""

    code = "schema_violation"
    http_status = 422


class InvalidLimitKey(Unprocessable):
    """The workflow cannot say by which key this run is counted."""

    code = "invalid_limit_key"


class KeyReused(Unprocessable):
    """This Idempotency-Key was used with another body."""

    code = "key_reused"


class UnknownCall(Unprocessable):
    """A call that is to be set apart was not made after the checkpoint."""

    code = "unknown_call"


class NotAlike(Unprocessable):
    """What is decided together asks the same: one node of one workflow, with the same actions."""

    code = "not_alike"


class ReasonRequired(Unprocessable):
    """Give a reason."""

    code = "reason_required"


class Unavailable(HitlError):
    """The database is not available; try again in a moment. Look first whether a change was taken."""

    code = "database_error"
    http_status = 503


class AttachmentNotStored(Unavailable):
    """The storage of attachments did not take the file; nothing was recorded."""

    code = "attachment_not_stored"


# ---- inside a run: these end an attempt, they are never answers to a request


class StepError(HitlError):
    """The step failed."""

    code = "step_failed"
    http_status = 500
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, *, errors: Sequence[Problem] = (), **facts: Any) -> None:
        super().__init__(detail, errors=errors, **facts)


class StateNotStorable(StepError):
    """The node returned something that cannot be stored exactly."""

    code = "state_not_storable"


class SchemaViolation(StepError):
    """The node returned an update that breaks the schema of the state."""

    code = "schema_violation"


class InvalidCall(StepError):
    """A call is asked for in a way that the journal cannot hold."""

    code = "invalid_call"


class TooManyChildren(StepError):
    """Runs that start runs have reached their bound, in depth or in number."""

    code = "too_many_children"


class ConcurrentCallNeedsKey(InvalidCall):
    """Whose turn it is among threads depends on their speed; a call from one of them needs key=."""

    code = "concurrent_call_needs_key"


class InvalidUsage(StepError):
    """ctx.usage was told something that is no amount."""

    code = "invalid_usage"


class InvalidSecret(StepError):
    """A secret cannot be called this, or is too short to be kept out of what is written."""

    code = "invalid_secret"


class MissingSecret(StepError):
    """The secret is nowhere to be found."""

    code = "missing_secret"


class JournalMismatch(StepError):
    """The node asks for something else than its journal holds."""

    code = "journal_mismatch"


class ApprovalMismatch(StepError):
    """A guarded call has other arguments than the approved ones."""

    code = "approval_mismatch"


class NotApproved(StepError):
    """The node needs an approved action, and there is none."""

    code = "not_approved"


class LoopLimit(StepError):
    """The loop has used up its passes."""

    code = "loop_limit"


class StepLimit(StepError):
    """The run has used up its steps."""

    code = "step_limit"


class StepTimeout(StepError):
    """The step worked longer than it may."""

    code = "step_timeout"
    retryable = True


class CallTimeout(StepError):
    """The call took longer than it may."""

    code = "call_timeout"
    retryable = True


class DeadlineExceeded(StepError):
    """The run took longer than it may."""

    code = "deadline_exceeded"


class MergeConflict(StepError):
    """Two lanes have written one key, and nothing says how to merge it."""

    code = "merge_conflict"


class JoinDeadlock(StepError):
    """Joins wait for each other."""

    code = "join_deadlock"


class Poisoned(StepError):
    """The step ended its worker too often and was set aside."""

    code = "poisoned"


class Rejected(StepError):
    """The approval was rejected, and no edge leads on from a reject."""

    code = "rejected"


class ApprovalTimeout(StepError):
    """Nobody decided in time."""

    code = "approval_timeout"


class ChildFailed(StepError):
    """The child run did not complete."""

    code = "child_failed"


class UndoNotFound(StepError):
    """The function that takes a call back is not where it was when the call was made."""

    code = "undo_not_found"
    retryable = True  # until it is deployed again


class RunCancelled(StepError):
    """The run is being cancelled with the one that started it; it starts nothing more."""

    code = "run_cancelled"
    retryable = True  # until the sweeper has cancelled it


class LateResult(HitlError):
    """The step was taken over, rewound or cancelled; its result is discarded."""

    code = "late_result_discarded"
    http_status = 409


# ---- at start-up


class WorkflowError(HitlError):
    """A workflow cannot be registered."""

    code = "workflow_error"
