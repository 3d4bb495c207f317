"""Everything Postgres: claim, load, commit (fenced), renew, and what the sweeper looks for.

Lock order, everywhere: run, then step, then approval and wait. The clock of leases, due times and the history is the
database's. `commit` is for transitions made under the run's row lock; `commit_step` and `commit_call` are the hot path:
one statement, one round trip, no ORM.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from django.conf import settings
from django.db import (
    DatabaseError,
    Error,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from psycopg.rows import namedtuple_row

from runs.driver import Call, Entry, Used
from runs.driver import LogLine as DriverLine
from runs.engine import canonical, chain, patch
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.machine import Event as EngineEvent
from runs.engine.machine import Opened, StepChange, Transition
from runs.engine.position import LiveStep
from runs.engine.status import LIVE_STEPS, TERMINAL, ApprovalStatus, RunStatus, StepStatus
from runs.engine.waits import Place, Satisfied, Wanted
from runs.errors import (
    Busy,
    CheckpointRemoved,
    CheckpointUnreadable,
    Erased,
    HitlError,
    IdempotencyInProgress,
    LateResult,
    NotFound,
    Unavailable,
    UnknownCheckpoint,
)
from runs.models import (
    Approval,
    Branch,
    Checkpoint,
    Child,
    Event,
    JournalEntry,
    OperationalNote,
    Revision,
    Run,
    ServiceBeat,
    Signal,
    Step,
    Stop,
    Vote,
    Wait,
    WorkerChild,
)
from runs.models.runs import place_of
from runs.sql import statement

FENCED: Final = "HL001"
OF_ORIGIN: Final = 0  # the branch, as a fork sees it, of what its origin did
BEFORE_ALL: Final = -1  # `after` of what a fork starts with: every branch of it sees that
LOCK_SPACE: Final = 0x4849  # "HI": the first half of our two-part advisory lock keys
SWEEPER_LOCK: Final = 0
PATCH_OVERHEAD: Final = 256
ERASED: Final = '{"erased":true}'  # what stands in the place of a position that was erased
BESIDE_LEAST: Final = 16_384  # bytes of patches before a lane among others stops to write a snapshot
LOCK_SECONDS: Final = 3.0  # how long a person's verb waits for a run that another transaction holds
KEY_SECONDS: Final = 5.0  # how long a request waits for the first one with the same idempotency key
LOG_LINES: Final = 2_000  # of one run's nodes
HINT_AGAIN_AFTER: Final = 3.0  # seconds a ready step may lie before workers are told once more
ROUND_AT_MOST: Final = "60s"  # after which a sweeper loses its turn to another
FORGOTTEN_AFTER: Final = 2.0  # seconds more, and workers take it without being told
LOST: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Held:
    """A step that this worker has: every write names its token and epoch."""

    run_id: uuid.UUID
    branch: int
    step: LiveStep
    epoch: int
    token: uuid.UUID
    worker: int
    attempt: int = 1
    failures: int = 0
    crashes: int = 0
    earlier: int = 0  # attempts before the last Retry; what a policy allows counts from there
    entry: int = 1  # how often it was claimed, this time included
    worked: float = 0.0  # seconds of this attempt in earlier entries
    is_fresh: bool = False  # made and claimed in one statement: nothing was ever done at this address


@dataclass(slots=True)
class Claimed:
    """A claimed step with everything that is needed to run it."""

    held: Held
    run: Run
    position: dict[str, Any]
    branch: Branch


CallAt = tuple[str, str, str]  # address, name and occurrence of a call


@dataclass(frozen=True, slots=True)
class NewBranch:
    """A branch that a rewind starts. exceptions: calls that are not treated as `calls` says."""

    parent_checkpoint: int
    calls: str
    author: Json
    reason: str
    exceptions: Sequence[CallAt] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """What a step commit came to: the checkpoint's number, the snapshot it builds on, and the next step if it was claimed."""

    checkpoint: int
    snapshot_no: int
    next: Held | None


@dataclass(slots=True)
class Weights:
    """When a lane's next snapshot is due; kept in memory between steps, as on the run row."""

    patches: int
    snapshot: int
    fresh: bool

    @classmethod
    def of(cls, run: Run) -> Weights:
        return cls(run.patch_weight, run.snapshot_size, fresh=run.snapshot_no == 0 and run.branch > 1)

    def wants_snapshot(self, size: int, *, beside: bool = False) -> bool:
        """Whether the next checkpoint is a snapshot. beside: other lanes live, and a snapshot takes the run's lock: small
        documents would have one at every other step, so there it waits until it spares some reading."""
        least = BESIDE_LEAST if beside else 0
        return self.fresh or self.patches + size + PATCH_OVERHEAD > max(self.snapshot, least)

    def see(self, *, patches: int, snapshot: int) -> None:
        """Take over what stands on the run row after a commit: sibling lanes write patches too."""
        self.fresh, self.patches, self.snapshot = False, patches, snapshot

    def note(self, *, patch_size: int, snapshot_size: int | None) -> None:
        self.fresh = False
        if snapshot_size is None:
            self.patches += patch_size + PATCH_OVERHEAD
        else:
            self.patches, self.snapshot = 0, snapshot_size


# ---- reading


def now() -> datetime:
    """The database's time: of the transaction, if there is one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        row = cursor.fetchone()
    moment: datetime = row[0]
    return moment


def lock_run(run_id: uuid.UUID, *, patience: float | None = LOCK_SECONDS) -> Run:
    """The run's row, locked until the transaction ends. Raises `NotFound`, or `Busy` after `patience` seconds (None: never).

    The rest of the transaction waits no longer for any lock. NO KEY, because rows that name the run check that it exists:
    a call that is just being committed holds its step and would wait for the run, while whoever holds the run waits for
    the step.
    """
    _end_if_idle()
    if patience is not None:
        set_lock_timeout(f"{patience * 1000:.0f}ms")
    with _refusing(Busy):
        run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise NotFound()
    return run


def _end_if_idle() -> None:
    """For the transaction: the server ends it if its process is frozen or cut off, lest it hold the run for ever."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
            [f"{settings.HITL_LEASE_SECONDS:.0f}s"],
        )


def set_lock_timeout(text: str) -> str:
    """Set for the transaction how long it waits for a lock; returns what it was."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)", [text])
        before: str = cursor.fetchone()[0]
    return before


@contextmanager
def _refusing(refusal: type[HitlError]) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            raise refusal() from None
        raise


def refusal_of(error: Error) -> HitlError:
    """What a database error means to whoever asked: somebody is in the way for a moment, or the database is."""
    rivals = (
        psycopg.errors.LockNotAvailable,
        psycopg.errors.DeadlockDetected,
        psycopg.errors.SerializationFailure,
    )
    return Busy() if isinstance(error.__cause__, rivals) else Unavailable()


def is_connected() -> bool:
    """Whether Django's connection of this thread still works."""
    return connection.connection is not None and connection.is_usable()


def is_lost(error: Exception) -> bool:
    """Whether an error means that the connection is gone, however the server put it, or that it is worth another try."""
    return isinstance(error, LOST) or not is_connected()


def persistently(work: Callable[[], Result]) -> Result:
    """Do a worker's write or read; if the connection is lost, connect again and repeat it.

    What a body has worked out in minutes is not given up because a backend was ended. Repeating a write is safe: the fence
    lets it through once, and who repeats recognises what landed at the first try. A database that is away is waited for:
    without it nobody else can do the step either. One that answers, and refuses for as long as a lease, is believed.
    """
    refused_since: float | None = None
    pause = 0.05
    while True:
        try:
            return work()
        except (DatabaseError, *LOST) as error:
            # From the first refusal on: the work itself may have taken long, or the process have been frozen in it.
            refused_since = refused_since or time.monotonic()
            patience = settings.HITL_LEASE_SECONDS - (time.monotonic() - refused_since)
            if connection.in_atomic_block or not is_lost(error) or patience <= 0:
                raise
            logger.warning("the database did not answer, the write is repeated: %s", error)
            connection.close()
        time.sleep(pause)
        pause = min(1.0, pause * 2)
        if not _answers():
            refused_since = None


