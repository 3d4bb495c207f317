"""A run as it is stored: its locked row, the document of a checkpoint, the branches it has come by, the journal of a step."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.conf import settings

from runs.driver import Entry
from runs.engine import canonical, patch
from runs.engine import position as at
from runs.engine.lineage import line_of, sees
from runs.engine.status import LIVE_STEPS, StepStatus
from runs.errors import (
    Busy,
    CheckpointRemoved,
    CheckpointUnreadable,
    Erased,
    NotFound,
    Told,
    UnknownCheckpoint,
)
from runs.models import (
    Branch,
    Checkpoint,
    JournalEntry,
    Run,
    Step,
    Vote,
)
from runs.models.packed import unpack
from runs.store.connection import refusing
from runs.store.prepared import ask, ask_all, read_as

ERASED: Final = '{"erased":true}'  # what stands in the place of a position that was erased
_LOCKED: Final = tuple(one.attname for one in Run._meta.concrete_fields if one.attname != "output")  # noqa: SLF001
LOCK_SECONDS: Final = 3.0  # how long a person's verb waits for a run that another transaction holds


def lock_run(run_id: uuid.UUID, *, patience: float | None = LOCK_SECONDS) -> Run:
    """The run's row, locked until the transaction ends. Raises `NotFound`, or `Busy` after `patience` seconds (None: never).

    The rest of the transaction waits no longer for any lock, and the server ends it if its process is frozen or cut off, lest
    it hold the run for ever.
    """
    run: Run = lock_run_with(run_id, patience=patience)[0]
    return run


def lock_run_with(
    run_id: uuid.UUID, *more: tuple[str, Mapping[str, Any]], patience: float | None = LOCK_SECONDS
) -> list[Any]:
    """The same, and the rows of what else is asked once it is locked, in the same round trip."""
    told = {
        "run": run_id,
        "idle": f"{settings.HITL_LEASE_SECONDS:.0f}s",
        "patience": None if patience is None else f"{patience * 1000:.0f}ms",
    }
    with refusing(Busy):
        rows, *others = ask_all(("lock_run", told), *more)
    if not rows:
        raise NotFound()
    return [read_as(Run, rows[0], _LOCKED), *others]


def read_position(run_id: uuid.UUID, checkpoint: int) -> dict[str, Any]:
    """The document of a checkpoint: its snapshot and the patches since, one index range. Raises `CheckpointUnreadable`."""
    return read_positions(run_id, [checkpoint])[0]


def read_positions(run_id: uuid.UUID, checkpoints: Sequence[int]) -> list[dict[str, Any]]:
    """The documents of some checkpoints, in this order. One query. Raises as `read_position` does."""
    return _positions(ask("read_positions", {"run": run_id, "nos": list(checkpoints)}), run_id, checkpoints)


def position_in(found: Iterable[Sequence[Any]], run_id: uuid.UUID, checkpoint: int) -> dict[str, Any]:
    """The document of a checkpoint from the rows that `read_positions` answers of it alone. Raises as `read_position` does."""
    return _positions(found, run_id, [checkpoint])[0]


def _positions(
    found: Iterable[Sequence[Any]], run_id: uuid.UUID, checkpoints: Sequence[int]
) -> list[dict[str, Any]]:
    rows: dict[int, list[Any]] = {}
    for head, *row in found:
        rows.setdefault(head, []).append(row)
    for no in checkpoints:
        if no not in rows:
            raise missing_checkpoint(run_id, no)
    return [_position_of(rows[no], no) for no in checkpoints]


def _position_of(rows: Iterable[Sequence[Any]], checkpoint: int) -> dict[str, Any]:
    """rows: number, parent, snapshot and patch of each checkpoint from a snapshot on, as they are stored."""
    document: Any = None
    before: int | None = None
    for no, parent, snapshot, ops in rows:
        if snapshot == ERASED.encode():
            raise Erased(checkpoint=no)
        try:
            if snapshot is not None:
                document = canonical.loads(unpack(snapshot))
            else:  # only ever onto the document that it was made of
                made_of = document if parent == before else None
                document = patch.apply_fresh(made_of, canonical.loads(unpack(ops or b"")))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointUnreadable(
                Told("Checkpoint {no} cannot be read: {error}.", no=no, error=error), checkpoint=no
            ) from None
        before = no
    if not at.is_position(document):
        raise CheckpointUnreadable(
            Told("Checkpoint {checkpoint} is not a position.", checkpoint=checkpoint), checkpoint=checkpoint
        )
    position: dict[str, Any] = document
    return position


def missing_checkpoint(run_id: uuid.UUID, no: int) -> UnknownCheckpoint:
    """What to say of a checkpoint that is not there: it never was, or compacting the run took it."""
    run = Run.objects.values("checkpoint_no", "compacted_at").filter(pk=run_id).first()
    if run and run["compacted_at"] and 0 <= no <= run["checkpoint_no"]:
        kept = list(Checkpoint.objects.filter(run=run_id).order_by("no").values_list("no", flat=True)[:200])
        return CheckpointRemoved(
            Told(
                "Checkpoint {no} was removed when the run was compacted; its history still tells of it.",
                no=no,
            ),
            checkpoint=no,
            kept=kept,
        )
    return UnknownCheckpoint(Told("The run has no checkpoint {no}.", no=no), checkpoint=no)


def lineage(run_id: uuid.UUID, branch: int) -> dict[int, int | None]:
    """A branch and its ancestors, each with the checkpoint at which it was left (None for the branch itself)."""
    rows = Branch.objects.filter(run=run_id, no__lte=branch)
    return line_of(branch, {row.no: (row.parent_branch, row.parent_checkpoint) for row in rows})


def lineage_at(run_id: uuid.UUID, checkpoint: int) -> dict[int, int]:
    """What a checkpoint can see: its branch and the ancestors, each with the first `after` that counts no more.

    A journal entry is visible if its `after` is smaller; a step if its checkpoint is not larger.
    """
    rows = ask("line_at", {"run": run_id, "no": checkpoint})
    if not rows:
        raise missing_checkpoint(run_id, checkpoint)
    line = line_of(rows[0][0], {no: (parent, left_at) for _, no, parent, left_at in rows})
    return {no: checkpoint if limit is None else min(limit, checkpoint) for no, limit in line.items()}


def sight(run_id: uuid.UUID, branch: int) -> Callable[[int, int], bool]:
    """Whether a branch sees what was written on a branch after a checkpoint."""
    return partial(sees, lineage(run_id, branch))


def unfinished_rows(run: Run, addresses: Sequence[str]) -> list[Step]:
    """The rows of these steps on the run's branch that were begun and have not come to a good end."""
    rows = Step.objects.filter(run=run, branch=run.branch, address__in=list(addresses))
    done = (StepStatus.COMPLETED, StepStatus.VOID)
    return list(rows.exclude(status__in=done).only("address", "status", "error", "node"))


