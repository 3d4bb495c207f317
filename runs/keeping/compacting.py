"""What stays of an old run: its start, its approvals, its branch points and its ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from django.db import models
from django.db.models.functions import Now

from runs import store
from runs.engine import canonical, compaction
from runs.engine import position as at
from runs.engine.compaction import Place, Point, Written
from runs.errors import CheckpointUnreadable, Told
from runs.models import Branch, Checkpoint, Event, JournalEntry, Run


def _start(run: Run) -> Iterable[int]:
    return Checkpoint.objects.filter(run=run, kind="input").values_list("no", flat=True)


def _answers(run: Run) -> Iterable[int]:
    return Checkpoint.objects.filter(run=run, kind="answer").values_list("no", flat=True)


def _parked(run: Run) -> Iterable[int]:
    """Where the run stood when people were asked: opening an approval makes no checkpoint, so it is the newest before."""
    head: dict[int, int] = {}
    for kind, branch, checkpoint in (
        Event.objects.filter(run=run).order_by("seq").values_list("kind", "branch", "checkpoint").iterator()
    ):
        if checkpoint is not None:
            head[branch] = checkpoint
        elif kind == "approval_opened" and branch in head:
            yield head[branch]


def _branch_points(run: Run) -> Iterable[int]:
    rows = Branch.objects.filter(run=run, parent_checkpoint__isnull=False)
    return (no for no in rows.values_list("parent_checkpoint", flat=True) if no is not None)


def _fork_points(run: Run) -> Iterable[int]:
    rows = Run.objects.filter(forked_from=run, forked_checkpoint__isnull=False)
    return (no for no in rows.values_list("forked_checkpoint", flat=True) if no is not None)


def _ends(run: Run) -> Iterable[int]:
    rows = Checkpoint.objects.filter(run=run).order_by("branch").values("branch")
    return [run.head, *rows.annotate(last=models.Max("no")).values_list("last", flat=True)]


KEPT: Final[dict[str, Callable[[Run], Iterable[int]]]] = {
    "start": _start,
    "approvals, as they were asked": _parked,
    "approvals, as they were answered": _answers,
    "branch points": _branch_points,
    "where forks began": _fork_points,
    "the end of every branch": _ends,
}


def kept_checkpoints(run: Run) -> frozenset[int]:
    return frozenset(no for find in KEPT.values() for no in find(run))


@dataclass(frozen=True, slots=True)
class Compacted:
    checkpoints: int
    calls: int


def compact(run: Run) -> Compacted:
    """Take from a locked run the checkpoints that need not stay, in the caller's transaction.

    Each that stays is read before and after: if it does not say the same, `CheckpointUnreadable` is raised and nothing has
    changed. The history is not touched.
    """
    kept = kept_checkpoints(run)
    digests: dict[int, str] = {}
    places: list[Place] = []
    for branch in Branch.objects.filter(run=run).order_by("no"):
        line = store.lineage(run.pk, branch.no)
        for point in _rewritten(run, branch.no, kept):
            if not at.is_position(point.document):
                raise CheckpointUnreadable(
                    Told("Checkpoint {point} is not a position.", point=point.no), checkpoint=point.no
                )
            digests[point.no] = canonical.digest(point.document)
            to_do = frozenset(step.address for step in at.all_steps(point.document))
            places.append(Place(point.no, to_do, line))
            Checkpoint.objects.filter(run=run, no=point.no).update(
                parent=point.parent,
                snapshot_no=point.snapshot_no,
                patch=point.patch,
                snapshot=point.snapshot,
            )
    gone, _ = Checkpoint.objects.filter(run=run).exclude(no__in=kept).delete()
    calls = _drop_calls(run, places)
    _weigh(run)
    for no, digest in digests.items():
        if canonical.digest(store.read_position(run.pk, no)) != digest:
            raise CheckpointUnreadable(
                Told("Checkpoint {no} would say something else.", no=no), checkpoint=no
            )
    Run.objects.filter(pk=run.pk).update(compacted_at=Now())
    return Compacted(gone, calls)


def _rewritten(run: Run, branch: int, kept: frozenset[int]) -> Iterable[compaction.Kept]:
    rows = Checkpoint.objects.filter(run=run, branch=branch).order_by("no")
    points = (
        Point(*row) for row in rows.values_list("no", "parent", "patch", "snapshot").iterator(chunk_size=50)
    )
    try:
        yield from compaction.rewritten(points, kept)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointUnreadable(
            Told("A checkpoint of branch {branch} cannot be read: {error}.", branch=branch, error=error)
        ) from None


def _drop_calls(run: Run, places: list[Place]) -> int:
    columns = ("branch", "address", "name", "occurrence", "args_digest", "after", "effect")
    entries = [Written(*row) for row in JournalEntry.objects.filter(run=run).values_list(*columns)]
    gone = 0
    for entry in compaction.needless(entries, places):
        rows = JournalEntry.objects.filter(run=run, branch=entry.branch, address=entry.address)
        gone += rows.filter(name=entry.name, occurrence=entry.occurrence).delete()[0]
    return gone


def _weigh(run: Run) -> None:
    """The run's row says when the next snapshot is due: a rewound or retried run goes on from here."""
    head = Checkpoint.objects.filter(run=run, no=run.head).first()
    if run.snapshot_no == 0 and run.branch > 1:
        return  # the branch has no checkpoint of its own yet
    if head is None or head.branch != run.branch:
        return
    rows = Checkpoint.objects.filter(run=run, branch=head.branch, no__gte=head.snapshot_no, no__lte=head.no)
    sizes = list(rows.order_by("no").values_list("snapshot", "patch"))
    Run.objects.filter(pk=run.pk).update(
        snapshot_no=head.snapshot_no,
        snapshot_size=len((sizes[0][0] or "").encode()),
        patch_weight=sum(len((ops or "").encode()) + store.PATCH_OVERHEAD for _, ops in sizes[1:]),
    )
