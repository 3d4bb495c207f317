"""The list of runs, asked. One `RunFilter` says which: the page, the API, exports and verbs for many runs are made of it.

Everything is asked within one project. Nothing counts further than a thousand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Lower, Now
from django.utils import timezone
from django.utils.translation import gettext

from runs import queries, store, workflows
from runs.engine import canonical
from runs.engine.status import RunStatus, StepStatus
from runs.errors import InvalidJson
from runs.models import Project, Run, RunTerm, Slot, Step, User, Wait
from runs.models.runs import IN_LINE, WAIT_KINDS
from runs.queries import LARGE, CountOf, Page, older_than

STATUSES: Final = (*(status.value for status in RunStatus), "retrying", "stalled")
WAITS: Final = (*WAIT_KINDS, "slot")
STARTED: Final[Mapping[str, timedelta]] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
}
COUNTED: Final = 1_000
EXPORTED: Final = 100_000
AT_ONCE: Final = 500  # rows of an export that are held at a time
LONGEST: Final = 200  # characters of a value
YEARS: Final = range(1970, 9999)  # near the ends of the calendar another zone is beyond it

Place = tuple[datetime, UUID]  # where a page begins or ends: the moment of a run's submission, and its id

_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "status": STATUSES,
    "waiting_for": WAITS,
    "started": tuple(STARTED),
}
_SHORT_ID: Final = re.compile(r"[Rr]-([0-9a-f]{4,32})\Z")
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\Z")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs: all that is said holds. What is empty asks for nothing.

    q: a run's id, also its short form `R-0a1b2c3d`; else a whole value of a label or of a field that is searched for, in
    capitals or not. status: of a run, or `retrying`, `stalled`. waiting_for: a kind of wait, or `slot`. limit_key: `name=key` of
    a limit, or the key alone. label, state: `name=value`, or a value alone. requester: a username. error: the code of what a run
    failed with. started: submitted within the last hour, day, week or month. created_from, created_until: submitted from the
    first on, before the second. labels: every one of these. ids: only these.
    """

    q: str = ""
    status: str = ""
    waiting_for: str = ""
    workflow: str = ""
    version: str = ""
    queue: str = ""
    limit_key: str = ""
    label: str = ""
    state: str = ""
    requester: str = ""
    error: str = ""
    started: str = ""
    created_from: datetime | None = None
    created_until: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ids: Sequence[UUID] | None = None

    @classmethod
    def of(cls, told: Mapping[str, str]) -> RunFilter:
        """What an address says; what nobody knows there, or nothing can be, asks for nothing."""
        kept: dict[str, Any] = {}
        for name in NAMES:
            text = told.get(name, "").strip()
            if text and not fault(name, text):
                kept[name] = _moment(name, text) if name in _MOMENTS else text
        return cls(**kept)

    def as_dict(self) -> dict[str, str]:
        """As an address says it."""
        told = {name: getattr(self, name) for name in NAMES}
        return {
            name: _day(name, value) if isinstance(value, datetime) else value
            for name, value in told.items()
            if value
        }

    @property
    def is_tab(self) -> bool:
        """Whether it asks for nothing but what there are few words for."""
        plain = self == RunFilter(status=self.status, waiting_for=self.waiting_for)
        return plain and self.status in ("", *STATUSES) and self.waiting_for in ("", *WAITS)

    @property
    def condition(self) -> Q:
        found = Q()
        for told, condition in self._conditions():
            if told:
                found &= condition()
        return found

    def _conditions(self) -> Iterator[tuple[object, Any]]:
        yield self.q, lambda: _sought(self.q)
        yield self.status, lambda: _of_status(self.status)
        yield self.waiting_for, lambda: _waits_for(self.waiting_for)
        yield self.workflow, lambda: Q(workflow=self.workflow)
        yield self.version, lambda: Q(workflow_version=self.version)
        yield self.queue, lambda: Q(queue=self.queue)
        yield self.limit_key, lambda: _under(self.limit_key)
        yield self.label, lambda: _found_by("label", self.label)
        yield self.state, lambda: _found_by("state", self.state)
        yield self.requester, lambda: Q(requester=_account(self.requester))
        yield self.error, lambda: Q(status="failed", _error=self.error)
        yield self.started, lambda: Q(created_at__gte=Now() - STARTED[self.started])
        yield self.created_from, lambda: Q(created_at__gte=self.created_from)
        yield self.created_until, lambda: Q(created_at__lt=self.created_until)
        for name, value in self.labels.items():
            yield True, lambda name=name, value=value: _found_by("label", f"{name}={value}")
        yield self.ids is not None, lambda: Q(pk__in=self.ids)


