"""Where in a JSON text something stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runs.engine import canonical
from runs.errors import Problem
from runs.web import pointing

TEXT = '{\n  "a b": [1, {"x": null}],\n\t"é\\"/": "} ["\n}'


def test_a_value_is_found_by_line_and_column() -> None:
    wanted = ["/a b", "/a b/1/x", '/é"~1', "", "/a b/7/y"]
    assert pointing.places(TEXT, wanted) == {
        "/a b": (2, 10),
        "/a b/1/x": (2, 20),
        '/é"~1': (3, 10),
        "": (1, 1),
        "/a b/7/y": (2, 10),  # what is not there, at what it would be in
    }


def test_a_text_that_is_no_json_says_its_place_itself() -> None:
    [found] = pointing.found_in("{\n  x}", [Problem("", "syntax", "Expecting a name at line 2, column 3")])
    assert (found.line, found.column, found.excerpt) == (2, 3, "x}")


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1, 2]))
def test_every_value_of_any_document_is_found_where_it_begins(document: object, indent: int | None) -> None:
    text = canonical.dumps(document, indent=indent)
    every = list(_leaves(document, ""))
    found = pointing.places(text, [path for path, _ in every])
    lines = text.split("\n")
    for path, value in every:
        line, column = found[path]
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert rest.startswith(canonical.dumps(value))


def _leaves(value: object, path: str) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [
            leaf for key, item in value.items() for leaf in _leaves(item, f"{path}/{canonical.escape(key)}")
        ]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in _leaves(item, f"{path}/{index}")]
    return [(path, value)]
