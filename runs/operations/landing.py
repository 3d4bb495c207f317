"""What a worker has worked out is stored once, however often the connection is lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runs import store
from runs.engine.transition import Transition
from runs.errors import LateResult
from runs.store import Held

SATISFIED: Final = ("timer_fired", "wait_timed_out", "signal_taken", "child_ended", "approval_decided")
Tried = list[Transition]


def land(held: Held, attempt: Callable[[Tried], Transition]) -> Transition:
    """Store a transition of a step in hand, in the end. attempt: tries once, and adds what it is about to store to the list.

    Raises `LateResult` if the step is somebody else's.
    """
    tried: Tried = []

    def once_more() -> Transition:
        try:
            return attempt(tried)
        except LateResult:
            # The answer to the first try may have been lost, and not the commit: then nobody else was here.
            if not tried or not store.is_written(held, _written_by(tried[-1])):
                raise
            return tried[-1]

    return store.persistently(once_more)


def _written_by(transition: Transition) -> list[str]:
    """Kinds of the last event of a step after a transition. What it waits for may have been there already."""
    kinds = [event.kind for event in transition.events]
    return kinds + list(SATISFIED) if transition.wanted else kinds[:1]
