"""The only writers: one keyword-only function a verb, the same for pages, API, commands and workers."""

from runs.engine.approval import ActionDecision
from runs.operations.account import (
    change_password,
    end_other_sessions,
    end_session,
    set_language,
    set_single_keys,
    set_zone,
)
from runs.operations.admitting import answer_call, let_in
from runs.operations.attaching import attach
from runs.operations.attending import assign, extend, snooze, unassign
from runs.operations.bulk import Bulk, Item, Order, bulk
from runs.operations.comparing import At, CallPair, Comparison, Side, compare, compared_with
from runs.operations.counting import count
from runs.operations.deciding import Answer, Decided, decide, expire, only_approval, revise
from runs.operations.door import audit_denied
from runs.operations.endpoints import (
    change_endpoint,
    create_endpoint,
    delete_endpoint,
    redeliver,
    rotate_secret,
    secrets_in_force,
    test_endpoint,
)
from runs.operations.forking import Forked, fork, label_branch
from runs.operations.inviting import (
    NewAccount,
    accept_invitation,
    invitation,
    invite,
    join_by_invitation,
    withdraw_invitation,
)
from runs.operations.keeping import Kept, erase, hold, keep_house, release, set_policy
from runs.operations.limiting import limit_project, prioritise
from runs.operations.links import find_link, follow_link, link_token
from runs.operations.members import (
    add_person,
    create_service_account,
    deactivate,
    reactivate,
    remove_member,
    set_roles,
    switch_account,
)
from runs.operations.noticing import drop_preference, mark_read, set_preference, set_project_preference
from runs.operations.pausing import pause, resume
from runs.operations.preflight import Line, Preflight, preflight
from runs.operations.previewing import (
    CallPreview,
    CancelPreview,
    ForkPreview,
    RetryPreview,
    RewindPreview,
    StepPreview,
    preview_cancel,
    preview_fork,
    preview_retry,
    preview_rewind,
)
from runs.operations.process import Worker, leave, say_leaving, stop_soon, worker
from runs.operations.projects import create_project, rename_project
from runs.operations.registering import register_or_stop, register_workflows
from runs.operations.repairing import left_over, repair, repairable, run_of
from runs.operations.signalling import Signalled, signal
from runs.operations.staffing import be_away, be_back, set_hours
from runs.operations.steering import cancel, edit_state, retry, rewind
from runs.operations.submitting import Idempotency, Submitted, submit
from runs.operations.sweeping import Swept, sweep
from runs.operations.teams import create_team, delete_team, set_people
from runs.operations.together import (
    Chosen,
    Result,
    Together,
    attend_together,
    decide_together,
    is_low_risk,
    shape_of,
)
from runs.operations.tokens import create_token, revoke_token
from runs.operations.versioning import MigrationPreview, migrate, preview_migration, try_migration
from runs.operations.viewing import change_view, delete_view, save_view
from runs.operations.waking import wake_parent
from runs.operations.working import advance, advance_alone

__all__ = [
    "ActionDecision",
    "Answer",
    "At",
    "Bulk",
    "CallPair",
    "CallPreview",
    "CancelPreview",
    "Chosen",
    "Comparison",
    "Decided",
    "ForkPreview",
    "Forked",
    "Idempotency",
    "Item",
    "Kept",
    "Line",
    "MigrationPreview",
    "NewAccount",
    "Order",
    "Preflight",
    "Result",
    "RetryPreview",
    "RewindPreview",
    "Side",
    "Signalled",
    "StepPreview",
    "Submitted",
    "Swept",
    "Together",
    "Worker",
    "accept_invitation",
    "add_person",
    "advance",
    "advance_alone",
    "answer_call",
    "assign",
    "attach",
    "attend_together",
    "audit_denied",
    "be_away",
    "be_back",
    "bulk",
    "cancel",
    "change_endpoint",
    "change_password",
    "change_view",
    "compare",
    "compared_with",
    "count",
    "create_endpoint",
    "create_project",
    "create_service_account",
    "create_team",
    "create_token",
    "deactivate",
    "decide",
    "decide_together",
    "delete_endpoint",
    "delete_team",
    "delete_view",
    "drop_preference",
    "edit_state",
    "end_other_sessions",
    "end_session",
    "erase",
    "expire",
    "extend",
    "find_link",
    "follow_link",
    "fork",
    "hold",
    "invitation",
    "invite",
    "is_low_risk",
    "join_by_invitation",
    "keep_house",
    "label_branch",
    "leave",
    "left_over",
    "let_in",
    "limit_project",
    "link_token",
    "mark_read",
    "migrate",
    "only_approval",
    "pause",
    "preflight",
    "preview_cancel",
    "preview_fork",
    "preview_migration",
    "preview_retry",
    "preview_rewind",
    "prioritise",
    "reactivate",
    "redeliver",
    "register_or_stop",
    "register_workflows",
    "release",
    "remove_member",
    "rename_project",
    "repair",
    "repairable",
    "resume",
    "retry",
    "revise",
    "revoke_token",
    "rewind",
    "rotate_secret",
    "run_of",
    "save_view",
    "say_leaving",
    "secrets_in_force",
    "set_hours",
    "set_language",
    "set_people",
    "set_policy",
    "set_preference",
    "set_project_preference",
    "set_roles",
    "set_single_keys",
    "set_zone",
    "shape_of",
    "signal",
    "snooze",
    "stop_soon",
    "submit",
    "sweep",
    "switch_account",
    "test_endpoint",
    "try_migration",
    "unassign",
    "wake_parent",
    "withdraw_invitation",
    "worker",
]
