"""What a fork starts with: the calls and the instants that the unfinished steps of its origin had recorded."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Final

from runs.engine import canonical
from runs.engine.position import LiveStep
from runs.models import JournalEntry, Run, Wait
from runs.store.reading import lineage_at

OF_ORIGIN: Final = 0  # the branch, as a fork sees it, of what its origin did
BEFORE_ALL: Final = -1  # `after` of what a fork starts with: every branch of it sees that


def handed_down(origin: uuid.UUID, checkpoint: int, steps: Sequence[LiveStep]) -> list[JournalEntry]:
    """What a fork at a checkpoint starts with: what its unfinished steps had in the journal before.

    Of a step that had asked people, what came before its first question: they are asked anew, and what follows may differ.
    """
    limits = lineage_at(origin, checkpoint)
    addresses = [step.address for step in steps]
    rows = JournalEntry.objects.filter(run=origin, branch__in=limits, address__in=addresses)
    own: dict[str, list[JournalEntry]] = {}
    for row in rows.order_by("ended_at", "ordinal"):
        if row.after < limits[row.branch]:
            own.setdefault(row.address, []).append(row)
    return [
        row for made in own.values() for row in itertools.takewhile(lambda row: not _is_answer(row), made)
    ]


def hand_down(origin: uuid.UUID, fork: Run, checkpoint: int, steps: Sequence[LiveStep]) -> None:
    """Give a fork the calls that it starts with, and the instants that its steps had recorded."""
    rows = handed_down(origin, checkpoint, steps)
    JournalEntry.objects.bulk_create(_given_to(fork, row, ordinal) for ordinal, row in enumerate(rows))
    limits = lineage_at(origin, checkpoint)
    addresses = [step.address for step in steps]
    waits = Wait.objects.filter(run=origin, branch__in=limits, address__in=addresses, name__gt="")
    Wait.objects.bulk_create(
        _instant(wait, fork)
        for wait in waits.filter(kind__in=("timer", "signal")).order_by("branch", "id")
        if wait.after < limits[wait.branch]
    )


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
