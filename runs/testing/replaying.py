"""Does a body ask for the same things when it runs again? A replay against its journal says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.driver import (
    Asked,
    Call,
    Completed,
    Entered,
    Entry,
    Failed,
    ItemDone,
    Listed,
    LogLine,
    Port,
    Reopened,
    Suspended,
    Used,
)
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.files import File
from runs.engine.position import LiveStep
from runs.engine.state import storable
from runs.errors import HitlError, StepError

MAX_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A step whose body, run again, does something else. first, again: what it did."""

    node: str
    visit: int
    what: str
    first: Json
    again: Json

    def __str__(self) -> str:
        both = "" if self.first is None else f": first {_short(self.first)}, again {_short(self.again)}"
        return f"{self.node} (visit {self.visit}): {self.what}{both}"


class NotInJournal(HitlError):
    """The body asks for a call that it did not make the first time."""

    code = "not_in_journal"


@dataclass(slots=True)
class Replay:
    """A port that knows the journal and takes nothing new; the rest is asked of the real one."""

    port: Port

    def entries(self) -> list[Entry]:
        return self.port.entries()

    def before_call(self) -> None:
        raise NotInJournal()

    def commit_call(self, call: Call) -> None:
        raise NotInJournal(call=call.name)

    def commit_time(self, call: Call) -> str:
        raise NotInJournal(call=call.name)

    def commit_file(self, call: Call, file: File) -> None:
        raise NotInJournal(call=call.name)

    def file_limit(self) -> int:
        return self.port.file_limit()

    def note_usage(self, call: str, occurrence: str, used: Sequence[Used]) -> None:
        return

    def note_log(self, line: LogLine) -> None:
        return

    def note_progress(self, progress: Json) -> None:
        return

    def note_overdue(self, facts: Json) -> None:
        return

    def disconnect(self) -> None:
        return

    def approved_digest(self, approval_id: str) -> str:
        return self.port.approved_digest(approval_id)


def replayed(step: LiveStep, first: object, again: Callable[[], object]) -> list[Mismatch]:
    """What differs when a body runs again. again: runs it, with a `Replay` for a port."""
    try:
        before, after = _told(first), _told(again())
    except NotInJournal as error:
        what = f"it asks for {error.facts['call']!r}" if "call" in error.facts else "it asks for a call"
        return [Mismatch(step.node, step.visit, f"{what} that is not in the journal", None, None)]
    if canonical.same(before, after):
        return []
    return [Mismatch(step.node, step.visit, "it comes to something else", before, after)]


def _told(outcome: object) -> Json:
    """What a body came to, as JSON."""
    match outcome:
        case Completed(update):
            return {"returns": _storable(update)}
        case Asked(document):
            return {"asks": document}
        case Suspended(wanted):
            return {"waits for": [{**one.shown(), "digest": one.digest} for one in wanted]}
        case Failed():
            return {"fails": {key: outcome.facts.get(key) for key in ("code", "message")}}
        case Reopened(node, reason):
            return {"reopens": [node, reason]}
        case Listed(count):
            return {"lists": count}
        case ItemDone(result):
            return {"result": result}
        case Entered(state):
            return {"begins": state}
    return repr(outcome)


def _storable(update: Any) -> Json:
    try:
        return storable(update)
    except StepError:
        return repr(update)


def _short(value: Json) -> str:
    text = canonical.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
