"""Lets in runs that stand in line: in their turn, as far as their limits have room, and only as many as workers soon get to.

Done by whoever makes room, once that is committed; by workers while there is a line; and by the sweeper every second, for
whatever was lost, and for rates, of which time makes room. Which run is next is asked of Postgres, never of the broker.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from itertools import groupby

from django.conf import settings
from django.db import DatabaseError, transaction

from runs import dispatch, store
from runs.engine import limits
from runs.engine.limits import Head
from runs.models import Run
from runs.store.lines import Told

logger = logging.getLogger(__name__)


def let_in(*, queue: str) -> int:
    """Let in who is next for a queue; returns how many steps workers were told about."""
    ahead = settings.HITL_HINTS_AHEAD
    heads = store.heads(queue, each=2 * ahead)
    if not heads:
        return 0
    busy, told = store.busy(queue)
    order = limits.turns(heads, busy=busy, room=ahead - told, spare=ahead, draw=lambda _: random.random())  # noqa: S311
    steps = [step for line in _by_line(order) for step in _let_in(line)]
    _tell(steps, queue, more=len(order) < len(heads))
    return len(steps)


def answer_call(*, queue: str, mark: str) -> None:
    """A worker has come to a message that asks to let in who is next."""
    if dispatch.is_called(queue, mark):
        let_in(queue=queue)


def let_in_soon(run: Run) -> None:
    """A run has joined a line or made room in one: see who is next, once that has committed.

    Robust: what is committed is done; if this fails, the sweeper does it within a second.
    """
    queue = run.queue

    def look() -> None:
        try:
            let_in(queue=queue)
        except DatabaseError as error:
            logger.warning("nobody was let in for %s, the sweeper will: %s", queue, error)

    transaction.on_commit(look, robust=True)


def _by_line(order: Sequence[Head]) -> list[list[Head]]:
    """Runs of one line together, since they share locks; lines in the order of their first."""
    first = {head.line: place for place, head in reversed(list(enumerate(order)))}
    together = sorted(order, key=lambda head: first[head.line])
    return [list(heads) for _, heads in groupby(together, key=lambda head: head.line)]


def _let_in(line: Sequence[Head]) -> list[Told]:
    with transaction.atomic():
        return store.let_in([head.run for head in line])


def _tell(steps: Sequence[Told], queue: str, *, more: bool) -> None:
    """Tell workers about steps; where others still stand in line, half-way on one of them lets in the next."""
    half = len(steps) // 2
    for place, (run_id, branch, address) in enumerate(steps):
        if more and place == half:
            dispatch.call_in(queue)
        if not dispatch.send(run_id, branch, address, queue=queue):
            return  # the broker is down; the sweeper tells them
    if more and not steps:
        dispatch.call_in(queue)
