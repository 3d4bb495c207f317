"""What must hold of the rows of a project, and where it does not: reads, each of a bounded number of rows.

`LOOKED_AT` rows of each kind that live, the newest of what has ended. Whoever wants all of them says so (`limit=None`), as
`manage.py check_invariants` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext, gettext_noop

from runs import inboxes, policies, queries, store
from runs.engine.status import LIVE_STEPS, TERMINAL, ApprovalStatus, RunStatus, StepStatus
from runs.engine.telling import ASKED
from runs.models import Approval, Endpoint, JournalEntry, Member, Message, Preference, Run, Snooze, Step, Wait
from runs.policies import Actor

SHOWN: Final = 20  # violations of one rule
LOOKED_AT: Final = 5_000
RECENT: Final = timedelta(days=7)  # how far back what has ended is looked at
LIVE: Final = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING)
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Look:
    """Where to look. project, run: only there; limit: rows of each kind, None for all."""

    project: UUID | None = None
    run: UUID | None = None
    limit: int | None = LOOKED_AT

    def mine(self, rows: QuerySet[Row], through: str = "project") -> QuerySet[Row]:
        if self.run is not None:
            rows = rows.filter(**{"pk" if rows.model is Run else "run": self.run})
        return rows if self.project is None else rows.filter(**{through: self.project})

    def some(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Of these rows as many as are looked at, to be asked more about."""
        if self.limit is None:
            return rows
        return rows.filter(pk__in=rows.values("pk")[: self.limit])


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule does not hold of: a run, and an approval of it where the rule is about one."""

    run: Run
    target: UUID
    what: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """key: in addresses and in the audit. rule: what must hold; mends: what puts it right (`says` and
    `repair` tell them); by: `rewind` to the head, or an
    operation (`operations.repair`), or nothing that is safe."""

    key: str
    rule: str
    find: Callable[[Look], Iterable[Found]]
    mends: str
    by: Literal["", "rewind", "close", "move", "tell"] = ""

    @property
    def says(self) -> str:
        return gettext(self.rule)

    @property
    def repair(self) -> str:
        return gettext(self.mends)


@dataclass(frozen=True, slots=True)
class Violation:
    rule: Rule
    run: Run
    target: UUID
    what: str = ""


def violations(look: Look) -> list[Violation]:
    """Where what must hold does not, a few queries a rule."""
    return [Violation(rule, one.run, one.target, one.what) for rule in RULES for one in rule.find(look)]


def broken(rule: Rule, run_id: UUID, target: UUID) -> Found | None:
    """What a rule does not hold of, if it is this."""
    return next((found for found in rule.find(Look(run=run_id)) if found.target == target), None)


# ---- runs


def _of_runs(runs: QuerySet[Run], what: str = "") -> list[Found]:
    return [Found(run, run.pk, what) for run in runs.defer(*queries.LARGE)[:SHOWN]]


def _live(look: Look, *statuses: str) -> QuerySet[Run]:
    return look.some(look.mine(Run.objects.filter(status__in=statuses)))


def _open_waits(run: OuterRef) -> QuerySet[Wait]:
    return Wait.objects.filter(run=run, closed_at=None).exclude(kind=store.NEEDS_MIGRATION)


def _live_steps(run: OuterRef, **more: Any) -> QuerySet[Step]:
    return Step.objects.filter(run=run, status__in=LIVE_STEPS, **more)


def _waits_for_nothing(look: Look) -> list[Found]:
    return _of_runs(_live(look, RunStatus.WAITING).filter(~Exists(_open_waits(OuterRef("pk")))))


def _has_nothing_to_do(look: Look) -> list[Found]:
    live = _live_steps(OuterRef("pk"), branch=OuterRef("branch"))
    return _of_runs(_live(look, *LIVE).filter(~Exists(live)))


def _owns_after_its_end(look: Look) -> list[Found]:
    """From what is open to its run: that is little, however many runs have ended. Then those that ended last, whole."""
    approvals = look.mine(Approval.objects.filter(status=ApprovalStatus.OPEN))
    waits = look.mine(Wait.objects.filter(closed_at=None), "run__project")
    at_work = [StepStatus.READY, StepStatus.EXECUTING]
    steps = look.mine(Step.objects.filter(status__in=at_work), "run__project")
    last = look.mine(Run.objects.filter(finished_at__gt=Now() - RECENT)).order_by("-finished_at")
    owners = {
        *_runs_of(look.some(approvals)),
        *_runs_of(look.some(waits)),
        *steps.filter(run__finished_at__isnull=False).values_list("run", flat=True)[:SHOWN],
        *look.some(last).filter(Exists(_live_steps(OuterRef("pk")))).values_list("pk", flat=True)[:SHOWN],
    }
    return _of_runs(Run.objects.filter(pk__in=owners, status__in=TERMINAL).order_by("created_at"))


def _runs_of(rows: QuerySet[Any]) -> list[UUID]:
    return list(rows.filter(run__finished_at__isnull=False).values_list("run", flat=True)[:SHOWN])


# ---- approvals


def _of_approvals(rows: QuerySet[Approval]) -> Iterator[Found]:
    for asked in rows.select_related("run").defer("document", *(f"run__{name}" for name in queries.LARGE))[
        :SHOWN
    ]:
        yield Found(asked.run, asked.pk, asked.node)


def _open(look: Look) -> QuerySet[Approval]:
    return look.some(look.mine(Approval.objects.filter(status=ApprovalStatus.OPEN)))


def _asks_without_waiting(look: Look) -> Iterable[Found]:
    """An approval that nobody waits for: an answer to it would be lost."""
    heard = Wait.objects.filter(
        run=OuterRef("run"), address=OuterRef("address"), branch=OuterRef("branch"), closed_at=None
    )
    return _of_approvals(_open(look).filter(~Exists(heard)).exclude(run__status__in=TERMINAL))


def _waits_without_asking(look: Look) -> list[Found]:
    """A wait for people whom nobody has asked."""
    asked = Approval.objects.filter(
        run=OuterRef("run"), address=OuterRef("address"), status=ApprovalStatus.OPEN
    )
    waits = look.some(look.mine(Wait.objects.filter(closed_at=None, kind="approval"), "run__project"))
    lonely = waits.filter(~Exists(asked)).exclude(run__status__in=TERMINAL).select_related("run")
    return [Found(wait.run, wait.run_id, wait.node) for wait in lonely[:SHOWN]]


def _counted_elsewhere(look: Look) -> Iterable[Found]:
    """An approval in another project than its run: in the inbox of people who may not see what they decide about."""
    rows = look.some(Approval.objects.filter(status=ApprovalStatus.OPEN))
    return _of_approvals(look.mine(rows, "run__project").exclude(project=F("run__project")))


def _told_to_nobody(look: Look) -> Iterator[Found]:
    """An open approval of which nobody was told, though somebody wants to be."""
    told = Message.objects.filter(run=OuterRef("run"), approval_id=OuterRef("pk"))
    rows = _open(look).filter(~Exists(told), opened_at__lt=Now() - timedelta(seconds=10))
    for asked in rows.exclude(run__status__in=TERMINAL).select_related("run")[:SHOWN]:
        if _somebody_wants_to_hear(asked):
            yield Found(asked.run, asked.pk, asked.node)


def _somebody_wants_to_hear(asked: Approval) -> bool:
    """As `sql/tell.sql` finds them, but for substitutes, and for those who have no address and want only mail. A few queries."""
    hooks = Endpoint.objects.filter(
        project=asked.project_id, disabled_at=None, deleted_at=None, events__contains=["approval.opened"]
    )
    if hooks.exists():
        return True
    hears = Q(app__contains=[ASKED]) | Q(mail__contains=[ASKED])
    said = Preference.objects.filter(project=asked.project_id)
    own = said.filter(user=OuterRef("user"))
    members = (
        Member.objects.filter(project=asked.project_id, roles__overlap=sorted(policies.DECIDERS))
        .filter(user__is_active=True, user__is_service=False)
        .filter(~Exists(own.exclude(hears)))
        .exclude(user__in=policies.barred(asked.run, asked))
    )
    if said.filter(user=None).exclude(hears).exists():  # then only who has said otherwise
        members = members.filter(Exists(own))
    if not asked.teams and not asked.users:
        return members.filter(roles__contains=["reviewer"]).exists()
    by_team = Q(user__teams__project=asked.project_id, user__teams__name__in=asked.teams)
    return members.filter(by_team | Q(user__username__in=asked.users)).exists()


# ---- calls


def _made_without_a_decision(look: Look) -> list[Found]:
    """A call that only an approval could let through, and no approval that had been given by then."""
    given = Approval.objects.filter(
        pk=OuterRef("guard"),
        status__in=[ApprovalStatus.DECIDED, ApprovalStatus.EXPIRED],
        outcome__in=["approve", "mixed"],
        closed_at__lte=OuterRef("ended_at"),
    )
    guarded = JournalEntry.objects.filter(guard__isnull=False, ended_at__gt=Now() - RECENT)
    rows = (
        look.mine(guarded, "run__project").filter(~Exists(given)).select_related("run").order_by("ended_at")
    )
    return [Found(row.run, row.run_id, f"{row.node}: {row.name}") for row in rows[:SHOWN]]


# ---- the inbox of one person


@dataclass(frozen=True, slots=True)
class Inbox:
    """What a person's badge says, what their list has, and how many they may decide about by the rule that decides it. Counting
    stops at `queries.LOOKED_AT`."""

    badge: int
    listed: int
    may_decide: int

    @property
    def agrees(self) -> bool:
        return self.badge == self.listed == self.may_decide


def inbox_of(actor: Actor) -> Inbox:
    """Each counted to a hundred. Some five queries, the last of up to a thousand open approvals."""
    project, most, asked = actor.project.pk, queries.LOOKED_AT, inboxes.asked(actor)
    later = Snooze.objects.filter(approval=OuterRef("pk"), user=actor.user, until__gt=Now())
    rows = Approval.objects.filter(~Exists(later), project=project, status=ApprovalStatus.OPEN)
    some = rows.select_related("run").defer("document").order_by("opened_at", "id")[:most]
    return Inbox(
        inboxes.badge(project, asked),
        len(inboxes.page(project, inboxes.Wanted(), asked, limit=inboxes.COUNTED).rows),
        min(sum(policies.can_decide(actor, approval.run, approval) for approval in some), inboxes.COUNTED),
    )


REWIND: Final = gettext_noop("Rewind it to its head: what is to do there is made anew.")
RULES: Final[Sequence[Rule]] = (
    Rule("waits", "A run that waits, waits for something", _waits_for_nothing, REWIND, "rewind"),
    Rule("works", "A live run has a step to do", _has_nothing_to_do, REWIND, "rewind"),
    Rule(
        "ended",
        "A run that has ended owns nothing",
        _owns_after_its_end,
        "Close what is left: its steps, waits and open approvals.",
        "close",
    ),
    Rule("heard", "An open approval is waited for", _asks_without_waiting, REWIND, "rewind"),
    Rule("asked", "A wait for people has asked them", _waits_without_asking, REWIND, "rewind"),
    Rule(
        "placed",
        "An approval is in the inbox of its run's project",
        _counted_elsewhere,
        "Put it where its run is.",
        "move",
    ),
    Rule(
        "told",
        "Somebody was told of an open approval",
        _told_to_nobody,
        "Tell the people who are asked.",
        "tell",
    ),
    Rule(
        "decided",
        "A guarded call was made after a decision",
        _made_without_a_decision,
        "Nothing undoes it by itself: look at its effects and its history (manage.py verify_history), take it back by hand.",
    ),
)
BY_KEY: Final = {rule.key: rule for rule in RULES}
