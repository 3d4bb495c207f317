"""Where a played run is kept: rows in SQLite, in memory or in one file.

Memory is SQLite's `:memory:`, so there is one store and one semantics: what a file would refuse, or change on the way,
memory does too, and a transaction that is not committed is gone in both. Documents are canonical JSON text, as in Postgres.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from runs.engine import canonical, chain
from runs.engine.canonical import Json
from runs.errors import HitlError

FORMAT: Final = 3
APPLICATION: Final = 0x4849544C  # "HITL", in the header of the file
PATIENCE: Final = 0.2  # seconds to wait for a file that somebody else has open
MEMORY: Final = ":memory:"


class PlayError(HitlError):
    """A run cannot be played like this."""

    code = "play_error"


# ---- rows; a table each, whose columns are the fields


@dataclass(kw_only=True, slots=True)
class Row:
    row: int = 0


@dataclass(kw_only=True, slots=True)
class WorldRow(Row):
    """The clock, and what chance is drawn from. drawn: how many ids were."""

    now: datetime
    seed: str
    shuffled: bool
    started_at: datetime
    drawn: int = 0
    steps: int = 0


@dataclass(kw_only=True, slots=True)
class RunRow(Row):
    id: str
    workflow: str
    version: str
    fingerprint: str
    status: str
    input: Json
    created_at: datetime
    updated_at: datetime
    epoch: int = 1
    branch: int = 1
    head: int = 0
    checkpoint_no: int = 0
    snapshot_no: int = 0
    snapshot_size: int = 0
    patch_weight: int = 0
    seq: int = 0
    head_hash: bytes = chain.GENESIS
    output: Json = None
    error: Json = None
    parent: str = ""
    finished_at: datetime | None = None
    deadline: float | None = None
    deadline_at: datetime | None = None
    time_left: float | None = None
    paused: Json = None
    ending: Json = None


@dataclass(kw_only=True, slots=True)
class BranchRow(Row):
    run: str
    no: int
    parent_branch: int | None = None
    parent_checkpoint: int | None = None
    calls: str = "reuse"
    generation: int = 0
    reason: str = ""
    again: Json = None  # calls that are made again although others are reused, for they were taken back
    generations: Json = None  # of single calls, by the text of their places


@dataclass(kw_only=True, slots=True)
class CheckpointRow(Row):
    run: str
    no: int
    branch: int
    parent: int | None
    kind: str
    node: str
    address: str
    snapshot_no: int
    snapshot: str | None
    patch: str | None
    reason: str
    at: datetime


@dataclass(kw_only=True, slots=True)
class MigratedRow(Row):
    """A checkpoint at which a run came to another version of its workflow."""

    run: str
    branch: int
    checkpoint: int
    from_version: str
    to_version: str


@dataclass(kw_only=True, slots=True)
class EventRow(Row):
    """A link of the history's chain."""

    run: str
    seq: int
    kind: str
    branch: int
    epoch: int
    checkpoint: int | None
    node: str
    address: str
    actor: str
    at: datetime
    payload: str
    salt: bytes
    payload_hash: bytes
    hash: bytes


@dataclass(kw_only=True, slots=True)
class StepRow(Row):
    """token: new with every claim; earlier: attempts before the last Retry."""

    run: str
    branch: int
    address: str
    lane: str
    node: str
    visit: int
    status: str
    epoch: int
    token: int = 0
    failures: int = 0
    crashes: int = 0
    earlier: int = 0
    entries: int = 0
    checkpoint: int | None = None
    error: Json = None
    progress: Json = None
    undoes: Json = None


@dataclass(kw_only=True, slots=True)
class JournalRow(Row):
    run: str
    branch: int
    address: str
    name: str
    occurrence: str
    kind: str
    node: str
    after: int
    attempt: int
    args_digest: str
    result: str
    at: datetime
    effect: str = "none"
    key: str = ""
    arguments: str = ""
    undo: str = ""
    took: float = 0.0
    reused_from: int | None = None


@dataclass(kw_only=True, slots=True)
class UsageRow(Row):
    run: str
    branch: int
    address: str
    node: str
    call: str
    occurrence: str
    failed: bool
    model: str
    model_tokens_in: int
    model_tokens_out: int
    cost: str
    currency: str


@dataclass(kw_only=True, slots=True)
class LogRow(Row):
    run: str
    branch: int
    address: str
    node: str
    attempt: int
    no: int
    message: str
    facts: str
    at: datetime


@dataclass(kw_only=True, slots=True)
class FileRow(Row):
    """A file that a node attached."""

    id: str
    run: str
    node: str
    name: str
    type: str
    digest: str
    body: bytes
    at: datetime


