"""Reads of one run: what its page shows, each part in few queries, however long the run is. Within one project, as `queries`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Sum, TextField, Value
from django.db.models.functions import Cast, JSONObject, Left, Length, Now

from runs import queries, store
from runs.engine.lineage import Line
from runs.engine.status import StepStatus
from runs.errors import NotFound
from runs.models import (
    Approval,
    Branch,
    Checkpoint,
    Child,
    Event,
    JournalEntry,
    LogLine,
    Run,
    Step,
    Usage,
    Wait,
)
from runs.queries import CallPlace, Page, Spent, count_of

WINDOW: Final = 200  # steps of a timeline that are drawn at once
COLUMNS: Final = 240  # of the strip that shows all of a long run
CALLS: Final = 1_000  # inside the steps of a window
LONGEST: Final = 20_000  # characters of a payload that are shown
ERRORS: Final = ("step_failed", "run_failed", "undo_failed", "undo_given_up")
FAILED: Final = 5


@dataclass(frozen=True, slots=True)
class Traced:
    """A run with the moment at which it was read, what changes when something is said of it, and how much there is of what."""

    run: Run
    now: datetime
    stir: str
    approvals: int
    branches: int
    others: int  # parent, origin, children and forks


def run(project_id: UUID, run_id: UUID, *, whole: bool = False) -> Traced:
    """One query; raises `NotFound`, or `Gone` if retention has removed it. whole: with its input and output."""
    found: Any = queries.run_with(
        project_id,
        run_id,
        without=() if whole else queries.LARGE,
        read_at=Now(),
        approval_count=count_of(Approval.objects.filter(run=OuterRef("pk")), "run"),
        branch_count=count_of(Branch.objects.filter(run=OuterRef("pk")), "run"),
        child_count=count_of(Child.objects.filter(parent=OuterRef("pk")), "parent"),
        fork_count=count_of(Run.objects.filter(forked_from=OuterRef("pk")), "forked_from"),
        **queries.STIR,
    )
    others = found.child_count + found.fork_count
    others += (found.parent_id is not None) + (found.forked_checkpoint is not None)
    return Traced(found, found.read_at, queries.stir(found), found.approval_count, found.branch_count, others)


def line_of(run: Run) -> Line:
    """The branch a run is on, and where it left the others. One query, none on the first branch."""
    return {run.branch: None} if run.branch == 1 else store.lineage(run.pk, run.branch)


def failed_steps(run: Run) -> list[Step]:
    """The newest steps of a run's branch that have failed. One query."""
    rows = Step.objects.filter(run=run, branch=run.branch, status=StepStatus.FAILED)
    return list(rows.order_by("-ended_at", "address")[:FAILED])


# ---- the timeline


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some steps of a run one after the other: numbers of the first and the last, from 1; when; how many failed, and go on."""

    first: int
    last: int
    begun_at: datetime
    ended_at: datetime
    failed: int
    live: int


def stretches(run_id: UUID) -> list[Stretch]:
    """All steps of a run on all branches, in as many stretches as a strip has room for. One query."""
    return [Stretch(*row) for row in store.stretches(run_id, window=WINDOW, columns=COLUMNS)]


def steps_from(run_id: UUID, first: int) -> list[Step]:
    """A window of a run's steps in the order in which they were made, from this one on, counted from 1. One query."""
    rows = Step.objects.filter(run=run_id).order_by("created_at", "branch", "address")
    return list(rows[first - 1 : first - 1 + WINDOW])


@dataclass(slots=True)
class Inside:
    """What is inside some steps: their waits, their calls without results, and what these used. more: there are more calls."""

    waits: list[Wait] = field(default_factory=list)
    calls: list[JournalEntry] = field(default_factory=list)
    spent: dict[CallPlace, Spent] = field(default_factory=dict)
    more: bool = False


def inside(run_id: UUID, steps: Sequence[Step]) -> Inside:
    """One query, none without steps."""
    found = Inside()
    if not steps:
        return found
    addresses = {step.address for step in steps}
    waits = Wait.objects.filter(run=run_id, address__in=addresses)
    # The branches are named so that the key's index leads to the addresses.
    calls = JournalEntry.objects.filter(
        run=run_id, branch__in={step.branch for step in steps}, address__in=addresses
    )
    used = Usage.objects.filter(run=run_id, address__in=addresses)
    every = store.as_json(waits, "opened_at").union(
        store.as_json(calls, "ended_at", without=("result", "arguments", "undo"), limit=CALLS),
        _used(used),
        all=True,
    )
    for name, _, row in every.order_by("at"):
        if name == Usage.__name__:
            _spend(found.spent, row)
        elif name == Wait.__name__:
            found.waits.append(store.from_json(Wait, row))
        else:
            found.calls.append(store.from_json(JournalEntry, row))
    found.more = len(found.calls) == CALLS
    return found


