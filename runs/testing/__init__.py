"""Play a workflow in memory, or in one SQLite file: for authors' own tests and for notebooks. Needs no Django settings.

from runs.testing import play

played = play(refund, {"order_id": "88-4121"}, decisions={"confirm": "approve"})
assert played.status == "completed"
print(played)
"""

from runs.engine.hours import Hours
from runs.testing.book import PlayError
from runs.testing.crashing import Crash
from runs.testing.deciding import (
    DecisionMissing,
    Said,
    Unused,
    approve,
    edit,
    per_action,
    reject,
    respond,
)
from runs.testing.played import NotDeterministic, Play, Played, Sent, play

__all__ = [
    "Crash",
    "DecisionMissing",
    "Hours",
    "NotDeterministic",
    "Play",
    "PlayError",
    "Played",
    "Said",
    "Sent",
    "Unused",
    "approve",
    "edit",
    "per_action",
    "play",
    "reject",
    "respond",
]