@dataclass(kw_only=True, slots=True)
class WaitRow(Row):
    run: str
    branch: int
    address: str
    node: str
    kind: str
    opened_at: datetime
    name: str = ""
    occurrence: str = ""
    label: str = ""
    race: str = ""
    position: int = 0
    after: int = 0
    digest: str = ""
    schema: Json = None
    child: str = ""
    due_at: datetime | None = None
    closed_at: datetime | None = None


@dataclass(kw_only=True, slots=True)
class ApprovalRow(Row):
    """options: the rules as they were when it was asked. previous: the id of the one before it at this place."""

    id: str
    run: str
    branch: int
    address: str
    node: str
    document: Json
    digest: str
    options: Json
    opened_at: datetime
    name: str = ""
    occurrence: str = ""
    title: str = ""
    version: int = 1
    status: str = "open"
    outcome: str = ""
    comment: str = ""
    closed_reason: str = ""
    previous: str = ""
    stage: int = 0
    level: int = 0
    remind_at: datetime | None = None
    runs_out: bool = False  # it was told that nobody answers
    due_at: datetime | None = None
    closed_at: datetime | None = None


@dataclass(kw_only=True, slots=True)
class VoteRow(Row):
    approval: str
    version: int
    user: str
    outcome: str
    signature: str
    stage: int
    decisive: bool
    approved_digest: str
    request: str = ""  # recognises the same answer when it comes again


@dataclass(kw_only=True, slots=True)
class RevisionRow(Row):
    approval: str
    version: int
    author: str


@dataclass(kw_only=True, slots=True)
class SignalRow(Row):
    run: str
    no: int
    name: str
    sent_id: str
    payload: Json
    digest: str
    received_at: datetime


@dataclass(kw_only=True, slots=True)
class ChildRow(Row):
    run: str
    parent: str
    branch: int
    address: str
    name: str
    occurrence: str
    after: int
    digest: str
    on_parent_cancel: str


@dataclass(kw_only=True, slots=True)
class SaidRow(Row):
    """A decision that was told beforehand and has been used: so that a file that is opened again goes on where it was."""

    key: str


TABLES: Final = (
    WorldRow,
    RunRow,
    BranchRow,
    CheckpointRow,
    MigratedRow,
    EventRow,
    StepRow,
    JournalRow,
    UsageRow,
    LogRow,
    FileRow,
    WaitRow,
    ApprovalRow,
    VoteRow,
    RevisionRow,
    SignalRow,
    ChildRow,
    SaidRow,
)
KEYS: Final[dict[type[Row], tuple[str, ...]]] = {
    RunRow: ("id",),
    BranchRow: ("run", "no"),
    CheckpointRow: ("run", "no"),
    MigratedRow: ("run", "checkpoint"),
    EventRow: ("run", "seq"),
    StepRow: ("run", "branch", "address"),
    JournalRow: ("run", "branch", "address", "name", "occurrence"),
    FileRow: ("id",),
    ApprovalRow: ("id",),
    SignalRow: ("run", "no"),
    ChildRow: ("run",),
}
Kind = TypeVar("Kind", bound=Row)


