"""Arguments as form fields, from a flat JSON Schema: drawn, and read back exactly. Pure.

One field a property. Texts, numbers, booleans and choices get a field of their kind; whatever else (lists, objects,
unions) is a small JSON text. What may not be edited is shown and never sent. Numbers are read as JSON literals, so no
digit is lost; a text that comes back as it was shown, but for line ends, is the text that was proposed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.safestring import SafeString

from runs.engine import canonical
from runs.errors import InvalidJson, Problem
from runs.templatetags import hidden, pretty

MISSING: Final = pretty.MISSING
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")
_INTEGER: Final = re.compile(r"-?(0|[1-9]\d*)\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """kind: text, lines, integer, number, boolean, choice or json. value: the text in the field."""

    id: str
    name: str
    kind: str
    value: str
    editable: bool
    present: bool
    required: bool
    hint: str
    choices: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    in_proposal: bool = True
    shown: SafeString | str = ""
    hidden_count: int = 0
    hidden_note: SafeString | str = ""

    @property
    def wrong(self) -> bool:
        return bool(self.errors)

    @property
    def described(self) -> str:
        """Ids of what explains the field, for aria-describedby."""
        parts = [(self.wrong, "wrong"), (bool(self.hint), "hint")]
        return " ".join(f"{self.id}-{part}" for there, part in parts if there)


@dataclass(frozen=True, slots=True)
class Read:
    """What came back: the arguments, or what is wrong with single fields."""

    args: dict[str, Any]
    problems: list[Problem]


def drawable(args: Any, schema: Any) -> bool:
    """Whether the arguments can be a form: an object, and a schema that says what may be in it."""
    return isinstance(args, dict) and (schema is None or isinstance(schema, dict))


def draw(
    args: Mapping[str, Any],
    schema: Any,
    editable: Sequence[str],
    *,
    typed: Mapping[str, str] | None = None,
    problems: Sequence[Problem] = (),
    prefix: str = "arg-",
) -> list[Field]:
    """The fields in the schema's order. `typed` holds what was sent, by field name, and wins over the proposal."""
    properties = _properties(schema)
    required = set((schema or {}).get("required") or ()) if isinstance(schema, dict) else set()
    names = [*properties, *sorted(set(args) - set(properties))]
    return [
        _field(
            name,
            args.get(name, MISSING),
            properties.get(name),
            editable=editable,
            required=name in required,
            typed=typed or {},
            problems=problems,
            id=f"{prefix}{number}",
        )
        for number, name in enumerate(names, 1)
    ]


def read(args: Mapping[str, Any], schema: Any, editable: Sequence[str], sent: Mapping[str, str]) -> Read:
    """The arguments that a sent form means. What may not be edited stays as proposed, whatever was sent."""
    result = dict(args)
    problems: list[Problem] = []
    for field in draw(args, schema, editable):
        if not field.editable or field.name not in sent:
            continue
        if not field.in_proposal and not sent.get(f"{field.name}:set"):
            continue
        try:
            result[field.name] = _parse(field, sent[field.name], args.get(field.name, MISSING))
        except InvalidJson as error:
            path = f"/{canonical.escape(field.name)}"
            problems += [
                Problem(path + problem.path, problem.code, problem.message) for problem in error.errors
            ]
    return Read(result, problems)


# ---- inside


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def _field(
    name: str,
    value: Any,
    schema: Any,
    *,
    editable: Sequence[str],
    required: bool,
    typed: Mapping[str, str],
    problems: Sequence[Problem],
    id: str,
) -> Field:
    part = schema if isinstance(schema, dict) else {}
    kind = _kind(part, value)
    proposed = _text(kind, value)
    path = f"/{canonical.escape(name)}"
    found = hidden.count(value) if isinstance(value, str) else {}
    return Field(
        id=id,
        name=name,
        kind=kind,
        value=typed.get(name, proposed),
        editable=any(place == path or place.startswith(f"{path}/") for place in editable),
        present=value is not MISSING or bool(typed.get(f"{name}:set")),
        required=required,
        hint=_hint(kind, part),
        choices=_choices(kind, part),
        errors=tuple(p.message for p in problems if p.path == path or p.path.startswith(f"{path}/")),
        in_proposal=value is not MISSING,
        hidden_count=sum(found.values()),
        hidden_note=hidden.draw(value) if isinstance(value, str) and found else "",
        shown=_shown(value),
    )