_MOMENTS: Final = ("created_from", "created_until")
NAMES: Final = tuple(one.name for one in fields(RunFilter) if one.name not in ("labels", "ids"))


def fault(name: str, value: str) -> str:
    """What is wrong with a value of an address, in words; empty where nothing is."""
    choices = _CHOICES.get(name)
    if choices is not None and value not in (*choices, ""):
        return gettext("one of {choices}").format(choices=", ".join(choices))
    if name in _MOMENTS and value and _moment(name, value) is None:
        return gettext("a day or an instant, such as 2026-11-30")
    try:
        canonical.check(value)
    except InvalidJson as error:
        return error.errors[0].message
    return "" if len(value) <= 2 * LONGEST else gettext("at most {most} characters").format(most=2 * LONGEST)


def _moment(name: str, text: str) -> datetime | None:
    """A day is its beginning where something begins, and its end where it ends, on the reader's clock."""
    try:
        found = _instant(name, text)
    except ValueError:
        return None
    return found if found.year in YEARS else None


def _instant(name: str, text: str) -> datetime:
    if "T" in text:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else timezone.make_aware(moment)
    day = date.fromisoformat(text)
    if day.year not in YEARS:
        raise ValueError(text)
    late = timedelta(days=1) if name == "created_until" else timedelta()
    return timezone.make_aware(datetime.combine(day, time.min) + late)


def _day(name: str, moment: datetime) -> str:
    local = timezone.localtime(moment)
    if local.time() != time.min:
        return moment.astimezone(UTC).isoformat()
    late = timedelta(days=1) if name == "created_until" else timedelta()
    return (local.replace(tzinfo=None) - late).date().isoformat()


# ---- conditions


def _of_status(status: str) -> Q:
    if status == "retrying":
        return Q(status="waiting") & _waits_for("retry")
    if status == "stalled":
        silent = Step.objects.filter(run=OuterRef("pk"), status=StepStatus.EXECUTING, lease_until__lt=Now())
        return Q(Exists(silent), status="running")
    return Q(status=status)


def _waits_for(kind: str) -> Q:
    if kind == "slot":
        return IN_LINE
    return Q(Exists(Wait.objects.filter(run=OuterRef("pk"), kind=kind, closed_at=None)))


def _under(told: str) -> Q:
    name, has_name, key = told.partition("=")
    slots = Slot.objects.filter(
        run=OuterRef("pk"), project=OuterRef("project"), key=key if has_name else told
    )
    return Q(Exists(slots.filter(name=name) if has_name else slots))


def _account(username: str) -> Subquery:
    return Subquery(User.objects.filter(username=username).values("pk")[:1])


def _found_by(kind: str, told: str) -> Q:
    """By `name=value`, letter for letter, or by a value alone."""
    name, has_name, value = told.partition("=")
    if not has_name:
        return _has(kind=kind, value=told)
    return _has(kind=kind, value=value, name=name, exactly=True)


def _sought(words: str) -> Q:
    short, whole = _SHORT_ID.match(words), _ID.match(words)
    if short:
        return Q(pk__gte=UUID(short[1].ljust(32, "0")), pk__lte=UUID(short[1].ljust(32, "f")))
    if whole:
        return Q(pk=UUID(words))
    name, has_name, value = words.partition("=")
    return _has(value=value, name=name) if has_name else _has(value=words)


def _has(*, value: str, exactly: bool = False, **told: str) -> Q:
    rows = RunTerm.objects.alias(low=Lower("value")).filter(
        run=OuterRef("pk"),
        project=OuterRef("project"),
        low=value.lower(),
        **{k: v for k, v in told.items() if v},
    )
    if exactly:
        rows = rows.filter(value=value)
    for workflow, names in _blind().items():
        rows = rows.exclude(kind="state", name__in=names, run__workflow=workflow)
    return Q(Exists(rows))


def _blind() -> dict[str, set[str]]:
    """By workflow, fields that one version makes searchable and another, which came later, hides."""
    found: dict[str, set[str]] = {}
    for flow in workflows.every_version():
        hidden = workflows.hidden_fields(flow)
        if hidden:
            found.setdefault(flow.name, set()).update(hidden)
    return found


# ---- rows


def rows(project_id: UUID, which: RunFilter) -> QuerySet[Run]:
    """Every run that is wanted, without its documents, in no order."""
    return _rows(project_id, which).select_related("requester").defer(*LARGE)


def _rows(project_id: Any, which: RunFilter) -> QuerySet[Run]:
    return Run.objects.alias(_error=KT("error__code")).filter(which.condition, project=project_id)


@dataclass(slots=True)
class Listing:
    """A page of runs, newest first, and whether there are newer and older ones."""

    rows: list[Run]
    newer: bool
    older: bool