def _answers() -> bool:
    try:
        connection.ensure_connection()
    except (DatabaseError, *LOST):
        return False
    return True


def read_position(run_id: uuid.UUID, checkpoint: int) -> dict[str, Any]:
    """The document of a checkpoint: its snapshot and the patches since, one index range. Raises `CheckpointUnreadable`."""
    head = Checkpoint.objects.filter(run=run_id, no=checkpoint).values("branch", "snapshot_no").first()
    if head is None:
        raise missing_checkpoint(run_id, checkpoint)
    rows = list(
        Checkpoint.objects.filter(
            run=run_id, no__gte=head["snapshot_no"], no__lte=checkpoint, branch=head["branch"]
        )
        .order_by("no")
        .values_list("no", "parent", "snapshot", "patch")
    )
    document: Any = None
    before: int | None = None
    for no, parent, snapshot, ops in rows:
        if snapshot == ERASED:
            raise Erased(checkpoint=no)
        try:
            if snapshot is not None:
                document = canonical.loads(snapshot)
            else:  # only ever onto the document that it was made of
                document = patch.apply(document if parent == before else None, canonical.loads(ops or ""))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointUnreadable(f"Checkpoint {no} cannot be read: {error}.", checkpoint=no) from None
        before = no
    if not at.is_position(document):
        raise CheckpointUnreadable(f"Checkpoint {checkpoint} is not a position.", checkpoint=checkpoint)
    position: dict[str, Any] = document
    return position


def missing_checkpoint(run_id: uuid.UUID, no: int) -> UnknownCheckpoint:
    """What to say of a checkpoint that is not there: it never was, or compacting the run took it."""
    run = Run.objects.values("checkpoint_no", "compacted_at").filter(pk=run_id).first()
    if run and run["compacted_at"] and 0 <= no <= run["checkpoint_no"]:
        kept = list(Checkpoint.objects.filter(run=run_id).order_by("no").values_list("no", flat=True)[:200])
        return CheckpointRemoved(
            f"Checkpoint {no} was removed when the run was compacted; its history still tells of it.",
            checkpoint=no,
            kept=kept,
        )
    return UnknownCheckpoint(f"The run has no checkpoint {no}.", checkpoint=no)


def lineage(run_id: uuid.UUID, branch: int) -> list[tuple[int, int | None]]:
    """A branch and its ancestors, each with the checkpoint at which it was left (None for the branch itself)."""
    rows = {row.no: row for row in Branch.objects.filter(run=run_id, no__lte=branch)}
    line: list[tuple[int, int | None]] = [(branch, None)]
    here = rows[branch]
    while here.parent_branch is not None and here.parent_checkpoint is not None:
        limit = line[-1][1]
        left_at = here.parent_checkpoint if limit is None else min(limit, here.parent_checkpoint)
        line.append((here.parent_branch, left_at))
        here = rows[here.parent_branch]
    return line


def lineage_at(run_id: uuid.UUID, checkpoint: int) -> dict[int, int]:
    """What a checkpoint can see: its branch and the ancestors, each with the first `after` that counts no more.

    A journal entry is visible if its `after` is smaller; a step if its checkpoint is not larger.
    """
    branch = Checkpoint.objects.filter(run=run_id, no=checkpoint).values_list("branch", flat=True).first()
    if branch is None:
        raise missing_checkpoint(run_id, checkpoint)
    line = lineage(run_id, branch)
    return {no: checkpoint if limit is None else min(limit, checkpoint) for no, limit in line}


# ---- a worker's hot path


def claim(*, run_id: uuid.UUID, branch: int, address: str, worker: int) -> Claimed | None:
    """Take a ready step under a lease, or None if it is not there to be taken. Raises `CheckpointUnreadable` or `Busy`."""
    with transaction.atomic():
        run = lock_run(run_id)
        if run.branch != branch or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
            return None
        if run.error is not None:
            return None  # it drains after a failure: nothing new begins
        found = _with_room(run, address)
        held = _take_step(run, found, worker) if found else None
        if held is None:
            return None
        if run.status == RunStatus.QUEUED:
            run.status = RunStatus.RUNNING
            run.started_at = run.started_at or now()
            run.save(update_fields=["status", "started_at"])
        position = read_position(run_id, run.head)
        return Claimed(held, run, position, Branch.objects.get(run=run_id, no=branch))


def _with_room(run: Run, address: str) -> str | None:
    """The step to take for a hint: of a fan-out, the lowest item that is ready, if it has room for one more."""
    lane = (
        Step.objects.filter(run=run, branch=run.branch, address=address)
        .values_list("lane", flat=True)
        .first()
    )
    outer, is_item, _ = (lane or "").partition("#")
    if not is_item:
        return address
    items = Step.objects.filter(run=run, branch=run.branch, lane__startswith=f"{outer}#")
    executing = items.filter(status=StepStatus.EXECUTING).count()
    if executing >= at.lane_at(read_position(run.pk, run.head), outer)["fan"]["at_once"]:
        return None
    ready = items.filter(status=StepStatus.READY).values_list("lane", "address")
    return min(ready, key=lambda row: int(row[0].partition("#")[2]), default=("", None))[1]


def _take_step(run: Run, address: str, worker: int) -> Held | None:
    token = uuid.uuid4()
    parameters: dict[str, Any] = {
        "run": run.pk,
        "branch": run.branch,
        "address": address,
        "token": token,
        "worker": worker,
        "lease": settings.HITL_LEASE_SECONDS,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement("claim_step"), parameters)
        row = cursor.fetchone()
    if row is None:
        return None
    lane, node, visit, failures, crashes, earlier, entry, worked = row
    return Held(
        run.pk,
        run.branch,
        LiveStep(lane, node, address, visit),
        run.epoch,
        token,
        worker,
        attempt=earlier + failures + crashes + 1,
        failures=failures,
        crashes=crashes,
        earlier=earlier,
        entry=entry,
        worked=worked,
    )


def commit_step(
    held: Held,
    transition: Transition,
    *,
    position: dict[str, Any] | None,
    head: int | None,
    weights: Weights,
    go_on: bool,
) -> Committed:
    """Commit a completed step and, if `go_on`, claim the next one in the same statement. Raises `LateResult`.

    For transitions with one event, one checkpoint and one next step; all others go through `commit`.
    position, head: the document and the checkpoint before, of a lane that is alone. None beside other lanes, which may have
    moved on: then no snapshot is written, and the parent is the run's head. Raises `SnapshotDue` if one has to be.
    """
    assert transition.checkpoint is not None
    following, event = transition.next_steps[0], transition.events[0]
    ops = canonical.dumps(transition.checkpoint.ops)
    due = weights.wants_snapshot(len(ops.encode()), beside=position is None)
    if due and position is None:
        raise SnapshotDue()
    snapshot = canonical.dumps(position) if due else None
    payload, salt = canonical.dumps(event.payload), os.urandom(16)
    payload_hash = chain.payload_hash(salt, payload)
    token = uuid.uuid4() if go_on else None
    parameters = {
        "run": held.run_id,
        "branch": held.branch,
        "epoch": held.epoch,
        "token": held.token,
        "address": held.step.address,
        "node": held.step.node,
        "lane": following.lane,
        "parent": head,
        "patch": None if snapshot is not None else ops,
        "snapshot": snapshot,
        "body": _body(event, branch=held.branch, epoch=held.epoch, actor="", payload_hash=payload_hash),
        "payload": payload,
        "salt": salt,
        "payload_hash": payload_hash,
        "next_address": following.address,
        "next_node": following.node,
        "next_visit": following.visit,
        "next_token": token,
        "worker": held.worker,
        "lease": settings.HITL_LEASE_SECONDS,
    }
    row = _land("commit_step", parameters, landed=partial(_landed_step, held, salt))
    weights.see(patches=row.patch_weight, snapshot=row.snapshot_size)
    if token is None:
        return Committed(row.checkpoint_no, row.snapshot_no, None)
    claimed = Held(held.run_id, held.branch, following, held.epoch, token, held.worker, is_fresh=True)
    return Committed(row.checkpoint_no, row.snapshot_no, claimed)


