"""What changed since a card was asked before, in the order in which somebody reads the card."""

from __future__ import annotations

from typing import Any

from runs.web.since import compare


def document(args: Any, **facts: Any) -> dict[str, Any]:
    told = [{"label": label, "value": value} for label, value in facts.items()]
    return {"actions": [{"key": "only", "args": args}], "facts": told}


def paths(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [change.path.lstrip("/") for change in compare(before, after)]


def test_a_text_comes_first_then_the_facts_then_the_other_arguments() -> None:
    before = document({"digest": "1f", "text": "one\ntwo"}, Rows=58)
    after = document({"digest": "2e", "text": "one\n2"}, Rows=2)
    assert paths(before, after) == ["text", "Rows", "digest"]


def test_without_a_text_the_arguments_come_first() -> None:
    assert paths(document({"amount": 5}, Left=3), document({"amount": 7}, Left=1)) == ["amount", "Left"]


def test_a_fact_and_an_argument_of_one_name_are_two_differences() -> None:
    assert paths(document({"rows": 1}, rows=2), document({"rows": 3}, rows=4)) == ["rows", "rows"]


def test_tables_and_long_texts_among_the_facts_are_read_on_the_card() -> None:
    assert paths(document({}, Sample=[{"a": "x" * 30}]), document({}, Sample=[{"a": "y" * 30}])) == []
