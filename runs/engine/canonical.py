"""JSON as this product keeps it: parsed strictly, printed canonically, digested.

Canonical form: UTF-8, object keys sorted by code point, no white space, integers with all their digits,
floats by their shortest form that reads back the same (so 1.0 stays 1.0 and -0.0 stays -0.0), strings
escaped only where JSON demands it. (RFC 8785 is not used: it cannot carry integers beyond 2^53.)

Refused at every door: U+0000, lone surrogates, NaN and infinities, integers of more than 4,000 digits,
duplicate keys, more than 100 levels. Each fault comes with the JSON Pointer where it stands.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # typeshed leaves one out
from typing import Any, Final

from pydantic_core import from_json

from runs.errors import InvalidJson, Problem, Told, TooLarge

Json = Any  # None | bool | int | float | str | list[Json] | dict[str, Json]; recursive aliases cost more than they tell

MAX_DEPTH: Final = 100
MAX_DIGITS: Final = 4_000
INPUT_LIMIT: Final = 1024 * 1024
STATE_LIMIT: Final = 8 * 1024 * 1024
_FAULTY: Final = re.compile("[\0\ud800-\udfff]")  # what no text may have
_TOO_LONG: Final = 10**MAX_DIGITS  # comparing with it is cheap; counting digits is quadratic
_MAX_REPORTED: Final = 20

# Python refuses to print an int of more than 4,300 digits. Ours stop at 4,000, but an embedding program may have lowered it.
if 0 < sys.get_int_max_str_digits() < MAX_DIGITS + 100:
    sys.set_int_max_str_digits(MAX_DIGITS + 100)

# A string that is never closed matches up to the end: else each of its escaped quotes would be tried as a start.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


# What `json.JSONEncoder` makes anew for each document, made once: that took longer than to write a small one. It does not look
# for a document within itself; what comes here has been checked.
_chunks: Final = c_make_encoder(
    None, json.JSONEncoder().default, encode_basestring, None, ":", ",", True, False, False
)


class _Marked:
    """Stands in the parsed tree where a literal or key was at fault, until its path is known."""

    __slots__ = ("code", "message", "value")

    def __init__(self, code: str, message: str, value: Json = None) -> None:
        self.code, self.message, self.value = code, message, value


def parse(text: str | bytes, *, limit: int = INPUT_LIMIT, max_depth: int = MAX_DEPTH) -> Json:
    """Read one JSON document. Raises `InvalidJson` with pointers, or `TooLarge`.

    max_depth: more than 100 only for an envelope whose documents are checked again by themselves.
    """
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise TooLarge(
            Told("The document has {size:,} bytes; the limit is {limit:,}.", size=size, limit=limit),
            size=size,
            limit=limit,
        )
    if isinstance(text, bytes):
        text = _decode(text)
    _refuse_depth(text, max_depth)
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_pairs,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=lambda name: _Marked("non_finite_number", f"{name} is not a JSON number"),
        )
    except json.JSONDecodeError as error:
        problem = Problem(
            "",
            "syntax",
            Told(
                "{msg} at line {lineno}, column {colno}",
                msg=_worded(error.msg),
                lineno=error.lineno,
                colno=error.colno,
            ),
        )
        raise InvalidJson(
            Told("Not JSON: {message}.", message=problem.message),
            errors=[problem],
            line=error.lineno,
            column=error.colno,
        ) from None
    check(tree, max_depth=max_depth)
    return tree


def check(value: Json, *, max_depth: int = MAX_DEPTH) -> None:
    """Raise `InvalidJson` with every fault (at most 20) of an already parsed document."""
    if _is_sound(value, max_depth):
        return
    problems = []
    for problem in _faults(value, "", max_depth):
        problems.append(problem)
        if len(problems) == _MAX_REPORTED:
            break
    if problems:
        first = problems[0]
        raise InvalidJson(
            Told("{message} at {path}.", message=first.message, path=first.path or "the top"), errors=problems
        )


def dumps(value: Json, *, indent: int | None = None) -> str:
    """Canonical text of a document; with `indent`, the same order and numbers laid out for people."""
    if indent is None:
        return "".join(_chunks(value, 0))
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ": "), indent=indent
    )


def loads(text: str) -> Json:
    """Read text that `dumps` wrote. Trusted: no checks."""
    try:
        return from_json(text)  # twice as fast, with all digits of all numbers
    except ValueError:  # nor as deep: 200 levels, and a position may have more
        return json.loads(text)


def digest(value: Json) -> str:
    """SHA-256 of the canonical text, in hex."""
    return digest_of(dumps(value))


def digest_of(text: str) -> str:
    """`digest` of the document whose canonical text this is."""
    return hashlib.sha256(text.encode()).hexdigest()


def same(left: Json, right: Json) -> bool:
    """Equal as JSON: unlike `==`, tells 1 from 1.0 and from true, and 0.0 from -0.0."""
    return first_difference(left, right) is None


def first_difference(left: Json, right: Json, path: str = "") -> str | None:
    """JSON Pointer of the first place where two documents differ, or None."""
    if type(left) is not type(right):
        return path
    if isinstance(left, dict):
        if left.keys() != right.keys():
            return path
        return _first(first_difference(left[key], right[key], f"{path}/{escape(key)}") for key in left)
    if isinstance(left, list):
        if len(left) != len(right):
            return path
        return _first(
            first_difference(a, b, f"{path}/{i}") for i, (a, b) in enumerate(zip(left, right, strict=True))
        )
    if isinstance(left, float) and left == 0 == right:
        return None if math.copysign(1, left) == math.copysign(1, right) else path
    return None if left == right else path


def escape(key: str) -> str:
    """A key as a token of a JSON Pointer (RFC 6901), with what cannot be seen spelled out."""
    return visible(key.replace("~", "~0").replace("/", "~1"))


def visible(text: str) -> str:
    """Text in which U+0000 and lone surrogates are written as `\\uXXXX`, so that it can be stored and shown."""
    if text.isascii() and "\0" not in text:
        return text
    return "".join(f"\\u{ord(c):04x}" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def is_name(text: object, longest: int) -> bool:
    """Whether this is a text of 1 to so many characters that can be stored as it is."""
    return isinstance(text, str) and 0 < len(text) <= longest and visible(text) == text


def _first(found: Iterator[str | None]) -> str | None:
    return next((path for path in found if path is not None), None)


# How json says what is wrong begins so; what we say of it, for whoever wrote the document.
_SYNTAX: Final = {
    "Unexpected UTF-8 BOM": Told("a byte order mark stands before the document; send it without one"),
    "Expecting value": Told("a value is needed: an object, a list, a text, a number, true, false or null"),
    "Expecting property name": Told("a key in double quotes is needed"),
    "Expecting ':'": Told("a colon is needed between key and value"),
    "Expecting ','": Told("a comma or the end of the object or list is needed"),
    "Illegal trailing comma": Told("a comma stands behind the last item"),
    "Extra data": Told("the document has ended before; one document is needed"),
    "Invalid control character": Told(
        "a line break or another control character in a text is written as an escape"
    ),
    "Invalid \\": Told(
        "a backslash in a text begins an escape that JSON does not know; itself it is written twice"
    ),
    "Unterminated string": Told("the text that begins here has no closing quote"),
}


def _worded(message: str) -> str:
    return next((words for start, words in _SYNTAX.items() if message.startswith(start)), message)


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = Problem("", "not_utf8", Told("byte {start} is not UTF-8", start=error.start))
        raise InvalidJson("JSON is UTF-8.", errors=[problem]) from None


def _refuse_depth(text: str, max_depth: int) -> None:
    # Before parsing: the parser recurses, and how deep it may go differs between versions of Python.
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket.group() in "[{" else -1
        if depth > max_depth:
            problem = Problem(
                "", "too_deep", Told("nested more than {max_depth} levels deep", max_depth=MAX_DEPTH)
            )
            raise InvalidJson(
                Told("The document is {message}.", message=problem.message), errors=[problem], limit=MAX_DEPTH
            )


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for key, value in pairs:
        result[key] = (
            _Marked("duplicate_key", f"the key {visible(key)!r} stands here twice", value)
            if key in result
            else value
        )
    return result


def _integer(literal: str) -> Json:
    if len(literal.lstrip("-")) > MAX_DIGITS:
        return _Marked("number_too_long", f"an integer has at most {MAX_DIGITS:,} digits")
    return int(literal)


def _float(literal: str) -> Json:
    value = float(literal)
    return value if math.isfinite(value) else _Marked("non_finite_number", "the number is beyond a double")


def _is_sound(value: Json, room: int) -> bool:
    """Whether a document has no fault, at a glance: most have none, and to say where one is takes several times as long."""
    kind = type(value)
    if kind is str:
        return _FAULTY.search(value) is None
    if kind is int:
        return bool(abs(value) < _TOO_LONG)
    if value is None or kind is bool:
        return True
    if kind is float:
        return math.isfinite(value)
    if room == 0:
        return False
    if kind is list:
        return all(_is_sound(item, room - 1) for item in value)
    if kind is not dict:
        return False
    names = all(type(key) is str and not _FAULTY.search(key) for key in value)
    return names and all(_is_sound(item, room - 1) for item in value.values())


def _faults(value: Json, path: str, room: int) -> Iterator[Problem]:
    if isinstance(value, str):
        yield from _text_faults(value, path, "the text")
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        if abs(value) >= _TOO_LONG:
            yield Problem(
                path,
                "number_too_long",
                Told("an integer has at most {max_digits:,} digits", max_digits=MAX_DIGITS),
            )
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(path, "non_finite_number", Told("{value} is not a JSON number", value=value))
    elif isinstance(value, _Marked):
        yield Problem(path, value.code, value.message)
        yield from _faults(value.value, path, room)
    elif isinstance(value, (dict, list)):
        yield from _container_faults(value, path, room)
    else:
        yield Problem(path, "not_json", Told("{name} is not a JSON value", name=type(value).__name__))


def _container_faults(value: dict[Any, Json] | list[Json], path: str, room: int) -> Iterator[Problem]:
    if room == 0:
        yield Problem(path, "too_deep", Told("nested more than {max_depth} levels deep", max_depth=MAX_DEPTH))
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, f"{path}/{index}", room - 1)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            yield Problem(path, "not_json", Told("the key {key!r} is not a text", key=key))
            continue
        place = f"{path}/{escape(key)}"
        yield from _text_faults(key, place, "the key")
        yield from _faults(item, place, room - 1)


def _text_faults(text: str, path: str, what: str) -> Iterator[Problem]:
    if "\0" in text:
        yield Problem(path, "nul_character", Told("{what} has the character U+0000", what=what))
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        yield Problem(path, "lone_surrogate", Told("{what} has a lone surrogate", what=what))
