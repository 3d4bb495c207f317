"""Arguments as fields: drawn from the schema, read back without losing a digit or a line end (C03, C09)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from runs.engine import canonical
from runs.web import fields, filling
from runs.web.fields import Field

SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "What is said.", "maxLength": 9},
        "count": {"type": "integer", "minimum": 1, "maximum": 5_000},
        "ratio": {"type": "number"},
        "dry": {"type": "boolean"},
        "mode": {"enum": ["fast", "safe", 3, None]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "list": {"type": "array"},
        "day": {"type": "string", "format": "date"},
        "kind": {"const": "refund"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "price": {"anyOf": [{"type": "number"}, {"type": "string", "title": "Exact"}]},
        "to": {"oneOf": [{"$ref": "#/$defs/Person"}, {"$ref": "#/$defs/Team"}]},
        "next": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}]},
        "absent": {"type": "string"},
        "gift": {"$ref": "#/$defs/Line"},
    },
    "$defs": {
        "Line": {
            "type": "object",
            "required": ["sku"],
            "properties": {
                "sku": {"type": "string"},
                "note": {"type": "string"},
                "count": {"type": "integer"},
            },
        },
        "Person": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "boss": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}], "default": None},
            },
        },
        "Team": {"type": "object", "required": ["team"], "properties": {"team": {"type": "string"}}},
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
    "day": "2026-11-30",
    "kind": "refund",
    "lines": [{"sku": "a:b/~"}, {"sku": "c\r\nd", "count": 18446744073709551615}],
    "price": "12.50",
    "to": {"team": "finance"},
    "next": {"name": "Ada", "boss": {"name": "Grace", "boss": None}},
    "extra": {"k": -0.0},
}
EVERYTHING = [f"/{name}" for name in [*SCHEMA["properties"], "extra"]]


def sent(drawn: Iterable[Field]) -> dict[str, str]:
    """What a browser sends: every field that may be edited, with its marks; line ends as CR LF."""
    found: dict[str, str] = {}
    for field in (one for top in drawn for one in top.all() if one.editable):
        if field.optional:
            found |= {f"{field.name}:may": "yes"} | ({f"{field.name}:set": "yes"} if field.present else {})
        if field.nullable:
            found |= {f"{field.name}:nullable": "yes"} | (
                {f"{field.name}:null": "yes"} if field.empty else {}
            )
        if field.kind == "list":
            found |= {f"{field.name}:rows": field.row_numbers, f"{field.name}:new": str(field.next_row)}
        elif field.is_group:
            found |= {f"{field.name}:in": field.chosen} if field.children else {}
            found |= {f"{field.name}:as": field.chosen} if field.kind == "union" else {}
        elif field.kind != "const":
            found[field.name] = field.value.replace("\r\n", "\n").replace("\n", "\r\n")
    return found


def draw(typed: dict[str, str] | None = None, **options: Any) -> tuple[Field, ...]:
    return fields.draw(ARGS, SCHEMA, EVERYTHING, typed=typed, **options)


def filled(**changed: str) -> dict[str, str]:
    """The form as it stands, with some of its fields changed: `lines__1__sku` is /lines/1/sku."""
    names = {"/" + name.replace("__", "/"): text for name, text in changed.items()}
    return sent(draw()) | names


def read(typed: dict[str, str]) -> filling.Read:
    return filling.read(ARGS, SCHEMA, EVERYTHING, typed)


def paths(found: filling.Read) -> list[str]:
    return [problem.path for problem in found.problems]


def test_each_property_has_the_field_of_its_kind() -> None:
    assert {field.label: field.kind for field in draw()} == {
        "text": "lines",
        "count": "integer",
        "ratio": "number",
        "dry": "boolean",
        "mode": "choice",
        "maybe": "text",
        "list": "json",
        "day": "date",
        "kind": "const",
        "lines": "list",
        "price": "union",
        "to": "union",
        "next": "object",
        "absent": "text",
        "gift": "object",
        "extra": "json",
    }


def test_a_form_that_comes_back_untouched_changes_nothing() -> None:
    found = read(filled())
    assert found.problems == []
    assert canonical.same(found.args, ARGS)


def test_numbers_are_read_as_they_are_written() -> None:
    found = read(filled(count="18446744073709551615", ratio="2.50", dry="true", lines__1__count="-0"))
    assert (found.args["count"], found.args["ratio"], found.args["dry"]) == (18446744073709551615, 2.5, True)
    assert found.args["lines"][1]["count"] == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "1,5"),
        ("count", ""),
        ("count", "0x10"),
        ("count", "01"),
        ("ratio", "NaN"),
        ("ratio", "1e"),
        (
            "ratio",
            "0.12345678901234567890",
        ),  # a float would keep 17 of these digits and nobody would hear of it
        ("list", "[1,"),
        ("mode", "never offered"),
        ("lines/1/count", "two"),
        ("next/boss/name", "\x00"),
    ],
)
def test_what_is_no_value_of_its_kind_is_named_at_the_field_and_kept(name: str, text: str) -> None:
    typed = filled() | {f"/{name}": text}
    found = read(typed)
    assert paths(found) == [f"/{name}"]
    again = draw(typed, problems=found.problems)
    [wrong] = [field for top in again for field in top.all() if field.wrong]
    assert (wrong.name, wrong.value) == (f"/{name}", text)


def test_what_may_not_be_edited_stays_whatever_is_sent() -> None:
    typed = filled(text="new", count="1", mode="fast", lines__0__sku="x") | {"/lines:rows": "1"}
    assert canonical.same(filling.read(ARGS, SCHEMA, ["/text"], typed).args, {**ARGS, "text": "new"})


def test_of_a_list_in_which_one_thing_may_be_edited_no_row_comes_or_goes() -> None:
    drawn = fields.draw(ARGS, SCHEMA, ["/lines/1/count"])
    assert [(one.path, one.editable, one.whole) for top in drawn for one in top.all() if one.editable] == [
        ("/lines", True, False),
        ("/lines/1", True, False),
        ("/lines/1/count", True, True),
    ]
    found = filling.read(ARGS, SCHEMA, ["/lines/1/count"], sent(drawn) | {"/lines/1/count": "7"})
    assert found.args["lines"] == [ARGS["lines"][0], {**ARGS["lines"][1], "count": 7}]


def test_rows_come_and_go_and_those_that_stay_are_what_they_were() -> None:
    typed = filling.fewer(filling.more(filled(), "/lines"), "/lines/0")
    typed = sent(draw(typed)) | {"/lines/2/sku": "new"}
    found = read(typed)
    assert found.problems == []
    assert found.args["lines"] == [ARGS["lines"][1], {"sku": "new"}]
    typed = sent(draw(filling.more(filling.fewer(typed, "/lines/2"), "/lines"))) | {"/lines/3/sku": "other"}
    assert read(typed).args["lines"] == [ARGS["lines"][1], {"sku": "other"}]


def test_what_is_wrong_in_a_row_is_told_at_that_row_though_its_number_is_another() -> None:
    typed = sent(draw(filling.fewer(filled(), "/lines/0"))) | {"/lines/1/count": "x"}
    found = read(typed)
    assert paths(found) == ["/lines/0/count"]
    [wrong] = [one for top in draw(typed, problems=found.problems) for one in top.all() if one.wrong]
    assert (wrong.name, wrong.path) == ("/lines/1/count", "/lines/0/count")


def test_a_value_goes_another_way_once_its_fields_have_stood_there() -> None:
    typed = filled() | {"/to:as": "0"}
    found = read(typed)
    assert [(problem.path, problem.code) for problem in found.problems] == [("/to", filling.NOT_FILLED)]
    typed = sent(draw(typed)) | {"/to//name": "Ada"}
    found = read(typed)
    assert (found.problems, found.args["to"]) == ([], {"name": "Ada"})


def test_null_and_absent_are_ticks_of_their_own() -> None:
    """C09"""
    assert "absent" not in read(filled()).args
    assert read(filled() | {"/absent:set": "yes"}).args["absent"] == ""
    assert read(filled() | {"/next:null": "yes"}).args["next"] is None
    typed = filled(maybe="said")
    del typed["/maybe:null"]
    assert read(typed).args["maybe"] == "said"
    typed = filled() | {"/gift:set": "yes"}
    assert paths(read(typed)) == ["/gift"]
    assert read(sent(draw(typed)) | {"/gift/sku": "z"}).args["gift"] == {"sku": "z"}


def test_what_was_taken_out_in_the_json_stays_out_in_the_form() -> None:
    changed = {name: value for name, value in ARGS.items() if name not in ("maybe", "list")} | {
        "absent": "here"
    }
    drawn = fields.draw({**changed, "lines": []}, SCHEMA, EVERYTHING)
    found = read(sent(drawn))
    assert found.problems == []
    assert canonical.same(found.args, {**changed, "lines": []})


def test_limits_and_descriptions_stand_below_the_field() -> None:
    drawn = {field.label: field.hint for field in draw()}
    assert drawn["text"] == "What is said; at most 9 characters"
    assert drawn["count"] == "Whole number, at least 1, at most 5000"


def test_any_object_can_be_a_form_without_a_schema() -> None:
    drawn = fields.draw({"a": 1, "b": [True]}, None, ["/a"])
    assert [(field.name, field.kind, field.editable) for field in drawn] == [
        ("/a", "integer", True),
        ("/b", "json", False),
    ]
    assert not fields.drawable([1], None)


@pytest.mark.parametrize("name", ["a:set", "a/b", "~2", "", "__proto__", "é:rows"])
def test_any_name_is_told_from_the_marks_of_the_form(name: str) -> None:
    drawn = fields.draw({name: "x", "a": "y"}, None, [f"/{canonical.escape(name)}", "/a"])
    typed = sent(drawn)
    assert len(typed) == 2
    typed[next(key for key in typed if key != "/a")] = "z"
    assert filling.read({name: "x", "a": "y"}, None, ["/a", f"/{canonical.escape(name)}"], typed).args == {
        name: "z",
        "a": "y",
    }


def test_a_schema_that_goes_on_without_end_draws_so_much_and_no_more() -> None:
    node: dict[str, Any] = {"type": "object", "required": ["l", "r"]}
    node["properties"] = {"l": {"$ref": "#/$defs/n"}, "r": {"$ref": "#/$defs/n"}}
    schema = {"type": "object", "properties": {"top": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}
    drawn = fields.draw({}, schema, ["/top"], typed={"/top:may": "yes", "/top:set": "yes"})
    assert sum(1 for top in drawn for _ in top.all()) < 5_000