def commit_call(held: Held, call: Call, *, ordinal: int) -> str:
    """Commit a call; its result as it is stored. Without one it is the time by the database's clock. Raises `LateResult`."""
    parameters = {
        **_fence(held),
        "name": call.name,
        "occurrence": call.occurrence,
        "ordinal": ordinal,
        "args_digest": call.args_digest,
        "result": call.result or None,
        "effect": call.effect,
        "key": call.key,
        "reused_from": call.reused_from,
        "took": call.took,
        "arguments": call.arguments,
        "undo": call.undo or None,
        "used": _used(call.used),
    }
    row = _land("commit_call", parameters, landed=partial(_landed_call, held, call))
    result: str = row.result
    return result


def note_usage(held: Held, name: str, occurrence: str, used: Sequence[Used]) -> None:
    """Keep what a call used that came to nothing. Raises `LateResult`. Repeated after a lost answer it may count twice."""
    parameters = {**_fence(held), "name": name, "occurrence": occurrence, "used": _used(used)}
    _land("note_usage", parameters, landed=lambda: None)


def note_log(held: Held, line: DriverLine) -> None:
    """Keep a line of a node's log as long as the run has room for it. Raises `LateResult`."""
    parameters = {
        **_fence(held),
        "attempt": line.attempt,
        "no": line.no,
        "message": line.message,
        "facts": line.facts,
        "room": LOG_LINES,
    }
    _land("note_log", parameters, landed=lambda: None)


def note_progress(held: Held, progress: Json) -> None:
    """Show how far a step is. Raises `LateResult`."""
    parameters = {**_fence(held), "progress": canonical.dumps(progress)}
    _land("note_progress", parameters, landed=lambda: None)


def note_overdue(held: Held, facts: Json) -> None:
    """Write down that the attempt is out of time and its process about to end: the sweeper books it so. On a connection of
    its own, because the thread that works is the one that hangs."""
    with own_connection() as connection:
        connection.execute(
            "UPDATE runs_step SET overdue = %(facts)s::jsonb WHERE run_id = %(run)s AND branch = %(branch)s"
            " AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s",
            {**_fence(held), "facts": canonical.dumps(facts)},
        )


def _fence(held: Held) -> dict[str, Any]:
    return {
        "run": held.run_id,
        "branch": held.branch,
        "address": held.step.address,
        "token": held.token,
        "epoch": held.epoch,
    }


def _used(used: Sequence[Used]) -> str:
    return canonical.dumps([amount.as_dict() for amount in used])


def journal(run_id: uuid.UUID, branch: Branch, address: str) -> list[Entry]:
    """Every entry of an address. An ancestor's counts if it was committed before the branch left it; the others may be
    reused, unless the branch says that calls are made again."""
    limits = dict(lineage(run_id, branch.no))
    entries = []
    # The branches are named so that the key's index leads straight to the address.
    everywhere = JournalEntry.objects.filter(run=run_id, branch__in=range(1, branch.no + 1), address=address)
    for row in everywhere:
        limit = limits.get(row.branch, -1)
        visible = limit is None or row.after < limit
        if visible or branch.reuses(address, row.name, row.occurrence):
            entries.append(
                Entry(
                    row.name,
                    row.occurrence,
                    row.args_digest,
                    row.result,
                    row.branch,
                    visible,
                    row.effect,
                    row.kind,
                    row.attempt,
                    row.arguments,
                )
            )
    return entries


def approved_digest(approval_id: str) -> str:
    """What the decisive vote of an approval recorded, or empty."""
    found = Vote.objects.filter(approval_id=uuid.UUID(approval_id), decisive=True).values_list(
        "approved_digest", flat=True
    )
    return found.first() or ""


def note_late_result(held: Held, what: str, **more: Json) -> None:
    """Write a discarded late result to the run's operational log, outside the chain."""
    facts = {
        **more,
        "what": what,
        "node": held.step.node,
        "address": held.step.address,
        "branch": held.branch,
        "epoch": held.epoch,
        "token": str(held.token),
        "worker": held.worker,
    }
    OperationalNote.objects.create(run_id=held.run_id, kind=LateResult.code, facts=facts)


def _land(name: str, parameters: dict[str, Any], *, landed: Callable[[], Any]) -> Any:
    """Run a fenced statement until the database has answered. Raises `LateResult` if the fence says no.

    landed: looks for what this very write left behind. It is asked where a write is refused that was sent before: the
    connection may have been lost between the commit and its answer.
    """
    sent = 0

    def write() -> Any:
        nonlocal sent
        sent += 1
        try:
            row = _run_fenced(name, parameters)
        except psycopg.errors.UniqueViolation:
            row = landed() if sent > 1 else None
            if row is None:
                raise
        if row is None and sent > 1:
            row = landed()
        return row

    row = persistently(write)
    if row is None:
        raise LateResult()
    return row


def _run_fenced(name: str, parameters: dict[str, Any]) -> Any:
    """Run a named statement prepared, through a server-side binding cursor; None where the fence says no."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    with psycopg.Cursor(raw, row_factory=namedtuple_row) as cursor:
        try:
            cursor.execute(statement(name), parameters, prepare=True)
            return cursor.fetchone()
        except psycopg.DatabaseError as error:
            if error.sqlstate == FENCED:
                return None
            raise


@dataclass(frozen=True, slots=True)
class _Landed:
    """A commit whose answer was lost, as the database has it."""

    checkpoint_no: int
    snapshot_no: int
    snapshot_size: int
    patch_weight: int


def _landed_step(held: Held, salt: bytes) -> _Landed | None:
    """The commit of this step with this salt: nobody else drew the same."""
    mine = Event.objects.filter(run=held.run_id, address=held.step.address, salt=salt).order_by("-seq")
    no = mine.values_list("checkpoint", flat=True).first()
    if no is None:
        return None
    snapshot_no = Checkpoint.objects.values_list("snapshot_no", flat=True).get(run=held.run_id, no=no)
    run = Run.objects.values("snapshot_size", "patch_weight").get(pk=held.run_id)
    return _Landed(no, snapshot_no, run["snapshot_size"], run["patch_weight"])


@dataclass(frozen=True, slots=True)
class _LandedCall:
    result: str


def _landed_call(held: Held, call: Call) -> _LandedCall | None:
    """This call as it is in the journal with this result, if the step is still ours."""
    kept = JournalEntry.objects.filter(
        run=held.run_id,
        branch=held.branch,
        address=held.step.address,
        name=call.name,
        occurrence=call.occurrence,
        args_digest=call.args_digest,
    )
    if call.result:
        kept = kept.filter(result=call.result)
    result = kept.values_list("result", flat=True).first()
    return _LandedCall(result) if result is not None and _step_of(held).exists() else None


def is_written(held: Held, kinds: Sequence[str]) -> bool:
    """Whether the last thing that happened to this step is an event of these kinds, and nobody took it over: what a try
    before this one wrote."""
    mine = {"run": held.run_id, "branch": held.branch, "address": held.step.address, "epoch": held.epoch}
    if not Step.objects.filter(**mine, crashes=held.crashes, entries=held.entry).exists():
        return False
    return Event.objects.filter(**mine).order_by("-seq").values_list("kind", flat=True).first() in kinds


# ---- commits under the run's lock


class SnapshotDue(Exception):
    """A lane beside others would have to write a snapshot: that is taken of the true document, under the lock."""


def check_fence(run: Run, held: Held) -> None:
    """The run is locked: whether the step is still ours. Raises `LateResult`."""
    mine = Step.objects.select_for_update(no_key=True).filter(
        run=held.run_id, branch=held.branch, address=held.step.address, token=held.token, epoch=held.epoch
    )
    if run.epoch != held.epoch or not mine.exists():
        raise LateResult()


def unfinished_rows(run: Run, addresses: Sequence[str]) -> list[Step]:
    """The rows of these steps on the run's branch that were begun and have not come to a good end."""
    rows = Step.objects.filter(run=run, branch=run.branch, address__in=list(addresses))
    done = (StepStatus.COMPLETED, StepStatus.VOID)
    return list(rows.exclude(status__in=done).only("address", "status", "error", "node"))


