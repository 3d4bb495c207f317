"""What a node's body can wait for, as data: an instant, a signal, people's answer, a child run, or the first of several.

Theory. A body that asks for what is not there yet is left: its step waits and holds no worker. Each thing that is waited
for has a place, the name and occurrence under which its answer will stand in the journal of the step's address. When the
answer is there it is journalled and the step is ready again: a new entry, no new attempt. The body starts from its first
line, and finds every answer that it was given before.

Of several things that are satisfied, the one satisfied at the earlier instant counts, then the one declared first: what
looked, and when, changes no winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol, get_args

from pydantic import BaseModel

from runs.engine import canonical
from runs.engine.approval import document_of, json_schema, options_of
from runs.engine.canonical import Json
from runs.engine.durations import seconds
from runs.engine.schema import check_schema
from runs.engine.stages import Stage
from runs.engine.state import storable
from runs.engine.workflow import Action, ApprovalOptions, Ask, OnTimeout, Way, Workflow, options_from
from runs.errors import InvalidCall, SchemaViolation, TooManyChildren, WorkflowError

FIRST: Final = "first_of"
ENTRY_OF: Final = {
    "timer": "sleep",
    "signal": "signal",
    "approval": "answer",
    "child": "child",
}  # kind in the journal
MAX_NAME: Final = 200
MAX_KEY: Final = 90  # a number may follow it, and the column has 100
Length = float | str | timedelta
OnParentCancel = Literal["cancel", "abandon"]
Schema = type[BaseModel] | Mapping[str, Any]
_IN_CODE: Final = Way(outcomes={"respond": ""})  # code can always read an answer given in place of the action


# ---- as an author writes them


@dataclass(frozen=True, slots=True)
class Timer:
    """Time that passes: a length (seconds, "90s", "24h", a timedelta), or until an aware datetime."""

    length: Length | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A message from outside. schema: only a payload that fits is taken, others stay in the mailbox."""

    name: str
    timeout: Length | None = None
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """An approval in the middle of code, with the options of an approval node."""

    asked: Action | Ask | Sequence[Action]
    reviewers: Sequence[str] = ()
    quorum: int = 1
    reject_quorum: int = 1
    stages: Sequence[Stage] = ()
    due: str | float | None = None
    on_timeout: OnTimeout = "reject"
    escalate_to: Sequence[str] = ()
    remind: Sequence[str | float] | str | float = ()
    editor_may_approve: bool = False
    requester_may_decide: bool = False
    reason_required: bool = False
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """A run of another workflow. on_parent_cancel: what becomes of it if this run is cancelled, or waits no longer."""

    workflow: str | Workflow
    input: Any = field(default_factory=dict)
    version: str | None = None
    on_parent_cancel: OnParentCancel = "cancel"


Waitable = Timer | Signal | Question | Child


