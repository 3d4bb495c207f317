"""Where a branch of a run comes from, and what it sees of the others."""

from __future__ import annotations

from collections.abc import Mapping

Line = Mapping[int, int | None]  # a branch and its ancestors, each with the checkpoint at which it was left


def line_of(branch: int, origins: Mapping[int, tuple[int | None, int | None]]) -> dict[int, int | None]:
    """A branch (left nowhere: None) and its ancestors. origins: parent branch and checkpoint by branch, None for the first."""
    line: dict[int, int | None] = {branch: None}
    limit: int | None = None
    parent, checkpoint = origins[branch]
    while parent is not None and checkpoint is not None:
        limit = checkpoint if limit is None else min(limit, checkpoint)
        line[parent] = limit
        parent, checkpoint = origins[parent]
    return line


def sees(line: Line, branch: int, after: int) -> bool:
    """Whether what was committed on `branch` after a checkpoint counts: the line's own, or from before it left that branch."""
    limit = line.get(branch, -1)
    return limit is None or after < limit


def is_left(line: Line, branch: int, checkpoint: int | None) -> bool:
    """Whether a step or checkpoint lies behind the point at which its branch was left. None: a step without a checkpoint."""
    if branch not in line:
        return True
    limit = line[branch]
    return limit is not None and (checkpoint is None or checkpoint > limit)
