"""What somebody on call asks first: which parts answer, who works on what, which runs are stuck and why, and whether what must
hold does. Reads only, each a bounded query; runs of other projects are counted, never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet

from runs import dispatch, store, workflows
from runs.engine.status import LIVE_STEPS, TERMINAL, ApprovalStatus, RunStatus, StepStatus
from runs.models import Approval, Run, ServiceBeat, Step, Wait, WorkerChild

SHOWN: Final = 20  # rows of a list
FORGOTTEN_AFTER: Final = timedelta(seconds=20)  # a ready step that nobody took
SILENT_AFTER: Final = timedelta(seconds=5)  # past the end of a lease
LATE_AFTER: Final = timedelta(seconds=20)  # past a due time
RUNS_AT_WORK: Final = (RunStatus.QUEUED, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Service:
    """Something that does rounds. beat: under which name it says so; late: after how long without one; start: what starts it."""

    beat: str
    name: str
    late: timedelta
    start: str


SWEEPER: Final = Service(
    "sweeper", "Sweeper", timedelta(seconds=15), "manage.py sweeper"
)  # looks once a second
SENDER: Final = Service(
    "deliver", "Sender of messages", timedelta(seconds=15), "manage.py deliver"
)  # every five
HOUSEKEEPING: Final = Service(
    "retention", "Housekeeping", timedelta(hours=1), "celery -A hitl beat"
)  # ten minutes


@dataclass(frozen=True, slots=True)
class Seen:
    """A service as it is now. at: its last round, None before the first; ago: how long that is past."""

    service: Service
    at: datetime | None
    ago: timedelta

    @property
    def well(self) -> bool:
        return self.at is not None and self.ago <= self.service.late


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that takes steps, and what it has in hand. run: only if it is of the project."""

    worker: WorkerChild
    step: Step | None
    run: Run | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """A run that should go on and does not. reason: what holds it; help: what somebody can do."""

    run: Run
    node: str
    since: datetime
    reason: str
    help: str


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be. rule: what must hold; repair: what puts it right."""

    rule: str
    run: Run
    repair: str


@dataclass(frozen=True, slots=True)
class Part:
    """Something that the house needs. said: how it is; help: what to do if it is not well."""

    name: str
    well: bool
    said: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of every run of a project, and how to find the runs of which it does not."""

    says: str
    broken: Callable[[QuerySet[Run]], QuerySet[Run]]
    repair: str


def parts() -> list[Part]:
    """Postgres, Redis, the workers, the sweeper and the housekeeping. Three queries and a question to Redis."""
    now = store.now()
    beats = {beat.name: beat.at for beat in ServiceBeat.objects.all()}
    alive = WorkerChild.objects.filter(gone_at=None).count()
    return [
        Part("Postgres", well=True, said="answers"),
        _broker(dispatch.hints(workflows.queues())),
        Part(
            "Workers",
            well=alive > 0,
            said=f"{alive} process{'' if alive == 1 else 'es'}",
            help="" if alive else "No worker runs: nothing goes on. Start one: celery -A hitl worker",
        ),
        *(_part(_seen(service, beats.get(service.beat), now)) for service in (SWEEPER, SENDER, HOUSEKEEPING)),
    ]


def look(service: Service) -> Seen:
    """How one service does. Two queries."""
    beat = ServiceBeat.objects.filter(name=service.beat).first()
    return _seen(service, beat.at if beat else None, store.now())


def _seen(service: Service, at: datetime | None, now: datetime) -> Seen:
    return Seen(service, at, now - at if at else timedelta(0))


def _broker(hints: int | None) -> Part:
    if hints is None:
        return Part(
            "Redis",
            well=False,
            said="does not answer",
            help="Runs go on, more slowly: workers look in Postgres every few seconds. Pages are not told of changes.",
        )
    return Part("Redis", well=True, said=f"answers; {hints:,} hint{'' if hints == 1 else 's'} to be taken")


def _part(seen: Seen) -> Part:
    said = f"last round {round(seen.ago.total_seconds()):,} s ago" if seen.at else "has not run yet"
    return Part(
        seen.service.name, seen.well, said, help="" if seen.well else f"Start it: {seen.service.start}"
    )


def workers(project_id: UUID) -> list[WorkerRow]:
    """The processes that live, oldest first, each with the step that it has. Two queries."""
    alive = list(WorkerChild.objects.filter(gone_at=None).order_by("id"))
    held = Step.objects.filter(worker__in=[child.pk for child in alive], status=StepStatus.EXECUTING)
    by_worker = {step.worker: step for step in held.select_related("run")}
    rows = []
    for child in alive:
        step = by_worker.get(child.pk)
        ours = step is not None and step.run.project_id == project_id
        rows.append(WorkerRow(child, step, step.run if step and ours else None))
    return rows


def stuck(project_id: UUID) -> list[Stuck]:
    """The runs that have stood still the longest, of each reason at most `SHOWN`. Five queries."""
    now = store.now()
    found = [
        *_silent(project_id, before=now - SILENT_AFTER),
        *_forgotten(project_id, before=now - FORGOTTEN_AFTER),
        *_late(project_id, before=now - LATE_AFTER),
        *_without_code(project_id),
    ]
    return sorted(found, key=lambda one: one.since)


def violations(project_id: UUID) -> list[Violation]:
    """What must hold and does not, a query a rule."""
    runs = Run.objects.filter(project=project_id)
    return [
        Violation(rule.says, run, rule.repair)
        for rule in RULES
        for run in rule.broken(runs).order_by("created_at")[:SHOWN]
    ]


