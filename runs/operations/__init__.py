"""The only writers: one keyword-only function a verb, the same for pages, API, commands and workers."""

from runs.engine.approval import ActionDecision
from runs.operations.deciding import Answer, Decided, decide, expire, only_approval, revise
from runs.operations.door import audit_denied
from runs.operations.keeping import RETENTION_BEAT, Kept, erase, hold, keep_house, release, set_policy
from runs.operations.process import Worker, leave, say_leaving, stop_soon, worker
from runs.operations.registering import register_workflows
from runs.operations.signalling import Signalled, signal
from runs.operations.steering import (
    CallPreview,
    RetryPreview,
    RewindPreview,
    StepPreview,
    cancel,
    edit_state,
    preview_retry,
    preview_rewind,
    retry,
    rewind,
)
from runs.operations.submitting import Idempotency, Submitted, submit
from runs.operations.sweeping import Swept, sweep
from runs.operations.tokens import create_token, revoke_token
from runs.operations.waking import wake_parent
from runs.operations.working import advance, advance_alone

__all__ = [
    "RETENTION_BEAT",
    "ActionDecision",
    "Answer",
    "CallPreview",
    "Decided",
    "Idempotency",
    "Kept",
    "RetryPreview",
    "RewindPreview",
    "Signalled",
    "StepPreview",
    "Submitted",
    "Swept",
    "Worker",
    "advance",
    "advance_alone",
    "audit_denied",
    "cancel",
    "create_token",
    "decide",
    "edit_state",
    "erase",
    "expire",
    "hold",
    "keep_house",
    "leave",
    "only_approval",
    "preview_retry",
    "preview_rewind",
    "register_workflows",
    "release",
    "retry",
    "revise",
    "revoke_token",
    "rewind",
    "say_leaving",
    "set_policy",
    "signal",
    "stop_soon",
    "submit",
    "sweep",
    "wake_parent",
    "worker",
]
