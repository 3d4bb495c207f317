"""The list of the inbox: rows, views, filters, words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.utils.translation import gettext

from runs import inboxes
from runs.inboxes import Wanted
from runs.live.onlooking import Onlooker
from runs.models import Approval, SavedView
from runs.queries import votes_of, was_edited
from runs.templatetags import hidden, words
from runs.tongue import Words
from runs.web import sentence, signs
from runs.web.addresses import addresses
from runs.web.narrowing import Chip, FilterField, View

VIEWS: Final = Words(
    {
        "mine": "For me",
        "teams": "My teams",
        "unclaimed": "Unclaimed",
        "open": "All open",
        "decided": "Decided",
    }
)
STUCK: Final = "stuck"  # a view of operators
SIGNS: Final = {
    "mine": "person",
    "teams": "s-people",
    "unclaimed": "none",
    "open": "inbox",
    "decided": "check",
}
COUNTED: Final = ("mine", "teams", "unclaimed", "open")

SORTS: Final = Words({"due": "Due first", "risk": "Riskiest first", "age": "Oldest first"})
RISKS: Final = Words(
    {
        "critical": "critical",
        "high": "high or more",
        "medium": "medium or more",
        "low": "any that is said",
    }
)
DUES: Final = Words(
    {
        "overdue": "overdue",
        "hour": "within an hour",
        "day": "within a day",
        "week": "within a week",
        "none": "at no time",
    }
)
FILTERS: Final = Words(
    {
        "workflow": "Workflow",
        "tool": "Tool",
        "risk": "Risk",
        "due": "Due",
        "team": "Team",
        "requester": "Requester",
        "label": "Label",
        "status": "Closed as",
    }
)
FIELDS: Final = tuple(name for name in FILTERS if name != "status")  # in the form
CHOICES: Final[Mapping[str, Mapping[str, str]]] = {"risk": RISKS, "due": DUES}
HOME: Final = Wanted()
FIRSTS: Final = 3
NOTHING: Final = Words(
    {
        "mine": "Nothing waits for you",
        "teams": "Nothing waits for your teams",
        "unclaimed": "Somebody works on everything",
        "open": "No approval is open",
        STUCK: "Somebody can answer every open approval",
        "decided": "Nothing was decided yet",
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody is in the inbox: which approvals, from which one on. stuck: the view of what nobody can answer."""

    wanted: Wanted = HOME
    after: str = ""
    stuck: bool = False
    choosing: bool = False

    @property
    def query(self) -> str:
        """What links and forms carry along, so that the list stays the same; with its question mark, or empty."""
        told = {"view": STUCK} if self.stuck else self.wanted.as_dict()
        told |= {"after": self.after} if self.after else {}
        told |= {"choose": "yes"} if self.choosing else {}
        return f"?{urlencode(told)}" if told else ""

    @property
    def settled(self) -> Place:
        """The same, without boxes before the rows."""
        return replace(self, choosing=False)

    @property
    def view(self) -> str:
        return STUCK if self.stuck else self.wanted.view

    @property
    def narrowed(self) -> bool:
        """Whether something is left out that the view has."""
        return bool(self.wanted.q or any(getattr(self.wanted, name) for name in FILTERS))

    def but(self, **changes: str) -> Place:
        """The first page of it, with something else."""
        return Place(replace(self.wanted, **changes))


@dataclass(frozen=True, slots=True)
class Row:
    """An approval in a line. says: whom it asks, or how it was closed. quorum: how many have to say yes, where it is open and
    they are more than one; have: how many did."""

    id: str
    url: str
    title: str
    node: str
    workflow: str
    risk: str
    due: str
    late: bool
    says: str
    have: int = 0
    quorum: int = 0
    is_open: bool = True
    current: bool = False
    worked_by: str = ""
    onlookers: Sequence[Onlooker] = ()

    @property
    def spelled(self) -> str:
        """Its title, for where there is no markup."""
        return hidden.plain(self.title)


@dataclass(frozen=True, slots=True)
class Found:
    """What was read for a list: a page of approvals, how many there are of each view and of this one, saved views."""

    approvals: Sequence[Approval]
    next: str
    counts: Mapping[str, int]
    here: int
    saved: Sequence[SavedView]
    onlookers: Mapping[UUID, Sequence[Onlooker]]
    now: datetime