_RUN: Final = store.Part(Run, without=LARGE)
_REQUESTER: Final = store.Part(User, "requester")


def page(
    project_id: UUID,
    which: RunFilter,
    *,
    before: Place | None = None,
    after: Place | None = None,
    limit: int,
) -> Listing:
    """Runs that are older than `before`, or else newer than `after`; the newest without either. One query."""
    if after is not None and before is None:
        some = _some(project_id, which, "newer", after, limit + 1)
        return Listing(some[:limit][::-1], newer=len(some) > limit, older=True)
    some = _some(project_id, which, "older", before, limit + 1)
    return Listing(some[:limit], newer=before is not None, older=len(some) > limit)


def _some(project_id: UUID, which: RunFilter, side: str, place: Place | None, limit: int) -> list[Run]:
    """Those on one side of a place, the nearest first."""

    def query(project: Any, place: Any) -> QuerySet[Run, Any]:
        found = _rows(project, which)
        if side == "newer":
            found = found.filter(_newer(place)).order_by("created_at", "id")
        else:
            found = older_than(found, place).order_by("-created_at", "-id")
        return found.values_list(*_RUN.names, *_REQUESTER.names)[:limit]

    told: dict[str, Any] = {"project": project_id}
    if place is not None:
        told |= {"moment": place[0], "last": place[1]}
    name = f"runs {side if place else ''} {limit}"
    found = []
    for row in _answers(name, query, which, told):
        run, run.requester = store.instances(row, _RUN, _REQUESTER)
        found.append(run)
    return found


def _answers(
    name: str, query: Callable[[Any, Any], QuerySet[Any, Any]], which: RunFilter, told: dict[str, Any]
) -> list[Any]:
    """The rows of a query of values, made of a project and a place. That of a tab is written once."""
    if not which.is_tab:
        return list(query(told["project"], (told["moment"], told["last"]) if "last" in told else None))
    project, moment, last = (store.Given(one) for one in ("project", "moment", "last"))
    place = (moment, last) if "last" in told else None
    return store.answers(f"{name} {which.status} {which.waiting_for}", lambda: query(project, place), **told)


def newest_first(project_id: UUID, which: RunFilter, *, after: Place | None, limit: int) -> Page[Run]:
    """Runs after a place of the list, which is newest first. One query."""
    return queries.newest_first(rows(project_id, which), after, limit)


def by_id(project_id: UUID, which: RunFilter, *, after: UUID | None, limit: int) -> Page[Run]:
    """Runs that match, in the order of their ids. One query."""
    found = rows(project_id, which)
    if after is not None:
        found = found.filter(pk__gt=after)
    return Page.of(found.order_by("pk"), limit)


def every(
    project_id: UUID, which: RunFilter, *, after: Place | None = None, most: int = EXPORTED
) -> Iterator[list[Run]]:
    """The newest runs that match, some at a time, at most so many in all. A query for each of them."""
    place, left = after, most
    while left > 0:
        some = newest_first(project_id, which, after=place, limit=min(AT_ONCE, left))
        if some.rows:
            yield some.rows
            place = place_of(some.rows[-1])
        left = left - len(some.rows) if some.more else 0


def count(project_id: UUID, which: RunFilter) -> int:
    """How many match, counted to a thousand and one. One query."""

    def query(project: Any, _: Any) -> QuerySet[Project, Any]:
        some = _rows(project, which).order_by().values("pk")[: COUNTED + 1]
        return Project.objects.filter(pk=project).values_list(CountOf(some))

    [[found]] = _answers("count of runs", query, which, {"project": project_id})
    return int(found)


def mark(found: Iterable[Run]) -> str:
    """Changes whenever these rows would read otherwise."""
    told = [(run.pk, run.status, run.seq, run.version) for run in found]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def terms(runs: Sequence[Run]) -> dict[UUID, dict[str, str]]:
    """Fields of their states by which some runs are found. One query, none without runs."""
    found: dict[UUID, dict[str, str]] = {}
    blind = _blind()
    known = {run.pk: run.workflow for run in runs}
    for run_id, name, value in store.answers("terms", _terms, runs=list(known)) if known else ():
        if name not in blind.get(known[run_id], ()):
            found.setdefault(run_id, {})[name] = value
    return found


def _terms() -> QuerySet[RunTerm, Any]:
    rows = RunTerm.objects.filter(run=store.Given("runs", many=True), kind="state")
    return rows.order_by("name").values_list("run", "name", "value")


def place_of(run: Run) -> Place:
    return run.created_at, run.pk


def _newer(place: Place) -> Q:
    moment, last = place
    return Q(created_at__gte=moment) & (Q(created_at__gt=moment) | Q(pk__gt=last))
