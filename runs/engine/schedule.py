"""When an answer is due, when people are reminded before it, and who is asked when it is over. Pure.

Each time an approval escalates, whoever is asked then has the whole time again, counted from that moment: also when nobody
could look for a day, nobody is asked after the time has passed. Reminders that were missed are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from runs.engine.canonical import Json
from runs.engine.hours import STANDARD, Business, Hours, hours_from
from runs.engine.stages import PERSON
from runs.engine.workflow import ApprovalOptions

HOURS: Final = "hours"  # among the rules of an approval: the working time that its due time was taken from


@dataclass(frozen=True, slots=True)
class Escalation:
    """The next step of an approval whose time is over: which level that is, who is asked too, and until when."""

    level: int
    to: str
    due: datetime


def first_team(options: ApprovalOptions) -> str:
    """The team whose working time counts: the first that is asked; empty if none is named."""
    return next((name for name in options.asked[0].reviewers if not name.startswith(PERSON)), "")


def with_hours(options: ApprovalOptions, hours: Hours) -> dict[str, Json]:
    """The rules as they are kept with an approval; with the working time, where they count any."""
    told = options.as_dict()
    return {**told, HOURS: hours.as_dict()} if isinstance(options.due, Business) else told


def due_after(options: Mapping[str, Any], moment: datetime, *, hours: Hours | None = None) -> datetime | None:
    """When an answer is due that is asked for at a moment. options: as kept. hours: other working time than was kept."""
    due = ApprovalOptions.of(options).due
    if due is None:
        return None
    if not isinstance(due, Business):
        return moment + timedelta(seconds=due)
    kept = options.get(HOURS)
    return (hours or (hours_from(kept) if kept else STANDARD)).after(moment, due)


def remind_at(options: Mapping[str, Any], due: datetime | None, *, after: datetime) -> datetime | None:
    """When people are reminded next; None if they are not reminded any more."""
    if due is None:
        return None
    instants = [due - timedelta(seconds=before) for before in options.get("remind", ())]
    return min((instant for instant in instants if instant > after), default=None)


def next_escalation(
    options: Mapping[str, Any], level: int, moment: datetime, *, hours: Hours | None = None
) -> Escalation | None:
    """What an approval comes to whose time is over, after so many escalations; None if nobody is left to ask."""
    chain = options.get("escalate_to", ())
    if level >= len(chain):
        return None
    due = due_after(options, moment, hours=hours)
    return None if due is None else Escalation(level + 1, chain[level], due)
