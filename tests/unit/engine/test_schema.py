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
