"""The branches of a run as lines: where each one left, and where it stands. Pure; lengths are percent of the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runs.models import Branch


@dataclass(frozen=True, slots=True)
class BranchLine:
    branch: Branch
    author: str
    head: int
    current: bool
    x1: str
    x2: str
    checkpoints: int


def build(
    branches: Sequence[Branch], heads: Mapping[int, tuple[int, int]], *, current: int
) -> list[BranchLine]:
    """heads: (last checkpoint, how many) by branch number. Newest branch first."""
    most = max((head for head, _ in heads.values()), default=0) or 1
    return [
        BranchLine(
            branch=branch,
            author=str((branch.author or {}).get("name", "")),
            head=heads.get(branch.no, (branch.parent_checkpoint or 0, 0))[0],
            current=branch.no == current,
            x1=f"{92 * (branch.parent_checkpoint or 0) / most:.1f}%",
            x2=f"{92 * heads.get(branch.no, (branch.parent_checkpoint or 0, 0))[0] / most:.1f}%",
            checkpoints=heads.get(branch.no, (0, 0))[1],
        )
        for branch in sorted(branches, key=lambda branch: -branch.no)
    ]
