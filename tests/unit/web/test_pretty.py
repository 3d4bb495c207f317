"""JSON on the page: exact numbers (C03), hidden characters found with their pointers, differences."""

from __future__ import annotations

import re

from runs.engine import canonical
from runs.templatetags import pretty

EXACT = {
    "id": 9007199254740993,
    "u64": 18446744073709551615,
    "neg": -9223372036854775809,
    "d": 0.2345678901234568,
    "one": 1.0,
    "zero": -0.0,
    "note": "x",
}


def text_of(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html).replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")


def test_lines_show_the_digits_exactly_as_they_are_kept() -> None:
    """C03"""
    shown = "\n".join(text_of(line.html) for line in pretty.lines(EXACT))
    assert shown == canonical.dumps(EXACT, indent=2)


def test_one_changed_key_is_one_difference() -> None:
    """C03"""
    changed = pretty.changes(EXACT, {**EXACT, "note": "y"})
    assert [(c.path, c.was, c.now) for c in changed] == [("/note", '"<del>x</del>"', '"<ins>y</ins>"')]


def test_an_integer_and_the_equal_float_differ() -> None:
    assert [c.path for c in pretty.changes({"a": 1}, {"a": 1.0})] == ["/a"]
    assert pretty.changes({"a": 1, "b": [True]}, {"b": [True], "a": 1}) == []


def test_null_missing_false_zero_and_empty_are_five_different_things() -> None:
    """C09"""
    values = [None, False, 0, ""]
    assert all(pretty.changes({"a": one}, {"a": two}) for one in values for two in values if one is not two)
    assert pretty.changes({}, {"a": None})[0].was is None
    assert pretty.changes({"a": None}, {"a": 0})[0].was == "null"


def test_only_the_stretch_that_differs_is_marked() -> None:
    change = pretty.changes({"period": "2025-04"}, {"period": "2025-05"})[0]
    assert (change.was, change.now) == ('"2025-0<del>4</del>"', '"2025-0<ins>5</ins>"')
    longer = pretty.changes("aa", "aaa")[0]
    assert (longer.was, longer.now) == ('"aa"', '"aa<ins>a</ins>"')


def test_lists_of_other_length_are_shown_whole() -> None:
    assert [c.path for c in pretty.changes({"to": ["a"]}, {"to": ["a", "b"]})] == ["/to"]


def test_a_difference_by_lines_folds_what_is_as_before() -> None:
    before = {f"k{n:02}": n for n in range(30)}
    found = pretty.difference(before, {**before, "k15": 99})
    assert found is not None
    assert [(line.sign, text_of(line.html).strip()) for line in found if line.sign] == [
        ("−", '"k15": 15,'),
        ("+", '"k15": 99,'),
    ]
    assert [text_of(line.html) for line in found if line.number is None] == [
        "13 lines as before",
        "12 lines as before",
    ]


def test_equal_documents_have_no_difference() -> None:
    assert pretty.difference({"a": 1}, {"a": 1}) == []


def test_a_huge_document_is_not_compared_by_lines() -> None:
    assert pretty.difference(list(range(3_000)), list(range(1, 3_000))) is None


def test_hidden_characters_are_found_in_texts_and_keys() -> None:
    document = {"note": "a\u200bb\u202ec", "li\u00adst": ["x", {"k": "\u200b\u200b"}]}
    assert dict(pretty.findings(document)) == {
        "/note": {"zero width space": 1, "right-to-left override": 1},
        "/li\u00adst": {"soft hyphen": 1},
        "/li\u00adst/1/k": {"zero width space": 2},
    }


def test_markup_in_keys_and_values_stays_text() -> None:
    """C90"""
    html = "".join(line.html for line in pretty.lines({"<script>": "</script><img src=x onerror=alert(1)>"}))
    assert "<script" not in html
    assert "<img" not in html


def test_a_pointer_reads_as_a_path() -> None:
    assert pretty.pointer_words("/params/a~1b/0") == "params.a/b.0"
    assert pretty.pointer_words("") == "the whole"
