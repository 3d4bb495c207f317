"""Reads for pages and API. Each is small, says how many queries it makes, and never changes a row.

Everything is asked within one project: what belongs to another is not found, just as what does not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, Prefetch, Q, QuerySet

from runs import store
from runs.engine import position
from runs.engine.canonical import Json
from runs.engine.status import ApprovalStatus
from runs.errors import NotFound, UnknownCheckpoint
from runs.models import Approval, Checkpoint, Event, JournalEntry, Project, Run, Step, User, Vote

Row = TypeVar("Row", bound=Model)

LARGE = ("input", "output")  # what a list of runs leaves out


@dataclass(slots=True)
class Page(Generic[Row]):
    """Some rows of a list in keyset order, and whether more come after the last."""

    rows: list[Row]
    more: bool

    @classmethod
    def of(cls, rows: QuerySet[Row], limit: int) -> Page[Row]:
        found = list(rows[: limit + 1])
        return cls(found[:limit], more=len(found) > limit)


@dataclass(slots=True)
class Moment:
    """A checkpoint, read: its position and that of its parent (None for the first)."""

    checkpoint: Checkpoint
    position: dict[str, Any]
    before: dict[str, Any] | None

    @property
    def state(self) -> dict[str, Json]:
        return position.state(self.position)


@dataclass(slots=True)
class Visit:
    """A step with the calls that were committed inside it."""

    step: Step
    calls: list[JournalEntry] = field(default_factory=list)


# ---- projects


def project_of(user: User, slug: str | None = None) -> Project:
    """The project that a person works in: the named one, or their first by name. One query; raises `NotFound`."""
    mine = Project.objects.filter(members__user=user).order_by("slug")
    found = mine.filter(slug=slug).first() if slug else mine.first()
    if found is None:
        raise NotFound()
    return found


# ---- runs


def run(project_id: UUID, run_id: UUID) -> Run:
    """A run with its requester. One query; raises `NotFound`."""
    found = Run.objects.select_related("requester").filter(project=project_id, pk=run_id).first()
    if found is None:
        raise NotFound()
    return found


def run_mark(project_id: UUID, run_id: UUID) -> Run:
    """A run's counters and status alone, to see whether it changed. One query; raises `NotFound`."""
    found = Run.objects.only("version", "seq", "status").filter(project=project_id, pk=run_id).first()
    if found is None:
        raise NotFound()
    return found


def runs(
    project_id: UUID,
    *,
    status: str | None = None,
    workflow: str | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> Page[Run]:
    """Runs, newest first, without their documents. One query."""
    rows = Run.objects.filter(project=project_id).select_related("requester").defer(*LARGE)
    if status:
        rows = rows.filter(status=status)
    if workflow:
        rows = rows.filter(workflow=workflow)
    if after:
        moment, last = after
        rows = rows.filter(Q(created_at__lt=moment) | Q(created_at=moment, pk__lt=last), created_at__lte=moment)
    return Page.of(rows.order_by("-created_at", "-id"), limit)


def head(run: Run) -> dict[str, Any]:
    """The position at which a run stands. Two queries; raises `CheckpointUnreadable`."""
    return store.read_position(run.pk, run.head)


# ---- what happened in a run


def events(run_id: UUID, *, after: int, limit: int) -> Page[Event]:
    """The history of a run from after a number on. One query."""
    return Page.of(Event.objects.filter(run=run_id, seq__gt=after).order_by("seq"), limit)


def checkpoints(run_id: UUID, *, branch: int | None, after: int, limit: int) -> Page[Checkpoint]:
    """Checkpoints in the order of their numbers, without their documents. One query."""
    rows = Checkpoint.objects.filter(run=run_id, no__gt=after).defer("patch", "snapshot")
    if branch is not None:
        rows = rows.filter(branch=branch)
    return Page.of(rows.order_by("no"), limit)


def checkpoint(run_id: UUID, no: int) -> Moment:
    """One checkpoint with its position and its parent's. Five queries; raises `UnknownCheckpoint`."""
    found = Checkpoint.objects.defer("patch", "snapshot").filter(run=run_id, no=no).first()
    if found is None:
        raise UnknownCheckpoint(f"The run has no checkpoint {no}.", checkpoint=no)
    before = None if found.parent is None else store.read_position(run_id, found.parent)
    return Moment(found, store.read_position(run_id, no), before)


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
        for entry in JournalEntry.objects.filter(run=steps[0].run_id, address__in=addresses).order_by("ended_at", "ordinal"):
            calls[entry.branch, entry.address].append(entry)
    return [Visit(step, calls[step.branch, step.address]) for step in steps]


# ---- approvals


def approval(project_id: UUID, approval_id: UUID) -> Approval:
    """An approval with its run and votes. Two queries; raises `NotFound`."""
    found = _with_votes(Approval.objects.filter(project=project_id, pk=approval_id)).first()
    if found is None:
        raise NotFound()
    return found


def approvals(
    project_id: UUID, *, status: str, after: tuple[datetime, UUID] | None = None, limit: int
) -> Page[Approval]:
    """Approvals of one status with runs and votes: open ones oldest first, others last closed first. Two queries."""
    rows = _with_votes(Approval.objects.filter(project=project_id, status=status))
    if status == ApprovalStatus.OPEN:
        return Page.of(_open_after(rows, after).order_by("opened_at", "id"), limit)
    if after:
        moment, last = after
        rows = rows.filter(Q(closed_at__lt=moment) | Q(closed_at=moment, pk__lt=last))
    return Page.of(rows.order_by("-closed_at", "-id"), limit)


def pending(run_id: UUID) -> list[Approval]:
    """The open approvals of a run with their votes, oldest first. Two queries, one if there is none."""
    rows = _with_votes(Approval.objects.filter(run=run_id, status=ApprovalStatus.OPEN))
    return list(rows.order_by("opened_at", "id"))


def action_keys(project_id: UUID, approval_id: UUID) -> list[str]:
    """The keys of an approval's actions; none if there is no such approval. One query."""
    found = Approval.objects.only("document").filter(project=project_id, pk=approval_id).first()
    return [action["key"] for action in found.content["actions"]] if found else []


def _open_after(rows: QuerySet[Approval], after: tuple[datetime, UUID] | None) -> QuerySet[Approval]:
    if after is None:
        return rows
    moment, last = after
    return rows.filter(Q(opened_at__gt=moment) | Q(opened_at=moment, pk__gt=last))


def _with_votes(rows: QuerySet[Approval]) -> QuerySet[Approval]:
    votes = Vote.objects.select_related("user").order_by("id")
    return rows.select_related("run", "run__requester").defer("run__input", "run__output").prefetch_related(
        Prefetch("votes", queryset=votes)
    )
