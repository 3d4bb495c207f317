"""The hot path of a worker: what a step and its body write, each in one fenced statement, one round trip, no ORM."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import transaction

from runs.driver import Call, Used
from runs.driver import LogLine as DriverLine
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.files import REFERENCE, File
from runs.engine.transition import Transition
from runs.errors import (
    LateResult,
)
from runs.models import (
    Checkpoint,
    Content,
    Event,
    JournalEntry,
    OperationalNote,
    Run,
    Step,
)
from runs.models.packed import pack
from runs.sql import statement
from runs.store.attachments import add_attachment
from runs.store.claiming import Held, fence_of, step_of
from runs.store.connection import own_connection, persistently
from runs.store.history import seal
from runs.store.prepared import keep, run_prepared
from runs.store.weights import PATCH_OVERHEAD, Weights

FENCED: Final = "HL001"
LOG_LINES: Final = 2_000  # of one run's nodes
Row = tuple[Any, ...]
Runner = Callable[[str, dict[str, Any]], Row | None]  # runs a named statement; None where the fence says no


@dataclass(frozen=True, slots=True)
class Committed:
    """What a step commit came to: the checkpoint's number, the snapshot it builds on, and the next step if it was claimed."""

    checkpoint: int
    snapshot_no: int
    next: Held | None


class SnapshotDue(Exception):
    """A lane beside others would have to write a snapshot: that is taken of the true document, under the lock."""


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
    size = len(ops.encode())
    due = weights.wants_snapshot(size, beside=position is None)
    if due and position is None:
        raise SnapshotDue()
    snapshot = canonical.dumps(position) if due else None
    sealed = seal(event, branch=held.branch, epoch=held.epoch, actor="")
    token = uuid.uuid4() if go_on else None
    parameters = {
        **fence_of(held),
        "node": held.step.node,
        "lane": following.lane,
        "parent": head,
        "patch": None if snapshot is not None else pack(ops),
        "patch_weight": size + PATCH_OVERHEAD,
        "snapshot": None if snapshot is None else pack(snapshot),
        "snapshot_size": None if snapshot is None else len(snapshot.encode()),
        "body": sealed.body,
        "payload": sealed.payload,
        "salt": sealed.salt,
        "payload_hash": sealed.payload_hash,
        "next_address": following.address,
        "next_node": following.node,
        "next_visit": following.visit,
        "next_token": token,
        "worker": held.worker,
        "lease": settings.HITL_LEASE_SECONDS,
    }
    row = _land("commit_step", parameters, landed=partial(_landed_step, held, sealed.salt))
    checkpoint, snapshot_no, snapshot_size, patch_weight, *_ = row
    weights.see(patches=patch_weight, snapshot=snapshot_size, own=0 if due else size + PATCH_OVERHEAD)
    if token is None:
        return Committed(checkpoint, snapshot_no, None)
    claimed = Held(held.run_id, held.branch, following, held.epoch, token, held.worker, is_fresh=True)
    return Committed(checkpoint, snapshot_no, claimed)


def commit_call(held: Held, call: Call, *, ordinal: int) -> str:
    """Commit a call; its result as it is stored. Without one it is the time by the database's clock. Raises `LateResult`."""
    (result,) = _land_call(held, call, ordinal)
    return str(result)


def commit_file(held: Held, call: Call, file: File, *, content: Content, ordinal: int) -> None:
    """Commit a call whose result refers to a file, and the row of that file, in one transaction. Raises `LateResult`,
    `TooManyAttachments`."""
    _land_call(held, call, ordinal, run=partial(_with_file, held, call, file, content))


def _land_call(held: Held, call: Call, ordinal: int, *, run: Runner | None = None) -> Row:
    name = _commit_call_with_use() if call.used else "commit_call"
    return _land(name, _of_call(held, call, ordinal), landed=partial(_landed_call, held, call), run=run)


@cache
def _commit_call_with_use() -> str:
    """The name of the statement that also writes what a call used of paid models. Most use none, and to be ready for it costs
    every call."""
    call, last, line = statement("commit_call").rpartition("SELECT")
    keep("commit_call_with_use", f"{call}, {statement('commit_use')}\n{last}{line}")
    return "commit_call_with_use"


