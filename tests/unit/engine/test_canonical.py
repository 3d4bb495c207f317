"""JSON as it is parsed, written and digested; the vectors are in vectors.json for whoever writes another reader."""

from __future__ import annotations

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.errors import InvalidJson, Problem, TooLarge
from tests.unit.engine.documents import DOCUMENTS, KEYS, OBJECTS, TEXTS, nested

Vector = dict[str, Any]
VECTORS: dict[str, list[Vector]] = json.loads((Path(__file__).parent / "vectors.json").read_text("utf-8"))
BROKEN: dict[str, tuple[Json, str]] = {
    "nan": (math.nan, "non_finite_number"),
    "infinity": (math.inf, "non_finite_number"),
    "nul": ("x\0", "nul_character"),
    "surrogate": ("\ud800", "lone_surrogate"),
    "long": (10**4000, "number_too_long"),
    "bytes": (b"x", "not_json"),
    "tuple": ((1,), "not_json"),
    "set": ({1}, "not_json"),
}


def names(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[kind], ids=lambda vector: vector["name"])


def text_of(vector: Vector, key: str = "text", parts: str = "parts") -> str:
    return vector[key] if key in vector else "".join(piece * times for piece, times in vector[parts])


def refusal(text: str | bytes) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJson) as caught:
        canonical.parse(text)
    return [(problem.path, problem.code) for problem in caught.value.errors]


@names("canonical")
def test_a_document_has_one_canonical_text_and_digest(vector: Vector) -> None:
    """C03, C05, C10."""
    expected = text_of(vector, "canonical", "canonical_parts")
    document = canonical.parse(text_of(vector))
    assert canonical.dumps(document) == expected
    assert canonical.digest(document) == vector["sha256"]
    assert canonical.parse(expected.encode()) == document
    assert canonical.loads(expected) == document


@names("refused")
def test_what_cannot_be_kept_is_refused_with_pointers(vector: Vector) -> None:
    """C01, C02, C05, C10, C11."""
    text = bytes.fromhex(vector["hex"]) if "hex" in vector else text_of(vector)
    assert refusal(text) == [(error["path"], error["code"]) for error in vector["errors"]]


@pytest.mark.parametrize("vector", [v for v in VECTORS["refused"] if "line" in v], ids=lambda v: v["name"])
def test_a_syntax_error_says_line_and_column(vector: Vector) -> None:
    """C13."""
    with pytest.raises(InvalidJson) as caught:
        canonical.parse(text_of(vector))
    assert caught.value.facts == {"line": vector["line"], "column": vector["column"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xef\xbb\xbf{}", "a byte order mark stands before the document; send it without one"),
        (b'{"a":', "a value is needed"),
        (b"{'a': 1}", "a key in double quotes is needed"),
        (b'{"a" 1}', "a colon is needed"),
        (b'{"a": 01}', "a comma or the end"),
        (b"{} {}", "the document has ended before"),
        (b'{"a": "\n"}', "a line break or another control character"),
        (b'{"a": "\\x"}', "a backslash in a text begins an escape that JSON does not know"),
        (b'{"a": "\\u12"}', "a backslash in a text begins an escape that JSON does not know"),
        (b'{"a": "b}', "the text that begins here has no closing quote"),
    ],
)
def test_what_is_no_json_is_told_in_our_words(text: bytes, words: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        canonical.parse(text)
    [problem] = caught.value.errors
    assert (problem.code, problem.message.startswith(words)) == ("syntax", True)


@given(DOCUMENTS)
def test_a_document_comes_back_as_it_was(document: Json) -> None:
    text = canonical.dumps(document)
    assert canonical.same(canonical.parse(text), document)
    assert canonical.same(canonical.loads(text), document)
    assert canonical.dumps(canonical.parse(text)) == text


@given(DOCUMENTS)
def test_laid_out_for_people_it_is_still_the_same_document(document: Json) -> None:
    laid_out = canonical.dumps(document, indent=2)
    assert canonical.same(canonical.parse(laid_out, max_depth=100), document)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_comes_back_to_the_last_bit(number: float) -> None:
    """C02, C03."""
    back = canonical.parse(canonical.dumps(number))
    assert type(back) is float
    assert (back, math.copysign(1, back)) == (number, math.copysign(1, number))


@given(st.integers(1, 4000), st.integers(1, 9), st.sampled_from([1, -1]))
def test_an_integer_of_up_to_4000_digits_comes_back_with_all_of_them(
    digits: int, first: int, sign: int
) -> None:
    """C05."""
    number = sign * (first * 10 ** (digits - 1) + 7 * (digits > 1))
    text = canonical.dumps(number)
    assert len(text.lstrip("-")) == digits
    assert canonical.parse(text) == number
    canonical.check(number)


@pytest.mark.parametrize(
    "number",
    [10**4000, -(10**4000), 10**4000 + 1, 10**5000, 1 << 20_000],
    ids=["10**4000", "-10**4000", "10**4000+1", "10**5000", "2**20000"],
)
def test_an_integer_that_could_not_be_read_back_is_not_kept(number: int) -> None:
    """C05: the limit of what a node returns is the limit of what can be sent."""
    with pytest.raises(InvalidJson, match="at most 4,000 digits at /0"):
        canonical.check([number])


def test_the_longest_integers_are_kept() -> None:
    """C05."""
    for number in (10**4000 - 1, -(10**4000) + 1):
        canonical.check(number)
        assert canonical.parse(canonical.dumps(number)) == number


@given(OBJECTS, st.data())
def test_the_order_of_keys_changes_nothing(document: dict[str, Json], data: st.DataObject) -> None:
    """C10."""
    other = dict(data.draw(st.permutations(list(document.items()))))
    assert canonical.dumps(other) == canonical.dumps(document)
    assert canonical.same(other, document)


@given(DOCUMENTS)
def test_the_digest_is_that_of_the_text(document: Json) -> None:
    assert canonical.digest(document) == hashlib.sha256(canonical.dumps(document).encode()).hexdigest()


@given(DOCUMENTS, DOCUMENTS)
def test_two_documents_are_the_same_exactly_if_their_texts_are(left: Json, right: Json) -> None:
    assert canonical.same(left, right) == (canonical.dumps(left) == canonical.dumps(right))
    assert canonical.same(left, left)


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        (1, 1.0, ""),
        (1, True, ""),
        (0, False, ""),
        (0.0, -0.0, ""),
        (None, False, ""),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2.0}]}, "/a/1/b"),
        ({"a": 1}, {"a": 1, "b": 1}, ""),
        ({"x": [1]}, {"x": [1, 2]}, "/x"),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2}}, "/a~1b/~0"),
        ("", None, ""),
        ([], {}, ""),
    ],
)
def test_what_python_takes_for_equal_is_told_apart(left: Json, right: Json, where: str) -> None:
    """C09."""
    assert canonical.first_difference(left, right) == where
    assert canonical.first_difference(right, left) == where


