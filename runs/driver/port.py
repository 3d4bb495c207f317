"""What the driver needs of the world outside: a journal that can be read and written, and the decisions it trusts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Interrupted(BaseException):
    """The step cannot go on in this worker: it was taken over, or the database is away.

    A BaseException, so that no author's `except Exception` takes it for a failed call and goes on.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


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


@dataclass(frozen=True, slots=True)
class Call:
    """A call about to be committed. `result` is canonical JSON text; `took` in seconds."""

    name: str
    occurrence: str
    args_digest: str
    result: str
    effect: str
    key: str
    took: float
    reused_from: int | None = None


class Port(Protocol):
    def entries(self) -> list[Entry]:
        """Every journal entry of this step's address, of all branches of the run."""

    def before_call(self) -> None:
        """Asked before a call is made. Raises `LateResult` if the step is known not to be ours any more."""

    def commit_call(self, call: Call) -> None:
        """Commit a call's result, fenced. Raises `LateResult` if the step is not ours any more."""

    def approved_digest(self, approval_id: str) -> str:
        """What the decisive vote recorded as the digest of the approved actions; empty if there is none."""
