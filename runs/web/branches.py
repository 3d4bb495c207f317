"""The branches of a run as a tree of lines: where each one left, and where it stands. Pure; lengths are percent of the width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.utils.translation import gettext

from runs.models import Branch
from runs.templatetags import words


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
DRAWN: Final = 40  # branches in one picture; the list has them all
WIDTH: Final = 560  # of the checkpoints in it
ROW: Final = 26
EDGE: Final = 12


@dataclass(frozen=True, slots=True)
class Limb:
    """A branch in the picture: how it leaves the one above, how far it goes, and what stands beside its head."""

    no: int
    leaves: str  # path; empty where the branch that it left is not drawn
    x: float
    end: float
    y: float
    current: bool
    text: str
    text_x: float
    text_y: float
    said: str


@dataclass(frozen=True, slots=True)
class Forest:
    width: float
    height: float
    limbs: list[Limb]
    title: str


def picture(lines: Sequence[BranchLine]) -> Forest | None:
    """The branches as lines from left to right, each below the one that it left; None where there is only one."""
    shown = lines[:DRAWN]
    if len(shown) < 2:
        return None
    most = max(line.head for line in shown) or 1
    rows = {line.branch.no: EDGE + ROW * place for place, line in enumerate(shown)}
    limbs = [_limb(line, rows, most) for line in shown]
    told = [limb.said for limb in limbs]
    return Forest(WIDTH + 2 * EDGE + 220, EDGE * 2 + ROW * (len(shown) - 1), limbs, "; ".join(told))


def _limb(line: BranchLine, rows: Mapping[int, float], most: int) -> Limb:
    branch, y = line.branch, rows[line.branch.no]
    start = branch.parent_checkpoint or 0
    x, end = (round(EDGE + WIDTH * at / most, 1) for at in (start, max(line.head, start)))
    above = rows.get(branch.parent_branch) if branch.parent_branch else None
    leaves = "" if above is None else f"M{x:g} {above:g}V{y - 8:g}Q{x:g} {y:g} {x + 8:g} {y:g}"
    named = (
        words.cut(branch.label, 24) if branch.label else gettext("branch {branch}").format(branch=branch.no)
    )
    stands = (gettext("head {no}") if line.current else gettext("left at {no}")).format(no=line.head)
    left = (
        gettext(" from {start} of branch {parent_branch}").format(
            start=start, parent_branch=branch.parent_branch
        )
        if branch.parent_branch
        else ""
    )
    return Limb(
        no=branch.no,
        leaves=leaves,
        x=x,
        end=end,
        y=y,
        current=line.current,
        text=f"{named}, {stands}",
        text_x=end + 10,
        text_y=y + 4,
        said=gettext("branch {branch}{left}, {stands}").format(branch=branch.no, left=left, stands=stands),
    )


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
        for branch, depth in _forest(branches)
    ]


def _forest(branches: Sequence[Branch]) -> Iterator[tuple[Branch, int]]:
    """Each branch after the one that it left, if that is among them."""
    there = {branch.no for branch in branches}
    roots = [branch for branch in branches if branch.parent_branch not in there]
    for root in sorted(roots, key=lambda branch: branch.no):
        yield root, 0
        yield from _tree(branches, root.no, 1)


def _tree(branches: Sequence[Branch], parent: int, depth: int) -> Iterator[tuple[Branch, int]]:
    for branch in sorted(branches, key=lambda branch: branch.no):
        if branch.parent_branch == parent:
            yield branch, depth
            yield from _tree(branches, branch.no, depth + 1)