@pytest.mark.parametrize("kind", BROKEN)
@given(path=st.lists(st.integers(0, 2) | KEYS, max_size=5))
def test_a_fault_is_found_with_its_pointer_wherever_it_stands(kind: str, path: list[int | str]) -> None:
    """C01, C02, C05."""
    document, code = BROKEN[kind]
    for token in reversed(path):
        document = [0] * token + [document] if isinstance(token, int) else {"other": 1, token: document}
    with pytest.raises(InvalidJson) as caught:
        canonical.check(document)
    pointer = "".join(f"/{canonical.escape(str(token))}" for token in path)
    assert [(problem.path, problem.code) for problem in caught.value.errors] == [(pointer, code)]


def test_twenty_faults_are_reported_and_no_more() -> None:
    assert len(refusal("[" + ",".join(["NaN"] * 50) + "]")) == 20


def test_a_key_that_is_no_text_is_a_fault() -> None:
    with pytest.raises(InvalidJson) as caught:
        canonical.check({"a": {1: "x"}})
    assert caught.value.errors[0].path == "/a"
    assert caught.value.errors[0].code == "not_json"


@pytest.mark.parametrize("levels", [100, 101, 1_000, 20_000])
def test_depth_is_counted_alike_in_texts_and_in_values(levels: int) -> None:
    """C11."""
    text = "[" * levels + "]" * levels
    if levels <= canonical.MAX_DEPTH:
        document = canonical.parse(text)
        canonical.check(document)
        assert canonical.dumps(document) == text
    else:
        assert refusal(text) == [("", "too_deep")]
        with pytest.raises(InvalidJson) as caught:
            canonical.check(nested(levels))
        assert caught.value.errors[0].code == "too_deep"


def test_an_envelope_may_be_deeper_than_the_documents_in_it() -> None:
    """C11."""
    text = '{"input":' + "[" * 100 + "]" * 100 + "}"
    assert refusal(text) == [("", "too_deep")]
    assert canonical.parse(text, max_depth=101)["input"] == nested(99, inside=[])


def test_deep_text_is_refused_at_once() -> None:
    """C11."""
    begun = time.process_time()
    for text in ("[" * 200_000, '{"a":' * 200_000, '["\\"",' * 100_000, '"' + '\\"' * 400_000):
        assert refusal(text)
    assert time.process_time() - begun < 4


@pytest.mark.parametrize("size", [0, 1])
def test_the_limit_of_size_counts_bytes(size: int) -> None:
    """C11."""
    text = '"' + "é" * 10 + '"'
    limit = len(text.encode()) - size
    for document in (text, text.encode()):
        if size:
            with pytest.raises(TooLarge) as caught:
                canonical.parse(document, limit=limit)
            assert caught.value.facts == {"size": 22, "limit": 21}
        else:
            assert canonical.parse(document, limit=limit) == "é" * 10


def test_the_limit_of_an_input_is_one_mebibyte() -> None:
    """C11."""
    text = '"' + "x" * (1024 * 1024 - 2) + '"'
    assert len(canonical.parse(text)) == 1024 * 1024 - 2
    with pytest.raises(TooLarge):
        canonical.parse(text + " ")


@given(st.text(st.characters(codec=None), max_size=30))
def test_visible_text_can_be_stored(text: str) -> None:
    """C01: the message of an exception may hold anything."""
    shown = canonical.visible(text)
    canonical.check(shown)
    assert shown.encode().decode() == shown
    assert shown.count("\\u0000") >= text.count("\0")


@given(TEXTS)
def test_visible_leaves_ordinary_text_alone(text: str) -> None:
    assert canonical.visible(text) == text


def attempt(text: str | bytes) -> tuple[list[Json], list[Problem]]:
    """The document if it is read, or the faults it is refused for."""
    try:
        return [canonical.parse(text)], []
    except InvalidJson as error:
        return [], error.errors


@given(st.text(max_size=60) | st.text('{}[]",:0123456789.eE-+truefalsn\\u \n', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """C02, C11: whatever is sent, the answer is a document that can be kept or a fault with a pointer."""
    read, faults = attempt(text)
    assert bool(read) != bool(faults)
    assert all(problem.path == "" or problem.path.startswith("/") for problem in faults)
    for document in read:
        canonical.check(document)
        assert canonical.same(canonical.loads(canonical.dumps(document)), document)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    read, faults = attempt(raw)
    assert bool(read) != bool(faults)
    assert {problem.code for problem in faults} <= {"not_utf8", "syntax"}
