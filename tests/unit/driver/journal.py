"""A journal in memory: the driver's port, with the calls of every branch of one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from runs.driver import Call, Context, Entry, LogLine, Outcome, StepScope, Used, run_body
from runs.engine import Retry, Workflow, canonical
from runs.engine.approval import approved_digest
from runs.engine.canonical import Json
from runs.engine.files import LIMIT, File
from runs.engine.position import LiveStep
from runs.engine.waits import ENTRY_OF, FIRST, Wanted, shape_of
from runs.errors import LateResult

Body = Callable[[Any, Context], Any]


class State(BaseModel):
    said: str = ""
    n: int = 0


@dataclass
class Journal:
    """What is committed of one step, by branch, and what the decisive votes recorded.

    seen: branches whose entries count for the one that runs. left: those behind, whose entries may be reused.
    """

    branch: int = 1
    seen: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    calls: list[tuple[int, Call]] = field(default_factory=list)
    votes: dict[str, str] = field(default_factory=dict)
    answers: list[Entry] = field(default_factory=list)
    lost: bool = False
    asked: int = 0
    moments: Iterator[str] = field(
        default_factory=lambda: (f'"2026-01-01T00:00:{n:02}+00:00"' for n in range(60))
    )
    failed_use: list[tuple[str, Sequence[Used]]] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    progress: list[Json] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    refuses_files: Exception | None = None
    overdue: list[Json] = field(default_factory=list)

    # ---- the port

    def entries(self) -> list[Entry]:
        self.asked += 1
        return [
            Entry(
                c.name,
                c.occurrence,
                c.args_digest,
                c.result,
                branch,
                branch not in self.left,
                c.effect,
                arguments=c.arguments,
            )
            for branch, c in self.calls
            if branch == self.branch or branch in self.seen | self.left
        ] + self.answers

    def before_call(self) -> None:
        if self.lost:
            raise LateResult

    def commit_call(self, call: Call) -> None:
        if self.lost:
            raise LateResult
        places = {(branch, c.name, c.occurrence) for branch, c in self.calls}
        assert (self.branch, call.name, call.occurrence) not in places, "the table's primary key"
        self.calls.append((self.branch, call))

    def commit_time(self, call: Call) -> str:
        told = replace(call, result=next(self.moments))
        self.commit_call(told)
        return told.result

    def commit_file(self, call: Call, file: File) -> None:
        if self.refuses_files is not None:
            raise self.refuses_files
        self.commit_call(call)
        self.files.append(file)

    def file_limit(self) -> int:
        return LIMIT

    def note_usage(self, call: str, occurrence: str, used: Sequence[Used]) -> None:
        self.failed_use.append((call, used))

    def note_log(self, line: LogLine) -> None:
        self.lines.append(line)

    def note_progress(self, progress: Json) -> None:
        if self.lost:
            raise LateResult
        self.progress.append(progress)

    def note_overdue(self, facts: Json) -> None:
        self.overdue.append(facts)

    def disconnect(self) -> None:
        self.disconnected = True

    def approved_digest(self, approval_id: str) -> str:
        return self.votes.get(approval_id, "")

    # ---- for tests

    def answer(self, wanted: Wanted, result: Json) -> None:
        """Journal an answer to what a body waits for, as the operations do."""
        kind, place, digest = ENTRY_OF[wanted.kind], wanted.place, wanted.digest
        assert place not in [(entry.name, entry.occurrence) for entry in self.answers], "the primary key"
        self._given(*place, digest, result, kind)

    def first(self, wanted: Sequence[Wanted], winner: Wanted, result: Json) -> None:
        told = {"winner": winner.label, "digest": winner.digest, "answer": result}
        self._given(FIRST, winner.race, shape_of(wanted), told, "first")

    def _given(self, name: str, occurrence: str, digest: str, result: Json, kind: str) -> None:
        text = canonical.dumps(result)
        self.answers.append(Entry(name, occurrence, digest, text, self.branch, True, kind=kind))

    @property
    def committed(self) -> list[Call]:
        """Calls that this branch committed, reused ones among them."""
        return [call for branch, call in self.calls if branch == self.branch]

    def rewound(self, *, again: bool = False) -> None:
        """A new branch that leaves the others behind; with `again` their calls do not count."""
        self.left = set() if again else self.left | {self.branch}
        self.branch += 1

    def approve(self, **args: Json) -> dict[str, Any]:
        """The answer of an approval `confirm` of one action with these arguments, its vote recorded."""
        action = {
            "key": "pay",
            "tool": "pay",
            "args": args,
            "effect": "none",
            "decision": "approve",
            "message": "",
        }
        return self.decide(action)

    def decide(self, *actions: Mapping[str, Json], outcome: str = "approve") -> dict[str, Any]:
        approval = f"approval {len(self.votes)}"
        self.votes[approval] = approved_digest(actions)
        answer = {
            "approval": approval,
            "outcome": outcome,
            "by": {"user": "frida"},
            "reason": "decision",
            "comment": "",
            "edited": False,
            "at": "2026-01-01T00:00:00+00:00",
            "actions": list(actions),
        }
        return {"confirm": canonical.loads(canonical.dumps(answer))}


def context(journal: Journal, *, answers: Mapping[str, Any] | None = None, **changes: Any) -> Context:
    facts: dict[str, Any] = {
        "run_id": "run",
        "node": "only",
        "attempt": 1,
        "address": "a",
        "generation": 0,
        **changes,
    }
    return Context(**facts, branch=journal.branch, answers=answers or {}, port=journal)


def run(
    body: Body,
    journal: Journal,
    *,
    approval: bool = False,
    retry: Retry | None = None,
    timeout: float | None = None,
    **how: Any,
) -> Outcome:
    """One attempt of a step of one node with this body."""
    workflow = Workflow("test", state=State)
    policy = retry or Retry(attempts=2)
    if approval:
        workflow.approval(name="only", retry=policy)(body)
    else:
        workflow.node(name="only", retry=policy, timeout=timeout)(body)
    step = LiveStep(lane="0", address="a", node="only", visit=1)
    state = workflow.schema.view(dict(State().__dict__))
    return run_body(StepScope(workflow, step, state, context(journal, **how), seconds=timeout))
