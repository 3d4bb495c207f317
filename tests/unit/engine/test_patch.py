"""RFC 6902 patches: what a transition changes, applied elsewhere, gives the same document; differences for people."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import canonical, patch
from runs.engine.canonical import Json
from runs.engine.patch import Op, Recorder
from tests.unit.engine.documents import DOCUMENTS, KEYS, OBJECTS


def containers(document: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of every object and list in a document."""
    if isinstance(document, dict):
        below = [place for key, value in document.items() for place in containers(value, (*path, key))]
    elif isinstance(document, list):
        below = [place for index, value in enumerate(document) for place in containers(value, (*path, index))]
    else:
        return []
    return [path, *below]


def at(document: Json, path: tuple[str | int, ...]) -> Any:
    for token in path:
        document = document[token]
    return document


@given(OBJECTS, st.data())
def test_what_a_recorder_changed_is_what_its_ops_change(
    document: dict[str, Json], data: st.DataObject
) -> None:
    before = copy.deepcopy(document)
    recorder = Recorder(document)
    for _ in range(data.draw(st.integers(0, 6))):
        path = data.draw(st.sampled_from(containers(document)))
        target = at(document, path)
        if isinstance(target, list):
            recorder.append(path, data.draw(st.lists(DOCUMENTS, max_size=3)))
        elif target and data.draw(st.booleans()):
            recorder.remove([*path, data.draw(st.sampled_from(sorted(target)))])
        else:
            recorder.put([*path, data.draw(KEYS)], data.draw(DOCUMENTS))
    stored = canonical.loads(canonical.dumps(recorder.ops))
    assert canonical.same(patch.apply(before, stored), document)


def test_an_op_keeps_what_it_said_when_a_later_one_changes_the_place() -> None:
    recorder = Recorder({})
    recorder.put(["a"], {"list": []})
    recorder.append(["a", "list"], [1, 2])
    recorder.put(["a", "more"], 3)
    assert recorder.ops[0] == {"op": "add", "path": "/a", "value": {"list": []}}
    assert patch.apply({}, recorder.ops) == recorder.document == {"a": {"list": [1, 2], "more": 3}}


def test_applying_shares_nothing_with_the_ops() -> None:
    ops: list[Op] = [{"op": "add", "path": "/a", "value": [1]}, {"op": "add", "path": "/l/0", "value": [2]}]
    document = patch.apply({"l": []}, ops)
    document["a"].append(9)
    document["l"][0].append(9)
    assert [op["value"] for op in ops] == [[1], [2]]


@given(DOCUMENTS, DOCUMENTS)
def test_there_is_no_difference_exactly_between_documents_that_are_the_same(left: Json, right: Json) -> None:
    assert (not list(patch.difference(left, right))) == canonical.same(left, right)
    assert not list(patch.difference(left, copy.deepcopy(left)))


@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_read_as_a_patch_leads_from_one_document_to_the_other(left: Json, right: Json) -> None:
    changes = list(patch.difference(left, right))
    added = [{"op": "add", "path": c.path, "value": c.after} for c in changes if c.kind == "added"]
    changed = [{"op": "replace", "path": c.path, "value": c.after} for c in changes if c.kind == "changed"]
    removed = [{"op": "remove", "path": c.path} for c in reversed(changes) if c.kind == "removed"]
    assert canonical.same(patch.apply(copy.deepcopy(left), [*changed, *added, *removed]), right)


@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_turned_round_is_the_difference_of_the_documents_turned_round(
    left: Json, right: Json
) -> None:
    kinds = {"added": "removed", "removed": "added", "changed": "changed"}
    there = {(c.path, kinds[c.kind]) for c in patch.difference(left, right)}
    assert there == {(c.path, c.kind) for c in patch.difference(right, left)}


def test_one_edited_key_is_one_change() -> None:
    """C03."""
    before = {"id": 9007199254740993, "d": 0.2345678901234568, "neg": -9223372036854775809, "note": "x"}
    assert [change.path for change in patch.difference(before, {**before, "note": "y"})] == ["/note"]


def test_the_order_of_keys_is_no_difference() -> None:
    """C10."""
    before, after = {"steps": {"2": 1, "1": 2}, "a": 1}, {"a": 1, "steps": {"1": 2, "2": 1}}
    assert list(patch.difference(before, after)) == []


@given(st.lists(st.text(max_size=5), max_size=4))
def test_a_pointer_is_read_back_as_its_tokens(path: list[str]) -> None:
    assert patch.tokens(patch.pointer(path)) == path


def test_a_pointer_begins_with_a_slash() -> None:
    with pytest.raises(ValueError, match="is not a JSON Pointer"):
        patch.tokens("a/b")