@dataclass(slots=True)
class Writer:
    """Stores one transition of a locked run. Use `commit`."""

    run: Run
    transition: Transition
    moment: datetime
    actor: Json = None
    reason: str = ""
    position: dict[str, Any] | None = None
    held: Held | None = None
    branch: NewBranch | None = None
    requester_id: int | None = None
    opened: Approval | None = None
    asked: Mapping[Place, Approval | Run] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        if self.held:
            check_fence(self.run, self.held)
        self._journal()
        self._close()
        if self.transition.raise_epoch:
            self._set(epoch=self.run.epoch + 1)
        if self.branch:
            self._start_branch(self.branch)
        self._end_steps()
        self._checkpoint()
        self._begin_steps()
        self._open_waits()
        self._ask()
        self._events()
        self._finish()
        self._stop_children()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.run, name, value)
        self.changed.update(values)

    def _close(self) -> None:
        """Close what the transition leaves behind: waits and approvals of some steps, or of the whole run."""
        waits = Wait.objects.filter(run=self.run, closed_at=None)
        approvals = Approval.objects.filter(run=self.run, status=ApprovalStatus.OPEN)
        reason = self.transition.close_everything
        if not reason:
            addresses = self.transition.close_waits_of
            waits, approvals = waits.filter(address__in=addresses), approvals.filter(address__in=addresses)
            reason = _reason_of(self.transition.events)
            self._close_places()
        else:
            status = StepStatus.VOID if reason == "rewound" else StepStatus.CANCELLED
            kept = [change.address for change in self.transition.steps]
            steps = Step.objects.filter(run=self.run, status__in=LIVE_STEPS).exclude(address__in=kept)
            steps.update(status=status, token=None, lease_until=None, ended_at=self.moment)
        waits.update(closed_at=self.moment)
        cancelled = reason in ("run_cancelled", "run_failed")
        approvals.update(
            status=ApprovalStatus.CANCELLED if cancelled else ApprovalStatus.SUPERSEDED,
            closed_at=self.moment,
            closed_reason=reason or "superseded",
            outcome="",
        )

    def _close_places(self) -> None:
        """Close single waits of steps that go on waiting for others."""
        for address, name, occurrence in self.transition.close_places:
            open_waits(self.run, address).filter(name=name, occurrence=occurrence).update(
                closed_at=self.moment
            )

    def _journal(self) -> None:
        """Write down answers to what a step waited for. A checkpoint that comes with them follows the head of now."""
        if not self.transition.journal:
            return
        address = self.transition.close_places[0][0]
        step = Step.objects.get(run=self.run, branch=self.run.branch, address=address)
        before = JournalEntry.objects.filter(run=self.run, branch=self.run.branch, address=address).count()
        JournalEntry.objects.bulk_create(
            self._entry(step, found, before + place) for place, found in enumerate(self.transition.journal)
        )

    def _entry(self, step: Step, found: Satisfied, ordinal: int) -> JournalEntry:
        return JournalEntry(
            run=self.run,
            branch=self.run.branch,
            address=step.address,
            name=found.name,
            occurrence=found.occurrence,
            kind=found.kind,
            node=step.node,
            ordinal=ordinal,
            after=self.run.head,
            attempt=step.attempt,
            args_digest=found.digest,
            result=canonical.dumps(found.result),
            effect="none",
            call_key="",
            started_at=found.since or self.moment,
            ended_at=self.moment,
        )

    def _stop_children(self) -> None:
        """Say which children are to be cancelled: of an ended run all, of a rewound one those of the line that was left, else
        those that a step waits for no longer. A run that fails lets its children run: Retry or a rewind may want them."""
        transition = self.transition
        children = Child.objects.filter(parent=self.run, run__finished_at=None, on_parent_cancel="cancel")
        if self.branch:
            lost = _left_children(self.run, children)
            reason = "parent_rewound"
        elif transition.ended and transition.status in (RunStatus.COMPLETED, RunStatus.CANCELLED):
            lost = list(children)
            reason = "parent_cancelled" if transition.status is RunStatus.CANCELLED else "parent_completed"
        elif transition.abandons:
            lost = list(children.filter(branch=self.run.branch, address__in=transition.abandons))
            reason = "not_awaited"
        else:
            return
        Stop.objects.bulk_create(
            (Stop(run_id=child.run_id, reason=reason, since=self.moment) for child in lost),
            ignore_conflicts=True,
        )

    def _start_branch(self, new: NewBranch) -> None:
        last = Branch.objects.filter(run=self.run).order_by("-no").first()
        origin = Checkpoint.objects.get(run=self.run, no=new.parent_checkpoint)
        parent = Branch.objects.get(run=self.run, no=origin.branch)
        no = (last.no if last else 0) + 1
        default = no if new.calls == "again" else parent.generation
        Branch.objects.create(
            run=self.run,
            no=no,
            parent_branch=parent.no,
            parent_checkpoint=new.parent_checkpoint,
            epoch=self.run.epoch,
            calls=new.calls,
            exceptions=[list(place) for place in new.exceptions],
            generation=default,
            generations=_generations(parent, new, no),
            draws=parent.draws,
            author=new.author,
            reason=new.reason,
        )
        self._set(
            branch=no,
            head=new.parent_checkpoint,
            snapshot_no=0,
            patch_weight=0,
            snapshot_size=0,
            finished_at=None,
            error=None,
            output=None,
        )

    def _end_steps(self) -> None:
        for change in self.transition.steps:
            ended = change.status not in LIVE_STEPS
            rows = Step.objects.filter(run=self.run, branch=self.run.branch, address=change.address)
            self._count_work(rows, change)
            if self.transition.forgives:
                attempts = F("earlier") + F("failures") + F("crashes")
                rows.update(status=change.status, ended_at=None, hinted_at=self.moment, earlier=attempts)
                rows.update(failures=0, crashes=0)
                continue
            rows.filter(status__in=LIVE_STEPS).update(
                status=change.status,
                token=None,
                lease_until=None,
                error=change.error,
                failures=F("failures") + int(change.failed),
                crashes=F("crashes") + int(change.crashed),
                ended_at=self.moment if ended else None,
                hinted_at=self.moment,
            )

    def _count_work(self, rows: QuerySet[Step], change: StepChange) -> None:
        """An attempt that waits has worked so far; the next attempt begins with nothing."""
        if change.failed or change.crashed or self.transition.forgives:
            rows.update(worked=0.0)
        elif change.status == StepStatus.WAITING:
            worked = RawSQL("worked + extract(epoch FROM %s - entered_at)", [self.moment])
            rows.filter(status=StepStatus.EXECUTING).update(worked=worked)

    def _checkpoint(self) -> None:
        point = self.transition.checkpoint
        if point is None:
            return
        assert self.position is not None
        first = point.kind == "input"
        no = 0 if first else self.run.checkpoint_no + 1
        ops = canonical.dumps(point.ops)
        weights, size = Weights.of(self.run), len(ops.encode())
        snapshot = canonical.dumps(self.position) if first or weights.wants_snapshot(size) else None
        Checkpoint.objects.create(
            run=self.run,
            no=no,
            branch=self.run.branch,
            parent=None if first else self.run.head,
            kind=point.kind,
            node=point.node,
            address=point.address,
            epoch=self.run.epoch,
            snapshot_no=no if snapshot is not None else self.run.snapshot_no,
            snapshot=snapshot,
            patch=None if snapshot is not None else ops,
            author=self.actor,
            reason=self.reason,
            created_at=self.moment,
        )
        weights.note(patch_size=size, snapshot_size=None if snapshot is None else len(snapshot.encode()))
        self._set(head=no, checkpoint_no=no, patch_weight=weights.patches, snapshot_size=weights.snapshot)
        if snapshot is not None:
            self._set(snapshot_no=no)
        if point.address:
            Step.objects.filter(run=self.run, branch=self.run.branch, address=point.address).update(
                checkpoint=no
            )

    def _begin_steps(self) -> None:
        ready = [(step, StepStatus.READY) for step in self.transition.next_steps]
        waiting = [(step, StepStatus.WAITING) for step in self.transition.waiting_steps]
        Step.objects.bulk_create(
            Step(
                run=self.run,
                branch=self.run.branch,
                address=step.address,
                lane=step.lane,
                node=step.node,
                visit=step.visit,
                status=status,
                epoch=self.run.epoch,
            )
            for step, status in [*ready, *waiting]
        )

    def _open_waits(self) -> None:
        wait = self.transition.wait
        if wait is None:
            return
        due = None if wait.delay is None else self.moment + timedelta(seconds=wait.delay)
        Wait.objects.create(
            run=self.run,
            branch=self.run.branch,
            address=wait.address,
            node=wait.node,
            kind=wait.kind,
            opened_at=self.moment,
            due_at=due,
        )
        if self.transition.opened and self.opened:
            self._open_approval(self.transition.opened, self.opened, due)

    def _ask(self) -> None:
        """Open what a body waits for, each with the place of its answer. An instant that was recorded before counts on."""
        if not self.transition.wanted:
            return
        assert self.held is not None
        step = self.held.step
        earlier = asked_before(self.run, step.address)
        for position, one in enumerate(self.transition.wanted):
            before = earlier.get(one.place) if one.kind in ("timer", "signal") else None
            due = before.due_at if before else self._due(one)
            made = self.asked.get(one.place)
            Wait.objects.create(
                run=self.run,
                branch=self.run.branch,
                address=step.address,
                node=step.node,
                kind=one.kind,
                name=one.name,
                occurrence=one.occurrence,
                label=one.label,
                race=one.race,
                position=position,
                after=self.run.head if before is None else before.after,
                digest=one.digest,
                schema=one.schema,
                child=made if isinstance(made, Run) else None,
                opened_at=before.opened_at if before else self.moment,
                due_at=due,
            )
            if isinstance(made, Approval):
                assert one.document is not None
                self._supersede(one.supersedes)
                made.name, made.occurrence = one.place
                self._open_approval(Opened(step.address, step.node, one.document, one.digest), made, due)

    def _due(self, one: Wanted) -> datetime | None:
        if one.until is not None:
            return one.until
        return None if one.delay is None else self.moment + timedelta(seconds=one.delay)

    def _supersede(self, approval_id: str) -> None:
        """What was decided is not what is asked for now."""
        if approval_id:
            Approval.objects.filter(run=self.run, pk=uuid.UUID(approval_id)).update(
                status=ApprovalStatus.SUPERSEDED, closed_reason="payload_changed"
            )

    def _open_approval(self, opened: Opened, approval: Approval, due: datetime | None) -> None:
        """Complete the row that the operation prepared (candidates, options) and store it with its first version."""
        approval.run, approval.project_id = self.run, self.run.project_id
        approval.branch, approval.epoch = self.run.branch, self.run.epoch
        approval.address, approval.node = opened.address, opened.node
        approval.title, approval.digest = opened.document["title"], opened.digest
        approval.document = canonical.dumps(opened.document)
        approval.opened_at, approval.due_at = self.moment, due
        approval.save(force_insert=True)
        Revision.objects.create(
            approval=approval,
            version=1,
            document=approval.document,
            digest=approval.digest,
            created_at=self.moment,
        )

    def _events(self) -> None:
        actor = canonical.dumps(self.actor) if self.actor is not None else ""
        seq, head = self.run.seq, bytes(self.run.head_hash)
        before = head
        rows = []
        for event in self.transition.events:
            salt = os.urandom(16)
            payload = canonical.dumps(self._payload(event))
            payload_hash = chain.payload_hash(salt, payload)
            body = _body(
                event, branch=self.run.branch, epoch=self.run.epoch, actor=actor, payload_hash=payload_hash
            )
            seq, before = seq + 1, head
            checkpoint = self.run.head if self.transition.checkpoint else None
            head = chain.link(before, seq=seq, at=self.moment, checkpoint=checkpoint, body=body)
            rows.append(
                Event(
                    run=self.run,
                    seq=seq,
                    kind=event.kind,
                    branch=self.run.branch,
                    epoch=self.run.epoch,
                    checkpoint=checkpoint,
                    node=event.node,
                    address=event.address,
                    actor=actor,
                    at=self.moment,
                    payload=payload,
                    salt=salt,
                    payload_hash=payload_hash,
                    hash=head,
                )
            )
        Event.objects.bulk_create(rows)
        self._set(seq=seq, head_hash=head, prev_hash=before)

    def _payload(self, event: EngineEvent) -> dict[str, Json]:
        if event.kind == "approval_opened" and self.opened:
            return {**event.payload, "approval": str(self.opened.pk)}
        made = self.asked.get((str(event.payload.get("name")), str(event.payload.get("occurrence"))))
        if made is not None and event.kind in ("approval_opened", "wait_opened"):
            return {**event.payload, "approval" if isinstance(made, Approval) else "run": str(made.pk)}
        return event.payload

    def _finish(self) -> None:
        transition = self.transition
        if transition.status is not None:
            self._set(status=transition.status.value)
        if transition.error is not None:
            self._set(error=transition.error)
        if transition.forgives:
            self._set(error=None, finished_at=None)
        if transition.ended and self.run.status == RunStatus.COMPLETED:
            self._set(output=canonical.dumps(transition.output))
        if transition.ended and self.run.status in TERMINAL:
            self._set(finished_at=self.moment)
        self._set(waiting_for=waiting_for(self.run))
        self._clock()
        self._set(version=self.run.version + 1, updated_at=self.moment)
        Run.objects.filter(pk=self.run.pk).update(**self.changed)

    def _clock(self) -> None:
        """The run's clock stands while it waits for people, and when it has ended; steering a run winds it up anew."""
        run = self.run
        if run.deadline is None:
            return
        left = run.time_left
        if run.deadline_at is not None:
            left = (run.deadline_at - self.moment).total_seconds()
        if left is None or self.branch or self.transition.forgives:
            left = run.deadline
        if run.status in TERMINAL:
            self._set(deadline_at=None, time_left=None)
        elif run.status == RunStatus.PAUSED or _is_for_people(run):
            self._set(deadline_at=None, time_left=left)
        else:
            self._set(deadline_at=self.moment + timedelta(seconds=left), time_left=None)


