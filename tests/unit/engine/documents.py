"""Documents as Hypothesis draws them: every kind of JSON value that this product keeps."""

from __future__ import annotations

from hypothesis import strategies as st

from runs.engine.canonical import Json

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
KEYS = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "0", "-", "é", "😀"]) | TEXTS
INTEGERS = st.integers(-10, 10) | st.integers() | st.integers(-(10**400), 10**400)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 1e22, 5e-324])
LEAVES = st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS


def _inside(children: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.lists(children, max_size=4) | st.dictionaries(KEYS, children, max_size=4)


DOCUMENTS: st.SearchStrategy[Json] = st.recursive(LEAVES, _inside, max_leaves=12)
OBJECTS: st.SearchStrategy[dict[str, Json]] = st.dictionaries(KEYS, DOCUMENTS, max_size=5)


def nested(levels: int, *, inside: Json = None) -> Json:
    """Lists within lists."""
    document = inside
    for _ in range(levels):
        document = [document]
    return document