@dataclass(slots=True)
class Book:
    """The rows of one played run and its children. Use `Book.at`.

    A body's threads may ask from beside: the lock lets one work at a time, and a transaction keeps it to its end.
    """

    db: sqlite3.Connection
    path: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    _inside: bool = False

    @classmethod
    def at(cls, path: str | Path | None) -> Book:
        """Open a file, which is made if it is not there; without a path, memory. Raises `PlayError`."""
        where = MEMORY if path is None else str(path)
        db = sqlite3.connect(where, isolation_level=None, check_same_thread=False, timeout=PATIENCE)
        book = cls(db, where)
        try:
            book._prepare()
        except sqlite3.Error as error:
            db.close()
            if "locked" in str(error):
                raise PlayError(f"{where} is being played by another process, or was not closed.") from None
            raise PlayError(f"{where} cannot be used as the file of a run: {error}.") from None
        except PlayError:
            db.close()
            raise
        return book

    def _prepare(self) -> None:
        self.db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.db.execute("BEGIN EXCLUSIVE")
        known = [row[0] for row in self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        (application,) = self.db.execute("PRAGMA application_id").fetchone()
        (version,) = self.db.execute("PRAGMA user_version").fetchone()
        if known and (application, version) != (APPLICATION, FORMAT):
            self.db.execute("ROLLBACK")
            raise PlayError(f"{self.path} holds something else than a run of format {FORMAT}.")
        if not known:
            self._create()
        self.db.execute("COMMIT")

    def _create(self) -> None:
        for kind in TABLES:
            columns = [f'"{one.name}"' for one in fields(kind) if one.name != "row"]
            unique = f", UNIQUE ({', '.join(KEYS[kind])})" if kind in KEYS else ""
            self.db.execute(
                f"CREATE TABLE {kind.__name__} (row INTEGER PRIMARY KEY, {', '.join(columns)}{unique})"
            )
        self.db.execute(f"PRAGMA application_id = {APPLICATION}")
        self.db.execute(f"PRAGMA user_version = {FORMAT}")

    def close(self) -> None:
        self.db.close()

    def __del__(self) -> None:
        self.db.close()  # a play in memory is not closed by hand

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; one inside another joins it."""
        with self.lock:
            if self._inside:
                yield
                return
            self.db.execute("BEGIN IMMEDIATE")
            self._inside = True
            try:
                yield
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            else:
                self.db.execute("COMMIT")
            finally:
                self._inside = False

    def add(self, row: Kind) -> Kind:
        shape = SHAPES[type(row)]
        with self.lock:
            row.row = self.db.execute(shape.insert, _stored(row, shape)).lastrowid or 0
        return row

    def save(self, *rows: Row) -> None:
        for row in rows:
            shape = SHAPES[type(row)]
            with self.lock:
                self.db.execute(shape.update, [*_stored(row, shape), row.row])

    def find(self, kind: type[Kind], /, **where: Any) -> list[Kind]:
        """Rows with these values, in the order in which they were added. A list means any of it."""
        terms, values = [], []
        for name, value in where.items():
            several = isinstance(value, (list, tuple, set, frozenset))
            told = list(value) if several else [value]
            marks = ", ".join("?" for _ in told)
            terms.append(f'"{name}" IN ({marks})' if several else f'"{name}" IS ?')
            values += [_cell(one) for one in told]
        shape = SHAPES[kind]
        text = f"{shape.select} WHERE {' AND '.join(terms) or '1'} ORDER BY row"
        with self.lock:
            return [_loaded(kind, shape, found) for found in self.db.execute(text, values).fetchall()]

    def one(self, kind: type[Kind], /, **where: Any) -> Kind | None:
        """The last of such rows."""
        found = self.find(kind, **where)
        return found[-1] if found else None

    def get(self, kind: type[Kind], /, **where: Any) -> Kind:
        found = self.one(kind, **where)
        assert found is not None, f"no {kind.__name__} {where}"
        return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a row is written and read. codes: of each column, how its cell is made a value: json, time, bool or as it is."""

    names: tuple[str, ...]
    codes: tuple[str, ...]
    insert: str
    update: str
    select: str


def _shape_of(kind: type[Row]) -> _Shape:
    names = tuple(one.name for one in fields(kind) if one.name != "row")
    codes = tuple(_code(str(one.type)) for one in fields(kind) if one.name != "row")
    columns, table = ", ".join(f'"{name}"' for name in names), kind.__name__
    marks, told = ", ".join("?" for _ in names), ", ".join(f'"{name}" = ?' for name in names)
    return _Shape(
        names,
        codes,
        f"INSERT INTO {table} ({columns}) VALUES ({marks})",  # noqa: S608  # our own names
        f"UPDATE {table} SET {told} WHERE row = ?",  # noqa: S608
        f"SELECT row, {columns} FROM {table}",  # noqa: S608
    )


def _code(annotation: str) -> str:
    if annotation == "Json":
        return "json"
    return "time" if annotation.startswith("datetime") else "bool" if annotation == "bool" else ""


def _stored(row: Row, shape: _Shape) -> list[Any]:
    return [
        canonical.dumps(getattr(row, name)) if code == "json" else _cell(getattr(row, name))
        for name, code in zip(shape.names, shape.codes, strict=True)
    ]


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value


def _loaded(kind: type[Kind], shape: _Shape, cells: tuple[Any, ...]) -> Kind:
    values = {
        name: _value(code, cell) for name, code, cell in zip(shape.names, shape.codes, cells[1:], strict=True)
    }
    return kind(row=cells[0], **values)


def _value(code: str, cell: Any) -> Any:
    match code:
        case "json":
            return canonical.loads(cell)
        case "time":
            return None if cell is None else datetime.fromisoformat(cell)
        case "bool":
            return bool(cell)
    return cell


SHAPES: Final[dict[type[Row], _Shape]] = {kind: _shape_of(kind) for kind in TABLES}
