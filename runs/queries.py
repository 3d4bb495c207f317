"""Reads for pages and API. Each is small, says how many queries it makes, and never changes a row.

Everything is asked within one project: what belongs to another is not found, just as what does not exist.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import (
    Count,
    IntegerField,
    Max,
    Min,
    Model,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Sum,
)
from django.db.models.expressions import Combinable
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Now

from runs import keeping, store, workflows
from runs.engine import canonical, migrating, position
from runs.engine.canonical import Json
from runs.engine.hours import STANDARD, Hours, hours_from
from runs.engine.stages import PERSON, Known, Lack, Stage, lacking
from runs.engine.status import LIVE_STEPS, ApprovalStatus, StepStatus
from runs.engine.telling import TOPICS
from runs.engine.versions import base_of, order
from runs.errors import CheckpointUnreadable, Gone, HitlError, NeedsMigration, NotFound, Told
from runs.models import (
    Absence,
    ApiToken,
    Approval,
    Attempt,
    Branch,
    Checkpoint,
    Child,
    Delivery,
    Endpoint,
    Event,
    JournalEntry,
    LegalHold,
    LogLine,
    Member,
    Notice,
    Preference,
    Project,
    Revision,
    Run,
    Signal,
    Step,
    Team,
    TeamHours,
    Usage,
    User,
    Vote,
    Wait,
    WorkerChild,
    WorkflowVersion,
)
from runs.models.delivery import MAILED
from runs.models.runs import IN_LINE
from runs.store import Header
from runs.tongue import number

Row = TypeVar("Row")
Kept = TypeVar("Kept", bound=Model)
LOOKED_AT = 1_000  # open approvals of which somebody asks whether anybody can answer them

COUNTED = 100  # unread notices, above which nobody counts

LARGE = ("input", "output")  # what a list of runs leaves out


@dataclass(slots=True)
class Page(Generic[Row]):
    """Some rows of a list in keyset order, and whether more come after the last."""

    rows: list[Row]
    more: bool

    @staticmethod
    def of(rows: QuerySet[Kept], limit: int) -> Page[Kept]:
        return Page.cut(list(rows[: limit + 1]), limit)

    @staticmethod
    def cut(found: list[Row], limit: int) -> Page[Row]:
        """found: one more than the limit, if there are more."""
        return Page(found[:limit], more=len(found) > limit)


@dataclass(slots=True)
class Moment:
    """A checkpoint, read: its position and that of another, as the code that is here has them.

    base: which one the other is: its parent (None for the first), or the one that it is held against.
    stored_as: the version as which it is stored, if that is another; fault: why it is shown as it is stored all the same.
    """

    checkpoint: Checkpoint
    position: dict[str, Any]
    before: dict[str, Any] | None
    base: int | None = None
    stored_as: str = ""
    fault: str = ""

    @property
    def state(self) -> dict[str, Json]:
        return position.state(self.position)


@dataclass(slots=True)
class Visit:
    """A step with the calls that were committed inside it."""

    step: Step
    calls: list[JournalEntry] = field(default_factory=list)


@dataclass(slots=True)
class Spent:
    """What was used of paid models: tokens, and money by currency."""

    model_tokens_in: int = 0
    model_tokens_out: int = 0
    cost: dict[str, Decimal] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.model_tokens_in or self.model_tokens_out or self.cost)

    def add(self, other: Spent) -> None:
        self.model_tokens_in += other.model_tokens_in
        self.model_tokens_out += other.model_tokens_out
        for currency, amount in other.cost.items():
            self.cost[currency] = self.cost.get(currency, Decimal(0)) + amount


CallPlace = tuple[int, str, str, str]  # branch, address, name and occurrence of a call


# ---- projects


def project_of(user: User, slug: str | None = None) -> Project:
    """The project that a person works in: the named one, or their first by name. One query; raises `NotFound`."""
    mine = Project.objects.filter(members__user=user).order_by("slug")
    found = mine.filter(slug=slug).first() if slug else mine.first()
    if found is None:
        raise NotFound()
    return found


# ---- runs


_RUN: Final = (
    store.Part(Run),
    store.Part(User, "requester"),
    store.Part(LegalHold, "hold"),
    store.Part(User, "hold__author"),
)


def run(project_id: UUID, run_id: UUID) -> Run:
    """A run with its requester and its hold. One query; raises `NotFound`, or `Gone` if retention has removed it."""

    def query() -> QuerySet[Run, Any]:
        mine = Run.objects.filter(project=store.Given("project"), pk=store.Given("run"))
        names = [name for part in _RUN for name in part.names]
        return mine.annotate(was_migrated=store.was_migrated()).values_list(*names, "was_migrated")

    rows = store.answers("run", query, project=project_id, run=run_id)
    if not rows:
        raise gone_or(project_id, run_id, NotFound())
    found: Run
    found, found.requester, hold, author = store.instances(rows[0], *_RUN)
    found.was_migrated = rows[0][-1]  # type: ignore[attr-defined]  # as an annotation would be there
    if hold is None:
        Run.hold.related.set_cached_value(found, None)  # known to be without
    else:
        hold.run, hold.author = found, author
    return found


def run_with(project_id: UUID, run_id: UUID, *, without: Sequence[str], **more: Any) -> Run:
    """A run as `run` has it, but for some columns, and with what else is asked of the row. One query; raises as `run` does."""
    rows = Run.objects.select_related("requester", "hold__author").defer(*without)
    rows = rows.annotate(was_migrated=store.was_migrated(), **more)
    found = rows.filter(project=project_id, pk=run_id).first()
    if found is None:
        raise gone_or(project_id, run_id, NotFound())
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """A run in line: how many stand before it in its line, counted up to a thousand, and what is in use of its limits."""

    before: int
    uses: list[store.Use]

    @property
    def said_before(self) -> str:
        return f"{number(self.before)}{'+' if self.before >= store.MOST_LOOKED_AT else ''}"

    @property
    def full(self) -> store.Use | None:
        """The limit that holds it up; None: its turn, or room for it, has not come yet."""
        return next((use for use in self.uses if use.is_full), None)


def standing_of(run: Run) -> Standing | None:
    """Where a run stands in line, if it does. Two queries then."""
    if not run.is_in_line:
        return None
    return Standing(store.before(run), store.uses(run.pk, untaken=True) if run.limited else [])


def in_line(project_id: UUID) -> int:
    """How many runs of a project stand in line. One query."""
    return Run.objects.filter(IN_LINE, project=project_id).count()


def hold_of(run: Run) -> LegalHold | None:
    """The legal hold that a run is under. One query, none for a run of `run`."""
    found: LegalHold | None = getattr(run, "hold", None)
    return found


def kept_until(run: Run) -> datetime | None:
    """When an ended run will be old enough to be removed; None if it is live or kept for ever. One query if it has ended."""
    return keeping.ends_on(run)


def gone_or(project_id: UUID, target: object, refusal: HitlError) -> HitlError:
    """What to say of something that is not there: that retention has removed it, to who may know, or what is said anyway.

    One query for what was not found.
    """
    if type(refusal) is not NotFound:
        return refusal
    left = keeping.was_removed(project_id, target)
    if left is None:
        return refusal
    return Gone(
        Told("This {kind} was removed by retention.", kind=left.kind),
        kind=left.kind,
        run=str(left.run),
        workflow=left.workflow,
        run_status=left.status,
        finished_at=left.finished_at.isoformat(),
        removed_at=left.removed_at.isoformat(),
        events=left.seq,
        head_hash=bytes(left.head_hash).hex(),
    )


def run_mark(project_id: UUID, run_id: UUID) -> Run:
    """A run's counters and status alone, to see whether it changed. One query; raises `NotFound`."""
    told = ("version", "seq", "status", "workflow", "workflow_version", "fingerprint")
    rows = Run.objects.only(*told).annotate(was_migrated=store.was_migrated())
    found = rows.filter(project=project_id, pk=run_id).first()
    if found is None:
        raise gone_or(project_id, run_id, NotFound())
    return found


