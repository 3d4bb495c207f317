"""What a form of fields means when it comes back: the arguments, exactly, or what is wrong with single fields. Pure.

Numbers are read as JSON literals, so no digit is lost; a text that comes back as it was shown, but for line ends, is the text
that was proposed. What may not be edited stays as proposed, whatever was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.utils.translation import gettext

from runs.engine import canonical
from runs.errors import InvalidJson, Problem
from runs.web.fields import MAX_DIGITS, PLAIN, Field, draw
from runs.web.parts import MISSING

_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")
_INTEGER: Final = re.compile(r"-?(0|[1-9]\d*)\Z")
NOT_FILLED: Final = "not_filled"


@dataclass(frozen=True, slots=True)
class Read:
    """What came back: the arguments, or what is wrong with single fields."""

    args: dict[str, Any]
    problems: list[Problem]


def read(args: Mapping[str, Any], schema: Any, editable: Sequence[str], sent: Mapping[str, str]) -> Read:
    """The arguments that a sent form means."""
    problems: list[Problem] = []
    fields = draw(args, schema, editable, typed=sent)
    return Read(_members(dict(args), fields, sent, problems), problems)


def more(sent: Mapping[str, str], name: str) -> dict[str, str]:
    """The form with one more row in a list."""
    rows, number = sent.get(f"{name}:rows", ""), sent.get(f"{name}:new", "0")
    after = int(number) + 1 if number.isdecimal() and len(number) < MAX_DIGITS else 1
    return {**sent, f"{name}:rows": f"{rows},{number}", f"{name}:new": str(after)}


def fewer(sent: Mapping[str, str], name: str) -> dict[str, str]:
    """The form without a row of a list; name: the row's own."""
    whole, _, row = name.rpartition("/")
    rows = [part for part in sent.get(f"{whole}:rows", "").split(",") if part != row]
    return {**sent, f"{whole}:rows": ",".join(rows)}


# ---- inside


def _members(
    result: dict[str, Any], fields: Sequence[Field], sent: Mapping[str, str], problems: list[Problem]
) -> dict[str, Any]:
    for field in fields:
        value = _value(field, sent, problems)
        if value is MISSING:
            result.pop(field.label, None)
        else:
            result[field.label] = value
    return result


def _value(field: Field, sent: Mapping[str, str], problems: list[Problem]) -> Any:
    if not field.editable:
        return field.proposed
    if not field.present:
        return MISSING
    if field.empty:
        return None
    try:
        return _inside(field, sent, problems) if field.is_group else _leaf(field, sent)
    except InvalidJson as error:
        problems += [
            Problem(field.path + problem.path, problem.code, problem.message) for problem in error.errors
        ]
        return field.proposed


def _inside(field: Field, sent: Mapping[str, str], problems: list[Problem]) -> Any:
    if field.kind == "list":
        if f"{field.name}:rows" not in sent:
            return field.proposed if field.in_proposal else []
        rows = [_value(row, sent, problems) for row in field.children]
        return [value for value in rows if value is not MISSING]
    shown = sent.get(f"{field.name}:in")
    if not any(field.name + mark in sent for mark in (":in", ":nullable", ":may")):
        return field.proposed
    if shown != field.chosen:
        raise _wrong(gettext("its fields stand here now; fill them in, then save"), NOT_FILLED)
    if field.kind == "union":
        return _value(field.children[0], sent, problems)
    proposed = dict(field.proposed) if isinstance(field.proposed, dict) else {}
    return _members(proposed, field.children, sent, problems)


def _leaf(field: Field, sent: Mapping[str, str]) -> Any:
    if field.kind == "const":
        return field.choices[0].meant
    if field.name not in sent:
        return field.proposed
    typed = sent[field.name]
    if field.kind in PLAIN:
        return _text(typed, field.proposed)
    if field.kind in ("choice", "boolean"):
        return _chosen(field, typed)
    return _literal(field.kind, typed.strip())


def _chosen(field: Field, typed: str) -> Any:
    for choice in field.choices:
        if choice.value == typed:
            return choice.meant
    raise _wrong(
        gettext("{typed!r} is none of what can be chosen").format(typed=typed)
        if typed
        else gettext("choose one"),
        "enum",
    )


def _literal(kind: str, literal: str) -> Any:
    if kind == "integer" and not _INTEGER.match(literal):
        raise _wrong(
            gettext("{literal!r} is not a whole number").format(literal=literal)
            if literal
            else gettext("a whole number is missing"),
            kind,
        )
    if kind == "number" and not _NUMBER.match(literal):
        raise _wrong(
            gettext("{literal!r} is not a number such as 12.50").format(literal=literal)
            if literal
            else gettext("a number is missing"),
            kind,
        )
    value = canonical.parse(literal)
    if kind == "number" and isinstance(value, float) and Decimal(literal) != Decimal(repr(value)):
        raise _wrong(
            gettext("a number has room for {dumps} only, not for all these digits").format(
                dumps=canonical.dumps(value)
            ),
            kind,
        )
    return value


def _text(sent: str, proposed: Any) -> str:
    # A browser sends line ends as CR LF whatever was shown; only that difference is not an edit.
    plain = sent.replace("\r\n", "\n")
    if isinstance(proposed, str) and plain == proposed.replace("\r\n", "\n"):
        return proposed
    canonical.check(plain)
    return plain


def _wrong(message: str, code: str) -> InvalidJson:
    return InvalidJson(message, errors=[Problem("", code, message)])
