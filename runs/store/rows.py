"""Rows that a transition of a locked run adds or ends, each kind by one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.position import LiveStep
from runs.engine.status import LIVE_STEPS, StepStatus
from runs.engine.transition import Checkpoint, StepChange, Undo
from runs.models import Event, Run
from runs.models.packed import pack
from runs.models.runs import place_of
from runs.store.prepared import ask, leave

CallAt = tuple[str, str, str]  # address, name and occurrence of a call


@dataclass(frozen=True, slots=True)
class NewBranch:
    """A branch that a rewind starts. exceptions: calls that are not treated as `calls` says."""

    parent_checkpoint: int
    calls: str
    author: Json
    reason: str
    exceptions: Sequence[CallAt] = ()


def start_branch(run: Run, new: NewBranch) -> int:
    """Its number."""
    told = {
        "run": run.pk,
        "checkpoint": new.parent_checkpoint,
        "epoch": run.epoch,
        "calls": new.calls,
        "exceptions": canonical.dumps([list(place) for place in new.exceptions]),
        "places": [place_of(*place) for place in new.exceptions],
        "author": _json(new.author),
        "reason": new.reason,
    }
    ((no,),) = ask("start_branch", told)
    return int(no)


def add_steps(run: Run, steps: Sequence[tuple[LiveStep, StepStatus]], *, hinted_at: datetime) -> None:
    """Steps that begin, each with its first status."""
    _add_steps(
        run,
        [(step.address, step.lane, step.node, step.visit, status, None) for step, status in steps],
        hinted_at,
    )


def add_undo_steps(run: Run, undos: Sequence[Undo], *, hinted_at: datetime) -> None:
    """Steps that take back calls whose turn it is."""
    rows = [(undo.step, "undo", undo.node, 1, StepStatus.READY, canonical.dumps(undo.call)) for undo in undos]
    _add_steps(run, rows, hinted_at)


def _add_steps(
    run: Run, rows: Sequence[tuple[str, str, str, int, StepStatus, str | None]], hinted_at: datetime
) -> None:
    if not rows:
        return
    addresses, lanes, nodes, visits, statuses, undoes = (list(column) for column in zip(*rows, strict=True))
    told = {
        "run": run.pk,
        "branch": run.branch,
        "epoch": run.epoch,
        "hinted_at": hinted_at,
        "addresses": addresses,
        "lanes": lanes,
        "nodes": nodes,
        "visits": visits,
        "statuses": [str(status) for status in statuses],
        "undoes": undoes,
    }
    leave("add_steps", told)


def change_step(run: Run, change: StepChange, *, ended_at: datetime | None, hinted_at: datetime) -> None:
    """A step of the run's branch ends, waits, or is ready again, if it was live."""
    told = {
        "run": run.pk,
        "branch": run.branch,
        "address": change.address,
        "status": str(change.status),
        "error": _json(change.error),
        "failed": int(change.failed),
        "crashed": int(change.crashed),
        "ended": ended_at,
        "told": hinted_at,
        "live": [str(status) for status in LIVE_STEPS],
    }
    leave("change_step", told)


def end_live_steps(run: Run, status: StepStatus, *, kept: Sequence[str], moment: datetime) -> None:
    """Of every branch, but for the addresses that are kept."""
    leave("end_live_steps", {"run": run.pk, "status": str(status), "kept": list(kept), "moment": moment})


def add_checkpoint(
    run: Run,
    point: Checkpoint,
    *,
    no: int,
    ops: str,
    snapshot: str | None,
    author: Json,
    reason: str,
    moment: datetime,
) -> None:
    """ops, snapshot: texts of its patch and of the whole document; the patch is not needed where that is stored."""
    told = {
        "run": run.pk,
        "no": no,
        "branch": run.branch,
        "parent": None if point.kind == "input" else run.head,
        "kind": point.kind,
        "node": point.node,
        "address": point.address,
        "epoch": run.epoch,
        "snapshot_no": run.snapshot_no if snapshot is None else no,
        "snapshot": None if snapshot is None else pack(snapshot),
        "patch": pack(ops) if snapshot is None else None,
        "author": _json(author),
        "reason": reason,
        "moment": moment,
    }
    leave("add_checkpoint", told)


def add_events(run: Run, rows: Sequence[Event]) -> None:
    """Links of one transition, made by `history.linked`."""
    if not rows:
        return
    told = {
        "run": run.pk,
        "branch": run.branch,
        "epoch": run.epoch,
        "checkpoint": rows[0].checkpoint,
        "actor": rows[0].actor,
        "at": rows[0].at,
        "seqs": [row.seq for row in rows],
        "kinds": [row.kind for row in rows],
        "nodes": [row.node for row in rows],
        "addresses": [row.address for row in rows],
        "payloads": [row.payload for row in rows],
        "salts": [row.salt for row in rows],
        "payload_hashes": [row.payload_hash for row in rows],
        "hashes": [row.hash for row in rows],
    }
    leave("add_events", told)


def _json(value: Json) -> str | None:
    return None if value is None else canonical.dumps(value)