def _used(rows: QuerySet[Usage]) -> Any:
    """What each call used, by currency, as rows that go with others."""
    places = {name: F(name) for name in ("branch", "address", "call", "occurrence", "currency")}
    sums = {
        "given": Sum("model_tokens_in"),
        "got": Sum("model_tokens_out"),
        "cost": Cast(Sum("cost"), TextField()),  # as text: a number of JSON is no exact amount of money
    }
    told = (
        rows.order_by()
        .values(*places)
        .annotate(table=Value(Usage.__name__), at=Max("at"), row=JSONObject(**places, **sums))
    )
    return told.values_list("table", "at", "row")


def _spend(found: dict[CallPlace, Spent], row: dict[str, Any]) -> None:
    cost = {} if row["cost"] is None else {row["currency"]: Decimal(row["cost"])}
    place = (row["branch"], row["address"], row["call"], row["occurrence"])
    found.setdefault(place, Spent()).add(Spent(int(row["given"]), int(row["got"]), cost))


# ---- the history


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events: all that is said holds. words: somewhere in what the event tells; plain: but not in its payload."""

    kind: str = ""
    node: str = ""
    words: str = ""
    plain: bool = False

    def __bool__(self) -> bool:
        return bool(self.kind or self.node or self.words)

    @property
    def q(self) -> Q:
        found = Q()
        if self.kind:
            found &= Q(kind=self.kind)
        if self.node:
            found &= Q(node=self.node)
        if self.words:
            told = ("kind", "node", "actor") if self.plain else ("kind", "node", "actor", "payload")
            found &= reduce(or_, (Q(**{f"{name}__icontains": self.words}) for name in told))
        return found


@dataclass(frozen=True, slots=True)
class Told:
    """Kinds of events of a run and how many there are of each, steps that it tells of, the number of its first error."""

    kinds: dict[str, int]
    nodes: list[str]
    first_error: int | None


def told(run_id: UUID) -> Told:
    """What a run's history can be searched for. One query."""
    rows = Event.objects.filter(run=run_id).order_by().values_list("kind", "node")
    kinds: dict[str, int] = defaultdict(int)
    nodes: set[str] = set()
    errors = []
    for kind, node, count, first in rows.annotate(some=Count("*"), first=Min("seq")):
        kinds[kind] += count
        nodes.add(node)
        errors += [first] if kind in ERRORS else []
    return Told(dict(sorted(kinds.items())), sorted(nodes - {""}), min(errors, default=None))


def events(run_id: UUID, which: EventFilter, *, before: int | None, limit: int) -> Page[Event]:
    """The history of a run, newest first; payloads only where they are short. One query."""
    rows = _short(Event.objects.filter(which.q, run=run_id))
    if before is not None:
        rows = rows.filter(seq__lt=before)
    return _filled(Page.of(rows.order_by("-seq"), limit))


def events_after(run_id: UUID, after: int, *, limit: int) -> Page[Event]:
    """What came after a number, newest first; `more` if that is more than the limit. One query."""
    rows = _short(Event.objects.filter(run=run_id, seq__gt=after))
    found = _filled(Page.of(rows.order_by("seq"), limit))
    return Page(found.rows[::-1], found.more)


def event(run_id: UUID, seq: int) -> Event:
    """One event with its whole payload. One query; raises `NotFound`."""
    found = Event.objects.filter(run=run_id, seq=seq).first()
    if found is None:
        raise NotFound()
    return found


def _short(rows: QuerySet[Event]) -> QuerySet[Event]:
    return rows.defer("payload").annotate(size=Length("payload"), start=Left("payload", LONGEST))


def _filled(page: Page[Event]) -> Page[Event]:
    """Payloads that are short, whole; of one that is long its start is left beside it."""
    for row in page.rows:
        told: Any = row
        row.payload = told.start if told.size is None or told.size <= LONGEST else None
    return page


# ---- branches


def branches(run: Run, *, before: int | None, limit: int) -> Page[Branch]:
    """The branches of a run, newest first, and on the first page also those that its present one comes from. One query."""
    rows = Branch.objects.filter(run=run).order_by("-no")
    return Page.of(rows if before is None else rows.filter(no__lt=before), limit)


def heads(run_id: UUID, branches: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Of some branches the last checkpoint, and how many there are. One query."""
    rows = Checkpoint.objects.filter(run=run_id, branch__in=list(branches)).order_by().values_list("branch")
    return {no: (last, some) for no, last, some in rows.annotate(Max("no"), Count("no"))}


# ---- lists


def approvals(run_id: UUID, *, limit: int) -> list[Approval]:
    """The newest approvals of a run with their votes. Two queries."""
    rows = queries.with_votes(Approval.objects.filter(run=run_id))
    return list(rows.order_by("-opened_at", "-id")[:limit])


def effects(run_id: UUID, *, skip: int, limit: int) -> Page[JournalEntry]:
    """Calls that did something to the world, or can be taken back, newest first. One query."""
    rows = JournalEntry.objects.filter(run=run_id).exclude(effect="none", undo=None)
    return Page.of(rows.order_by("-ended_at", "-ordinal")[skip:], limit)


def lines(run_id: UUID, *, limit: int) -> list[LogLine]:
    """The newest lines that the nodes of a run have said, newest first. One query."""
    return list(LogLine.objects.filter(run=run_id).order_by("-at", "-no")[:limit])
