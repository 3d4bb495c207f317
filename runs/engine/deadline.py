"""The clock of a run that may take only so long: it stands while the run waits for people, and when it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from runs.engine.status import TERMINAL, RunStatus


@dataclass(frozen=True, slots=True)
class Clock:
    """at: when the time is over, if nothing stops the clock. left: seconds that are left while it stands."""

    at: datetime | None
    left: float | None


def clock_after(
    before: Clock,
    *,
    deadline: float,
    moment: datetime,
    status: str,
    for_people: bool,
    anew: bool,
    over: bool = False,
) -> Clock:
    """The clock after a commit at this moment.

    deadline: seconds that the run may take in all. for_people: whether what a waiting run waits for is, or may be, people's.
    anew: steering a run winds it up. over: the run takes back what it did, and takes as long as that takes.
    """
    left = before.left if before.at is None else (before.at - moment).total_seconds()
    if left is None or anew:
        left = deadline
    if over or status in TERMINAL:
        return Clock(None, None)
    if status == RunStatus.PAUSED or (status == RunStatus.WAITING and for_people):
        return Clock(None, left)
    return Clock(moment + timedelta(seconds=left), None)
