"""What somebody on call asks first: which parts answer, who works on what, what lies in the queues, which runs are stuck and why,
and how deliveries go. Reads only, each a bounded query; runs of other projects are counted, never shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils.translation import gettext, ngettext

from runs import dispatch, store, workflows
from runs.engine.status import RunStatus, StepStatus
from runs.models import Delivery, Endpoint, Run, ServiceBeat, Step, Wait, WorkerChild
from runs.models.delivery import BLOCKED, DEAD, PENDING
from runs.models.runs import IN_LINE
from runs.tongue import Words, number

SHOWN: Final = 20  # rows of a list
COUNTED: Final = 1_000  # counting stops here
FORGOTTEN_AFTER: Final = timedelta(seconds=20)  # a ready step that nobody took
SILENT_AFTER: Final = timedelta(seconds=5)  # past the end of a lease
LATE_AFTER: Final = timedelta(seconds=20)  # past a due time
RUNS_AT_WORK: Final = (RunStatus.QUEUED, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Service:
    """Something that does rounds. beat: under which name it says so; late: after how long without one; start: what starts it."""

    beat: str
    says: str
    late: timedelta
    start: str

    @property
    def name(self) -> str:
        return gettext(self.says)


# They do their rounds every second, every five, every ten minutes, and twice a minute.
SWEEPER: Final = Service("sweeper", "Sweeper", timedelta(seconds=15), "manage.py sweeper")
SENDER: Final = Service("deliver", "Sender of messages", timedelta(seconds=15), "manage.py deliver")
HOUSEKEEPING: Final = Service("retention", "Housekeeping", timedelta(hours=1), "celery -A hitl beat")
STATISTICS: Final = Service("statistics", "Statistics", timedelta(minutes=5), "celery -A hitl beat")
SERVICES: Final = (SWEEPER, SENDER, HOUSEKEEPING, STATISTICS)


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
    """A run that should go on and does not. reason: what holds it; help: what somebody can do; way: the action that does
    it, if it is one of the run's (`migrate`, `rewind`)."""

    run: Run
    node: str
    since: datetime
    reason: str
    help: str
    way: Literal["", "migrate", "rewind"] = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Something that the house needs. said: how it is; help: what to do if it is not well."""

    name: str
    well: bool
    said: str
    help: str = ""


def parts() -> list[Part]:
    """Postgres, Redis, the workers, and all services. Three queries and a question to Redis."""
    now = store.now()
    beats = {beat.name: beat.at for beat in ServiceBeat.objects.all()}
    alive = WorkerChild.objects.filter(gone_at=None).count()
    return [
        Part("Postgres", well=True, said=gettext("answers")),
        _broker(dispatch.hints(workflows.queues())),
        Part(
            gettext("Workers"),
            well=alive > 0,
            said=ngettext("{alive} process", "{alive} processes", alive).format(alive=alive),
            help=""
            if alive
            else gettext("No worker runs: nothing goes on. Start one: celery -A hitl worker"),
        ),
        *(_part(_seen(service, beats.get(service.beat), now)) for service in SERVICES),
    ]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue of the workers. hints: in the broker, None if it does not answer; in_line: runs that were not let in yet,
    counted up to `COUNTED`."""

    name: str
    hints: int | None
    in_line: int

    @property
    def said_in_line(self) -> str:
        return _up_to(self.in_line)


def queues() -> list[QueueRow]:
    """What lies in each queue, of all projects. A query and a question to Redis each."""
    return [
        QueueRow(name, dispatch.hints([name]), Run.objects.filter(IN_LINE, queue=name)[:COUNTED].count())
        for name in workflows.queues()
    ]


@dataclass(frozen=True, slots=True)
class Sent:
    """How the deliveries of a project go, each counted up to `COUNTED`. late: due for a while and not tried; endpoints: those
    that were disabled because nothing arrived."""

    pending: int
    late: int
    dead: int
    blocked: int
    endpoints: int

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """What, how many, and which status of the list of deliveries has them."""
        return [
            (gettext("on their way"), _up_to(self.pending), PENDING),
            (gettext("due, and nobody sends them"), _up_to(self.late), PENDING),
            (gettext("given up"), _up_to(self.dead), DEAD),
            (gettext("blocked: the address is not allowed"), _up_to(self.blocked), BLOCKED),
        ]


def deliveries(project_id: UUID) -> Sent:
    """Five queries."""
    rows = Delivery.objects.filter(project=project_id)
    late = rows.filter(status=PENDING, token=None, due_at__lt=store.now() - LATE_AFTER)
    disabled = Endpoint.objects.filter(project=project_id, disabled_at__isnull=False, deleted_at=None)
    each = {status: rows.filter(status=status)[:COUNTED].count() for status in (PENDING, DEAD, BLOCKED)}
    return Sent(each[PENDING], late[:COUNTED].count(), each[DEAD], each[BLOCKED], disabled.count())


def _up_to(count: int) -> str:
    return f"{number(count)}{'+' if count >= COUNTED else ''}"


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
            said=gettext("does not answer"),
            help=gettext(
                "Runs go on, more slowly: workers look in Postgres every few seconds. Pages are not told of changes."
            ),
        )
    return Part(
        "Redis",
        well=True,
        said=ngettext(
            "answers; {hints} hint to be taken", "answers; {hints} hints to be taken", hints
        ).format(hints=number(hints)),
    )


def _part(seen: Seen) -> Part:
    said = (
        gettext("last round {seconds} s ago").format(seconds=number(round(seen.ago.total_seconds())))
        if seen.at
        else gettext("has not run yet")
    )
    return Part(
        seen.service.name,
        seen.well,
        said,
        help="" if seen.well else gettext("Start it: {start}").format(start=seen.service.start),
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
            gettext("its worker does not renew its lease, and nobody has taken the step over"),
            gettext(
                "Look whether the sweeper runs: it takes steps over. A rewind to its head does it by hand."
            ),
            "rewind",
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
            gettext("no worker takes it"),
            gettext("Look whether workers run, and have this version of the workflow."),
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
            gettext("its {what} is due and nothing happens").format(what=_WAITED.get(wait.kind, wait.kind)),
            gettext("Look whether the sweeper runs: it wakes what is due."),
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
            gettext("no worker has version {workflow_version} of its workflow any more").format(
                workflow_version=wait.run.workflow_version
            ),
            gettext("Its page has the three ways out: that version again, a migration, a rewind."),
            "migrate",
        )
        for wait in rows.select_related("run").order_by("opened_at")[:SHOWN]
    ]


def _marks(run: OuterRef) -> QuerySet[Wait]:
    return Wait.objects.filter(run=run, kind=store.NEEDS_MIGRATION, closed_at=None)


_WAITED: Final = Words(
    {"approval": "approval", "retry": "retry", "timer": "timer", "signal": "wait for a signal"}
)
