"""The branches of a run as a tree of lines: where each one left, and where it stands. Pure; lengths are percent of the width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

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
    depth: int
    apart: int
    compare: str


DEEPEST = 5  # further in than this a line is not drawn


def build(
    branches: Sequence[Branch], heads: Mapping[int, tuple[int, int]], *, current: int, compare: str = ""
) -> list[BranchLine]:
    """heads: (last checkpoint, how many) by branch number. Each branch after the one that it left, the older first.

    compare: the address of the page that holds two branches side by side.
    """
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
            depth=min(depth, DEEPEST),
            apart=len(branch.exceptions),
            compare=f"{compare}?{urlencode({'branch': branch.no, 'other_branch': current})}"
            if branch.no != current
            else "",
        )
        for branch, depth in _tree(branches, None, 0)
    ]


def _tree(branches: Sequence[Branch], parent: int | None, depth: int) -> Iterator[tuple[Branch, int]]:
    for branch in sorted(branches, key=lambda branch: branch.no):
        if branch.parent_branch == parent:
            yield branch, depth
            yield from _tree(branches, branch.no, depth + 1)
