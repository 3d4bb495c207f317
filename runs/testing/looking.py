"""A played run as it is looked at: rows of the book without what only the book needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from html import escape
from typing import Any, Final

from runs.engine import canonical
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.compensation import undo_of
from runs.engine.stages import Stage
from runs.engine.status import TERMINAL
from runs.engine.transition import is_undo
from runs.engine.waits import reason_of
from runs.engine.workflow import ApprovalOptions
from runs.errors import UnknownCheckpoint
from runs.testing.book import (
    ApprovalRow,
    Book,
    CheckpointRow,
    EventRow,
    FileRow,
    JournalRow,
    LogRow,
    RunRow,
    StepRow,
    UsageRow,
    WaitRow,
)
from runs.testing.writing import read_position

WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the history. by: who, as a name; empty for a worker."""

    seq: int
    at: datetime
    kind: str
    node: str
    payload: dict[str, Any]
    branch: int
    checkpoint: int | None
    by: str


@dataclass(frozen=True, slots=True)
class Point:
    """A checkpoint. document: the whole position; state: what people see of it."""

    no: int
    branch: int
    parent: int | None
    kind: str
    node: str
    at: datetime
    reason: str
    document: dict[str, Any] = field(repr=False)

    @property
    def state(self) -> dict[str, Json]:
        return at.state(self.document)


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step: one visit of a node. item: of a fan-out, which one. attempts: failures and crashes, and the one under way."""

    node: str
    visit: int
    status: str
    lane: str
    item: int | None
    branch: int
    attempts: int
    failures: int
    crashes: int
    entries: int
    checkpoint: int | None
    error: Json
    progress: Json


@dataclass(frozen=True, slots=True)
class Called:
    """A call whose result was committed: what it did to the world, and whether a rewind took it over from another branch.

    taken_back: the status of the step that takes it back, "completed" if that is done; empty if there is none.
    """

    node: str
    name: str
    occurrence: str
    effect: str
    result: Json
    arguments: str
    key: str
    branch: int
    reused: bool
    taken_back: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """An approval. document: what people saw, as it is now after edits. asked: teams, and `user:NAME`, who are asked now."""

    id: str
    node: str
    title: str
    document: dict[str, Any] = field(repr=False)
    status: str
    outcome: str
    comment: str
    version: int
    branch: int
    opened_at: datetime
    due_at: datetime | None
    closed_reason: str
    asked: tuple[str, ...] = ()
    stage: int = 0

    @property
    def args(self) -> Any:
        """The arguments of the only action, or of each by its key."""
        actions = self.document["actions"]
        return actions[0]["args"] if len(actions) == 1 else {a["key"]: a["args"] for a in actions}


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that a node attached."""

    id: str
    node: str
    name: str
    type: str
    digest: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Line:
    """What a node said by `ctx.log`."""

    node: str
    message: str
    facts: dict[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run used of paid models, failed calls included."""

    model_tokens_in: int
    model_tokens_out: int
    cost: dict[str, Decimal]


def history(book: Book, run: str) -> list[Happened]:
    return [
        Happened(
            row.seq,
            row.at,
            row.kind,
            row.node,
            canonical.loads(row.payload),
            row.branch,
            row.checkpoint,
            canonical.loads(row.actor)["name"] if row.actor else "",
        )
        for row in book.find(EventRow, run=run)
    ]


def checkpoints(book: Book, run: str) -> list[Point]:
    return [_point(book, row) for row in book.find(CheckpointRow, run=run)]


def checkpoint(book: Book, run: str, no: int) -> Point:
    row = book.one(CheckpointRow, run=run, no=no)
    if row is None:
        raise UnknownCheckpoint(f"The run has no checkpoint {no}.", checkpoint=no)
    return _point(book, row)


def _point(book: Book, row: CheckpointRow) -> Point:
    document = read_position(book, row.run, row.no)
    return Point(row.no, row.branch, row.parent, row.kind, row.node, row.at, row.reason, document)


def attachments(book: Book, run: str) -> list[Attached]:
    return [
        Attached(row.id, row.node, row.name, row.type, row.digest, row.body)
        for row in book.find(FileRow, run=run)
    ]


def steps(book: Book, run: str) -> list[Stepped]:
    return [
        Stepped(
            row.node,
            row.visit,
            row.status,
            row.lane,
            int(row.lane.partition("#")[2]) if "#" in row.lane else None,
            row.branch,
            row.earlier + row.failures + row.crashes + (row.status != "failed"),
            row.failures,
            row.crashes,
            row.entries,
            row.checkpoint,
            row.error,
            row.progress,
        )
        for row in book.find(StepRow, run=run)
    ]


def calls(book: Book, run: str) -> list[Called]:
    undone = {row.address: row.status for row in book.find(StepRow, run=run) if row.undoes}
    return [
        Called(
            row.node,
            row.name,
            row.occurrence,
            row.effect,
            canonical.loads(row.result),
            row.arguments,
            row.key,
            row.branch,
            row.reused_from is not None,
            undone.get(undo_of(row).step, ""),
        )
        for row in book.find(JournalRow, run=run, kind="call")
        if not row.name.startswith("ctx.") and not is_undo(row.address)
    ]


def approvals(book: Book, run: str) -> list[Opened]:
    return [opened(row) for row in book.find(ApprovalRow, run=run)]


def opened(row: ApprovalRow) -> Opened:
    return Opened(
        row.id,
        row.node,
        row.title,
        row.document,
        row.status,
        row.outcome,
        row.comment,
        row.version,
        row.branch,
        row.opened_at,
        row.due_at,
        row.closed_reason,
        tuple(asked_now(row).reviewers),
        row.stage,
    )


def asked_now(row: ApprovalRow) -> Stage:
    """The stage that is asked, with those who were asked when the time was over."""
    return ApprovalOptions.of(row.options).asked_at(row.level)[row.stage]


def log(book: Book, run: str) -> list[Line]:
    rows = book.find(LogRow, run=run)
    return [Line(row.node, row.message, canonical.loads(row.facts), row.at) for row in rows]


def usage(book: Book, run: str) -> Spent:
    rows = book.find(UsageRow, run=run)
    cost: dict[str, Decimal] = {}
    for row in rows:
        if row.cost:
            cost[row.currency] = cost.get(row.currency, Decimal(0)) + Decimal(row.cost)
    return Spent(sum(row.model_tokens_in for row in rows), sum(row.model_tokens_out for row in rows), cost)


def waiting_for(book: Book, run: RunRow) -> list[dict[str, Json]]:
    """Why a run waits, as the API says it."""
    if run.status in TERMINAL:
        return []
    return [_reason(book, wait) for wait in book.find(WaitRow, run=run.id, closed_at=None)]


def _reason(book: Book, wait: WaitRow) -> dict[str, Json]:
    reason = reason_of(wait, child=wait.child)
    if wait.kind == "approval":
        place = {"address": wait.address, "name": wait.name, "occurrence": wait.occurrence}
        approval = book.one(ApprovalRow, run=wait.run, branch=wait.branch, status="open", **place)
        if approval is not None:
            reason |= {
                "approval": approval.id,
                "title": approval.title,
                "who": list(asked_now(approval).reviewers),
            }
    return reason


# ---- drawing

_LEFT_OUT: Final = (
    "input",
    "digest",
    "approval",
    "actions",
    "traceback",
    "visit",
    "by",
    "at",
    "version",
    "reason",
)


def drawn(run: RunRow, happened: Sequence[Happened], more: Sequence[str]) -> str:
    """The timeline as text, one event a line."""
    lines = [f"{run.workflow} {run.version}: {run.status}"]
    for event in happened:
        since = shown_since((event.at - run.created_at).total_seconds())
        words = f"{event.kind.replace('_', ' ')} {event.node}".rstrip()
        point = f"  [{event.checkpoint}]" if event.checkpoint is not None else ""
        lines.append(f"  {since:>9}  {words:<36}{point:<7}{_details(event)}".rstrip())
    if run.status in TERMINAL:
        told = run.output if run.status == "completed" else run.error
        lines.append(f"  {'output' if run.status == 'completed' else 'error'}: {_short(told)}")
    return "\n".join([*lines, *(f"  {line}" for line in more)])


def drawn_html(run: RunRow, happened: Sequence[Happened], more: Sequence[str]) -> str:
    """The same for a notebook. Everything in it is text."""
    rows = "".join(
        f"<tr><td>{escape(shown_since((event.at - run.created_at).total_seconds()))}</td>"
        f"<td>{escape(event.kind.replace('_', ' '))}</td><td>{escape(event.node)}</td>"
        f"<td>{'' if event.checkpoint is None else event.checkpoint}</td><td>{escape(_details(event))}</td></tr>"
        for event in happened
    )
    told = run.output if run.status == "completed" else run.error
    last = f"<p>{escape(_short(told))}</p>" if run.status in TERMINAL else ""
    notes = "".join(f"<p>{escape(line)}</p>" for line in more)
    head = "<tr><th>after</th><th>what</th><th>node</th><th>checkpoint</th><th></th></tr>"
    title = f"<p><b>{escape(run.workflow)} {escape(run.version)}: {escape(run.status)}</b></p>"
    return f"{title}<table>{head}{rows}</table>{last}{notes}"


def shown_since(seconds: float) -> str:
    """Time from the start: 0s, 90s, 5m, 26h, 7d."""
    for unit, size, least in (("d", 86400, 2 * 86400), ("h", 3600, 7200), ("m", 60, 120)):
        if seconds >= least:
            return f"+{seconds / size:.4g}{unit}"
    return f"+{seconds:.4g}s"


def _details(event: Happened) -> str:
    told = {
        key: value for key, value in event.payload.items() if key not in _LEFT_OUT and value not in ("", None)
    }
    if isinstance(told.get("error"), dict):
        told["error"] = told["error"].get("message")
    by = f"by {event.by} " if event.by not in ("", "system") else ""
    return by + _short(told) if told else by.rstrip()


def _short(value: Json) -> str:
    text = canonical.dumps(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"