def live_steps(run: Run) -> dict[str, str]:
    """The status of every live step of the run's branch, by address."""
    rows = Step.objects.filter(run=run, branch=run.branch, status__in=LIVE_STEPS).order_by("created_at")
    return dict(rows.values_list("address", "status"))


def journal(run_id: uuid.UUID, branch: Branch, address: str) -> list[Entry]:
    """Every entry of an address. An ancestor's counts if it was committed before the branch left it; the others may be
    reused, unless the branch says that calls are made again."""
    sees = sight(run_id, branch.no)
    entries = []
    # The branches are named so that the key's index leads straight to the address.
    everywhere = JournalEntry.objects.filter(run=run_id, branch__in=range(1, branch.no + 1), address=address)
    for row in everywhere:
        visible = sees(row.branch, row.after)
        if visible or branch.reuses(address, row.name, row.occurrence):
            entries.append(Entry.of(row, visible=visible))
    return entries


def approved_digest(approval_id: str) -> str:
    """What the decisive vote of an approval recorded, or empty."""
    found = Vote.objects.filter(approval_id=uuid.UUID(approval_id), decisive=True).values_list(
        "approved_digest", flat=True
    )
    return found.first() or ""


def stretches(run_id: uuid.UUID, *, window: int, columns: int) -> list[tuple[Any, ...]]:
    """All steps of a run in at most `columns` stretches of whole windows: numbers of the first and the last, when, how many
    failed, how many go on."""
    return ask("stretches", {"run": run_id, "window": window, "columns": columns})
