"""The state at a checkpoint: as a tree, by what is looked for, and never more of it than can be drawn."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given

from runs.engine.redaction import Sight
from runs.models import Checkpoint, Run
from runs.queries import Moment
from runs.web import viewer
from runs.web.viewer import Look, Twig

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def position(state: dict[str, Any]) -> dict[str, Any]:
    lane = {"node": "ask", "step": "x", "visit": 1, "loops": {}, "answers": {}}
    return {"root": {"base": state, "lanes": {"0": lane}, "order": ["0"]}, "visits": {}, "commits": 1}


def looked(before: dict[str, Any] | None, state: dict[str, Any], look: Look) -> viewer.Selected:
    run = Run(pk=UUID(int=1), head=7, checkpoint_no=9, branch=1, status="waiting")
    point = Checkpoint(no=7, branch=1, kind="step", node="draft", created_at=NOW)
    base = None if before is None else 6 if look.against is None else look.against
    moment = Moment(point, position(state), None if before is None else position(before), base)
    return viewer.selected(
        moment, run=run, line={1: None}, look=look, may_steer=True, may_fork=True, sight=Sight(frozenset())
    )


def drawn(twigs: list[Twig]) -> int:
    return sum(1 + drawn(twig.inside) for twig in twigs)


def test_without_a_choice_it_shows_what_changed_and_of_the_input_all() -> None:
    made = looked({"n": 1, "kept": 2}, {"n": 2, "kept": 2}, Look())
    assert (made.show, made.said, made.base) == ("difference", "1 changed", 6)
    assert [line.sign for line in made.lines].count("+") == 1
    first = looked(None, {"n": 1}, Look())
    assert (first.show, first.said, [twig.key for twig in first.tree]) == ("tree", "1 key", ["n"])


def test_it_leads_to_its_neighbours_and_keeps_what_is_looked_at() -> None:
    made = looked({"n": 1}, {"n": 2}, Look(show="state", against=3))
    assert (made.before, made.after) == (
        "/runs/00000000-0000-0000-0000-000000000001/checkpoints/6/",
        "/runs/00000000-0000-0000-0000-000000000001/checkpoints/8/",
    )
    assert {view.word for view in made.views if "against=3" in view.url} == set(viewer.SHOWN.values())


def test_what_is_looked_for_is_found_by_key_and_by_value_whatever_its_case() -> None:
    state = {"order": {"Iban": "DE00", "lines": [{"price": 12}]}, "note": "see iban"}
    found = looked({}, state, Look(find="IBAN")).found
    assert [one.path for one in found] == ["/order/Iban", "/note"]
    assert [one.path for one in looked({}, state, Look(find="lines.0.price")).found] == [
        "/order/lines/0/price"
    ]
    assert looked({}, state, Look(find="nowhere")).found == []


def test_a_long_text_and_a_long_list_are_cut_and_say_so() -> None:
    lines, left_out = viewer.lines_of("\n".join("x" for _ in range(viewer.MOST_LINES + 5)))
    assert (len(lines), left_out) == (viewer.MOST_LINES, 5)
    [line], _ = viewer.lines_of("y" * 5_000_000)
    assert "4,998,000 more characters" in line.html
    [twig] = viewer.tree({"all": list(range(1_000))})
    assert (twig.said, len(twig.inside), twig.more) == ("1,000 items", viewer.MOST_INSIDE, 900)


def test_documents_that_are_too_long_to_compare_are_named_by_the_places_that_differ() -> None:
    text = "z" * viewer.MOST_COMPARED
    made = looked({"text": text, "n": 1}, {"text": text, "n": 2}, Look())
    assert [re.sub("<[^>]*>", "", line.html) for line in made.lines] == ["changed: n"]


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=6))
def test_a_tree_holds_every_place_of_a_document_that_fits(document: dict[str, Any]) -> None:
    def places(value: Any) -> int:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return sum(1 + places(item) for item in inside)

    twigs = viewer.tree(document)
    assert drawn(twigs) == places(document)
    assert all(twig.more == 0 for twig in twigs)
