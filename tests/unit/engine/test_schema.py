"""The schema of an action's arguments: faults with pointers, and nothing is ever fetched."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runs.engine import schema
from runs.engine.canonical import Json

AMOUNT: dict[str, Json] = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "minimum": 0}, "to": {"type": "string"}},
    "required": ["amount"],
    "additionalProperties": False,
}
SLOW = "^(a|aa)+$"
DEEP: dict[str, Json] = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}},
}


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        ({"amount": 1}, []),
        ({"amount": 9007199254740993, "to": "x"}, []),
        ({"amount": "ten"}, [("/amount", "type")]),
        ({"amount": -1}, [("/amount", "minimum")]),
        ({"amount": True}, [("/amount", "type")]),
        ({}, [("", "required")]),
        ({"amount": 1, "a/b": 1}, [("", "additionalProperties")]),
        ([], [("", "type")]),
        ({"amount": None, "to": 5}, [("/amount", "type"), ("/to", "type")]),
    ],
)
def test_what_does_not_fit_is_told_with_its_pointer(document: Json, faults: list[tuple[str, str]]) -> None:
    """C13."""
    found = [(problem.path, problem.code) for problem in schema.validate(document, AMOUNT)]
    assert sorted(found) == faults


def test_no_schema_takes_anything_and_false_takes_nothing() -> None:
    assert schema.validate({"a": 1}, None) == []
    assert schema.validate({"a": 1}, True) == []
    assert [problem.code for problem in schema.validate({"a": 1}, False)] == ["false_schema"]


def test_pointers_are_escaped_and_messages_can_be_stored() -> None:
    faults = schema.validate({"a/b": ["\0"]}, {"properties": {"a/b": {"items": {"type": "integer"}}}})
    assert [(fault.path, fault.code) for fault in faults] == [("/a~1b/0", "type")]
    assert "\0" not in faults[0].message


def test_twenty_faults_are_enough() -> None:
    assert len(schema.validate(["x"] * 50, {"items": {"type": "integer"}})) == 20


@pytest.mark.parametrize(
    "document", [{"type": "spam"}, {"properties": []}, {"required": "a"}, {"minimum": "1"}, []]
)
def test_a_schema_that_is_none_is_told(document: Json) -> None:
    faults = schema.check_schema(document)
    assert [fault.code for fault in faults] == ["bad_schema"]
    assert faults[0].path.startswith("/schema")


def test_a_good_schema_has_no_faults() -> None:
    assert [schema.check_schema(good) for good in (None, True, False, {}, AMOUNT, DEEP)] == [[]] * 6


@pytest.mark.parametrize("reference", ["#/$defs/missing", "other.json", "urn:x", "#nowhere"])
def test_a_reference_that_leads_nowhere_is_a_fault_and_no_crash(reference: str) -> None:
    document = {"properties": {"note": {"$ref": reference}}}
    assert schema.validate({}, document) == []
    assert [fault.code for fault in schema.validate({"note": 1}, document)] == ["bad_schema"]


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """What a server on this machine was asked for; the last item is its address."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        paths.append(f"http://127.0.0.1:{server.server_port}")
        yield paths
        server.shutdown()


def test_a_schema_elsewhere_is_never_fetched(asked: list[str]) -> None:
    """An action's schema may come from an agent; it must not make the server ask an address of its choice."""
    document = {"properties": {"note": {"$ref": f"{asked[0]}/schema.json"}}}
    assert [fault.code for fault in schema.validate({"note": 1}, document)] == ["bad_schema"]
    assert asked[1:] == []


def test_a_schema_that_refers_to_itself_judges_a_hundred_levels() -> None:
    """C11: also when a web server's own calls lie below on the stack."""
    document: Json = None
    for _ in range(100):
        document = [document]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_depth() + 750)
    try:
        assert schema.validate(document, DEEP) == []
        assert [fault.code for fault in schema.validate(document, {**DEEP, "minItems": 2})] == ["minItems"]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("document", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}])
def test_a_schema_that_only_refers_to_itself_is_a_fault_and_no_crash(document: Json) -> None:
    """C11."""
    assert [fault.code for fault in schema.validate({}, document)] == ["bad_schema"]


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"$ref": "#"}, "refers to itself"),
        (
            {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "null"}]}}},
            "refers to itself",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "which is not in it"),
        ({"properties": {"a": {"format": "shoe-size"}}}, "'shoe-size' is not known"),
        ({"items": {"pattern": "("}}, "a pattern in it is none"),
        ({"patternProperties": {"[": {}}}, "a pattern in it is none"),
        (DEEP, ""),
        (AMOUNT, ""),
        (
            {"properties": {"a": {"format": "date-time"}, "format": {"const": {"format": "x", "$ref": "y"}}}},
            "",
        ),
        (True, ""),
        (None, ""),
    ],
)
def test_why_nothing_can_be_checked_against_a_schema(document: Json, said: str) -> None:
    """C98."""
    found = schema.fault(document)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize(
    "document",
    [
        {"properties": {"a": {"pattern": SLOW}}},
        {"patternProperties": {SLOW: {}}},
        {"patternProperties": {SLOW: {}}, "additionalProperties": False},
    ],
)
def test_a_pattern_that_does_not_come_to_an_end_is_a_problem(
    document: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C98: bounded, to less than its second here."""
    monkeypatch.setattr(schema, "PATIENCE", 0.05)
    evil = "a" * 60 + "!"
    assert [fault.code for fault in schema.validate({"a": evil, evil: 1}, document)] == [schema.TOO_SLOW]


@pytest.mark.parametrize(
    ("named", "good", "bad"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2026-02-28", "2026-W09-6"),
        ("date-time", "2026-02-28T10:00:00Z", "2026-02-28T10:00:00"),
        ("time", "10:00:00", "25:00"),
        ("uuid", "0b0e6bd4-2f3c-4c7a-9d1c-2f2a3b0a9f11", "x"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "::g"),
        ("email", "a@b", "ab"),
    ],
)
def test_formats_are_checked_where_it_is_asked_for(named: str, good: str, bad: str) -> None:
    document = {"items": {"format": named}}
    found = schema.validate([good, bad, 5], document, formats=True)
    assert [(fault.path, fault.code) for fault in found] == [("/1", "format")]
    assert schema.validate([bad], document) == []


def test_of_a_choice_is_told_what_is_wrong_with_the_way_that_fits_best() -> None:
    ways = {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]}
    found = schema.validate({"a": {"n": "x"}}, {"properties": {"a": ways}})
    assert [(fault.path, fault.code) for fault in found] == [("/a/n", "type")]
