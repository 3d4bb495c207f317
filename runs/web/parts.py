"""What a JSON Schema says about one value, as far as a form can ask for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from django.utils.translation import gettext

from runs.engine import canonical
from runs.engine.patch import tokens
from runs.engine.schema import validate
from runs.templatetags import pretty

MISSING: Final = pretty.MISSING
LONG: Final = 60  # characters above which a text gets lines
HOPS: Final = 12  # references that are followed from one place
SIMPLE: Final = ("string", "integer", "number", "boolean")
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """kind: text, lines, date, integer, number, boolean, choice, const, object, list, union; json is anything else.

    options: the values of a choice, the one of a const, the schemas of a union.
    """

    kind: str
    schema: Schema
    nullable: bool = False
    options: Sequence[Any] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


def resolve(schema: Any, root: Any, above: tuple[int, ...] = ()) -> Schema:
    """A schema with its references followed and what must all hold put together; {} where nothing is said.

    above: the schemas that led here, for those that lead back to themselves.
    """
    if not isinstance(schema, dict) or id(schema) in above or len(above) > HOPS:
        return {}
    found, here = dict(schema), (*above, id(schema))
    target = found.pop("$ref", None)
    if target is not None:
        found = {**resolve(_at(root, target), root, here), **found}
    for part in found.pop("allOf", None) or ():
        found = _both(found, resolve(part, root, here))
    return found


def part_of(schema: Any, value: Any, root: Any) -> Part:
    """What to ask for at a place, given the value that is there (or MISSING)."""
    found = resolve(schema, root)
    if "const" in found:
        return Part("const", found, options=[found["const"]])
    if isinstance(found.get("enum"), list) and found["enum"]:
        return _choice(found, found["enum"], value)
    for word in ("anyOf", "oneOf"):
        if isinstance(found.get(word), list) and found[word]:
            return _of_ways(found, found[word], value, root)
    told = found.get("type")
    if isinstance(told, list):
        return _of_ways(found, [{**found, "type": one} for one in told], value, root)
    return _of_type(found, told, value, root)


def chosen(part: Part, value: Any, root: Any) -> int:
    """Which way of a union a value goes."""
    if value is MISSING:
        return 0
    fits = (
        place for place, way in enumerate(part.options) if not validate(value, _standing_alone(way, root))
    )
    return next(fits, 0)


def members(schema: Schema, value: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of each member that an object has or may have, in the schema's order, then in that of the alphabet."""
    told, others = schema.get("properties"), schema.get("additionalProperties")
    named = dict(told) if isinstance(told, dict) else {}
    rest = others if isinstance(others, dict) else {}
    return {**named, **dict.fromkeys(sorted(set(value) - set(named)), rest)}


def name_of(way: Any, root: Any) -> str:
    """A way of a union in a word or two."""
    found = resolve(way, root)
    if isinstance(found.get("title"), str):
        return str(found["title"])
    reference = way.get("$ref") if isinstance(way, dict) else None
    if isinstance(reference, str) and "/" in reference:
        return reference.rpartition("/")[2]
    words = {
        "string": gettext("text"),
        "integer": gettext("whole number"),
        "boolean": gettext("true or false"),
        "array": gettext("list"),
    }
    told = str(found.get("type") or "")
    return words.get(told, told) or gettext("anything")


def first_value(schema: Any, root: Any) -> Any:
    """What a new value starts with, where the schema says so."""
    found = resolve(schema, root)
    return found["const"] if "const" in found else found.get("default", MISSING)


# ---- inside


def _at(root: Any, reference: Any) -> Schema:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    found = root
    for token in tokens(reference[1:]) if reference != "#" else []:
        if isinstance(found, list) and token.isdigit() and int(token) < len(found):
            found = found[int(token)]
        else:
            found = found.get(token, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _both(one: Schema, other: Schema) -> dict[str, Any]:
    joined = {**other, **one}
    if "properties" in one and "properties" in other:
        joined["properties"] = {**other["properties"], **one["properties"]}
    if "required" in one and "required" in other:
        joined["required"] = [*other["required"], *one["required"]]
    return joined


def _of_ways(found: Schema, ways: Sequence[Any], value: Any, root: Any) -> Part:
    """Of several schemas of which one holds: one beside null, a list of constants, or a union."""
    drawn = [resolve(way, root) for way in ways]
    real = [way for way, one in zip(ways, drawn, strict=True) if one.get("type") != "null"]
    nullable = len(real) < len(ways)
    outer = {key: told for key, told in found.items() if key not in ("anyOf", "oneOf", "type")}
    if len(real) == 1:
        inside = part_of(_both(outer, resolve(real[0], root)), MISSING if value is None else value, root)
        return Part(inside.kind, inside.schema, nullable, inside.options, inside.properties)
    constants = [one["const"] for one in drawn if "const" in one]
    if len(constants) == len(ways) and constants:
        return _choice(found, constants, value)
    return Part("union", found, nullable, real) if real else Part("json", found)


def _choice(found: Schema, values: Sequence[Any], value: Any) -> Part:
    fits = value is MISSING or any(canonical.same(value, option) for option in values)
    return Part("choice" if fits else "json", found, options=list(values))


def _of_type(found: Schema, told: Any, value: Any, root: Any) -> Part:
    if told is None and ("properties" in found or "items" in found):
        told = "object" if "properties" in found else "array"
    if told is None:
        told = _type_of(value)
    if told == "object":
        return _object(found, value)
    if told == "array" and (value is MISSING or isinstance(value, list)):
        asks = isinstance(found.get("items"), dict) or isinstance(found.get("prefixItems"), list)
        return Part("list" if asks else "json", found)
    fits = value is MISSING or _type_of(value) == told or (told, _type_of(value)) == ("number", "integer")
    if not fits or told not in SIMPLE:
        return Part("json", found)
    return Part(_text_kind(found, value) if told == "string" else str(told), found)


def _object(found: Schema, value: Any) -> Part:
    asks = isinstance(found.get("properties"), dict) or isinstance(found.get("additionalProperties"), dict)
    if not asks or not (value is MISSING or value is None or isinstance(value, dict)):
        return Part("json", found)
    properties = members(found, value if isinstance(value, dict) else {})
    return Part("object", found, properties=properties) if properties else Part("json", found)


def _text_kind(found: Schema, value: Any) -> str:
    if found.get("format") == "date" and (value is MISSING or _is_date(value)):
        return "date"
    return "lines" if isinstance(value, str) and ("\n" in value or len(value) > LONG) else "text"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _type_of(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return kinds.get(type(value), "json")


def _standing_alone(way: Any, root: Any) -> Any:
    """A way with the definitions that it may refer to."""
    return (
        {**way, "$defs": root.get("$defs", {})} if isinstance(way, dict) and isinstance(root, dict) else way
    )