# ---- stuck runs


def _silent(project_id: UUID, *, before: datetime) -> list[Stuck]:
    rows = Step.objects.filter(
        run__project=project_id, status=StepStatus.EXECUTING, lease_until__lt=before
    ).select_related("run")
    return [
        Stuck(
            step.run,
            step.node,
            step.lease_until,
            "its worker does not renew its lease, and nobody has taken the step over",
            "Look whether the sweeper runs: it takes steps over.",
        )
        for step in rows.order_by("lease_until")[:SHOWN]
        if step.lease_until
    ]


def _forgotten(project_id: UUID, *, before: datetime) -> list[Stuck]:
    rows = Step.objects.filter(
        run__project=project_id,
        run__status__in=RUNS_AT_WORK,
        run__error__isnull=True,
        run__admitted_at__isnull=False,  # others stand in line
        run__updated_at__lt=before,
        run__branch=F("branch"),
        status=StepStatus.READY,
        created_at__lt=before,
    ).exclude(Exists(_marks(OuterRef("run"))))
    return [
        Stuck(
            step.run,
            step.node,
            step.run.updated_at,
            "no worker takes it",
            "Look whether workers run, and have this version of the workflow.",
        )
        for step in rows.select_related("run").order_by("run__updated_at")[:SHOWN]
    ]


def _late(project_id: UUID, *, before: datetime) -> list[Stuck]:
    rows = Wait.objects.filter(run__project=project_id, closed_at=None, due_at__lt=before).select_related(
        "run"
    )
    return [
        Stuck(
            wait.run,
            wait.node,
            wait.due_at,
            f"its {_WAITED.get(wait.kind, wait.kind)} is due and nothing happens",
            "Look whether the sweeper runs: it wakes what is due.",
        )
        for wait in rows.order_by("due_at")[:SHOWN]
        if wait.due_at
    ]


def _without_code(project_id: UUID) -> list[Stuck]:
    rows = Wait.objects.filter(run__project=project_id, kind=store.NEEDS_MIGRATION, closed_at=None)
    return [
        Stuck(
            wait.run,
            wait.node,
            wait.opened_at,
            f"no worker has version {wait.run.workflow_version} of its workflow any more",
            "Its page has the three ways out: that version again, a migration, a rewind.",
        )
        for wait in rows.select_related("run").order_by("opened_at")[:SHOWN]
    ]


def _marks(run: OuterRef) -> QuerySet[Wait]:
    return Wait.objects.filter(run=run, kind=store.NEEDS_MIGRATION, closed_at=None)


_WAITED: Final = {"approval": "approval", "retry": "retry", "timer": "timer", "signal": "wait for a signal"}


# ---- what must hold


def _steps(*statuses: str) -> QuerySet[Step]:
    return Step.objects.filter(run=OuterRef("pk"), branch=OuterRef("branch"), status__in=statuses)


def _waits() -> QuerySet[Wait]:
    return Wait.objects.filter(run=OuterRef("pk"), closed_at=None).exclude(kind=store.NEEDS_MIGRATION)


def _approvals() -> QuerySet[Approval]:
    return Approval.objects.filter(run=OuterRef("pk"), status=ApprovalStatus.OPEN)


def _waits_for_nothing(runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.filter(~Exists(_waits()), status=RunStatus.WAITING)


def _has_nothing_to_do(runs: QuerySet[Run]) -> QuerySet[Run]:
    live = _steps(*LIVE_STEPS)
    return runs.filter(~Exists(live), status__in=[*RUNS_AT_WORK, RunStatus.WAITING])


def _owns_after_its_end(runs: QuerySet[Run]) -> QuerySet[Run]:
    owns = Exists(_steps(*LIVE_STEPS)) | Exists(_waits()) | Exists(_approvals())
    return runs.filter(owns, status__in=TERMINAL)


def _asks_without_waiting(runs: QuerySet[Run]) -> QuerySet[Run]:
    """An approval that nobody waits for: an answer to it would be lost."""
    lonely = _approvals().filter(
        ~Exists(
            Wait.objects.filter(
                run=OuterRef("run"), address=OuterRef("address"), branch=OuterRef("branch"), closed_at=None
            )
        )
    )
    return runs.filter(Exists(lonely)).exclude(status__in=TERMINAL)


def _waits_without_asking(runs: QuerySet[Run]) -> QuerySet[Run]:
    """A wait for people whom nobody has asked."""
    lonely = _waits().filter(
        ~Exists(
            Approval.objects.filter(
                run=OuterRef("run"), address=OuterRef("address"), status=ApprovalStatus.OPEN
            )
        ),
        kind="approval",
    )
    return runs.filter(Exists(lonely)).exclude(status__in=TERMINAL)


REWIND: Final = "Rewind it to its head: what is to do there is made anew."
CANCEL: Final = "Rewind it to its head, which closes what is left, or cancel it."
RULES: Final[Sequence[Rule]] = (
    Rule("A run that waits, waits for something", _waits_for_nothing, REWIND),
    Rule("A live run has a step to do", _has_nothing_to_do, REWIND),
    Rule("A run that has ended owns nothing", _owns_after_its_end, CANCEL),
    Rule("An open approval is waited for", _asks_without_waiting, REWIND),
    Rule("A wait for people has asked them", _waits_without_asking, REWIND),
)