@dataclass(frozen=True, slots=True)
class Queue:
    place: Place
    title: str
    rows: list[Row]
    said: str
    views: list[View]
    saved: list[View]
    chips: list[Chip]
    next: str = ""
    first: str = ""
    url: str = ""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    answers: bool = False

    @property
    def choosable(self) -> bool:
        """Whether there is something that this reader could do to several of the rows."""
        return self.answers and bool(self.rows) and self.view != "decided"

    @property
    def current(self) -> Row | None:
        return next((row for row in self.rows if row.current), None)

    @property
    def view(self) -> str:
        return self.place.view

    @property
    def wanted(self) -> Wanted:
        return self.place.wanted

    @property
    def query(self) -> str:
        return self.place.query

    @property
    def news(self) -> str:
        """The same, for whoever has something to add."""
        return f"{self.query}&" if self.query else "?"

    @property
    def full(self) -> bool:
        return bool(self.next)

    @property
    def carried(self) -> dict[str, str]:
        """What the search leaves as it is."""
        return {name: value for name, value in self.wanted.as_dict().items() if name != "q"}

    @property
    def kept(self) -> dict[str, str]:
        """What the form of the filters leaves as it is."""
        return {name: value for name, value in self.wanted.as_dict().items() if name not in FIELDS}

    @property
    def filters(self) -> list[FilterField]:
        return [
            FilterField(
                name,
                FILTERS[name],
                getattr(self.wanted, name),
                gettext("name=value") if name == "label" else "",
                choices=CHOICES.get(name, {}),
                names=self.names.get(name, ()),
            )
            for name in FIELDS
        ]

    @property
    def sorts(self) -> list[View]:
        if self.view in ("decided", STUCK):
            return []
        return [
            View(word, self.url + self.place.but(sort=name).query, name == self.wanted.sort)
            for name, word in SORTS.items()
        ]

    @property
    def sorted_by(self) -> str:
        return SORTS[self.wanted.sort]

    @property
    def choosing(self) -> str:
        """Where boxes stand before the rows, or stand there no more."""
        return self.url + replace(self.place, choosing=not self.place.choosing).query

    @property
    def nothing(self) -> str:
        return gettext("Nothing is like this") if self.place.narrowed else NOTHING[self.view]

    @property
    def hint(self) -> str:
        if self.place.narrowed:
            return gettext("Take a filter off, or search for other words.")
        if self.view == "decided":
            return gettext("What is decided, or closes without a decision, stays here to be read.")
        return gettext("New approvals appear here by themselves.")

    @property
    def firsts(self) -> list[Row]:
        """The first row of each workflow: where somebody starts who has not opened any."""
        found: dict[str, Row] = {}
        for row in self.rows:
            found.setdefault(row.workflow, row)
        return list(found.values())[:FIRSTS]


def build(
    found: Found,
    place: Place,
    *,
    url: str,
    current: UUID | None = None,
    operator: bool = False,
    answers: bool = False,
    names: Mapping[str, Sequence[str]] | None = None,
) -> Queue:
    """operator, answers: whether the reader sees the views of operators, and may answer approvals at all."""
    address, query = addresses("approval"), place.query
    rows = [
        _row(
            approval,
            now=found.now,
            url=address(approval.pk) + query,
            current=approval.pk == current,
            onlookers=found.onlookers.get(approval.pk, ()),
        )
        for approval in found.approvals
    ]
    saved = [_saved(view, place, url) for view in found.saved]
    title = next(
        (view.word for view in saved if view.current), VIEWS.get(place.view, gettext("Nobody can answer"))
    )
    return Queue(
        place,
        title,
        rows,
        _said(found, place),
        _views(found, place, url, operator=operator),
        saved,
        _chips(place, url),
        next=url + replace(place, after=found.next).query if found.next else "",
        first=url + replace(place, after="").query if place.after else "",
        url=url,
        names=names or {},
        answers=answers,
    )


def _said(found: Found, place: Place) -> str:
    if place.view == "decided":
        return gettext("{said} closed").format(said=inboxes.said(found.here))
    soon = sum(1 for row in found.approvals if _is_due_within(row, found.now, timedelta(days=1)))
    more = "" if found.next else gettext(", {soon} due within a day").format(soon=soon) if soon else ""
    return gettext("{said} open{more}").format(said=inboxes.said(found.here), more=more)


def _views(found: Found, place: Place, url: str, *, operator: bool) -> list[View]:
    here = None if place.narrowed else place.view
    views = [
        View(
            word,
            url + Place(Wanted(view=name)).query,
            name == here,
            SIGNS[name],
            inboxes.said(found.counts[name]) if name in found.counts else "",
        )
        for name, word in VIEWS.items()
    ]
    if operator:
        stuck = Place(stuck=True)
        views.append(View(gettext("Nobody can answer"), url + stuck.query, place.stuck, "warn"))
    return views


def _saved(view: SavedView, place: Place, url: str) -> View:
    kept = Place(Wanted.of(view.query))
    current = not place.stuck and kept.wanted == place.wanted
    return View(view.name, url + kept.query, current, "tag", shared=view.team_id is not None)


def _chips(place: Place, url: str) -> list[Chip]:
    told = place.wanted.as_dict()
    return [
        Chip(word, CHOICES.get(name, {}).get(told[name], told[name]), url + place.but(**{name: ""}).query)
        for name, word in FILTERS.items()
        if name in told
    ]


def _row(approval: Approval, *, now: datetime, url: str, current: bool, onlookers: Sequence[Onlooker]) -> Row:
    is_open = approval.status == "open"
    left = approval.due_at - now if approval.due_at else None
    return Row(
        id=str(approval.pk),
        url=url,
        title=approval.title,
        node=approval.node,
        workflow=approval.run.workflow,
        risk=approval.risk,
        due=_due(approval, left, now=now),
        late=is_open and left is not None and left < timedelta(hours=1),
        says=sentence.whom(approval) if is_open else _closed(approval),
        have=votes_of(approval),
        quorum=approval.quorum if is_open and approval.quorum > 1 else 0,
        is_open=is_open,
        current=current,
        worked_by=str(approval.assignee) if is_open and approval.is_worked_on(now) else "",
        onlookers=onlookers if is_open else (),
    )


def _closed(approval: Approval) -> str:
    return signs.of_approval(approval, edited=was_edited(approval)).word


def _due(approval: Approval, left: timedelta | None, *, now: datetime) -> str:
    if approval.closed_at is not None:
        return gettext("{age} ago").format(age=words.age(approval.closed_at, now))
    if left is None:
        return ""
    return words.span(left) if left.total_seconds() > 0 else gettext("overdue")


def _is_due_within(approval: Approval, now: datetime, length: timedelta) -> bool:
    return approval.due_at is not None and approval.due_at - now <= length