def _shown(value: Any) -> SafeString | str:
    """A value that may not be edited: a text of several lines as it reads, anything else as JSON."""
    if value is MISSING:
        return ""
    return hidden.draw(value) if isinstance(value, str) and "\n" in value else pretty.inline(value)


def _kind(schema: Mapping[str, Any], value: Any) -> str:
    options = schema.get("enum")
    if isinstance(options, list) and options and all(isinstance(option, str) for option in options):
        return "choice" if value is MISSING or value in options else "json"
    told = schema.get("type")
    if told is None and "anyOf" not in schema and "$ref" not in schema and "oneOf" not in schema:
        told = _type_of(value)
    fits = value is MISSING or _type_of(value) == told or (told == "number" and _type_of(value) == "integer")
    if not fits or told not in ("string", "integer", "number", "boolean"):
        return "json"
    if told == "string":
        return "lines" if isinstance(value, str) and ("\n" in value or len(value) > 60) else "text"
    return str(told)


def _type_of(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return kinds.get(type(value), "json")


def _text(kind: str, value: Any) -> str:
    if value is MISSING:
        return ""
    if kind in ("text", "lines", "choice"):
        return str(value)
    return canonical.dumps(value, indent=2 if kind == "json" else None)


def _parse(field: Field, sent: str, proposed: Any) -> Any:
    if field.kind in ("text", "lines", "choice"):
        return _text_back(sent, proposed)
    literal = sent.strip()
    if field.kind == "integer" and not _INTEGER.match(literal):
        raise _not(
            f"{literal!r} is not a whole number" if literal else "a whole number is missing", "integer"
        )
    if field.kind == "number" and not _NUMBER.match(literal):
        raise _not(
            f"{literal!r} is not a number such as 12.50" if literal else "a number is missing", "number"
        )
    return canonical.parse(literal)


def _text_back(sent: str, proposed: Any) -> str:
    # A browser sends line ends as CR LF whatever was shown; only that difference is not an edit.
    plain = sent.replace("\r\n", "\n")
    if isinstance(proposed, str) and plain == proposed.replace("\r\n", "\n"):
        return proposed
    canonical.check(plain)
    return plain


def _not(message: str, code: str) -> InvalidJson:
    return InvalidJson(message, errors=[Problem("", code, message)])


def _hint(kind: str, schema: Mapping[str, Any]) -> str:
    said = str(schema.get("description") or "")
    limits = _limits(schema)
    form = {"integer": "Whole number", "number": "Number", "json": "JSON"}.get(kind, "")
    asked = ", ".join(part for part in (form, *limits) if part)
    if said and asked:
        return f"{said.rstrip('.')}; {asked[0].lower() if form != 'JSON' else asked[0]}{asked[1:]}"
    return asked or said.rstrip(".")


def _limits(schema: Mapping[str, Any]) -> list[str]:
    said = [
        ("minimum", "at least {}"),
        ("maximum", "at most {}"),
        ("exclusiveMinimum", "more than {}"),
        ("exclusiveMaximum", "less than {}"),
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("pattern", "pattern {}"),
        ("format", "{}"),
    ]
    return [text.format(_plain(schema[key])) for key, text in said if key in schema]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical.dumps(value)


def _choices(kind: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    if kind == "boolean":
        return ("true", "false")
    return tuple(schema["enum"]) if kind == "choice" else ()
