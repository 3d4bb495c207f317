"""What goes, what stays, and how rows go: retention's side of Postgres.

Everything here works on runs that have ended, in short transactions of the caller's. A run goes whole or not at all.
"""

from runs.keeping.chores import CHORES, Chore, clear
from runs.keeping.compacting import Compacted, compact, kept_checkpoints
from runs.keeping.due import SPARED, SPARED_FROM_REMOVAL, lock_due, to_compact, to_remove, why_spared
from runs.keeping.erasing import CONTENT, DROPPED, erase
from runs.keeping.removing import owned, remove, was_removed
from runs.keeping.rules import Rule, ends_on, rules

__all__ = [
    "CHORES",
    "CONTENT",
    "DROPPED",
    "SPARED",
    "SPARED_FROM_REMOVAL",
    "Chore",
    "Compacted",
    "Rule",
    "clear",
    "compact",
    "ends_on",
    "erase",
    "kept_checkpoints",
    "lock_due",
    "owned",
    "remove",
    "rules",
    "to_compact",
    "to_remove",
    "was_removed",
    "why_spared",
]