def approvals_mark(project_id: UUID) -> str:
    """Changes whenever the open approvals of a project, their versions, votes or due times would read otherwise. One query."""
    [told] = store.answers("approvals mark", _approvals_mark, project=project_id) or [()]
    return _digest(told)


def _approvals_mark() -> QuerySet[Approval, Any]:
    rows = Approval.objects.filter(project=store.Given("project"), status=ApprovalStatus.OPEN)
    told = {
        "some": Count("pk"),
        "versions": Sum("version"),
        "newest": Max("opened_at"),
        "due_first": Min("due_at"),
        "due_last": Max("due_at"),
        "said": Count("votes"),
        "stages": Sum("stage"),
        "levels": Sum("level"),
        "assignees": Sum("assignee"),
        "assigned_longest": Max("assigned_until"),
    }
    return rows.order_by().values("project").annotate(**told).values_list(*told)


def _digest(rows: Iterable[Any]) -> str:
    return hashlib.sha256(repr(list(rows)).encode()).hexdigest()[:16]


def newest_first(rows: QuerySet[Kept], after: tuple[datetime, UUID] | None, limit: int) -> Page[Kept]:
    """Rows after a place of a list that has the newest first. One query."""
    return Page.of(older_than(rows, after).order_by("-created_at", "-id"), limit)


def older_than(rows: QuerySet[Kept], place: tuple[datetime, UUID] | None) -> QuerySet[Kept]:
    if place is None:
        return rows
    moment, last = place
    return rows.filter(Q(created_at__lt=moment) | Q(created_at=moment, pk__lt=last), created_at__lte=moment)


