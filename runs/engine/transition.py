"""A run as the engine sees it, and what one command changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel

from runs.engine import position as at
from runs.engine.canonical import Json, digest
from runs.engine.patch import Op
from runs.engine.position import LiveStep
from runs.engine.state import Write
from runs.engine.status import ApprovalStatus, RunStatus, StepStatus
from runs.engine.waits import Satisfied, Wanted
from runs.engine.workflow import Workflow
from runs.errors import HitlError

UNDO: Final = "undo-"  # how the address begins of a step that takes a call back


@dataclass(slots=True)
class Aggregate:
    """A run as the engine sees it.

    position: the document of the head checkpoint; transitions change it in place.
    values: Python values by field of the state as the acting lane sees it, so that they are not parsed for every step.
    rows: status of every unfinished step of the branch by address, of lanes that have siblings; errors: of those that failed.
    draining: a step has failed finally, the run waits for those that execute.
    """

    run_id: str
    workflow: Workflow
    status: str
    epoch: int
    branch: int
    position: dict[str, Any]
    values: dict[str, Any]
    executing: frozenset[str] = frozenset()
    rows: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, dict[str, Json]] = field(default_factory=dict)
    draining: bool = False

    def workflow_of(self, lane: str) -> Workflow:
        """The workflow that a lane is in."""
        return at.workflow_of(self.workflow, self.position, lane)


class WithoutCode(Aggregate):
    """A run whose code is not here. What needs none (a timer, a signal, a take-over) can be done; what asks for it raises why."""

    __slots__ = ("absence",)

    def __init__(self, absence: HitlError, **facts: Any) -> None:
        self.absence = absence
        super().__init__(workflow=_NOBODYS, **facts)

    def __getattribute__(self, name: str) -> Any:
        if name == "workflow":
            raise object.__getattribute__(self, "absence")
        return super().__getattribute__(name)


class _Nothing(BaseModel):
    pass


_NOBODYS = Workflow("nobodys", state=_Nothing)


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    payload: dict[str, Json]
    node: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    kind: str
    ops: Sequence[Op]
    node: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class StepChange:
    """A live step leaves its status. `failed` says that this attempt failed; `error` is kept on the step."""

    address: str
    status: StepStatus
    error: dict[str, Json] | None = None
    failed: bool = False
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Something a step waits for: an approval, or the time to try again. `delay` in seconds, None for no due time.

    Without an address it is the run that waits: for the code of its version, `facts` say why.
    """

    address: str
    node: str
    kind: str
    delay: float | None = None
    facts: dict[str, Json] | None = None

    def due(self, moment: datetime) -> datetime | None:
        return None if self.delay is None else moment + timedelta(seconds=self.delay)


@dataclass(frozen=True, slots=True)
class Opened:
    """A new approval, with its document."""

    address: str
    node: str
    document: dict[str, Json]
    digest: str


@dataclass(frozen=True, slots=True)
class Undo:
    """A call that is taken back: where it stands in the journal, and the node that made it.

    Taking it back is a step of its own, which a worker claims like any other; `step` is that step's address.
    """

    branch: int
    address: str
    name: str
    occurrence: str
    node: str

    @property
    def step(self) -> str:
        return f"{UNDO}{digest(self.call)[:27]}"

    @property
    def call(self) -> list[Json]:
        """The call as rows of steps name it."""
        return [self.branch, self.address, self.name, self.occurrence]

    @property
    def facts(self) -> dict[str, Json]:
        """The call as the history names it."""
        return {"call": self.name, "occurrence": self.occurrence, "of": self.address}


def is_undo(address: str) -> bool:
    """Whether a step of this address takes a call back."""
    return address.startswith(UNDO)


@dataclass(frozen=True, slots=True)
class Moved:
    """The run is at another version of its workflow. nodes: the new names of unfinished steps whose node was renamed, by
    address."""

    from_version: str
    to_version: str
    fingerprint: str
    nodes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Transition:
    """What one command changes. Stored in one transaction, or not at all.

    wanted: what a body waits for from now on. journal: answers to what bodies waited for; close_places are the waits (address,
    name, occurrence) that end with them. abandons: steps whose children are stopped, those that are under way.
    paused: what is kept of a run for as long as it is paused. ending: what is kept while a run takes back its calls, before it
    ends; undo: calls whose turn it is.
    """

    events: list[Event] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    status: RunStatus | None = None
    error: dict[str, Json] | None = None
    output: Json = None
    ended: bool = False
    steps: list[StepChange] = field(default_factory=list)
    next_steps: list[LiveStep] = field(default_factory=list)
    waiting_steps: list[LiveStep] = field(default_factory=list)
    wait: Wait | None = None
    opened: Opened | None = None
    wanted: list[Wanted] = field(default_factory=list)
    journal: list[Satisfied] = field(default_factory=list)
    close_places: list[tuple[str, str, str]] = field(default_factory=list)
    close_waits_of: list[str] = field(default_factory=list)
    abandons: list[str] = field(default_factory=list)
    close_everything: str = ""
    raise_epoch: bool = False
    values: dict[str, Any] | None = None
    forgives: bool = False
    hints: list[str] = field(default_factory=list)
    paused: dict[str, Json] | None = None
    ending: dict[str, Json] | None = None
    undo: list[Undo] = field(default_factory=list)
    moved: Moved | None = None

    @property
    def ready(self) -> list[str]:
        """Addresses of the steps that a worker may take now."""
        woken = [change.address for change in self.steps if change.status is StepStatus.READY]
        begun = [*(step.address for step in self.next_steps), *(one.step for one in self.undo)]
        return list(dict.fromkeys([*woken, *begun, *self.hints]))

    @property
    def ends_steps_as(self) -> StepStatus:
        """What becomes of live steps where everything is closed."""
        return StepStatus.VOID if self.close_everything == "rewound" else StepStatus.CANCELLED

    @property
    def closes_as(self) -> tuple[ApprovalStatus, str]:
        """What becomes of the approvals that it closes, and why."""
        reason = self.close_everything
        if not reason and self.events:
            first = self.events[0]
            reason = str(first.payload["reason"]) if first.kind == "approval_superseded" else first.kind
        cancelled = reason in ("run_cancelled", "run_failed")
        return (ApprovalStatus.CANCELLED if cancelled else ApprovalStatus.SUPERSEDED), reason or "superseded"


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a body's result comes to, whatever siblings do: the writes, and the nodes that its lane wants to go to."""

    writes: Sequence[Write]
    values: dict[str, Any]
    targets: Sequence[str]
