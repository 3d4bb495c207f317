"""The inbox, asked. One `Wanted` says which approvals: badge, counters, list and next item are made of it, so they never differ.

Everything is asked within one project. No page counts further than a hundred.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext

from runs import cursors, policies, queries, store
from runs.engine import finding
from runs.engine.redaction import MARK
from runs.engine.status import ApprovalStatus
from runs.models import Approval, Project, Run, Snooze, User, Vote
from runs.models.approvals import RISKIEST_FIRST
from runs.policies import Actor

VIEWS: Final = ("mine", "teams", "unclaimed", "open", "decided")
SORTS: Final = ("due", "risk", "age")
DUES: Final[Mapping[str, timedelta | None]] = {
    "overdue": timedelta(0),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "none": None,
}
COUNTED: Final = 100
LONGEST: Final = 200  # characters of a value
_MAY_HIDE: Final = "may_hide"  # what a line of a list has beside its columns

_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "view": VIEWS,
    "sort": SORTS,
    "due": tuple(DUES),
    "risk": RISKIEST_FIRST,
    "status": tuple(status.value for status in ApprovalStatus if status is not ApprovalStatus.OPEN),
}
_ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "due": ("due_key", "opened_at", "id"),
    "risk": ("risk_key", "due_key", "opened_at", "id"),
    "age": ("opened_at", "id"),
    "closed": ("-closed_at", "-id"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which approvals, and in which order. What is empty asks for nothing.

    view: one of `VIEWS`. q: words that are searched for. risk: that or a higher one. due: within so long, or with no due time
    at all. team: that is asked. requester: the account name of whom the run acts for. label: `name=value`. status: of those
    that are closed, only these. sort: of those that are open; closed ones come last closed first.
    """

    view: str = "mine"
    q: str = ""
    workflow: str = ""
    tool: str = ""
    risk: str = ""
    due: str = ""
    team: str = ""
    requester: str = ""
    label: str = ""
    status: str = ""
    sort: str = "due"

    @classmethod
    def of(cls, told: Mapping[str, str]) -> Wanted:
        """What an address says; what nobody knows there asks for nothing."""
        kept = {name: told[name] for name in NAMES if name in told and not fault(name, told[name])}
        return cls(**kept)

    def as_dict(self) -> dict[str, str]:
        """What differs from the inbox as it opens."""
        return {
            one.name: value for one in fields(self) if (value := str(getattr(self, one.name))) != one.default
        }

    @property
    def order(self) -> str:
        return "closed" if self.view == "decided" else self.sort

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a view."""
        return self == Wanted(view=self.view, sort=self.sort)


NAMES: Final = tuple(one.name for one in fields(Wanted))


def fault(name: str, value: str) -> str:
    """What is wrong with a value of an address, in words; empty where nothing is."""
    choices = _CHOICES.get(name)
    if choices is not None and value not in (*choices, ""):
        return gettext("one of {choices}").format(choices=", ".join(choices))
    if name in ("view", "sort") and not value:
        return gettext("not empty")
    return (
        ""
        if len(value) <= LONGEST and "\0" not in value
        else gettext("at most {most} characters").format(most=LONGEST)
    )


# ---- for whom


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom an inbox is for: what of a person, and of those in whose place they answer, candidates are compared with."""

    user: User
    seats: Sequence[AskedSeat]

    @property
    def teams(self) -> list[str]:
        """The person's own."""
        return sorted({team for seat in self.seats if seat.user == self.user for team in seat.teams})


@dataclass(frozen=True, slots=True)
class AskedSeat:
    user: User
    teams: frozenset[str]
    reviewer: bool


def asked(actor: Actor) -> Asked:
    """Whom the inbox of this person is for: nobody whom nothing can ask. One query."""
    if not policies.DECIDERS & actor.roles:
        return Asked(actor.user, [])
    return Asked(actor.user, [AskedSeat(seat.user, seat.teams, seat.reviewer) for seat in actor.seats])


