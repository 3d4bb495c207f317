"""JSON Schema of an action's arguments: checked with the `jsonschema` package, faults as problems with pointers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import date, datetime, time
from itertools import islice
from typing import Any, Final
from uuid import UUID

import regex
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from runs.engine.canonical import Json, visible
from runs.engine.patch import pointer
from runs.errors import Problem, Told

TOO_SLOW: Final = "pattern_too_slow"
PATIENCE: Final = 1.0  # seconds that one text may take against one pattern
_MOST: Final = 20
# A registry of our own that knows nothing else: the package's default one opens the address of any $ref, files too.
_NOWHERE: Registry[Any] = Registry()
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
_CHECKED_FORMATS: Final = ("date", "time", "date-time", "uuid", "ipv4", "ipv6", "email")
KNOWN_FORMATS: Final = frozenset(
    [
        *_CHECKED_FORMATS,
        *("duration", "hostname", "idn-email", "idn-hostname", "iri", "iri-reference", "uri"),
        *("uri-reference", "uri-template", "json-pointer", "relative-json-pointer", "regex"),
        # what OpenAPI and pydantic write
        *("int32", "int64", "float", "double", "decimal", "byte", "binary", "base64url", "password"),
        *("json-string", "path", "file-path", "directory-path", "multi-host-uri"),
        *("ipvanyaddress", "ipvanyinterface", "ipvanynetwork"),
        *("ipv4interface", "ipv4network", "ipv6interface", "ipv6network"),
    ]
)


class _TooSlow(Exception):
    def __init__(self, pattern: str) -> None:
        super().__init__(f"the pattern {pattern} takes too long to decide; nothing can be checked against it")


def check_schema(schema: Json) -> list[Problem]:
    """What is wrong with a schema itself."""
    if schema is None or isinstance(schema, bool):
        return []
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return [Problem("/schema" + pointer(list(error.absolute_path)), "bad_schema", visible(error.message))]
    return []


def fault(schema: Json) -> str:
    """Why nothing can be checked against a schema that is written as it should be; nothing if it can."""
    if not isinstance(schema, dict):
        return ""
    root: Resource[Any] = DRAFT202012.create_resource(schema)
    resolver = _NOWHERE.with_resource("", root).resolver()
    try:
        return next((said for part in _parts(root) if (said := _fault_of(part, resolver))), "")
    except RecursionError:
        return "it goes deeper into itself than can be followed"


def validate(document: Json, schema: Json, *, formats: bool = False) -> list[Problem]:
    """Where a document does not fit a schema; at most 20 places. References to other documents are never fetched.

    formats: whether texts are dates, addresses and so on where the schema says so. A pattern that takes longer than a second
    is a problem of the code `pattern_too_slow`.
    """
    if schema is None or schema is True:
        return []
    problems = []
    validator = _Validator(schema, registry=_NOWHERE, format_checker=_FORMATS if formats else None)
    try:
        for found in islice(validator.iter_errors(document), _MOST):
            error = best_match([found]) or found  # of a choice, what is wrong with the way that fits best
            path = pointer(list(error.absolute_path))
            problems.append(Problem(path, _code(error), visible(error.message)[:500]))
    except Unresolvable as error:
        problems.append(
            Problem("", "bad_schema", Told("the schema refers to {ref!r}, which is not in it", ref=error.ref))
        )
    except RecursionError:
        problems.append(Problem("", "bad_schema", "the schema goes deeper into itself than can be followed"))
    except _TooSlow as error:
        problems.append(Problem("", TOO_SLOW, visible(str(error))[:500]))
    except regex.error as error:
        problems.append(Problem("", "bad_schema", visible(f"a pattern of the schema is none: {error}")[:500]))
    return problems


def _code(error: Any) -> str:
    return "required" if error.validator == "required" else str(error.validator or "false_schema")


# ---- faults of a schema


def _parts(root: Resource[Any]) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part.contents, dict):
            yield part.contents
            waiting += reversed(list(part.subresources()))


def _fault_of(part: dict[str, Any], resolver: Any) -> str:
    named = part.get("format")
    if isinstance(named, str) and named not in KNOWN_FORMATS:
        return visible(f"its format {named!r} is not known here")[:300]
    try:
        _compile(part)
        return "it refers to itself and to nothing else" if _turns(part, resolver, ()) else ""
    except Unresolvable as error:
        return visible(f"it refers to {error.ref!r}, which is not in it")[:300]
    except regex.error as error:
        return visible(f"a pattern in it is none: {error}")[:300]


def _compile(part: dict[str, Any]) -> None:
    for pattern in [part.get("pattern"), *(part.get("patternProperties") or ())]:
        if isinstance(pattern, str):
            regex.compile(pattern)


def _turns(part: Any, resolver: Any, above: tuple[int, ...]) -> bool:
    """Whether a schema comes back to itself without going into the document."""
    if not isinstance(part, dict):
        return False
    if id(part) in above:
        return True
    ways = [option for word in _IN_PLACE for option in part.get(word) or ()]
    if isinstance(part.get("$ref"), str):
        ways.append(resolver.lookup(part["$ref"]).contents)
    return any(_turns(way, resolver, (*above, id(part))) for way in ways)


# ---- patterns and formats


def _fits(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=PATIENCE) is not None
    except TimeoutError:
        raise _TooSlow(pattern) from None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _fits(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for pattern, part in patterns.items():
            for key in [key for key in instance if _fits(pattern, key)]:
                yield from validator.descend(instance[key], part, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    extras = [key for key in instance if key not in schema.get("properties", {})]
    extras = [key for key in extras if not any(_fits(pattern, key) for pattern in patterns)]
    if isinstance(allowed, dict):
        for key in extras:
            yield from validator.descend(instance[key], allowed, path=key)
    elif allowed is False and extras:
        names = ", ".join(map(repr, sorted(extras)))
        said = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({names} {said} unexpected)")


_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
)


def _is_of(format: str, text: str) -> bool:
    """Raises ValueError if not."""
    if format == "date":
        return date.fromisoformat(text).isoformat() == text  # that reads weeks, too
    if format == "date-time":
        return datetime.fromisoformat(text).tzinfo is not None
    if format == "email":
        return "@" in text
    parsed: Any = {
        "time": time.fromisoformat,
        "uuid": UUID,
        "ipv4": ipaddress.IPv4Address,
        "ipv6": ipaddress.IPv6Address,
    }
    return parsed[format](text) is not None


def _formats() -> FormatChecker:
    checker = FormatChecker(formats=())
    for name in _CHECKED_FORMATS:
        checker.checks(name, raises=ValueError)(_checks(name))
    return checker


def _checks(name: str) -> Any:
    return lambda value: not isinstance(value, str) or _is_of(name, value)


_FORMATS: Final = _formats()