def head(run: Run) -> dict[str, Any]:
    """The position at which a run stands, as the code that is here has it. One query; raises `CheckpointUnreadable`."""
    return as_here(run, store.read_position(run.pk, run.head), stored=run.workflow_version).position


@dataclass(frozen=True, slots=True)
class AsHere:
    """A position as the code that is here has it. stored_as, fault: as a `Moment` has them."""

    position: dict[str, Any]
    stored_as: str = ""
    fault: str = ""


def as_here(run: Run, found: dict[str, Any], *, stored: str) -> AsHere:
    """A position that is stored as some version, migrated for whoever looks; as it is stored if no way leads on. No query."""
    own = workflows.pinned(run.workflow, run.workflow_version, run.fingerprint, lenient=settings.DEBUG)
    try:
        if own is None:
            own, _ = workflows.way_on(run.workflow, run.workflow_version)
        if own.version == base_of(stored):
            return AsHere(found)
        target, steps = workflows.way_on(run.workflow, stored, own.version)
        return AsHere(migrating.carry(found, steps, target).position, stored)
    except NeedsMigration as fault:
        return AsHere(found) if own is None else AsHere(found, stored, fault.detail)


def head_or_fault(run: Run) -> tuple[dict[str, Any] | None, str]:
    """The position at which a run stands, or why it cannot be read: whoever looks must still see the run. One query."""
    found, fault = head_as_here(run)
    return (found.position if found else None), fault


def head_as_here(run: Run) -> tuple[AsHere | None, str]:
    """The same, with the version as which it is stored if it is shown as another."""
    try:
        return as_here(run, store.read_position(run.pk, run.head), stored=run.workflow_version), ""
    except CheckpointUnreadable as error:
        return None, error.detail


# ---- around a run


@dataclass(frozen=True, slots=True)
class Link:
    """A parent or a child of a run, and the node at which it was started."""

    run: Run
    node: str


def parent_of(run: Run) -> Link | None:
    """The run that started this one. Two queries, none for a run that was submitted."""
    if run.parent_id is None:
        return None
    child = Child.objects.select_related("parent").get(run=run)
    return Link(child.parent, _node_of(run.parent_id, child))


def children_of(run_id: UUID, *, limit: int = 200) -> list[Link]:
    """Runs that a run has started, oldest first. One query."""
    node = Step.objects.filter(
        run=OuterRef("parent"), branch=OuterRef("branch"), address=OuterRef("address")
    ).values("node")
    rows = Child.objects.filter(parent=run_id).select_related("run").annotate(node=Subquery(node[:1]))
    return [Link(child.run, child.node) for child in rows.order_by("run__created_at", "run_id")[:limit]]


def _node_of(parent_id: UUID, child: Child) -> str:
    steps = Step.objects.filter(run=parent_id, branch=child.branch, address=child.address)
    return steps.values_list("node", flat=True).first() or ""


def signals(run_id: UUID, *, after: int, limit: int) -> Page[Signal]:
    """The mailbox of a run in the order of arrival. One query."""
    return Page.of(Signal.objects.filter(run=run_id, no__gt=after).order_by("no"), limit)


def taken_signals(run: Run) -> set[int]:
    """Numbers of the signals that were taken on the way to where a run stands. One query."""
    found, _ = head_or_fault(run)
    return {number for numbers in (found or {}).get("taken", {}).values() for number in numbers}


def origin_of(run: Run) -> Run | None:
    """The run that this one was forked from. One query, none for one that was not."""
    if run.forked_from_id is None:
        return None
    return Run.objects.only("workflow", "status").filter(pk=run.forked_from_id).first()


def forks_of(run_id: UUID, *, limit: int = 200) -> list[Run]:
    """Runs that were forked from a run, oldest first. One query."""
    rows = Run.objects.filter(forked_from=run_id).only(
        "workflow", "status", "forked_checkpoint", "created_at"
    )
    return list(rows.order_by("created_at", "pk")[:limit])


# ---- what happened in a run


def events(run_id: UUID, *, after: int, limit: int) -> Page[Event]:
    """The history of a run from after a number on. One query."""
    return Page.of(Event.objects.filter(run=run_id, seq__gt=after).order_by("seq"), limit)


def checkpoints(run_id: UUID, *, branch: int | None, after: int, limit: int) -> Page[Header]:
    """Checkpoints in the order of their numbers, without their documents. One query."""
    return Page.cut(store.headers(run_id, branch=branch, after=after, limit=limit + 1), limit)


