"""What a body waits for: looked up in the journal, and if it is not there, a reason to leave the body.

A body leaves by `Suspend`; the step waits without a worker. When it is entered again it asks for the same things in the
same order, and finds in the journal what it was given. Places are counted per name in program order, or named by `key=`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from runs.driver import secrets
from runs.driver.decisions import Answer
from runs.driver.port import Entry, Port
from runs.engine import canonical
from runs.engine.approval import approved_digest
from runs.engine.canonical import Json
from runs.engine.stages import Stage
from runs.engine.waits import (
    ENTRY_OF,
    FIRST,
    Child,
    Length,
    OnParentCancel,
    Place,
    Question,
    Schema,
    Signal,
    Timer,
    Waitable,
    Wanted,
    check_place,
    name_of,
    shape_of,
    wanted,
)
from runs.engine.workflow import Action, Ask, OnTimeout, Workflow
from runs.errors import ApprovalTimeout, ChildFailed, InvalidCall, JournalMismatch


class Suspend(BaseException):
    """The body asks for what is not there yet. A BaseException, so that no author's `except Exception` holds it up."""

    def __init__(self, asked: Sequence[Wanted]) -> None:
        super().__init__(", ".join(one.name for one in asked))
        self.wanted = asked


@dataclass(frozen=True, slots=True)
class Received:
    """What a wait for a signal came to. Received null is not the same as nothing received; true if something was."""

    received: bool
    payload: Json = None
    id: str = ""

    def __bool__(self) -> bool:
        return self.received


@dataclass(frozen=True, slots=True)
class First:
    """Which of several came first, by its name in the call, and what it came to."""

    winner: str
    value: Any


