"""The list of the inbox: rows, views, words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from runs.models import Approval
from runs.templatetags import words
from runs.web import sentence, signs

VIEWS: Final = {"mine": "For me", "unclaimed": "Unclaimed", "open": "All open", "decided": "Closed"}
STUCK: Final = "stuck"  # a view of operators

FIRSTS: Final = 3
NOTHING: Final = {
    "mine": "Nothing waits for you",
    "unclaimed": "Somebody works on everything",
    "open": "No approval is open",
    STUCK: "Somebody can answer every open approval",
    "decided": "Nothing was decided yet",
}


@dataclass(frozen=True, slots=True)
class Row:
    approval: Approval
    sign: signs.Sign
    due: str
    late: bool
    have: int
    whom: str
    current: bool
    worked_by: str = ""


@dataclass(frozen=True, slots=True)
class View:
    word: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Queue:
    view: str
    rows: list[Row]
    said: str
    views: list[View]
    older: str
    full: bool = False

    @property
    def title(self) -> str:
        return VIEWS.get(self.view, "Nobody can answer")

    @property
    def nothing(self) -> str:
        return NOTHING[self.view]

    @property
    def hint(self) -> str:
        if self.view == "decided":
            return "What is decided, or closes without a decision, stays here to be read."
        return "New approvals appear here by themselves."

    @property
    def query(self) -> str:
        """What links and forms carry along, so that the list stays the same."""
        return "" if self.view == "mine" else f"?view={self.view}"

    @property
    def firsts(self) -> list[Row]:
        """The first row of each workflow: where somebody starts who has not opened any."""
        found: dict[str, Row] = {}
        for row in self.rows:
            found.setdefault(row.approval.run.workflow, row)
        return list(found.values())[:FIRSTS]

    def after(self, approval_id: UUID) -> Approval | None:
        """The row that comes after one, or before it at the end: what opens when this one is decided."""
        ids = [row.approval.pk for row in self.rows]
        others = [row.approval for row in self.rows if row.approval.pk != approval_id]
        if not others:
            return None
        place = ids.index(approval_id) if approval_id in ids else 0
        return others[min(place, len(others) - 1)]


def build(
    approvals: Sequence[Approval],
    *,
    view: str,
    now: datetime,
    url: str,
    current: UUID | None = None,
    more: bool = False,
    operator: bool = False,
) -> Queue:
    rows = [_row(approval, now=now, current=approval.pk == current) for approval in approvals]
    soon = sum(1 for row in rows if _is_due_within(row.approval, now, timedelta(days=1)))
    said = f"{len(rows)}{'+' if more else ''} {'closed' if view == 'decided' else 'open'}"
    said += f", {soon} due within a day" if soon and view != "decided" else ""
    views = [
        View(word, url if name == "mine" else f"{url}?view={name}", name == view)
        for name, word in {**VIEWS, **({STUCK: "Nobody can answer"} if operator else {})}.items()
    ]
    last = approvals[-1] if approvals else None
    older = ""
    if more and view == "decided" and last is not None and last.closed_at is not None:
        older = f"{url}?view=decided&before={last.closed_at.timestamp():.6f}&id={last.pk}"
    return Queue(view, rows, said, views, older, more)


def _row(approval: Approval, *, now: datetime, current: bool) -> Row:
    votes = [vote for vote in approval.votes.all() if vote.version == approval.version]
    is_open = approval.status == "open"
    left = approval.due_at - now if approval.due_at else None
    return Row(
        approval=approval,
        sign=signs.of_approval(
            approval, edited=any(vote.decisive and vote.edited for vote in approval.votes.all())
        ),
        due=_due(approval, left, now=now),
        late=is_open and left is not None and left < timedelta(hours=1),
        have=sum(1 for vote in votes if vote.outcome == "approve" and vote.stage == approval.stage),
        whom=sentence.whom(approval),
        current=current,
        worked_by=str(approval.assignee) if is_open and approval.is_worked_on(now) else "",
    )


def _due(approval: Approval, left: timedelta | None, *, now: datetime) -> str:
    if approval.closed_at is not None:
        return f"{words.age(approval.closed_at, now)} ago"
    if left is None:
        return ""
    return words.span(left) if left.total_seconds() > 0 else "overdue"


def _is_due_within(approval: Approval, now: datetime, length: timedelta) -> bool:
    return approval.due_at is not None and approval.due_at - now <= length
