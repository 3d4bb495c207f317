"""JSON Schema of an action's arguments: checked with the `jsonschema` package, faults as problems with pointers."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from runs.engine.canonical import Json, visible
from runs.engine.patch import pointer
from runs.errors import Problem

_MOST = 20


def check_schema(schema: Json) -> list[Problem]:
    """What is wrong with a schema itself."""
    if schema is None or isinstance(schema, bool):
        return []
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return [Problem("/schema" + pointer(list(error.absolute_path)), "bad_schema", visible(error.message))]
    return []


def validate(document: Json, schema: Json) -> list[Problem]:
    """Where a document does not fit a schema; at most 20 places. References to other documents are never fetched."""
    if schema is None or schema is True:
        return []
    problems = []
    for error in Draft202012Validator(schema).iter_errors(document):
        problems.append(
            Problem(pointer(list(error.absolute_path)), _code(error), visible(error.message)[:500])
        )
        if len(problems) == _MOST:
            break
    return problems


def _code(error: Any) -> str:
    return "required" if error.validator == "required" else str(error.validator or "false_schema")