def _with_file(
    held: Held, call: Call, file: File, content: Content, name: str, parameters: dict[str, Any]
) -> Row | None:
    with transaction.atomic():
        # First what goes through a cursor: that begins the transaction, which a prepared statement alone would not.
        add_attachment(
            held.run_id,
            canonical.loads(call.result)[REFERENCE],
            file,
            content=content,
            node=held.step.node,
        )
        row = _run_fenced(name, parameters)
        if row is None:
            transaction.set_rollback(True)
    return row


def _of_call(held: Held, call: Call, ordinal: int) -> dict[str, Any]:
    return {
        **fence_of(held),
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
        "guard": call.guard or None,
        "used": _used(call.used) if call.used else None,
    }


def note_usage(held: Held, name: str, occurrence: str, used: Sequence[Used]) -> None:
    """Keep what a call used that came to nothing. Raises `LateResult`. Repeated after a lost answer it may count twice."""
    parameters = {**fence_of(held), "name": name, "occurrence": occurrence, "used": _used(used)}
    _land("note_usage", parameters, landed=lambda: None)


def note_log(held: Held, line: DriverLine) -> None:
    """Keep a line of a node's log as long as the run has room for it. Raises `LateResult`."""
    parameters = {
        **fence_of(held),
        "attempt": line.attempt,
        "no": line.no,
        "message": line.message,
        "facts": line.facts,
        "room": LOG_LINES,
    }
    _land("note_log", parameters, landed=lambda: None)


def note_progress(held: Held, progress: Json) -> None:
    """Show how far a step is. Raises `LateResult`."""
    parameters = {**fence_of(held), "progress": canonical.dumps(progress)}
    _land("note_progress", parameters, landed=lambda: None)


def note_overdue(held: Held, facts: Json) -> None:
    """Write down that the attempt is out of time and its process about to end: the sweeper books it so. On a connection of
    its own, because the thread that works is the one that hangs."""
    with own_connection() as connection:
        connection.execute(
            "UPDATE runs_step SET overdue = %(facts)s::jsonb WHERE run_id = %(run)s AND branch = %(branch)s"
            " AND address = %(address)s AND token = %(token)s AND epoch = %(epoch)s",
            {**fence_of(held), "facts": canonical.dumps(facts)},
        )


def _used(used: Sequence[Used]) -> str:
    return canonical.dumps([amount.as_dict() for amount in used])


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


def is_written(held: Held, kinds: Sequence[str]) -> bool:
    """Whether the last thing that happened to this step is an event of these kinds, and nobody took it over: what a try
    before this one wrote."""
    mine = {"run": held.run_id, "branch": held.branch, "address": held.step.address, "epoch": held.epoch}
    if not Step.objects.filter(**mine, crashes=held.crashes, entries=held.entry).exists():
        return False
    return Event.objects.filter(**mine).order_by("-seq").values_list("kind", flat=True).first() in kinds


def _land(
    name: str,
    parameters: dict[str, Any],
    *,
    landed: Callable[[], Row | None],
    run: Runner | None = None,
) -> Row:
    """Run a fenced statement until the database has answered. Raises `LateResult` if the fence says no.

    landed: looks for what this very write left behind. It is asked where a write is refused that was sent before: the
    connection may have been lost between the commit and its answer. run: how the statement is run, if not alone.
    """
    sent = 0

    def write() -> Row | None:
        nonlocal sent
        sent += 1
        try:
            row = (run or _run_fenced)(name, parameters)
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


def _run_fenced(name: str, parameters: dict[str, Any]) -> Row | None:
    """Run a named statement; None where the fence says no."""
    try:
        return run_prepared(name, parameters)
    except psycopg.DatabaseError as error:
        if error.sqlstate == FENCED:
            return None
        raise


def _landed_step(held: Held, salt: bytes) -> Row | None:
    """What `commit_step` answers, of the commit of this step with this salt: nobody else drew the same."""
    mine = Event.objects.filter(run=held.run_id, address=held.step.address, salt=salt).order_by("-seq")
    no = mine.values_list("checkpoint", flat=True).first()
    if no is None:
        return None
    snapshot_no = Checkpoint.objects.values_list("snapshot_no", flat=True).get(run=held.run_id, no=no)
    run = Run.objects.values("snapshot_size", "patch_weight").get(pk=held.run_id)
    return no, snapshot_no, run["snapshot_size"], run["patch_weight"]


def _landed_call(held: Held, call: Call) -> Row | None:
    """What `commit_call` answers: this call as it is in the journal with this result, if the step is still ours."""
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
    return (result,) if result is not None and step_of(held).exists() else None