def _generations(parent: Branch, new: NewBranch, no: int) -> dict[str, int]:
    """The generations of single calls on a new branch: those of its parent, unless all are made again."""
    if new.calls == "again":
        return {place_of(*place): parent.generation_of(*place) for place in new.exceptions}
    return {**parent.generations, **{place_of(*place): no for place in new.exceptions}}


def _is_for_people(run: Run) -> bool:
    """Whether everything waits, and some of it for people."""
    return run.status == RunStatus.WAITING and any(reason["kind"] == "approval" for reason in run.waiting_for)


def commit(
    run: Run,
    transition: Transition,
    *,
    position: dict[str, Any] | None = None,
    actor: Json = None,
    reason: str = "",
    held: Held | None = None,
    branch: NewBranch | None = None,
    opened: Approval | None = None,
    asked: Mapping[Place, Approval | Run] | None = None,
    moment: datetime | None = None,
) -> Run:
    """Store a transition of a locked run, inside the caller's transaction. Raises `LateResult` if `held` is not any more.

    position: the document after the transition. opened: the row of a new approval, with candidates and options set; asked:
    such rows, and child runs, by the place of what a body waits for.
    """
    Writer(
        run,
        transition,
        max(moment or now(), run.updated_at),  # the history's time never goes back
        actor=actor,
        reason=reason,
        position=position,
        held=held,
        branch=branch,
        opened=opened,
        asked=asked or {},
    ).write()
    return run