def checkpoint(run: Run, no: int, *, against: int | None = None) -> Moment:
    """One checkpoint with its position and its parent's, or another's. Two queries, five of a migrated run.

    Raises `UnknownCheckpoint`.
    """
    asked = Checkpoint.objects.filter(run=run, no=no)
    other: Any = Subquery(asked.values("parent")) if against is None else against
    rows = Checkpoint.objects.defer("patch", "snapshot").filter(Q(no=no) | Q(no=other), run=run)
    heads = {row.no: row for row in rows}
    found = heads.get(no)
    base = against if found is None or against is not None else found.parent
    for wanted in (no, base):
        if wanted is not None and wanted not in heads:
            raise store.missing_checkpoint(run.pk, wanted)
    assert found is not None
    positions = store.read_positions(run.pk, [no] if base is None else [no, base])
    stored = store.version_at(run, no)
    here = as_here(run, positions[0], stored=stored)
    before = positions[1] if base is not None else None
    if before is not None and base is not None and (found.kind != "migration" or against is not None):
        # A migration itself shows what it did.
        was = stored if against is None else store.version_at(run, base)
        before = as_here(run, before, stored=was).position
    return Moment(found, here.position, before, base, here.stored_as, here.fault)


def visits(
    run_id: UUID, *, branch: int | None, after: tuple[datetime, int, str] | None, limit: int
) -> Page[Step]:
    """Steps, first made first. One query; their calls come from `calls_of`."""
    rows = Step.objects.filter(run=run_id)
    if branch is not None:
        rows = rows.filter(branch=branch)
    if after:
        moment, of_branch, address = after
        same_time = Q(branch__gt=of_branch) | Q(branch=of_branch, address__gt=address)
        rows = rows.filter(Q(created_at__gt=moment) | Q(created_at=moment) & same_time)
    return Page.of(rows.order_by("created_at", "branch", "address"), limit)


def calls_of(steps: Sequence[Step]) -> list[Visit]:
    """The steps with their calls, in the order in which these were committed. One query."""
    calls: dict[tuple[int, str], list[JournalEntry]] = defaultdict(list)
    if steps:
        addresses = {step.address for step in steps}
        for entry in JournalEntry.objects.filter(run=steps[0].run_id, address__in=addresses).order_by(
            "ended_at", "ordinal"
        ):
            calls[entry.branch, entry.address].append(entry)
    return [Visit(step, calls[step.branch, step.address]) for step in steps]


# ---- approvals


def approval(project_id: UUID, approval_id: UUID) -> Approval:
    """An approval with its run and votes. Two queries; raises `NotFound`."""

    def query() -> QuerySet[Approval, Any]:
        mine = Approval.objects.filter(project=store.Given("project"), pk=store.Given("approval"))
        return mine.values_list(*[name for part in _ASKED for name in part.names])

    rows = store.answers("approval", query, project=project_id, approval=approval_id)
    if not rows:
        raise gone_or(project_id, approval_id, NotFound())
    found: Approval
    found, asking, asking.requester, asking.submitted_by, found.assignee = store.instances(rows[0], *_ASKED)
    found.run = asking
    store.tell_votes(found, store.votes_on(found.pk))
    return found


_ASKED: Final = (
    store.Part(Approval, without=("words",)),
    store.Part(Run, "run", without=("input", "output")),
    store.Part(User, "run__requester"),
    store.Part(User, "run__submitted_by"),
    store.Part(User, "assignee"),
)


def approvals(project_id: UUID, ids: Iterable[UUID]) -> list[Approval]:
    """Those of some approvals that are there, with runs and votes, oldest first. Two queries, one if there is none."""
    return list(
        with_votes(Approval.objects.filter(project=project_id, pk__in=ids)).order_by("opened_at", "id")
    )


def pending(run_id: UUID) -> list[Approval]:
    """The open approvals of a run with their votes, oldest first. Two queries, one if there is none."""
    rows = with_votes(Approval.objects.filter(run=run_id, status=ApprovalStatus.OPEN))
    return list(rows.order_by("opened_at", "id"))


def action_keys(project_id: UUID, approval_id: UUID) -> list[str]:
    """The keys of an approval's actions; none if there is no such approval. One query."""

    def query() -> QuerySet[Approval, Any]:
        mine = Approval.objects.filter(project=store.Given("project"), pk=store.Given("approval"))
        return mine.values_list("document")

    rows = store.answers("action keys", query, project=project_id, approval=approval_id)
    return [action["key"] for action in canonical.loads(rows[0][0])["actions"]] if rows else []


def run_asking(project_id: UUID, approval_id: UUID) -> UUID | None:
    """The run of an approval; None if there is no such approval. One query."""

    def query() -> QuerySet[Approval, Any]:
        mine = Approval.objects.filter(project=store.Given("project"), pk=store.Given("approval"))
        return mine.values_list("run")

    rows = store.answers("run asking", query, project=project_id, approval=approval_id)
    return rows[0][0] if rows else None