@dataclass(frozen=True, slots=True)
class _Asker:
    """What the conditions of an inbox compare with. Each value may be the place of one (`store.Given`)."""

    project: Any
    user: Any
    teams: Any
    seats: Sequence[_Seat]

    @classmethod
    def of(cls, project_id: UUID, asked: Asked, place: Callable[[str, Any], Any]) -> _Asker:
        """place: what stands in the query for a value, by its name."""
        seats = [
            _Seat(
                place(f"user_{no}", seat.user.pk),
                place(f"name_{no}", seat.user.username),
                place(f"teams_{no}", sorted(seat.teams)),
                seat.reviewer,
            )
            for no, seat in enumerate(asked.seats)
        ]
        return cls(
            place("project", project_id), place("user", asked.user.pk), place("teams", asked.teams), seats
        )

    @property
    def q(self) -> Q:
        """Open approvals that wait for this person: they may decide them, have not done so, and have not snoozed them."""
        asked: Q = Q(pk__in=[])
        for seat in self.seats:
            asked |= seat.q
        later = Exists(Snooze.objects.filter(approval=OuterRef("pk"), user=self.user, until__gt=Now()))
        said = Exists(
            Vote.objects.filter(approval=OuterRef("pk"), version=OuterRef("version"), user=self.user)
        )
        mine: Q = Q(status=ApprovalStatus.OPEN) & asked & ~_asked_by(self.user)
        return mine & Q(~later) & Q(~said)


@dataclass(frozen=True, slots=True)
class _Seat:
    user: Any
    name: Any
    teams: Any
    reviewer: bool

    @property
    def q(self) -> Q:
        """Asked by name, by team or as any reviewer, and not the requester."""
        anybody = Q(teams=[], users=[]) if self.reviewer else Q(pk__in=[])
        asked: Q = Q(users__contains=[self.name]) | _asks_teams(self.teams) | anybody
        return asked & ~_asked_by(self.user)


def _asks_teams(teams: Any) -> Q:
    return Q(teams__overlap=teams) if teams else Q(pk__in=[])


def _asked_by(user: Any) -> Q:
    asked = Q(run__requester=user) | Q(run__submitted_by=user)
    return asked & ~Q(options__contains={"requester_may_decide": True})


# ---- which


def rows(project_id: UUID, wanted: Wanted, asked: Asked) -> QuerySet[Approval]:
    """Every approval that is wanted, in no order."""
    return _rows(wanted, _Asker.of(project_id, asked, _itself))


def _rows(wanted: Wanted, who: _Asker) -> QuerySet[Approval]:
    found = Approval.objects.filter(_in_view(wanted.view, who), project=who.project)
    for told, condition in _conditions(wanted):
        if told:
            found = found.filter(condition)
    exact = [finding.exactly(name, value) for name in ("tool", "label") if (value := getattr(wanted, name))]
    sought = finding.sought(wanted.q, *exact)
    if wanted.q and not finding.words_in([wanted.q]):
        return found.none()  # nothing has such words: signs alone are no words
    return found.filter(store.has_words(sought)) if sought else found


def _answers(
    name: str, query: Callable[[_Asker], QuerySet[Any, Any]], project_id: UUID, asked: Asked, *, often: bool
) -> list[Any]:
    """The rows of a query of values. often: whether people ask it all day. Then it is written once for everybody whose seats
    are of the same kinds, under this name; in it nothing may stand that somebody has typed."""
    if not often:
        return list(query(_Asker.of(project_id, asked, _itself)))
    told: dict[str, Any] = {}
    who = _Asker.of(project_id, asked, partial(_given, told))
    kinds = "".join("r" if seat.reviewer else "o" for seat in asked.seats)
    return store.answers(f"{name} {kinds}", lambda: query(who), **told)


def _itself(_: str, value: Any) -> Any:
    return value


def _given(told: dict[str, Any], name: str, value: Any) -> store.Given:
    told[name] = value
    return store.Given(name)


