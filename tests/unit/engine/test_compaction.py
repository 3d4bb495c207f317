"""Compaction, as pure functions: whatever stays of a branch says what it said, and weighs no more."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runs.engine import canonical, patch
from runs.engine.compaction import Place, Point, Written, needless, rewritten
from runs.engine.patch import Recorder
from tests.unit.engine.documents import DOCUMENTS, KEYS

CHANGES = st.lists(st.tuples(KEYS, DOCUMENTS), max_size=3)


@st.composite
def branches(draw: st.DrawFn) -> tuple[list[Point], dict[int, str]]:
    """A branch as the store writes it, with snapshots anywhere, and what each checkpoint says."""
    document: dict[str, Any] = {"log": []}
    first = draw(st.integers(0, 50))
    points, said = [], {}
    for no in range(first, first + draw(st.integers(1, 12))):
        recorder = Recorder(document)
        for key, value in draw(CHANGES):
            recorder.put([key], value)
        recorder.append(["log"], [no]) if isinstance(document["log"], list) else None
        whole = no == first or draw(st.booleans())
        parent = (None if first == 0 else draw(st.integers(0, first - 1))) if no == first else no - 1
        points.append(
            Point(
                no,
                parent,
                None if whole else canonical.dumps(recorder.ops),
                canonical.dumps(document) if whole else None,
            )
        )
        said[no] = canonical.dumps(document)
        document = copy.deepcopy(document)
    return points, said


@given(branches(), st.data())
def test_what_stays_reads_as_before_and_weighs_no_more(
    branch: tuple[list[Point], dict[int, str]], data: st.DataObject
) -> None:
    """C101: kept checkpoints reconstruct exactly."""
    points, said = branch
    kept = frozenset(data.draw(st.sets(st.sampled_from(sorted(said)))))
    found = [
        (point.no, point.parent, point.snapshot_no, point.patch, point.snapshot)
        for point in rewritten(points, kept)
    ]
    assert [row[0] for row in found] == sorted(kept)
    document: Any = None
    base = None
    before = points[0].parent
    for no, parent, snapshot_no, ops, snapshot in found:
        assert parent == before
        if snapshot is not None:
            document, base = canonical.loads(snapshot), no
        else:
            document = patch.apply(document, canonical.loads(ops or ""))
        assert snapshot_no == base
        assert canonical.dumps(document) == said[no]
        before = no
    # The first that stays may have to become a snapshot; all that follow are paid by what they stand for.
    if found and found[0][0] == points[0].no:
        weight = sum(len(row[3] or row[4] or "") for row in found)
        snapshots = sum(len(said[row[0]]) for row in found if row[4] is not None)
        assert weight <= sum(len(point.patch or "") for point in points) + snapshots


def written(branch: int, address: str = "a", **more: Any) -> Written:
    return Written(
        **{
            "branch": branch,
            "address": address,
            "name": "call",
            "occurrence": "0",
            "args_digest": "d",
            "after": 1,
            "effect": "none",
            **more,
        }
    )


def test_a_copy_is_needless_where_a_newer_branch_has_it() -> None:
    old, new = written(1), written(2)
    assert needless([old, new], []) == [old]


def test_what_differs_or_did_something_is_no_copy() -> None:
    new = written(3)
    others = [
        written(1, effect="irreversible"),
        written(1, args_digest="other"),
        written(1, occurrence="1"),
        written(1, address="b"),
        written(2, name="else"),
    ]
    assert needless([*others, new], []) == []


def test_an_entry_that_a_rewind_finds_in_its_own_line_stays() -> None:
    old, new = written(1, after=2), written(2, after=9)
    here = Place(5, frozenset({"a"}), {1: None})
    assert needless([old, new], [here]) == []
    assert needless([old, new], [Place(2, frozenset({"a"}), {1: None})]) == [old]
    assert needless([old, new], [Place(5, frozenset({"b"}), {1: None})]) == [old]
    assert needless([old, new], [Place(8, frozenset({"a"}), {2: None, 1: 2})]) == [old]