def insert_run(run: Run, *, draws: Json = None) -> None:
    """Store a new run's row and its first branch; `commit` of its first transition follows."""
    run.head_hash = run.prev_hash = chain.GENESIS
    run.save(force_insert=True)
    Branch.objects.create(run=run, no=1, epoch=1, draws=draws)


def handed_down(origin: uuid.UUID, checkpoint: int, steps: Sequence[LiveStep]) -> list[JournalEntry]:
    """What a fork at a checkpoint starts with: what its unfinished steps had in the journal before.

    Of a step that had asked people, what came before its first question: they are asked anew, and what follows may differ.
    """
    limits = lineage_at(origin, checkpoint)
    addresses = [step.address for step in steps]
    rows = JournalEntry.objects.filter(run=origin, branch__in=limits, address__in=addresses)
    own: dict[str, list[JournalEntry]] = {}
    for row in rows.order_by("ended_at", "ordinal"):
        if row.after < limits[row.branch]:
            own.setdefault(row.address, []).append(row)
    return [
        row for made in own.values() for row in itertools.takewhile(lambda row: not _is_answer(row), made)
    ]


def hand_down(origin: uuid.UUID, fork: Run, checkpoint: int, steps: Sequence[LiveStep]) -> None:
    """Give a fork the calls that it starts with, and the instants that its steps had recorded."""
    rows = handed_down(origin, checkpoint, steps)
    JournalEntry.objects.bulk_create(_given_to(fork, row, ordinal) for ordinal, row in enumerate(rows))
    limits = lineage_at(origin, checkpoint)
    addresses = [step.address for step in steps]
    waits = Wait.objects.filter(run=origin, branch__in=limits, address__in=addresses, name__gt="")
    Wait.objects.bulk_create(
        _instant(wait, fork)
        for wait in waits.filter(kind__in=("timer", "signal")).order_by("branch", "id")
        if wait.after < limits[wait.branch]
    )


def _is_answer(row: JournalEntry) -> bool:
    """Whether people gave this answer, also as the first of several."""
    if row.kind != "first":
        return row.kind == "answer"
    answer = canonical.loads(row.result)["answer"]
    return isinstance(answer, dict) and "approval" in answer


def _given_to(fork: Run, row: JournalEntry, ordinal: int) -> JournalEntry:
    """What the origin did is not this run's to undo."""
    row.run, row.branch, row.after, row.ordinal = fork, 1, BEFORE_ALL, ordinal
    row.reused_from, row.undo, row.attempt = OF_ORIGIN, None, 1
    return row


def _instant(wait: Wait, fork: Run) -> Wait:
    wait.pk, wait.run, wait.branch, wait.after, wait.child = None, fork, 1, BEFORE_ALL, None
    wait.closed_at = wait.opened_at
    return wait


def take_key(project_id: uuid.UUID, endpoint: str, key: str, fingerprint: str, run_id: uuid.UUID) -> bool:
    """Take an idempotency key for a run; False if it is taken (24 h).

    Waits for a transaction that is just taking it. Raises `IdempotencyInProgress` after five seconds.
    """
    before = set_lock_timeout(f"{KEY_SECONDS:.0f}s")
    with _refusing(IdempotencyInProgress), connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_idempotencyrecord (project_id, endpoint, key, fingerprint, run_id)
            VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT ON CONSTRAINT idempotency_key_once DO UPDATE
              SET fingerprint = excluded.fingerprint, run_id = excluded.run_id, created_at = now()
              WHERE runs_idempotencyrecord.created_at < now() - interval '24 hours'
            RETURNING id
            """,
            [project_id, endpoint, key, fingerprint, run_id],
        )
        taken = cursor.fetchone() is not None
    set_lock_timeout(before)  # the transaction is the caller's
    return taken


def waiting_for(run: Run) -> list[Json]:
    """Why a run waits, of whom, since when, until when; from its open waits."""
    approvals = {
        (approval.address, approval.name, approval.occurrence): approval
        for approval in Approval.objects.filter(run=run, status=ApprovalStatus.OPEN)
    }
    reasons: list[Json] = []
    for wait in Wait.objects.filter(run=run, closed_at=None).order_by("opened_at", "id"):
        reason: dict[str, Json] = {
            "kind": wait.kind,
            "node": wait.node,
            "since": wait.opened_at.isoformat(),
            "due": wait.due_at.isoformat() if wait.due_at else None,
        }
        if wait.kind == "signal":
            reason["signal"] = wait.name
        if wait.child_id is not None:
            reason["child"] = str(wait.child_id)
        place = (wait.address, wait.name, wait.occurrence)
        approval = approvals.get(place) if wait.kind == "approval" else None
        if approval:
            reason["approval"] = str(approval.pk)
            reason["who"] = [*approval.teams, *approval.users]
            reason["quorum"] = approval.quorum
        reasons.append(reason)
    return reasons


def _reason_of(events: Sequence[EngineEvent]) -> str:
    first = events[0] if events else None
    if first is None:
        return ""
    return str(first.payload["reason"]) if first.kind == "approval_superseded" else first.kind


def _body(event: EngineEvent, *, branch: int, epoch: int, actor: str, payload_hash: bytes) -> bytes:
    return chain.body(
        kind=event.kind,
        node=event.node,
        address=event.address,
        branch=branch,
        epoch=epoch,
        actor=actor,
        payload_hash=payload_hash,
    )


# ---- what steps wait for


def open_waits(run: Run, address: str) -> QuerySet[Wait]:
    """What a step of the run's branch waits for."""
    return Wait.objects.filter(run=run, branch=run.branch, address=address, closed_at=None)