# ---- as the engine takes them


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing that a step waits for.

    name, occurrence: its place. digest: of what was asked, kept with the answer. label, race: as which of several, and the
    occurrence of the `first_of` they belong to. delay (seconds) or until: when it is due by itself. supersedes: the approval
    that asked for something else at this place.
    """

    kind: str
    name: str
    occurrence: str
    digest: str
    label: str = ""
    race: str = ""
    delay: float | None = None
    until: datetime | None = None
    schema: Json = None
    document: dict[str, Json] | None = None
    options: ApprovalOptions | None = None
    child: ChildRun | None = None
    supersedes: str = ""

    @property
    def place(self) -> Place:
        return self.name, self.occurrence

    @property
    def keeps_its_instant(self) -> bool:
        """Whether the instant of the first time it was asked for counts on, after a rewind to later too."""
        return self.kind in ("timer", "signal")

    def due(self, moment: datetime) -> datetime | None:
        """When it is due by itself, asked for at this moment."""
        if self.until is not None:
            return self.until
        return None if self.delay is None else moment + timedelta(seconds=self.delay)

    def shown(self) -> dict[str, Json]:
        """As the history tells it."""
        told: dict[str, Json] = {"kind": self.kind, "name": self.name}
        if self.label:
            told["label"] = self.label
        if self.until is not None:
            told["until"] = self.until.isoformat()
        elif self.delay is not None:
            told["seconds"] = self.delay
        return told


Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ChildRun:
    """What a child run is started with."""

    workflow: str
    version: str | None
    input: Json
    on_parent_cancel: str

    @property
    def digest(self) -> str:
        """What makes it the same child, or another one."""
        return canonical.digest({"workflow": self.workflow, "input": self.input})


def wanted(given: Waitable, *, name: str, occurrence: str) -> Wanted:
    """What an author asked for, checked. Raises `InvalidCall` or `SchemaViolation`."""
    match given:
        case Timer():
            return _timer(given, name, occurrence)
        case Signal():
            return _signal(given, name, occurrence)
        case Question():
            return _question(given, name, occurrence)
        case Child():
            return _child(given, name, occurrence)
    raise InvalidCall(f"{type(given).__name__} is nothing that can be waited for.")


def name_of(given: Waitable) -> str:
    """The name under which its answer is journalled, if the author says no other."""
    match given:
        case Timer():
            return "sleep"
        case Signal():
            return given.name
        case Question():
            return "ask"
        case Child():
            return given.workflow.name if isinstance(given.workflow, Workflow) else given.workflow
    raise InvalidCall(f"{type(given).__name__} is nothing that can be waited for.")


class Open(Protocol):
    """A wait as it is kept, wherever that is."""

    kind: str
    node: str
    name: str
    opened_at: datetime
    due_at: datetime | None


def reason_of(wait: Open, *, child: str) -> dict[str, Json]:
    """Why a run waits, as it says itself. child: the run that is waited for, if it is one."""
    reason: dict[str, Json] = {
        "kind": wait.kind,
        "node": wait.node,
        "since": wait.opened_at.isoformat(),
        "due": wait.due_at.isoformat() if wait.due_at else None,
    }
    if wait.kind == "signal":
        reason["signal"] = wait.name
    if child:
        reason["child"] = child
    return reason


def check_place(name: Any, occurrence: Any) -> None:
    for what, text, longest in (("name", name, MAX_NAME), ("key", occurrence, MAX_KEY)):
        if not canonical.is_name(text, longest) or (what == "key" and "~" in text):
            raise InvalidCall(
                f"The {what} {text!r:.300} of a wait is not a text of 1 to {longest} characters (~ not in keys)."
            )


def length_of(length: Any) -> float:
    """Seconds. Raises `InvalidCall`."""
    if isinstance(length, str):
        try:
            return seconds(length, where="a wait") or 0.0
        except WorkflowError as error:
            raise InvalidCall(error.detail) from None
    if isinstance(length, timedelta):
        length = length.total_seconds()
    if isinstance(length, bool) or not isinstance(length, (int, float)) or length != length:
        raise InvalidCall(
            f"A wait lasts a number of seconds, a text such as 24h, or a timedelta; not {length!r:.100}."
        )
    if not 0 <= length <= LONGEST:
        raise InvalidCall(f"A wait lasts from 0 seconds to 10 years, not {length!r:.100}.")
    return float(length)


LONGEST: Final = 10 * 365 * 86400.0


def _timer(given: Timer, name: str, occurrence: str) -> Wanted:
    if (given.length is None) == (given.until is None):
        raise InvalidCall("Say how long, or until when; one of them.")
    # How long is not compared with the journal: the instant that was recorded first counts, also after a deploy.
    if given.until is None:
        assert given.length is not None
        return Wanted("timer", name, occurrence, "", delay=length_of(given.length))
    return Wanted("timer", name, occurrence, "", until=_instant(given.until))


def _instant(until: Any) -> datetime:
    if isinstance(until, datetime) and until.utcoffset() is not None:
        try:
            return until.astimezone(UTC)
        except OverflowError:
            raise InvalidCall(f"until={until.isoformat()} is beyond what a calendar can hold.") from None
    raise InvalidCall(
        f"until= is an aware datetime: without a time zone nobody can say which instant is meant (got {until!r:.100})."
    )


def _signal(given: Signal, name: str, occurrence: str) -> Wanted:
    delay = None if given.timeout is None else length_of(given.timeout)
    schema = json_schema(given.schema, f"schema of the signal {given.name!r}")
    problems = check_schema(schema)
    if problems:
        raise SchemaViolation(f"The schema of the signal {given.name!r} is none.", errors=problems)
    return Wanted("signal", name, occurrence, "", delay=delay, schema=schema)


def _question(given: Question, name: str, occurrence: str) -> Wanted:
    options = options_of(given.asked, _options(given, name), node=name)
    document = document_of(given.asked, way=_IN_CODE, options=options, node=name)
    return Wanted(
        "approval",
        name,
        occurrence,
        canonical.digest(document),
        delay=options.due if isinstance(options.due, float) else None,
        document=document,
        options=options,
    )


def _options(given: Question, name: str) -> ApprovalOptions:
    told = {part.name: getattr(given, part.name) for part in fields(given) if part.name != "asked"}
    try:
        options = options_from(where=name, **told)
    except WorkflowError as error:
        raise InvalidCall(error.detail) from None
    except TypeError as error:
        raise InvalidCall(f"{name}: {error}.") from None
    fault = options.fault()
    if fault:
        raise InvalidCall(f"{name!r}: {fault}.")
    return options


def _child(given: Child, name: str, occurrence: str) -> Wanted:
    if given.on_parent_cancel not in get_args(OnParentCancel):
        raise InvalidCall(
            f"on_parent_cancel is {' or '.join(get_args(OnParentCancel))}, not {given.on_parent_cancel!r:.100}."
        )
    workflow = name_of(given)
    told = storable(given.input, path="/input")
    child = ChildRun(workflow, given.version, told, given.on_parent_cancel)
    return Wanted("child", name, occurrence, child.digest, child=child)


class Contender(Protocol):
    """One of several, as it is asked for or as it stands in a row."""

    @property
    def label(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


def shape_of(contenders: Iterable[Contender]) -> str:
    """What a `first_of` waits for, without how long: what a replay is compared with."""
    return canonical.digest([[one.label, one.kind, one.name] for one in contenders])


MAX_DEPTH: Final = 20  # runs inside one another, the first one among them


def too_deep(child: str) -> TooManyChildren:
    """A child run that would be inside more runs than may be inside one another."""
    return TooManyChildren(
        f"The child run {child!r} would be inside {MAX_DEPTH} others, which is as deep as it goes; does a workflow start "
        "itself?",
        child=child,
        limit=MAX_DEPTH,
    )


# ---- what came of it


@dataclass(frozen=True, slots=True)
class Satisfied:
    """An answer to something that a step waited for.

    kind, name, occurrence, digest, result: the journal entry. event, facts: what the history says. wakes: the step waits for
    nothing else. checkpoint: its kind, if it is one. taken: the signal that was taken, by name and number.
    """

    kind: str
    name: str
    occurrence: str
    digest: str
    result: Json
    event: str
    facts: dict[str, Json] = field(default_factory=dict)
    wakes: bool = True
    checkpoint: str = ""
    taken: tuple[str, int] | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that satisfies a wait, and since when. order: of its declaration."""

    at: datetime
    order: int
    late: bool  # of one wait: what it waited for counts before its time-out
    wait: Any
    found: Any = None


def first_satisfied(candidates: Sequence[Candidate]) -> Candidate | None:
    """The one that counts: by instant, then by declaration."""
    return min(candidates, key=lambda one: (one.at, one.order, one.late), default=None)
