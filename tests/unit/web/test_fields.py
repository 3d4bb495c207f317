"""Arguments as fields: drawn from the schema, read back without losing a digit or a line end (C03, C09)."""

from __future__ import annotations

from typing import Any

import pytest

from runs.engine import canonical
from runs.web import fields

SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "What is said.", "maxLength": 9},
        "count": {"type": "integer", "minimum": 1, "maximum": 5_000},
        "ratio": {"type": "number"},
        "dry": {"type": "boolean"},
        "mode": {"enum": ["fast", "safe"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "list": {"type": "array"},
        "absent": {"type": "string"},
    },
}
ARGS: dict[str, Any] = {
    "text": "a\r\nb",
    "count": 9007199254740993,
    "ratio": 1.0,
    "dry": False,
    "mode": "safe",
    "maybe": None,
    "list": [1, "x"],
    "extra": {"k": -0.0},
}
EVERYTHING = [f"/{name}" for name in [*SCHEMA["properties"], "extra"]]


def sent(**changed: str) -> dict[str, str]:
    """What a browser sends: every editable field, line ends as CR LF."""
    drawn = fields.draw(ARGS, SCHEMA, EVERYTHING)
    return {field.name: field.value.replace("\r\n", "\n").replace("\n", "\r\n") for field in drawn} | changed


def test_each_property_has_the_field_of_its_kind() -> None:
    drawn = {field.name: field.kind for field in fields.draw(ARGS, SCHEMA, EVERYTHING)}
    assert drawn == {
        "text": "lines",
        "count": "integer",
        "ratio": "number",
        "dry": "boolean",
        "mode": "choice",
        "maybe": "json",
        "list": "json",
        "absent": "text",
        "extra": "json",
    }


def test_a_form_that_comes_back_untouched_changes_nothing() -> None:
    found = fields.read(ARGS, SCHEMA, EVERYTHING, sent())
    assert found.problems == []
    assert canonical.same(found.args, ARGS)


def test_numbers_are_read_as_they_are_written() -> None:
    found = fields.read(
        ARGS, SCHEMA, EVERYTHING, sent(count="18446744073709551615", ratio="2.50", dry="true")
    )
    assert (found.args["count"], found.args["ratio"], found.args["dry"]) == (18446744073709551615, 2.5, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "1,5"),
        ("count", ""),
        ("count", "0x10"),
        ("count", "01"),
        ("ratio", "NaN"),
        ("ratio", "1e"),
        ("list", "[1,"),
    ],
)
def test_what_is_no_value_of_its_kind_is_named_at_the_field(name: str, text: str) -> None:
    found = fields.read(ARGS, SCHEMA, EVERYTHING, sent(**{name: text}))
    assert [problem.path for problem in found.problems] == [f"/{name}"]
    drawn = fields.draw(ARGS, SCHEMA, EVERYTHING, typed=sent(**{name: text}), problems=found.problems)
    field = next(field for field in drawn if field.name == name)
    assert (field.value, field.wrong) == (text, True)


def test_what_may_not_be_edited_stays_whatever_is_sent() -> None:
    found = fields.read(ARGS, SCHEMA, ["/text"], sent(text="new", count="1", mode="fast"))
    assert canonical.same(found.args, {**ARGS, "text": "new"})


def test_an_absent_value_is_only_sent_when_ticked_and_may_be_empty() -> None:
    assert "absent" not in fields.read(ARGS, SCHEMA, EVERYTHING, sent()).args
    found = fields.read(ARGS, SCHEMA, EVERYTHING, sent() | {"absent:set": "yes"})
    assert found.args["absent"] == ""


def test_a_nul_in_a_text_is_refused() -> None:
    """C01"""
    found = fields.read(ARGS, SCHEMA, EVERYTHING, sent(text="a\x00b"))
    assert [(problem.path, problem.code) for problem in found.problems] == [("/text", "nul_character")]


def test_limits_and_descriptions_stand_below_the_field() -> None:
    drawn = {field.name: field.hint for field in fields.draw(ARGS, SCHEMA, EVERYTHING)}
    assert drawn["text"] == "What is said; at most 9 characters"
    assert drawn["count"] == "Whole number, at least 1, at most 5000"


def test_any_object_can_be_a_form_without_a_schema() -> None:
    drawn = fields.draw({"a": 1, "b": [True]}, None, ["/a"])
    assert [(field.name, field.kind, field.editable) for field in drawn] == [
        ("a", "integer", True),
        ("b", "json", False),
    ]
    assert not fields.drawable([1], None)