def asked_before(run: Run, address: str) -> dict[Place, Wait]:
    """What a step has asked for before, on this branch or where this branch can see it; the newest of each place."""
    limits = dict(lineage(run.pk, run.branch))
    rows = Wait.objects.filter(run=run, address=address, branch__in=limits).order_by("branch", "id")
    return {
        (row.name, row.occurrence): row
        for row in rows
        if (limit := limits[row.branch]) is None or row.after < limit
    }


def waiting_steps(run: Run, signal: str) -> list[str]:
    """Addresses of the steps that wait for a signal, the one that has waited longest first."""
    found = Wait.objects.filter(run=run, branch=run.branch, closed_at=None, kind="signal", name=signal)
    return list(dict.fromkeys(found.order_by("opened_at", "id").values_list("address", flat=True)))


def free_signals(run: Run, name: str, taken: Sequence[int]) -> list[Signal]:
    """The mailbox of a name without what was taken, oldest first."""
    rows = Signal.objects.filter(run=run, name=name).exclude(no__in=list(taken))
    return list(rows.order_by("no"))


def add_signal(run: Run, *, name: str, sent_id: str, payload: str, digest: str, sender: Json) -> Signal:
    """Put a signal into the mailbox of a locked run."""
    last = Signal.objects.filter(run=run).order_by("-no").values_list("no", flat=True).first() or 0
    return Signal.objects.create(
        run=run,
        no=last + 1,
        name=name,
        sent_id=sent_id,
        payload=payload,
        digest=digest,
        sender=sender,
        received_at=max(now(), run.updated_at),
    )


def visible_child(parent: Run, address: str, place: Place) -> Child | None:
    """The child that was started at this place, where the parent's branch can see it; the newest."""
    limits = dict(lineage(parent.pk, parent.branch))
    for child in children_at(parent, address, place):
        limit = limits.get(child.branch, -1)
        if limit is None or child.after < limit:
            return child
    return None


def children_at(parent: Run, address: str, place: Place) -> list[Child]:
    """Every child that was ever started at a place, the newest first."""
    rows = Child.objects.filter(parent=parent, address=address, name=place[0], occurrence=place[1])
    return list(rows.select_related("run").order_by("-branch", "-run__created_at"))


def _left_children(run: Run, children: QuerySet[Child]) -> list[Child]:
    limits = dict(lineage(run.pk, run.branch))
    return [
        child
        for child in children
        if (limit := limits.get(child.branch, -1)) is not None and child.after >= limit
    ]


def has_stopped_ancestor(run: Run) -> bool:
    """Whether this run, or one that it was started by, is about to be cancelled with its children or was."""
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS, {"run": run.pk})
        return cursor.fetchone() is not None


_ANCESTORS: Final = """
    WITH RECURSIVE line AS (
      SELECT run.id, run.status, child.parent_id FROM runs_run run
      LEFT JOIN runs_child child ON child.run_id = run.id AND child.on_parent_cancel = 'cancel' WHERE run.id = %(run)s
      UNION ALL
      SELECT run.id, run.status, child.parent_id FROM line JOIN runs_run run ON run.id = line.parent_id
      LEFT JOIN runs_child child ON child.run_id = run.id AND child.on_parent_cancel = 'cancel'
    )
    SELECT 1 FROM line WHERE status = 'cancelled' OR EXISTS (SELECT 1 FROM runs_stop WHERE run_id = line.id) LIMIT 1
"""


def to_stop(*, limit: int = 200) -> list[Stop]:
    """Children that are to be cancelled, the oldest order first."""
    return list(Stop.objects.order_by("since", "run_id")[:limit])


@dataclass(frozen=True, slots=True)
class Awake:
    """A step that is ready again, and its run: status and end of the history, with the hash before."""

    run_id: uuid.UUID
    branch: int
    address: str
    status: str
    seq: int
    hash: bytes
    before: bytes
    at: datetime


def due_timers(runs: Sequence[uuid.UUID] | None, *, limit: int, lock: bool = False) -> list[Any]:
    """Timers that are due and all that their run waits for, with what there is to know of the run; of these runs, or any.

    lock: lock the runs that nobody holds, and leave the others out.
    """
    text = statement("due_timers") + (" FOR NO KEY UPDATE OF run SKIP LOCKED" if lock else "")
    connection.ensure_connection()
    with connection.connection.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(text, {"runs": None if runs is None else list(runs), "limit": limit})
        found: list[Any] = cursor.fetchall()
    return found


def wake_all(awake: Sequence[Awake]) -> None:
    """Store that steps are ready, each all that its locked run was waiting for. Two statements for all of them.

    They count as told long ago: the sweeper tells workers as there is room for hints.
    """
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in awake] for name in Awake.__slots__}
    with connection.cursor() as cursor:
        cursor.execute(_WAKE_STEPS, columns)
        cursor.execute(_WAKE_RUNS, columns)


_WAKE_STEPS: Final = """
    UPDATE runs_step step SET status = 'ready', token = NULL, lease_until = NULL, error = NULL,
      hinted_at = now() - interval '1 hour'
    FROM unnest(%(run_id)s::uuid[], %(branch)s::int[], %(address)s::text[]) AS awake (run_id, branch, address)
    WHERE (step.run_id, step.branch, step.address) = (awake.run_id, awake.branch, awake.address)
"""
_WAKE_RUNS: Final = """
    UPDATE runs_run run SET status = awake.status, seq = awake.seq, head_hash = awake.hash, prev_hash = awake.before,
      waiting_for = '[]', version = run.version + 1, updated_at = awake.at
    FROM unnest(%(run_id)s::uuid[], %(status)s::text[], %(seq)s::bigint[], %(hash)s::bytea[], %(before)s::bytea[],
      %(at)s::timestamptz[]) AS awake (run_id, status, seq, hash, before, at)
    WHERE run.id = awake.run_id
"""


def ended_children(*, limit: int = 500) -> list[Wait]:
    """Open waits for children that have ended, in the order of their ends."""
    found = Wait.objects.filter(closed_at=None, child__isnull=False, child__finished_at__isnull=False)
    return list(found.order_by("child__finished_at", "id")[:limit])


# ---- leases and the sweeper


