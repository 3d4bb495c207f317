"""What the driver needs of the world outside: a journal that can be read and written, and the decisions it trusts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runs.driver.usage import Used
from runs.engine.canonical import Json
from runs.engine.files import File


class Interrupted(BaseException):
    """The step cannot go on in this worker: it was taken over, or the database is away.

    A BaseException, so that no author's `except Exception` takes it for a failed call and goes on.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Halted(BaseException):
    """The worker itself ends here, as a killed process does: no outcome of the step."""


class Kept(Protocol):
    """A row of a journal, wherever it is kept."""

    name: str
    occurrence: str
    args_digest: str
    result: str
    branch: int
    effect: str
    kind: str
    attempt: int
    arguments: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A committed result of a call, or an answer to what a body waited for (`kind`).

    branch: where it was committed; visible: whether that counts for this branch.
    """

    name: str
    occurrence: str
    args_digest: str
    result: str
    branch: int
    visible: bool
    effect: str = "none"
    kind: str = "call"
    attempt: int = 1
    arguments: str = ""

    @classmethod
    def of(cls, row: Kept, *, visible: bool) -> Entry:
        return cls(
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


@dataclass(frozen=True, slots=True)
class Call:
    """A call about to be committed. `result` is canonical JSON text; `took` in seconds.

    arguments: their canonical JSON text, cut where it is long. used: what it used of paid models. undo: how it could be
    undone, as canonical JSON text; empty if nothing was said. guard: the approval whose arguments it had to have.
    """

    name: str
    occurrence: str
    args_digest: str
    result: str
    effect: str
    key: str
    took: float
    reused_from: int | None = None
    arguments: str = ""
    used: Sequence[Used] = ()
    undo: str = ""
    guard: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """What a node said by `ctx.log`. no: which line of this attempt; facts is canonical JSON text."""

    no: int
    attempt: int
    message: str
    facts: str


class Port(Protocol):
    def entries(self) -> list[Entry]:
        """Every journal entry of this step's address, of all branches of the run."""

    def before_call(self) -> None:
        """Asked before a call is made. Raises `LateResult` if the step is known not to be ours any more."""

    def commit_call(self, call: Call) -> None:
        """Commit a call's result, fenced. Raises `LateResult` if the step is not ours any more."""

    def commit_time(self, call: Call) -> str:
        """Commit a call whose result is the present moment by the clock that all share; returns it as JSON text."""

    def commit_file(self, call: Call, file: File) -> None:
        """Keep a file, then commit the call whose result refers to it, and that it is the run's, at once. Raises `LateResult`,
        `AttachmentNotStored` or `TooManyAttachments`; then the run does not have it."""

    def file_limit(self) -> int:
        """Bytes that a file may have."""

    def note_usage(self, call: str, occurrence: str, used: Sequence[Used]) -> None:
        """Commit what a call used that then failed, fenced. Raises `LateResult` if the step is not ours any more."""

    def note_log(self, line: LogLine) -> None:
        """Keep a line of the node's log, fenced, as long as there is room. Raises `LateResult`."""

    def note_progress(self, progress: Json) -> None:
        """Show how far the step is, fenced. Raises `LateResult`."""

    def note_overdue(self, facts: Json) -> None:
        """Write down that this attempt is out of time and its process about to end. Never raises."""

    def disconnect(self) -> None:
        """This thread asks no more."""

    def approved_digest(self, approval_id: str) -> str:
        """What the decisive vote recorded as the digest of the approved actions; empty if there is none."""