class Waits:
    """The part of `ctx` that waits. Every method returns at once if the answer is in the journal."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: str
        port: Port
        earlier: int
        _entries: dict[Place, Entry] | None
        _lock: threading.RLock

        def _ask(self, question: Callable[[], Any]) -> Any: ...
        def _is_own_turn(self) -> bool: ...
        def _leave(self, asked: Sequence[Wanted]) -> NoReturn: ...
        def _place(self, label: str, key: str | None) -> str: ...
        def _read_journal(self) -> None: ...

    def sleep(
        self, length: Length | None = None, *, until: datetime | None = None, key: str | None = None
    ) -> None:
        """Wait for time to pass: seconds, a text such as "90s" or "24h", a timedelta; or until an aware datetime.

        The instant is recorded when it is first asked for, so neither a restart nor a change of the clocks moves it.
        """
        self._single(Timer(length, until), key)

    def wait_signal(
        self,
        name: str,
        *,
        timeout: Length | None = None,
        schema: Schema | None = None,
        key: str | None = None,
    ) -> Received:
        """Wait for a message from outside. One that came before is kept and taken first.

        timeout: after so long the answer is "nothing received". schema: only a payload that fits is taken.
        """
        received: Received = self._single(Signal(name, timeout, schema), key)
        return received

    def ask(
        self,
        asked: Action | Ask | Sequence[Action],
        *,
        reviewers: Sequence[str] = (),
        quorum: int = 1,
        reject_quorum: int = 1,
        stages: Sequence[Stage] = (),
        due: str | float | None = None,
        on_timeout: OnTimeout = "reject",
        escalate_to: Sequence[str] = (),
        remind: Sequence[str | float] | str | float = (),
        editor_may_approve: bool = False,
        requester_may_decide: bool = False,
        reason_required: bool = False,
        reasons: Sequence[str] = (),
        key: str | None = None,
    ) -> Answer:
        """Ask people, in the middle of code; the options are those of an approval node.

        A replay that asks for something else supersedes what was decided, and asks anew. Raises `ApprovalTimeout` if nobody
        answers in time and `on_timeout` is fail.
        """
        question = Question(
            asked,
            reviewers,
            quorum,
            reject_quorum,
            stages,
            due,
            on_timeout,
            escalate_to,
            remind,
            editor_may_approve,
            requester_may_decide,
            reason_required,
            reasons,
        )
        answer: Answer = self._single(question, key)
        return answer

    def ask_all(
        self, asked: Sequence[Question | Action | Ask | Sequence[Action]], **options: Any
    ) -> list[Answer]:
        """Ask several things at once, each an approval of its own; returns when all are answered, in the given order.

        options: those of `ask`, for whatever is no `Question` with options of its own.
        """
        if "key" in options:
            raise InvalidCall("ask_all takes no key; ask one by one with a key each.")
        if not isinstance(asked, Iterable):
            raise InvalidCall(f"ask_all takes a list of actions or questions, not {asked!r:.100}.")
        questions = [one if isinstance(one, Question) else Question(one, **options) for one in asked]
        found = [self._look(question, None) for question in questions]
        missing = [one for one in found if isinstance(one, Wanted)]
        if missing:
            self._leave(missing)
        return [value_of(entry, canonical.loads(entry.result)) for entry in found if isinstance(entry, Entry)]

    def run_child(
        self,
        workflow: str | Workflow,
        input: Any = None,
        *,
        version: str | None = None,
        key: str | None = None,
        on_parent_cancel: OnParentCancel = "cancel",
    ) -> Json:
        """Run another workflow, for the same requester, and return its output. It is started once, whatever crashes.

        on_parent_cancel: whether it is cancelled or goes on if this run is cancelled. Raises `ChildFailed` if it fails or is
        cancelled itself.
        """
        given = {} if input is None else input
        return self._single(Child(workflow, given, version, on_parent_cancel), key)

    def first_of(self, key: str | None = None, /, **waits: Waitable) -> First:
        """Wait for the first of several: `ctx.first_of(paid=Signal("paid"), late=Timer("24h"))`.

        The one that was satisfied first counts, then the one named first; what the others wait for is closed, a child run is
        cancelled by its policy.
        """
        if not waits:
            raise InvalidCall("first_of waits for nothing; name at least one.")
        occurrence = self._wait_place(FIRST, key)
        chain = self._chain(FIRST, occurrence)
        race = _after(occurrence, len(chain))
        asked = {label: _contender(label, given, race) for label, given in waits.items()}
        if not chain:
            self._leave(list(asked.values()))
        shown: Json = [one.shown() for one in asked.values()]
        result = self._checked(chain[-1], "first", shape_of(asked.values()), asked=shown)
        winner = asked[result["winner"]]
        entry = replace(chain[-1], kind=ENTRY_OF[winner.kind], name=winner.name, args_digest=result["digest"])
        if winner.kind == "approval" and not self._still_holds(winner, entry, result["answer"]):
            asked[winner.label] = replace(winner, supersedes=result["answer"]["approval"])
            self._leave(list(asked.values()))
        self._checked(entry, entry.kind, winner.digest, asked=winner.shown())
        return First(winner.label, value_of(entry, result["answer"]))

    # ---- inside

    def _single(self, given: Waitable, key: str | None) -> Any:
        found = self._look(given, key)
        if isinstance(found, Wanted):
            self._leave([found])
        return value_of(found, canonical.loads(found.result))

    def _look(self, given: Waitable, key: str | None) -> Entry | Wanted:
        """The answer if it is in the journal, or what is to be waited for."""
        name = name_of(given)
        occurrence = self._wait_place(name, key)
        asked = _without_secrets(wanted(given, name=name, occurrence=occurrence))
        chain = self._chain(name, occurrence)
        if not chain:
            return asked
        last = chain[-1]
        if asked.kind != "approval":
            result = self._checked(last, ENTRY_OF[asked.kind], asked.digest, asked=asked.shown())
            if asked.kind == "child" and result["status"] != "completed" and last.attempt <= self.earlier:
                return replace(
                    asked, occurrence=_after(occurrence, len(chain))
                )  # Retry: it may go well this time
            return last
        result = self._checked(last, "answer", last.args_digest, asked=asked.shown())
        if self._still_holds(asked, last, result):
            return last
        return replace(asked, occurrence=_after(occurrence, len(chain)), supersedes=result["approval"])

    def _wait_place(self, name: str, key: str | None) -> str:
        check_place(name, "0" if key is None else key)
        if not self._is_own_turn():
            # Leaving the body from there would end that thread alone, and the node would go on without its answer.
            raise InvalidCall(
                f"{name!r} waits in a thread or task beside the node's own; wait in the node itself. Several things at once "
                "are ctx.ask_all and ctx.first_of."
            )
        with self._lock:
            return self._place(name, key)

    def _chain(self, name: str, occurrence: str) -> list[Entry]:
        """The answers at a place: several only if what people were asked has changed from one replay to another."""
        if self._entries is None:
            self._read_journal()
        assert self._entries is not None
        chain: list[Entry] = []
        while (entry := self._entries.get((name, _after(occurrence, len(chain))))) is not None:
            chain.append(entry)
        return chain

    def _checked(self, entry: Entry, kind: str, digest: str, *, asked: Json) -> Json:
        if entry.kind != kind or entry.args_digest != digest:
            raise JournalMismatch(
                f"The journal holds {entry.name!r} ({entry.kind} {entry.occurrence}), and {kind} is asked for now, or other "
                "arguments; a node must ask for the same things every time it runs.",
                call=entry.name,
                occurrence=entry.occurrence,
                recorded={"kind": entry.kind, "result": canonical.loads(entry.result)},
                asked={"kind": kind, "wanted": asked},
            )
        return canonical.loads(entry.result)

    def _still_holds(self, asked: Wanted, entry: Entry, decision: Json) -> bool:
        """Whether what was decided is what is asked for now, and what is stored is what was decided."""
        if entry.args_digest != asked.digest:
            return False
        recorded = self._ask(lambda: self.port.approved_digest(decision["approval"]))
        return bool(approved_digest(decision["actions"]) == recorded)


def value_of(entry: Entry, result: Json) -> Any:
    """An answer as a body gets it. Raises what the body is to see: a child that failed, people who did not answer."""
    match entry.kind:
        case "signal":
            return Received(result["received"], result.get("payload"), result.get("id", ""))
        case "answer":
            return _answer(entry, result)
        case "child":
            return _output(entry, result)
    return None


def _answer(entry: Entry, told: Json) -> Answer:
    if told.get("fails"):
        raise ApprovalTimeout(f"{told['comment'].capitalize()}.", approval=told["approval"])
    return Answer(
        told["approval"],
        told["outcome"],
        told["by"],
        told["reason"],
        told["comment"],
        told["edited"],
        told["at"],
        told["actions"],
        entry.name,
    )


def _output(entry: Entry, told: Json) -> Json:
    if told["status"] == "completed":
        return told["output"]
    error = told.get("error") or {}
    because = f": {error['message']}" if error.get("message") else ""
    raise ChildFailed(
        f"The child run of {entry.name!r} {'was' if told['status'] == 'cancelled' else 'has'} {told['status']}{because}",
        run=told["run"],
        status=told["status"],
        error=error,
    )


def _contender(label: str, given: Waitable, race: str) -> Wanted:
    name, occurrence = name_of(given), f"{FIRST}.{race}.{label}"
    check_place(name, occurrence.replace("~", "-"))
    asked = _without_secrets(wanted(given, name=name, occurrence=occurrence))
    return replace(asked, label=label, race=race)


def _without_secrets(asked: Wanted) -> Wanted:
    """What people are shown and what a child is given is written down; compared is what is written down."""
    if not secrets.any_known():
        return asked
    if asked.document is not None:
        document = secrets.redacted(asked.document)
        return replace(asked, document=document, digest=canonical.digest(document))
    if asked.child is not None:
        child = replace(asked.child, input=secrets.redacted(asked.child.input))
        return replace(asked, child=child, digest=child.digest)
    return asked


def _after(occurrence: str, answers: int) -> str:
    """The place of the next answer where there were some already."""
    return f"{occurrence}~{answers}" if answers else occurrence