def _in_view(view: str, who: _Asker) -> Q:
    is_open = Q(status=ApprovalStatus.OPEN)
    if view == "mine":
        return who.q
    if view == "unclaimed":
        return who.q & ~Q(assignee__isnull=False, assigned_until__gt=Now())
    if view == "teams":
        return is_open & _asks_teams(who.teams)
    return ~is_open if view == "decided" else is_open


def _conditions(wanted: Wanted) -> list[tuple[str, Q]]:
    risky = RISKIEST_FIRST[: RISKIEST_FIRST.index(wanted.risk) + 1] if wanted.risk else ()
    within = DUES[wanted.due] if wanted.due else None
    due = Q(due_at__isnull=True) if within is None else Q(due_key__lte=Now() + within)
    return [
        (wanted.workflow, Q(run__workflow=wanted.workflow)),
        (wanted.risk, Q(risk__in=risky)),
        (wanted.due, due),
        (wanted.team, Q(teams__contains=[wanted.team])),
        (wanted.requester, Q(run__requester__username=wanted.requester)),
        (wanted.status, Q(status=wanted.status)),
    ]


# ---- rows


@dataclass(slots=True)
class Listing:
    """A page of approvals with their runs and votes, and where the next one begins; empty on the last."""

    rows: list[Approval]
    next: str = ""


def page(project_id: UUID, wanted: Wanted, asked: Asked, *, after: str = "", limit: int) -> Listing:
    """Approvals in their order. Two queries. Raises `ValueError` for what is no `next` of such a list."""
    found = _from(rows(project_id, wanted, asked), wanted.order, after)
    some = list(queries.with_votes(found)[: limit + 1])
    return Listing(some[:limit], cursor(some[limit - 1], wanted.order) if len(some) > limit else "")


_ITEM: Final = store.Part(
    Approval,
    only=(
        *("id", "run_id", "node", "status", "version", "title", "risk", "teams", "users", "quorum", "stage"),
        *("assignee_id", "assigned_until", "opened_at", "due_at", "closed_at", "outcome", "closed_reason"),
        *("due_key", "risk_key"),
    ),
)
_OF: Final = store.Part(Run, "run", only=("id", "workflow", "workflow_version"))
_ASSIGNEE: Final = store.Part(User, "assignee", only=("id", "username", "name"))


def items(project_id: UUID, wanted: Wanted, asked: Asked, *, after: str = "", limit: int) -> Listing:
    """The same as `page`, of each only what its line in a list says: not its document. One query."""
    often = wanted.is_whole and not after
    query = partial(_items, wanted, after, limit)
    found = _answers(f"items {wanted.view} {wanted.order} {limit}", query, project_id, asked, often=often)
    some = [_item(row) for row in found]
    return Listing(some[:limit], cursor(some[limit - 1], wanted.order) if len(some) > limit else "")


def _items(wanted: Wanted, after: str, limit: int, who: _Asker) -> QuerySet[Approval, Any]:
    votes = Vote.objects.filter(approval=OuterRef("pk"), version=OuterRef("version"), stage=OuterRef("stage"))
    edits = Vote.objects.filter(approval=OuterRef("pk"), decisive=True, edited=True)
    found = _from(_rows(wanted, who), wanted.order, after).annotate(
        votes_for=queries.count_of(votes.filter(outcome="approve"), "approval"),
        was_edited=Exists(edits),
        may_hide=Q(document__contains=f'"{MARK}"'),
    )
    names = (*_ITEM.names, *_OF.names, *_ASSIGNEE.names, "votes_for", "was_edited", "may_hide")
    return found.values_list(*names)[: limit + 1]


def _item(row: Sequence[Any]) -> Approval:
    one: Approval
    one, one.run, one.assignee = store.instances(row, _ITEM, _OF, _ASSIGNEE)
    *_, votes_for, was_edited, may_hide = row
    queries.tell_votes(one, votes_for, edited=was_edited)
    setattr(one, _MAY_HIDE, may_hide)
    return one


def may_hide(approval: Approval) -> bool:
    """Whether a document may say of some of what it holds who may see it."""
    return getattr(approval, _MAY_HIDE, True)


