"""Everything Postgres, a module an idea: take a step (`claiming`), write what it did (`stepping`), store a transition
(`committing`), give a fork what it starts with (`forking`), take calls
back (`undoing`), read a run (`reading`), and what the sweeper looks for (`due`,
`children`, `keeper`).

Lock order, everywhere: run, then step, then approval and wait. The clock of leases, due times and the history is the
database's. `commit` is for transitions made under the run's row lock; `commit_step` and `commit_call` are the hot path:
one statement, one round trip, no ORM.
"""

from __future__ import annotations

from runs.store.children import (
    children_at,
    depth_of,
    ended_children,
    has_stopped_ancestor,
    size_of_tree,
    to_pause,
    to_resume,
    to_stop,
    visible_child,
)
from runs.store.claiming import Claimed, Held, check_fence, check_held, claim, lapse
from runs.store.committing import CallAt, NewBranch, Writer, commit, insert_run
from runs.store.connection import (
    LOST,
    disconnect,
    is_connected,
    now,
    own_connection,
    persistently,
    refusal_of,
    set_lock_timeout,
    sign,
)
from runs.store.due import (
    Awake,
    beat,
    due_timers,
    due_waits,
    lapsed_steps,
    overdue_runs,
    unhinted_steps,
    wake_all,
)
from runs.store.forking import hand_down, handed_down
from runs.store.history import linked
from runs.store.keeper import LOCK_SPACE, Keeper, child_of, say_leaving, suspect_children, sweeping
from runs.store.keys import take_key
from runs.store.reading import (
    ERASED,
    approved_digest,
    journal,
    lineage,
    lineage_at,
    live_steps,
    lock_run,
    missing_checkpoint,
    read_position,
    unfinished_rows,
)
from runs.store.stepping import (
    Committed,
    SnapshotDue,
    commit_call,
    commit_step,
    is_written,
    note_late_result,
    note_log,
    note_overdue,
    note_progress,
    note_usage,
)
from runs.store.undoing import (
    ClaimedUndo,
    can_be_taken_back,
    claim_undo,
    ending_of,
    made_too_late,
    taken_back,
    undo_at,
    undo_steps,
    undos,
)
from runs.store.waits import add_signal, answered, free_signals, open_waits, waiting_steps
from runs.store.weights import PATCH_OVERHEAD, Weights

__all__ = [
    "ERASED",
    "LOCK_SPACE",
    "LOST",
    "PATCH_OVERHEAD",
    "Awake",
    "CallAt",
    "Claimed",
    "ClaimedUndo",
    "Committed",
    "Held",
    "Keeper",
    "NewBranch",
    "SnapshotDue",
    "Weights",
    "Writer",
    "add_signal",
    "answered",
    "approved_digest",
    "beat",
    "can_be_taken_back",
    "check_fence",
    "check_held",
    "child_of",
    "children_at",
    "claim",
    "claim_undo",
    "commit",
    "commit_call",
    "commit_step",
    "depth_of",
    "disconnect",
    "due_timers",
    "due_waits",
    "ended_children",
    "ending_of",
    "free_signals",
    "hand_down",
    "handed_down",
    "has_stopped_ancestor",
    "insert_run",
    "is_connected",
    "is_written",
    "journal",
    "lapse",
    "lapsed_steps",
    "lineage",
    "lineage_at",
    "linked",
    "live_steps",
    "lock_run",
    "made_too_late",
    "missing_checkpoint",
    "note_late_result",
    "note_log",
    "note_overdue",
    "note_progress",
    "note_usage",
    "now",
    "open_waits",
    "overdue_runs",
    "own_connection",
    "persistently",
    "read_position",
    "refusal_of",
    "say_leaving",
    "set_lock_timeout",
    "sign",
    "size_of_tree",
    "suspect_children",
    "sweeping",
    "take_key",
    "taken_back",
    "to_pause",
    "to_resume",
    "to_stop",
    "undo_at",
    "undo_steps",
    "undos",
    "unfinished_rows",
    "unhinted_steps",
    "visible_child",
    "waiting_steps",
    "wake_all",
]