def with_votes(rows: QuerySet[Approval]) -> QuerySet[Approval]:
    """These approvals with their runs and votes. Two queries."""
    votes = Vote.objects.select_related("user", "in_place_of").order_by("id")
    return (
        rows.select_related("run", "run__requester", "run__submitted_by", "assignee")
        .defer("run__input", "run__output")
        .prefetch_related(Prefetch("votes", queryset=votes))
    )


# ---- what is told


def endpoints(project_id: UUID) -> list[Endpoint]:
    """Where a project's webhooks go, oldest first. One query."""
    return list(Endpoint.objects.filter(project=project_id, deleted_at=None).order_by("created_at", "id"))


def endpoint(project_id: UUID, endpoint_id: UUID) -> Endpoint:
    """One query; raises `NotFound`."""
    found = Endpoint.objects.filter(project=project_id, pk=endpoint_id, deleted_at=None).first()
    if found is None:
        raise NotFound()
    return found


def deliveries(
    project_id: UUID,
    *,
    status: str | None = None,
    endpoint: UUID | None = None,
    run: UUID | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> Page[Delivery]:
    """What was sent or is to be sent, newest first, with its message and where it goes. One query."""
    rows = Delivery.objects.filter(project=project_id)
    if status:
        rows = rows.filter(status=status)
    if endpoint:
        rows = rows.filter(endpoint=endpoint)
    if run:
        rows = rows.filter(message__run=run)
    rows = rows.select_related("message", "endpoint", "user").defer("message__body")
    return newest_first(rows, after, limit)


def delivery(project_id: UUID, delivery_id: UUID) -> Delivery:
    """A delivery with its message and its attempts. Two queries; raises `NotFound`."""
    rows = Delivery.objects.select_related("message", "endpoint", "user")
    attempts = Prefetch("attempts", queryset=Attempt.objects.order_by("no"))
    found = rows.prefetch_related(attempts).filter(project=project_id, pk=delivery_id).first()
    if found is None:
        raise NotFound()
    return found


@dataclass(frozen=True, slots=True)
class Bell:
    """What of a person's notices is unread: how many (counting stops at a hundred), and what changes whenever that does."""

    unread: int
    mark: str


def bell(project_id: UUID, user: User) -> Bell:
    """One query."""

    def query() -> QuerySet[Notice, Any]:
        mine = Notice.objects.filter(user=store.Given("user"), project=store.Given("project"))
        return mine.filter(shown=True, read_at=None).order_by("-id").values_list("pk")[:COUNTED]

    ids = [row[0] for row in store.answers("bell", query, user=user.pk, project=project_id)]
    return Bell(len(ids), f"{ids[0] if ids else 0}-{len(ids)}")


def notices(project_id: UUID, user: User, *, before: int | None = None, limit: int) -> Page[Notice]:
    """A person's notices, newest first. One query."""
    rows = Notice.objects.filter(user=user, project=project_id, shown=True)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return Page.of(rows.select_related("message").defer("message__body").order_by("-id"), limit)


def preference(project_id: UUID, user: User) -> Preference:
    """What a person wants to hear, or what the project says where they have said nothing. At most two queries."""
    found = Preference.objects.filter(project=project_id, user=user).first()
    return found or project_preference(project_id)


def project_preference(project_id: UUID) -> Preference:
    """What people hear who have said nothing (saved or as it is everywhere: then it has no key). One query."""
    found = Preference.objects.filter(project=project_id, user=None).first()
    return found or Preference(project_id=project_id, app=list(TOPICS), mail=list(MAILED))


# ---- pages


def unanswerable(project_id: UUID, *, limit: int) -> list[tuple[Approval, Lack]]:
    """Open approvals that nobody, or too few people, may answer as things are, oldest first, and why. Four queries."""
    rows = with_votes(Approval.objects.filter(project=project_id, status=ApprovalStatus.OPEN))
    known = known_people(project_id)
    found = [(row, lack_of(row, known)) for row in rows.order_by("opened_at", "id")[:LOOKED_AT]]
    return [(row, lack) for row, lack in found if lack is not None][:limit]


def lack_of(approval: Approval, known: Known) -> Lack | None:
    """Why an approval with its run cannot come to an answer, as things are."""
    return lacking([stage_of(approval)], known, barred=barred_names(approval.run, approval.options))


def stage_of(approval: Approval) -> Stage:
    """Whom an approval asks now."""
    return Stage([*approval.teams, *(f"{PERSON}{name}" for name in approval.users)], approval.quorum)


def barred_names(run: Run, options: Mapping[str, Any]) -> frozenset[str]:
    """The names of those who asked for a run, where they may not decide."""
    if options.get("requester_may_decide"):
        return frozenset()
    asked = [run.requester, run.submitted_by]
    return frozenset(user.username for user in asked if user is not None)


def known_people(project_id: UUID) -> Known:
    """Who may decide in a project, by team and altogether. Two queries."""
    members = Member.objects.filter(
        project=project_id, user__is_active=True, roles__overlap=["operator", "reviewer"]
    )
    roles = dict(members.values_list("user__username", "roles"))
    people = frozenset(roles)
    by_team: dict[str, set[str]] = {}
    for team, name in Team.objects.filter(project=project_id).values_list("name", "people__username"):
        by_team.setdefault(team, set()).update({name} & people)
    return Known(
        {team: frozenset(names) for team, names in by_team.items()},
        frozenset(name for name in people if "reviewer" in roles[name]),
        people,
    )


def hours_of(project_id: UUID, team: str) -> Hours:
    """When the people of a team work; where it says nothing, as the project says; else the standard week. Two queries."""
    told = TeamHours.objects.filter(team__project=project_id, team__name=team).first() if team else None
    return project_hours(project_id)[0] if told is None else hours_from(told.document)


def team_hours(project_id: UUID, team: str) -> tuple[Hours, bool]:
    """When the people of a team work, and whether it said so itself. At most three queries; raises `NotFound`."""
    if not Team.objects.filter(project=project_id, name=team).exists():
        raise NotFound()
    told = TeamHours.objects.filter(team__project=project_id, team__name=team).first()
    return (hours_from(told.document), True) if told else (project_hours(project_id)[0], False)


def project_hours(project_id: UUID) -> tuple[Hours, bool]:
    """When people work whose team says nothing, and whether the project said so. One query."""
    told = Project.objects.values_list("hours", flat=True).get(pk=project_id)
    return (STANDARD, False) if told is None else (hours_from(told), True)


def absences(project_id: UUID) -> list[Absence]:
    """Who is away or will be, who is away first at the top. One query."""
    rows = Absence.objects.filter(project=project_id, ended_at=None, ends_at__gt=Now())
    return list(rows.select_related("user", "substitute").order_by("starts_at", "id"))


def revisions(approval_id: UUID) -> list[Revision]:
    """Every version of an approval with its author, oldest first. One query."""
    rows = Revision.objects.filter(approval=approval_id).select_related("author")
    return list(rows.order_by("version"))


def author_of(approval: Approval) -> str:
    """Who made the newest version of an approval, or nothing if the workflow did. One query, none for the first version."""
    if approval.closed_reason == "edited":
        edit = edit_of(approval)
        return str(edit.author) if edit and edit.author else ""
    if approval.version == 1:
        return ""
    made = (
        Revision.objects.select_related("author").filter(approval=approval, version=approval.version).first()
    )
    return str(made.author) if made and made.author else ""


def edit_of(approval: Approval) -> Revision | None:
    """The edit for which an approval is asked anew. One query, none for one that was closed otherwise."""
    if approval.closed_reason != "edited":
        return None
    rows = Revision.objects.select_related("author").filter(approval=approval, version__gt=approval.version)
    return rows.order_by("-version").first()


def asked_before(approval: Approval) -> Approval | None:
    """The approval that this one asks again after, with its votes. Two queries, none if it is the first."""
    if approval.previous_id is None:
        return None
    return with_votes(Approval.objects.filter(pk=approval.previous_id)).first()


def asked_since(approval: Approval) -> Approval | None:
    """The open approval that took the place of a closed one: of the same node, and the same place in it. One query."""
    first = approval.occurrence.partition("~")[0]
    rows = Approval.objects.filter(
        Q(occurrence=first) | Q(occurrence__startswith=f"{first}~"),
        run=approval.run_id,
        node=approval.node,
        name=approval.name,
        status=ApprovalStatus.OPEN,
    )
    return (
        rows.filter(opened_at__gte=approval.opened_at).exclude(pk=approval.pk).order_by("-opened_at").first()
    )


def steps_before(approval: Approval, *, limit: int) -> list[Step]:
    """What had run when an approval opened, oldest first; the newest `limit` steps. One query."""
    rows = Step.objects.filter(
        run=approval.run_id, branch__lte=approval.branch, ended_at__lte=approval.opened_at
    ).exclude(status="void")
    return list(reversed(rows.order_by("-ended_at", "-created_at")[:limit]))


@dataclass(slots=True)
class Live:
    """What is going on in one run now: its live steps, open waits and open approvals."""

    steps: list[Step] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)


