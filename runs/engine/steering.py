"""The lane whose state a person edits."""

from __future__ import annotations

from typing import Any

from runs.engine.position import lane_names
from runs.errors import AlreadyTerminal, AmbiguousTarget, Told, UnknownLane


def lane_to_edit(position: dict[str, Any], lane: str | None, *, status: str) -> str:
    """The lane whose state is edited: the named one, or the only one that is not around another.

    Raises `UnknownLane`, `AmbiguousTarget`, or `AlreadyTerminal` where there is none.
    """
    lanes = lane_names(position)
    if lane is not None:
        if lane not in lanes:
            raise UnknownLane(
                Told(
                    "The run has no lane {lane!r} now; it has {choices}.",
                    lane=lane,
                    choices=", ".join(lanes) or "none",
                ),
                lanes=lanes,
            )
        return lane
    if not lanes:
        raise AlreadyTerminal(
            Told("The run is {status}; rewind it to edit an earlier state.", status=status), status=status
        )
    inner = [name for name in lanes if not any(other.startswith(f"{name}/") for other in lanes)]
    if len(inner) != 1:
        raise AmbiguousTarget("Say which lane is edited.", lanes=lanes)
    return inner[0]
