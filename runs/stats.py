"""What the statistics say of a project, or of one workflow of it, over a range of time. Reads of what was counted: no page
counts a history. A few queries each, of rows that grow with the range and with the number of workflows, not with runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils.translation import gettext, gettext_noop

from runs import store
from runs.engine import spread
from runs.engine.status import ApprovalStatus
from runs.models import Approval, Statistic
from runs.models.statistics import DAY, HOUR
from runs.queries import Spent

MOST_OPEN: Final = 10_000  # open approvals that are looked at
SERIES: Final = ("begun", "ended", "steps")
TOTALS: Final = ("ended", "failed", "decision", "team", "usage")
OF_NODES: Final = ("step", "step_failed")


@dataclass(frozen=True, slots=True)
class Range:
    """How far back a page looks: so many bars of so long, from rows of this grain."""

    name: str
    says: str
    bar: timedelta
    bars: int
    grain: str

    @property
    def words(self) -> str:
        return gettext(self.says)

    @property
    def length(self) -> timedelta:
        return self.bar * self.bars

    def begins(self, now: datetime) -> datetime:
        """The start of the first bar. Bars begin at midnight and whole multiples after it, in UTC; the last one is under way."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + (now - midnight) // self.bar * self.bar - self.bar * (self.bars - 1)


RANGES: Final = {
    one.name: one
    for one in (
        Range("24h", "24 h", timedelta(hours=1), 24, HOUR),
        Range("7d", "7 d", timedelta(hours=6), 28, HOUR),
        Range("30d", "30 d", timedelta(days=1), 30, DAY),
    )
}
DEFAULT: Final = "24h"


@dataclass(slots=True)
class Spread:
    """How long things took, by class. p50, p95: seconds, to within a fifth."""

    classes: Counter[int] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return sum(self.classes.values())

    @property
    def p50(self) -> float | None:
        return spread.quantile(self.classes, 0.5)

    @property
    def p95(self) -> float | None:
        return spread.quantile(self.classes, 0.95)


@dataclass(slots=True)
class Bar:
    """What happened from one instant on, for as long as a bar is. steps: that were finished."""

    at: datetime
    begun: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    steps: int = 0

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled

    @property
    def failing(self) -> float | None:
        """Which share of what came to an end by itself failed; None of nothing."""
        whole = self.completed + self.failed
        return self.failed / whole if whole else None

    def add(self, kind: str, name: str, count: int) -> None:
        place = name if kind == "ended" else kind
        setattr(self, place, getattr(self, place) + count)


@dataclass(frozen=True, slots=True)
class Failures:
    workflow: str
    code: str
    count: int


@dataclass(slots=True)
class Node:
    """The visits of a node: how many were finished and how long they took, waits included; how many failed for good."""

    name: str
    took: Spread = field(default_factory=Spread)
    failed: int = 0


@dataclass(slots=True)
class Overview:
    """A project, or one workflow of it, over a range. whole, before: the range, and one as long before it. until: counted so far,
    None if nothing was ever counted. outcomes: of approvals, by how they were decided."""

    range: Range
    workflow: str
    begins: datetime
    until: datetime | None
    bars: list[Bar]
    whole: Bar
    before: Bar
    took: Spread = field(default_factory=Spread)
    decisions: Spread = field(default_factory=Spread)
    outcomes: Counter[str] = field(default_factory=Counter)
    teams: dict[str, Spread] = field(default_factory=dict)
    failures: list[Failures] = field(default_factory=list)
    usage: dict[str, Spent] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)

    @property
    def spent(self) -> Spent:
        total = Spent()
        for one in self.usage.values():
            total.add(one)
        return total


def overview(project_id: UUID, wanted: Range, *, workflow: str = "", now: datetime) -> Overview:
    """What the statistics say. workflow: only of this one, and then by node, too. Three queries."""
    begins = wanted.begins(now)
    rows = Statistic.objects.filter(project=project_id, grain=wanted.grain)
    if workflow:
        rows = rows.filter(workflow=workflow)
    bars = [Bar(begins + wanted.bar * place) for place in range(wanted.bars)]
    whole, before = Bar(begins), Bar(begins - wanted.length)
    for at, kind, name, count in _series(rows, since=before.at):
        place = (at - begins) // wanted.bar
        if 0 <= place < len(bars):
            bars[place].add(kind, name, count)
        (before if at < begins else whole).add(kind, name, count)
    found = Overview(wanted, workflow, begins, store.counted_until(), bars, whole, before)
    _add_totals(found, rows.filter(at__gte=begins), kinds=[*TOTALS, *(OF_NODES if workflow else ())])
    return found