def live(run_ids: Collection[UUID]) -> dict[UUID, Live]:
    """What is going on in some runs, oldest first. One query, none without runs."""
    found: dict[UUID, Live] = defaultdict(Live)
    if not run_ids:
        return found
    for name, _, row in store.answers("live", _live, runs=list(run_ids)):
        if name == Step.__name__:
            found[UUID(row["run_id"])].steps.append(store.from_json(Step, row))
        elif name == Wait.__name__:
            found[UUID(row["run_id"])].waits.append(store.from_json(Wait, row))
        else:
            found[UUID(row["run_id"])].approvals.append(store.from_json(Approval, row))
    return found


def _live() -> QuerySet[Any, Any]:
    some = store.Given("runs", many=True)
    steps = Step.objects.filter(run=some, status__in=LIVE_STEPS)
    waits = Wait.objects.filter(run=some, closed_at=None)
    asked = Approval.objects.filter(run=some, status=ApprovalStatus.OPEN)
    votes = Vote.objects.filter(
        approval=OuterRef("pk"), version=OuterRef("version"), stage=OuterRef("stage"), outcome="approve"
    )
    counted = {VOTES: count_of(votes, "approval")}
    gone = WorkerChild.objects.filter(pk=OuterRef("worker")).values(at=Coalesce("suspected_at", "gone_at"))
    every = store.as_json(steps.annotate(**{DIED: Subquery(gone)}), "created_at", DIED).union(
        store.as_json(waits, "opened_at"),
        store.as_json(asked.annotate(**counted), "opened_at", VOTES, without=("document",)),
        all=True,
    )
    return every.order_by("at")


