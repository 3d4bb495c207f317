"""JSON Schema of an action's arguments: checked with the `jsonschema` package, faults as problems with pointers."""

from __future__ import annotations

from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from runs.engine.canonical import Json, visible
from runs.engine.patch import pointer
from runs.errors import Problem

_MOST = 20
# A registry of our own that knows nothing else: the package's default one opens the address of any $ref, files too.
_NOWHERE: Registry[Any] = Registry()


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
    validator = Draft202012Validator(schema, registry=_NOWHERE)
    try:
        for error in islice(validator.iter_errors(document), _MOST):
            path = pointer(list(error.absolute_path))
            problems.append(Problem(path, _code(error), visible(error.message)[:500]))
    except Unresolvable as error:
        problems.append(Problem("", "bad_schema", f"the schema refers to {error.ref!r}, which is not in it"))
    except RecursionError:
        problems.append(Problem("", "bad_schema", "the schema goes deeper into itself than can be followed"))
    return problems


def _code(error: Any) -> str:
    return "required" if error.validator == "required" else str(error.validator or "false_schema")