def _series(rows: QuerySet[Statistic], *, since: datetime) -> Iterable[tuple[datetime, str, str, int]]:
    found = rows.filter(kind__in=SERIES, at__gte=since).order_by()
    return found.values_list("at", "kind", "name").annotate(Sum("count"))


def _add_totals(found: Overview, rows: QuerySet[Statistic], *, kinds: list[str]) -> None:
    grouped = rows.filter(kind__in=kinds).order_by().values_list("kind", "workflow", "name", "spread")
    sums = grouped.annotate(Sum("count"), Sum("model_tokens_in"), Sum("model_tokens_out"), Sum("cost"))
    failures: Counter[tuple[str, str]] = Counter()
    teams: dict[str, Spread] = defaultdict(Spread)
    for kind, workflow, name, number, count, given, got, cost in sums:
        match kind:
            case "ended":
                found.took.classes[number] += count
            case "decision":
                found.outcomes[name] += count
                if name != "timeout":
                    found.decisions.classes[number] += count
            case "team":
                teams[name].classes[number] += count
            case "failed":
                failures[workflow, name] += count
            case "usage":
                found.usage.setdefault(workflow, Spent()).add(_spent(name, int(given), int(got), cost))
            case "step":
                found.nodes.setdefault(name, Node(name)).took.classes[number] += count
            case _:
                found.nodes.setdefault(name, Node(name)).failed += count
    found.teams = dict(sorted(teams.items(), key=lambda one: (-one[1].count, one[0])))
    found.failures = [Failures(*place, count) for place, count in failures.most_common()]


def _spent(currency: str, given: int, got: int, cost: Decimal | None) -> Spent:
    return Spent(given, got, {} if cost is None else {currency: cost})


# ---- what is open now


AGES: Final = (
    (gettext_noop("under 1 h"), timedelta(hours=1)),
    (gettext_noop("1 to 4 h"), timedelta(hours=4)),
    (gettext_noop("4 to 24 h"), timedelta(hours=24)),
    (gettext_noop("1 to 3 d"), timedelta(days=3)),
    (gettext_noop("over 3 d"), None),
)


@dataclass(frozen=True, slots=True)
class Open:
    """Open approvals now. ages: how many of each, in the order of `AGES`; late: past their due time; today: due within a day.
    more: there are more than were looked at, the youngest left out. oldest: when that was opened."""

    ages: list[tuple[str, int]]
    count: int
    late: int
    today: int
    oldest: datetime | None

    @property
    def more(self) -> bool:
        return self.count >= MOST_OPEN


def open_now(project_id: UUID, now: datetime, *, workflow: str = "") -> Open:
    """One query; counting stops at `MOST_OPEN`, the oldest first."""
    rows = Approval.objects.filter(project=project_id, status=ApprovalStatus.OPEN)
    if workflow:
        rows = rows.filter(run__workflow=workflow)
    told: dict[str, Any] = {"whole": Count("pk"), "oldest": Min("opened_at")}
    told["late"] = Count("pk", filter=Q(due_at__lt=now))
    told["today"] = Count("pk", filter=Q(due_at__gte=now, due_at__lt=now + timedelta(days=1)))
    newest = Q()
    for place, (_, most) in enumerate(AGES):
        older = Q(opened_at__gt=now - most) if most else Q()
        told[f"age_{place}"] = Count("pk", filter=older & newest)
        newest = Q(opened_at__lte=now - most) if most else newest
    row = rows.order_by("opened_at", "id")[:MOST_OPEN].aggregate(**told)
    ages = [(gettext(words), row[f"age_{place}"]) for place, (words, _) in enumerate(AGES)]
    return Open(ages, row["whole"], row["late"], row["today"], row["oldest"])