VOTES: Final = "vote_count"
EDITED: Final = "was_edited"
DIED: Final = "worker_died"


def died_at(step: Step) -> datetime | None:
    """When the worker of a step that was read by `live` was found to be gone."""
    told: str | None = getattr(step, DIED, None)
    return datetime.fromisoformat(told) if told and step.status == StepStatus.EXECUTING else None


def votes_of(approval: Approval) -> int:
    """How many have said yes to what is asked now, of an approval that was read with its votes or with their number."""
    counted: int | None = getattr(approval, VOTES, None)
    if counted is not None:
        return counted
    asked = (approval.version, approval.stage, "approve")
    return sum((vote.version, vote.stage, vote.outcome) == asked for vote in approval.votes.all())


def was_edited(approval: Approval) -> bool:
    """Whether the answer that decided it was an edit, of an approval that was read with its votes or with what they come to."""
    told: bool | None = getattr(approval, EDITED, None)
    return any(vote.decisive and vote.edited for vote in approval.votes.all()) if told is None else told


def tell_votes(approval: Approval, count: int, *, edited: bool) -> None:
    """What its votes come to, for one that is read without them."""
    setattr(approval, VOTES, count)
    setattr(approval, EDITED, edited)


class CountOf(Subquery):
    """How many rows a query has; it may stop at so many."""

    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()
    empty_result_set_value = 0


def count_of(rows: QuerySet[Any], by: str) -> Combinable:
    """Of a query that rows hang on by a column: how many they are."""
    counted = rows.order_by().values(by).annotate(n=Count("*")).values("n")
    return Coalesce(Subquery(counted), 0)


def calls_in(run_id: UUID, steps: Sequence[Step]) -> list[JournalEntry]:
    """The calls inside some steps, in the order of their commits. One query, none without steps."""
    if not steps:
        return []
    addresses = {step.address for step in steps}
    return list(
        JournalEntry.objects.filter(run=run_id, address__in=addresses).order_by("ended_at", "ordinal")
    )


def spent_in(run_id: UUID, addresses: Iterable[str] | None = None) -> dict[CallPlace, Spent]:
    """What each call of a run (of these steps) used of paid models, on all branches: what was paid is paid. One query."""
    found: dict[CallPlace, Spent] = {}
    rows = Usage.objects.filter(run=run_id)
    if addresses is not None:
        rows = rows.filter(address__in=set(addresses))
    for *place, spent in _spent(rows, "branch", "address", "call", "occurrence"):
        found.setdefault((place[0], place[1], place[2], place[3]), Spent()).add(spent)
    return found


def spent_by(run_id: UUID) -> Spent:
    """What a run used of paid models. One query."""
    total = Spent()
    for (spent,) in _spent(Usage.objects.filter(run=run_id)):
        total.add(spent)
    return total


def spent_by_workflow(project_id: UUID) -> dict[str, Spent]:
    """What all runs of each workflow used of paid models. One query, over everything: not for a page that is looked at often."""
    found: dict[str, Spent] = {}
    for name, spent in _spent(Usage.objects.filter(run__project=project_id), "run__workflow"):
        found.setdefault(name, Spent()).add(spent)
    return found


def spent_by_place(rows: QuerySet[Usage], *by: str) -> Iterator[tuple[Any, ...]]:
    """Sums of these rows, each after the columns that it belongs to. One query."""
    return _spent(rows, *by)


def _spent(rows: QuerySet[Usage], *by: str) -> Iterator[tuple[Any, ...]]:
    grouped = rows.order_by().values_list(*by, "currency")
    sums = grouped.annotate(Sum("model_tokens_in"), Sum("model_tokens_out"), Sum("cost"))
    for *place, currency, given, got, cost in sums:
        yield *place, Spent(int(given), int(got), {} if cost is None else {currency: cost})


def stir_of(run_id: UUID) -> str:
    """Changes with what executing steps say of themselves: progress and log. One query."""
    return stir(Run.objects.only("pk").annotate(**STIR).get(pk=run_id))