# After the examples of RFC 6902, appendix A, in our own documents; `test`, `move` and `copy` are never written here.
FITTING: dict[str, tuple[Json, list[Op], Json]] = {
    "a member is added": ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "a member that is there is replaced by add": (
        {"a": 1},
        [{"op": "add", "path": "/a", "value": 2}],
        {"a": 2},
    ),
    "an item is added in the middle": ([1, 3], [{"op": "add", "path": "/1", "value": 2}], [1, 2, 3]),
    "an item is added at the end by number": ([1], [{"op": "add", "path": "/1", "value": 2}], [1, 2]),
    "an item is added at the end": ([1], [{"op": "add", "path": "/-", "value": [2]}], [1, [2]]),
    "a member is removed": ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    "an item is removed": ([1, 2, 3], [{"op": "remove", "path": "/1"}], [1, 3]),
    "a value is replaced": (
        {"a": {"b": 1}},
        [{"op": "replace", "path": "/a/b", "value": None}],
        {"a": {"b": None}},
    ),
    "null is a value": ({}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
    "a member may have the name of a number": (
        {"0": 1},
        [{"op": "replace", "path": "/0", "value": 2}],
        {"0": 2},
    ),
    "a member may be named -": ({}, [{"op": "add", "path": "/-", "value": 1}], {"-": 1}),
    "tildes and slashes": (
        {"/": 9, "~1": 10},
        [{"op": "replace", "path": "/~01", "value": 1}],
        {"/": 9, "~1": 1},
    ),
    "the empty name": ({"": {"": 1}}, [{"op": "remove", "path": "//"}], {"": {}}),
    "the whole document": ({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
    "one op after the other": (
        {},
        [{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": 1}],
        {"a": {"b": 1}},
    ),
    "none at all": ({"a": 1}, [], {"a": 1}),
    "a member that nobody knows is ignored": (
        {},
        [{"op": "add", "path": "/a", "value": 1, "xyz": 2}],
        {"a": 1},
    ),
}
UNFITTING: dict[str, tuple[Json, Any]] = {
    "a parent that is not there": ({"a": 1}, {"op": "add", "path": "/b/c", "value": 1}),
    "replace of a member that is not there": ({}, {"op": "replace", "path": "/a", "value": 1}),
    "remove of a member that is not there": ({}, {"op": "remove", "path": "/a"}),
    "add just beyond the end": ([1], {"op": "add", "path": "/2", "value": 1}),
    "add far beyond the end": ([1], {"op": "add", "path": "/3", "value": 1}),
    "replace beyond the end": ([1], {"op": "replace", "path": "/1", "value": 1}),
    "replace at the end": ([1], {"op": "replace", "path": "/-", "value": 1}),
    "remove at the end": ([1], {"op": "remove", "path": "/-"}),
    "a negative place": ([1, 2], {"op": "replace", "path": "/-1", "value": 1}),
    "a place with a leading zero": ([1, 2], {"op": "replace", "path": "/01", "value": 1}),
    "a place with a sign": ([1, 2], {"op": "add", "path": "/+1", "value": 1}),
    "a place with white space": ([1, 2], {"op": "remove", "path": "/ 1"}),
    "a place in other digits": ([1, 2], {"op": "remove", "path": "/١"}),
    "a negative place on the way": ([[1]], {"op": "remove", "path": "/-1/0"}),
    "a name in a list": ([1], {"op": "add", "path": "/a", "value": 1}),
    "a member of a text": ({"a": "xyz"}, {"op": "replace", "path": "/a/0", "value": "b"}),
    "a member of null": ({"a": None}, {"op": "add", "path": "/a/b", "value": 1}),
    "removing everything": ({"a": 1}, {"op": "remove", "path": ""}),
    "an op that we never write": ({"a": 1}, {"op": "test", "path": "/a", "value": 1}),
    "an op that we never write, on a list": ([1], {"op": "move", "from": "/0", "path": "/-"}),
    "an op that does not exist": ({"a": 1}, {"op": "spam", "path": "/a", "value": 1}),
    "an add without a value": ({}, {"op": "add", "path": "/a"}),
    "an op without a path": ({}, {"op": "add", "value": 1}),
    "an op without its name": ({}, {"path": "/a", "value": 1}),
    "a path that is a number": ([1], {"op": "remove", "path": 0}),
    "a path without a slash": ({"a": 1}, {"op": "remove", "path": "a"}),
    "something that is no op": ({"a": 1}, "oops"),
}


@pytest.mark.parametrize("name", FITTING)
def test_an_op_that_fits_is_applied(name: str) -> None:
    document, ops, expected = copy.deepcopy(FITTING[name])
    assert canonical.same(patch.apply(document, ops), expected)


@pytest.mark.parametrize("name", UNFITTING)
def test_an_op_that_does_not_fit_is_refused(name: str) -> None:
    """C07: a stored patch that was damaged is noticed, and nothing is taken for another place."""
    document, op = copy.deepcopy(UNFITTING[name])
    with pytest.raises(ValueError, match=r"does not fit|is not a JSON Pointer"):
        patch.apply(document, [op])
    assert document == UNFITTING[name][0]


@given(DOCUMENTS, DOCUMENTS)
def test_whatever_is_stored_in_the_place_of_an_op_is_refused_and_changes_nothing(
    document: Json, ops: Json
) -> None:
    """C07."""
    before = copy.deepcopy(document)
    with pytest.raises(ValueError, match="does not fit"):
        patch.apply(document, [ops])
    assert canonical.same(document, before)


@pytest.mark.parametrize("ops", ["", "oops", {}, None, 0, False])
def test_what_is_no_list_of_ops_is_no_patch_that_changes_nothing(ops: Any) -> None:
    """C07."""
    with pytest.raises(ValueError, match="not a list of ops"):
        patch.apply({"a": 1}, ops)
