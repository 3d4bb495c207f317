"""What a fork starts with: the calls and the instants that the unfinished steps of its origin had recorded."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.engine import canonical
from runs.engine.position import LiveStep
from runs.models import JournalEntry, Run, Wait
from runs.store.prepared import ask

OF_ORIGIN: Final = 0  # the branch, as a fork sees it, of what its origin did
BEFORE_ALL: Final = -1  # `after` of what a fork starts with: every branch of it sees that


@dataclass(frozen=True, slots=True)
class Handed:
    """What a fork starts with: the calls that its steps had made, in their order, and the instants that they had recorded."""

    calls: Sequence[JournalEntry] = ()
    instants: Sequence[Wait] = ()


def handed_down(origin: uuid.UUID, limits: Mapping[int, int], steps: Sequence[LiveStep]) -> Handed:
    """What a fork starts with of what its unfinished steps had in the journal before. limits: what the checkpoint can see.

    Of a step that had asked people, what came before its first question: they are asked anew, and what follows may differ.
    """
    told = {"run": origin, "branches": list(limits), "addresses": [step.address for step in steps]}
    ((has_calls, has_instants),) = ask("begun", told)
    return Handed(
        _calls(limits, told) if has_calls else (),
        _instants(limits, told) if has_instants else (),
    )


def hand_down(fork: Run, handed: Handed) -> None:
    """Give a fork the calls that it starts with, and the instants that its steps had recorded."""
    if handed.calls:
        rows = (_given_to(fork, row, ordinal) for ordinal, row in enumerate(handed.calls))
        JournalEntry.objects.bulk_create(rows)
    if handed.instants:
        Wait.objects.bulk_create(_instant(wait, fork) for wait in handed.instants)


def _calls(limits: Mapping[int, int], told: Mapping[str, Any]) -> list[JournalEntry]:
    rows = JournalEntry.objects.filter(
        run=told["run"], branch__in=told["branches"], address__in=told["addresses"]
    )
    own: dict[str, list[JournalEntry]] = {}
    for row in rows.order_by("ended_at", "ordinal"):
        if row.after < limits[row.branch]:
            own.setdefault(row.address, []).append(row)
    return [
        row for made in own.values() for row in itertools.takewhile(lambda row: not _is_answer(row), made)
    ]


def _instants(limits: Mapping[int, int], told: Mapping[str, Any]) -> list[Wait]:
    waits = Wait.objects.filter(
        run=told["run"], branch__in=told["branches"], address__in=told["addresses"], name__gt=""
    )
    found = waits.filter(kind__in=("timer", "signal")).order_by("branch", "id")
    return [wait for wait in found if wait.after < limits[wait.branch]]


def _is_answer(row: JournalEntry) -> bool:
    """Whether people gave this answer, also as the first of several."""
    if row.kind != "first":
        return row.kind == "answer"
    answer = canonical.loads(row.result)["answer"]
    return isinstance(answer, dict) and "approval" in answer


def _given_to(fork: Run, row: JournalEntry, ordinal: int) -> JournalEntry:
    """What the origin did is not this run's to undo."""
    row.run, row.branch, row.after, row.ordinal = fork, 1, BEFORE_ALL, ordinal
    row.reused_from, row.undo, row.attempt = OF_ORIGIN, None, 1
    return row


def _instant(wait: Wait, fork: Run) -> Wait:
    wait.pk, wait.run, wait.branch, wait.after, wait.child = None, fork, 1, BEFORE_ALL, None
    wait.closed_at = wait.opened_at
    return wait