def following(project_id: UUID, wanted: Wanted, asked: Asked, approval_id: UUID) -> UUID | None:
    """The one that comes after an approval in a list, in which it need not be any more; after the last, the first. Two queries,
    three at the end of the list."""
    here = Approval.objects.filter(project=project_id, pk=approval_id).first()
    if here is None:
        return None
    others = rows(project_id, wanted, asked).exclude(pk=approval_id)
    for after in (cursor(here, wanted.order), ""):
        found = _from(others, wanted.order, after).values_list("pk", flat=True).first()
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many there are, by name, and the moment by the database's clock."""

    by: Mapping[str, int]
    moment: datetime


def counts(project_id: UUID, asked: Asked, wanted: Mapping[str, Wanted]) -> Counts:
    """How many there are of each, counted to a hundred. One query, and one for all that are not the whole of a view."""
    orderless = {name: replace(one, sort="due") for name, one in wanted.items()}
    each = dict.fromkeys(orderless.values())
    whole, narrowed = [one for one in each if one.is_whole], [one for one in each if not one.is_whole]
    found: dict[Wanted, int] = {}
    moment = None
    for some, often in ((whole, True), (narrowed, False)):
        if some:
            name = f"counts {' '.join(one.view for one in some)}"
            query = partial(_counts, some)
            [(*counted, moment)] = _answers(name, query, project_id, asked, often=often)
            found |= dict(zip(some, counted, strict=True))
    assert moment is not None, wanted
    return Counts({name: found[one] for name, one in orderless.items()}, moment)


def _counts(wanted: Sequence[Wanted], who: _Asker) -> QuerySet[Project, Any]:
    counted = [queries.CountOf(_rows(one, who).order_by().values("pk")[:COUNTED]) for one in wanted]
    return Project.objects.filter(pk=who.project).values_list(*counted, Now())


def badge(project_id: UUID, asked: Asked) -> int:
    """How many approvals wait for a person, counted to a hundred. One query."""
    return counts(project_id, asked, {"mine": Wanted()}).by["mine"]


def said(count: int) -> str:
    """A count as a person reads it."""
    return f"{count}" if count < COUNTED else f"{COUNTED - 1}+"


# ---- where a page begins


def cursor(row: Approval, order: str) -> str:
    """An opaque text for "after this one"."""
    told = [order, *(_text(getattr(row, name.lstrip("-"))) for name in _ORDERS[order])]
    return cursors.packed(json.dumps(told))


def is_cursor(text: str, order: str) -> bool:
    """Whether this is a `cursor` of such a list."""
    try:
        _place(text, order)
    except ValueError:
        return False
    return True


def _from(found: QuerySet[Approval], order: str, after: str) -> QuerySet[Approval]:
    names = _ORDERS[order]
    if after:
        found = found.filter(_beyond(names, _place(after, order)))
    return found.order_by(*names)


def _beyond(names: Sequence[str], place: Sequence[Any]) -> Q:
    """Behind a place, all of whose columns go in one direction. The first column alone is said once more: so an index leads."""
    step = "lt" if names[0].startswith("-") else "gt"
    columns = [name.lstrip("-") for name in names]
    found = Q()
    for depth, (column, value) in enumerate(zip(columns, place, strict=True)):
        same = dict(zip(columns[:depth], place[:depth], strict=True))
        found |= Q(**same, **{f"{column}__{step}": value})
    bound: Q = found & Q(**{f"{columns[0]}__{step}e": place[0]})
    return bound


def _place(after: str, order: str) -> list[Any]:
    told = json.loads(cursors.unpacked(after))
    if not isinstance(told, list) or told[:1] != [order] or len(told) != len(_ORDERS[order]) + 1:
        raise ValueError(after)
    return [_value(name.lstrip("-"), text) for name, text in zip(_ORDERS[order], told[1:], strict=True)]


def _text(value: datetime | UUID | int) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _value(name: str, told: object) -> datetime | UUID | int:
    text = str(told)
    if name == "id":
        return UUID(text)
    if name == "risk_key":
        return min(int(text[:3]), len(RISKIEST_FIRST))
    return cursors.moment(text)
