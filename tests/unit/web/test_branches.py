"""The branches of a run as a picture: each below the one that it left, at the checkpoint where it did."""

from __future__ import annotations

from runs.models import Branch
from runs.web import branches


def branch(no: int, parent: int | None = None, at: int | None = None, label: str = "") -> Branch:
    return Branch(no=no, parent_branch=parent, parent_checkpoint=at, label=label)


def forest(*made: Branch, current: int, **heads: int) -> branches.Forest | None:
    stand = {int(name.strip("b")): (head, 1) for name, head in heads.items()}
    return branches.picture(branches.build(made, stand, current=current))


def test_one_branch_alone_needs_no_picture() -> None:
    assert forest(branch(1), current=1, b1=4) is None


def test_a_branch_leaves_the_one_above_where_it_was_rewound() -> None:
    made = forest(branch(1), branch(2, 1, 5, "the right batch"), current=2, b1=8, b2=14)
    assert made is not None
    one, two = made.limbs
    assert (one.leaves, one.current, one.text) == ("", False, "branch 1, left at 8")
    assert (two.current, two.text) == (True, "the right batch, head 14")
    assert two.x == branches.EDGE + branches.WIDTH * 5 / 14
    assert two.end == branches.EDGE + branches.WIDTH
    assert two.y > one.y
    assert two.leaves.startswith(f"M{two.x:g} {one.y:g}V")
    assert made.title == "branch 1, left at 8; branch 2 from 5 of branch 1, head 14"


def test_children_stand_below_their_parent_whatever_their_numbers() -> None:
    made = forest(branch(1), branch(2, 1, 1), branch(3, 1, 2), branch(4, 2, 3), current=4)
    assert made is not None
    assert [limb.no for limb in made.limbs] == [1, 2, 4, 3]


def test_a_branch_whose_parent_is_on_another_page_begins_by_itself() -> None:
    made = forest(branch(7, 1, 5), branch(8, 7, 9), current=8, b7=9, b8=12)
    assert made is not None
    assert [(limb.no, bool(limb.leaves)) for limb in made.limbs] == [(7, False), (8, True)]


def test_of_very_many_branches_the_first_are_drawn() -> None:
    made = forest(branch(1), *(branch(no, 1, no) for no in range(2, 500)), current=1, b1=600)
    assert made is not None
    assert len(made.limbs) == branches.DRAWN