def stir(run: Run) -> str:
    """The same of a run that was read with `STIR`."""
    told: Any = run
    return _digest([told.newest_progress, told.line_count])


STIR: Final[dict[str, Any]] = {
    "newest_progress": Subquery(
        Step.objects.filter(run=OuterRef("pk"), status=StepStatus.EXECUTING, progress__isnull=False)
        .order_by()
        .values("run")
        .annotate(newest=Max(KeyTextTransform("at", "progress")))
        .values("newest")
    ),
    "line_count": count_of(LogLine.objects.filter(run=OuterRef("pk")), "run"),
}


def effects_of(run_id: UUID) -> list[JournalEntry]:
    """The effects ledger of a run: calls that did something to the world, or can be taken back, oldest first. One query."""
    rows = JournalEntry.objects.filter(run=run_id).exclude(effect="none", undo=None)
    return list(rows.order_by("ended_at", "ordinal"))


def undone_in(run_id: UUID, calls: Iterable[JournalEntry]) -> dict[CallPlace, Step]:
    """The steps that take back some of these calls, by call. One query, none if no call says how it is taken back."""
    if all(call.undo is None for call in calls):
        return {}
    steps = store.undo_steps(run_id)
    return {(call[0], call[1], call[2], call[3]): step for step in steps if (call := step.undoes)}


def approvals_of(run_id: UUID) -> list[Approval]:
    """Every approval of a run with its votes, newest first. Two queries."""
    return list(with_votes(Approval.objects.filter(run=run_id)).order_by("-opened_at", "-id"))


def newest_checkpoints(run_id: UUID, *, before: int | None, limit: int) -> Page[Header]:
    """Checkpoints of all branches, newest first, without their documents. One query."""
    return Page.cut(store.newest_headers(run_id, before=before, limit=limit + 1), limit)


def branches_of(run_id: UUID) -> tuple[list[Branch], dict[int, tuple[int, int]]]:
    """The branches of a run, and (last checkpoint, how many) of each. Two queries."""
    rows = Checkpoint.objects.filter(run=run_id).values("branch").annotate(last=Max("no"), some=Count("no"))
    heads = {row["branch"]: (row["last"], row["some"]) for row in rows}
    return branches_by_number(run_id), heads


def branches_by_number(run_id: UUID) -> list[Branch]:
    """One query."""
    return list(Branch.objects.filter(run=run_id).order_by("no"))


def tokens_of(project_id: UUID, user: User) -> list[ApiToken]:
    """A person's API tokens in a project, newest first. One query."""
    return list(ApiToken.objects.filter(project=project_id, user=user).order_by("-created_at"))


def workflow_names() -> list[str]:
    """Every workflow that was ever registered, by name. One query."""
    return list(WorkflowVersion.objects.order_by("name").values_list("name", flat=True).distinct())


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version of a workflow: whether its code is here and with a worker, how many live runs of a project are at it, and the
    newest attempt to register it with another graph."""

    name: str
    version: str
    fingerprint: str
    registered_at: datetime | None
    live_runs: int
    is_here: bool
    has_worker: bool
    is_newest: bool
    leads_to: list[str]
    refused: dict[str, Json] | None = None


def versions(project_id: UUID, name: str | None = None) -> dict[str, list[VersionRow]]:
    """Every version of every workflow (or the named one) that was ever registered or that live runs are at, the newest first.
    Three queries."""
    which = Q() if name is None else Q(workflow=name)
    live = Run.objects.filter(which, project=project_id, finished_at=None).order_by()
    counts = live.values_list("workflow", "workflow_version").annotate(Count("pk"))
    runs_at = {(flow, version): count for flow, version, count in counts}
    known = WorkflowVersion.objects.filter(Q() if name is None else Q(name=name)).defer("shape")
    rows = {(row.name, row.version): row for row in known}
    code = store.code_of_workers()
    newest = {one.name: one.version for one in workflows.every()}
    found: dict[str, list[VersionRow]] = defaultdict(list)
    for flow, version in sorted(rows.keys() | runs_at.keys(), key=lambda one: order(one[1]), reverse=True):
        row = rows.get((flow, version))
        at = store.At(flow, version, row.fingerprint if row else "")
        found[flow].append(
            VersionRow(
                flow,
                version,
                at.fingerprint,
                row.registered_at if row else None,
                runs_at.get((flow, version), 0),
                workflows.pinned(flow, version, at.fingerprint, lenient=settings.DEBUG) is not None,
                code.newest is not None and code.has_code(at),
                newest.get(flow) == base_of(version),
                workflows.reachable(flow, version),
                row.refused if row else None,
            )
        )
    return dict(sorted(found.items()))


def has_runs(project_id: UUID) -> bool:
    return Run.objects.filter(project=project_id).exists()