class Keeper:
    """A process's own connection: it holds the advisory lock of its child row and renews its lease.

    Opened after fork. If the connection is lost, the next `beat` opens another and takes the lock again; until then the
    sweeper may suspect the child, and the fences make sure that suspecting it wrongly costs work and nothing else.
    """

    def __init__(self, host: str, pid: int, family: uuid.UUID | None = None) -> None:
        child = WorkerChild.objects.create(host=host, pid=pid, family=family)
        self.id: int = child.pk
        self._connection: psycopg.Connection[Any] | None = None
        self._has_lock = self._has_left = False

    def beat(self, tokens: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        """Make sure of the lock, and renew the leases of these tokens, in one statement. Returns those that were there."""
        held = self._locked()
        rows = held.execute(
            "UPDATE runs_step SET lease_until = now() + make_interval(secs => %s) "
            "WHERE status = 'executing' AND worker = %s AND token = ANY(%s) RETURNING token",
            [settings.HITL_LEASE_SECONDS, self.id, list(tokens)],
        )
        return {row[0] for row in rows}

    def listen(self, seconds: float) -> None:
        """Wait, but notice at once when the connection ends: raises `psycopg.Error` then.

        A sweeper gives a free lock one second; polling as rarely as that would let it count the living among the dead.
        """
        held = self._locked()
        ready, _, _ = select.select([held.fileno()], [], [], seconds)
        if ready:
            held.execute("SELECT 1")

    def forgotten_step(self) -> tuple[uuid.UUID, int, str] | None:
        """A ready step that has lain for longer than the sweeper would have let it; it counts as told from now on."""
        row = (
            self._locked()
            .execute(_UNHINTED, {"after": HINT_AGAIN_AFTER + FORGOTTEN_AFTER, "limit": 1})
            .fetchone()
        )
        return (row[0], row[1], row[2]) if row else None

    def leave(self) -> None:
        held = self._locked()
        held.execute("UPDATE runs_workerchild SET gone_at = now() WHERE id = %s", [self.id])
        self._has_left = True
        held.close()

    def drop(self) -> None:
        """Forget a broken connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _locked(self) -> psycopg.Connection[Any]:
        if self._has_left:  # a thread that was slow to stop must not bring the child back
            raise psycopg.OperationalError("this child has said that it ends")
        if self._connection is None or self._connection.closed:
            self._connection, self._has_lock = own_connection(), False
        if not self._has_lock:
            self._take_lock(self._connection)
        return self._connection

    def _take_lock(self, held: psycopg.Connection[Any]) -> None:
        # Never waiting: whoever still has the lock is our own earlier backend, which the server believes to be alive. The
        # leases must be renewed meanwhile, and the next beat tries again.
        row = held.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK_SPACE, self.id]).fetchone()
        self._has_lock = bool(row and row[0])
        if self._has_lock:
            held.execute(
                "UPDATE runs_workerchild SET suspected_at = NULL, gone_at = NULL WHERE id = %s", [self.id]
            )


def own_connection() -> psycopg.Connection[Any]:
    """A connection beside Django's, to the same database, in autocommit."""
    known = ("host", "port", "user", "password", "dbname", "options", "sslmode", "sslrootcert", "passfile")
    parameters = {k: v for k, v in connections["default"].get_connection_params().items() if k in known}
    return psycopg.connect(**parameters, autocommit=True, connect_timeout=5)


@contextmanager
def sweeping(lock: psycopg.Connection[Any]) -> Iterator[bool]:
    """Whether this process is the one that sweeps now; by a transaction lock on a connection of its own."""
    with lock.transaction():
        # A sweeper that is frozen in its round must not keep the others from theirs.
        lock.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [ROUND_AT_MOST])
        row = lock.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCK_SPACE, SWEEPER_LOCK]).fetchone()
        yield bool(row and row[0])


def suspect_children() -> list[int]:
    """Children whose lock is free: newly seen ones are suspected, those suspected a second ago count as dead.

    A restart of Postgres frees all locks at once; then everybody has a third of a lease to come back.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH free AS (
              SELECT child.id, child.suspected_at FROM runs_workerchild child
              WHERE child.gone_at IS NULL
                AND pg_postmaster_start_time() < now() - make_interval(secs => %(grace)s)
                AND child.started_at < now() - interval '2 seconds'
                AND NOT EXISTS (
                  SELECT 1 FROM pg_locks l
                  WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = %(space)s
                    AND l.objid::bigint = child.id AND l.granted
                    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                )
            ), dead AS (
              UPDATE runs_workerchild child SET gone_at = now()
              FROM free WHERE child.id = free.id AND free.suspected_at < now() - interval '1 second'
                AND child.suspected_at IS NOT NULL
              RETURNING child.id
            ), suspected AS (
              UPDATE runs_workerchild child SET suspected_at = now()
              FROM free WHERE child.id = free.id AND free.suspected_at IS NULL
            )
            SELECT id FROM dead
            """,
            {"grace": settings.HITL_LEASE_SECONDS / 3, "space": LOCK_SPACE},
        )
        return [row[0] for row in cursor.fetchall()]


def lapsed_steps(*, limit: int = 200) -> list[Step]:
    """Executing steps whose worker is gone, or whose lease has run out.

    While Postgres was down nobody could renew: leases that ran out then do not count before every worker had its turn.
    """
    # Asked for each of the few executing steps: children that have gone are kept, and become many.
    over = Q(Exists(WorkerChild.objects.filter(pk=OuterRef("worker"), gone_at__isnull=False)))
    over |= Q(overdue__isnull=False)  # its process has said that it ends
    if not _just_started():
        over |= Q(lease_until__lt=now())
    found = Step.objects.filter(over, status=StepStatus.EXECUTING)
    return list(found.order_by("lease_until")[:limit])


def _just_started() -> bool:
    """Whether Postgres has been up for less than one renewal."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_postmaster_start_time() >= now() - make_interval(secs => %s)",
            [settings.HITL_LEASE_SECONDS / 3],
        )
        return bool(cursor.fetchone()[0])


def overdue_runs(*, limit: int = 200) -> list[Run]:
    """Runs whose time is over."""
    return list(Run.objects.filter(deadline_at__lte=now()).only("pk").order_by("deadline_at")[:limit])


def due_waits(*, limit: int = 500) -> list[Wait]:
    """Open waits whose time has come, in the order in which they became due."""
    due = Wait.objects.filter(closed_at=None, due_at__lte=now())
    return list(due.order_by("due_at", "id")[:limit])


# Chosen first, and once: as a subquery of the UPDATE it may be planned as the inner side of a loop, and then every turn
# skips what the turn before has updated and finds another `limit` rows.
_UNHINTED: Final = """
    WITH chosen AS MATERIALIZED (
      SELECT step.run_id, step.branch, step.address
      FROM runs_step step JOIN runs_run run ON run.id = step.run_id AND run.branch = step.branch
      WHERE step.status = 'ready' AND step.hinted_at < now() - make_interval(secs => %(after)s)
        AND run.status IN ('queued', 'running') AND run.error IS NULL
      ORDER BY step.hinted_at LIMIT %(limit)s FOR NO KEY UPDATE OF step SKIP LOCKED
    )
    UPDATE runs_step step SET hinted_at = now() FROM chosen
    WHERE (step.run_id, step.branch, step.address) = (chosen.run_id, chosen.branch, chosen.address)
    RETURNING step.run_id, step.branch, step.address
"""


def unhinted_steps(*, limit: int) -> list[tuple[uuid.UUID, int, str]]:
    """Ready steps that no worker took for a while; they count as told again from now on."""
    with connection.cursor() as cursor:
        cursor.execute(_UNHINTED, {"after": HINT_AGAIN_AFTER, "limit": limit})
        return [(row[0], row[1], row[2]) for row in cursor.fetchall()]


def beat(name: str, facts: dict[str, Json]) -> None:
    """Note that a service has done its round."""
    ServiceBeat.objects.update_or_create(name=name, defaults={"at": now(), "facts": facts})


def check_held(held: Held) -> None:
    """Raises `LateResult` if the step is not this worker's any more."""
    if not _step_of(held).exists():
        raise LateResult()


def lapse(held: Held) -> None:
    """End the lease of a step now: the sweeper takes it over as if the worker had died."""
    _step_of(held).update(lease_until=now())


def _step_of(held: Held) -> QuerySet[Step]:
    """The row of a step, as long as this worker holds it."""
    return Step.objects.filter(
        run=held.run_id, branch=held.branch, address=held.step.address, token=held.token, epoch=held.epoch
    )


def disconnect() -> None:
    """Close Django's connection of this thread; the next statement opens another."""
    connection.close()


def say_leaving(family: uuid.UUID) -> None:
    """The processes of a worker were asked to end: what they do not finish was handed over. On a connection of its own."""
    with own_connection() as connection:
        connection.execute(
            "UPDATE runs_workerchild SET leaving_at = now()"
            " WHERE family = %s AND gone_at IS NULL AND leaving_at IS NULL",
            [family],
        )


def child_of(worker: int | None) -> WorkerChild | None:
    """The process behind a lease, as far as it is known."""
    return None if worker is None else WorkerChild.objects.filter(pk=worker).first()
