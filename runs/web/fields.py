"""Arguments as form fields, from a JSON Schema: a tree that is drawn, whatever was typed so far. Pure.

Objects, lists, unions, constants and what may be null have fields of their own; whatever no field can ask for is a small JSON
text. What may not be edited is shown and never sent. A field is sent under its place in the proposal: the rows of a list
keep their number when others come or go, so a form that comes back means the same whatever was added meanwhile.
`filling.py` reads it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from runs.engine import canonical
from runs.engine.patch import pointer
from runs.errors import Problem
from runs.templatetags import hidden, pretty
from runs.tongue import said
from runs.web import parts
from runs.web.parts import MISSING, Part

DEEPEST: Final = 12  # levels with fields of their own; what lies deeper is JSON
MOST: Final = 1_500  # fields, above which nothing that is not there yet is asked for one by one: a schema may go on without end
GIVEN_SHOWN: Final = 10_000  # characters of a value that may not be edited
MAX_DIGITS: Final = 7  # of the number of a row
PLAIN: Final = ("text", "lines", "date")


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    meant: Any


@dataclass(frozen=True, slots=True)
class Field:
    """kind: as of a `Part`. name: under which it is sent; path: of its value in the arguments. value: the text in the field.

    proposed: the value that was proposed here, or MISSING. whole: it and everything in it may be edited; editable: something
    in it may. optional: whether it may be left out, which a tick says. empty: it is null. children: of an object and of the
    chosen way of a union, the rows of a list; row_numbers: under which these are sent, next_row: that of one more.
    """

    id: str
    name: str
    label: str
    path: str
    kind: str
    value: str
    proposed: Any
    editable: bool
    whole: bool
    present: bool
    optional: bool
    hint: str
    nullable: bool = False
    empty: bool = False
    choices: tuple[Choice, ...] = ()
    chosen: str = ""
    children: tuple[Field, ...] = ()
    row_numbers: str = ""
    next_row: int = 0
    errors: tuple[str, ...] = ()
    shown: SafeString | str = ""
    hidden_count: int = 0
    hidden_note: SafeString | str = ""
    level: int = 0

    @property
    def wrong(self) -> bool:
        return bool(self.errors)

    @property
    def is_group(self) -> bool:
        return self.kind in ("object", "list", "union")

    @property
    def in_proposal(self) -> bool:
        return self.proposed is not MISSING

    @property
    def described(self) -> str:
        """Ids of what explains the field, for aria-describedby."""
        said = [(self.wrong, "wrong"), (bool(self.hint), "hint")]
        return " ".join(f"{self.id}-{part}" for there, part in said if there)

    def all(self) -> Iterator[Field]:
        yield self
        for child in self.children:
            yield from child.all()


@dataclass(slots=True)
class _Form:
    """What every field of one form is drawn with."""

    root: Any
    editable: Sequence[str]
    typed: Mapping[str, str]
    problems: Sequence[Problem]
    prefix: str
    count: int = 0

    def next_id(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a field stands. name counts rows as they were sent, path as they are now."""

    name: str
    path: str
    label: str
    level: int = 0
    required: bool = True

    def under(
        self, token: str, *, now: str | None = None, label: str | None = None, required: bool = True
    ) -> _Place:
        return _Place(
            self.name + pointer([token]).replace(":", "~2"),  # what follows a colon is a mark of the form
            self.path + pointer([now if now is not None else token]),
            token if label is None else label,
            self.level + 1,
            required,
        )


def drawable(args: Any, schema: Any) -> bool:
    """Whether the arguments can be a form: an object, and a schema that says what may be in it."""
    if not isinstance(args, dict) or not (schema is None or isinstance(schema, dict)):
        return False
    return not ({"anyOf", "oneOf"} & set(parts.resolve(schema, schema)))


def draw(
    args: Mapping[str, Any],
    schema: Any,
    editable: Sequence[str],
    *,
    typed: Mapping[str, str] | None = None,
    problems: Sequence[Problem] = (),
    prefix: str = "arg-",
) -> tuple[Field, ...]:
    """The fields in the schema's order. `typed` holds what was sent, by the names of fields, and wins over the proposal."""
    form = _Form(schema, editable, typed or {}, problems, prefix)
    told = parts.resolve(schema, schema)
    whole = Part("object", told, properties=parts.members(told, args))
    return _members(form, whole, args, _Place("", "", "", level=-1))


# ---- inside: fields


def _field(form: _Form, schema: Any, proposed: Any, place: _Place) -> Field:
    number = form.next_id()
    whole, some = _rights(form.editable, place.path)
    if not some:
        return _given(number, proposed, place)
    part = parts.part_of(schema, proposed, form.root)
    if place.level > DEEPEST or (proposed is MISSING and form.count > MOST):
        part = Part("json", part.schema)
    if not whole and part.kind not in ("object", "list"):
        part = Part("json", part.schema)  # what of it may change is told when it comes back
    optional, present = _presence(form, proposed, place)
    drawn = Field(
        id=number,
        name=place.name,
        label=place.label,
        path=place.path,
        kind=part.kind,
        value=form.typed.get(place.name, _text(part.kind, _start(part, proposed, form))),
        proposed=proposed,
        editable=True,
        whole=whole,
        present=present,
        optional=optional,
        hint=_hint(part),
        nullable=part.nullable,
        empty=_is_empty(form, part, proposed, place),
        choices=_choices(part, form.root),
        errors=_errors(form, part, place),
        shown=_shown(proposed),
        level=place.level,
        **_finding(proposed),
    )
    return _filled(form, drawn, part, place)


def _rights(editable: Sequence[str], path: str) -> tuple[bool, bool]:
    """Whether all of a place may be edited, and whether anything in it."""
    whole = any(path == allowed or path.startswith(f"{allowed}/") for allowed in editable)
    return whole, whole or any(allowed.startswith(f"{path}/") for allowed in editable)


def _presence(form: _Form, proposed: Any, place: _Place) -> tuple[bool, bool]:
    """Whether a tick says that it is sent, and whether it is. A value that was taken out in the JSON has one too."""
    if f"{place.name}:may" in form.typed:
        return True, bool(form.typed.get(f"{place.name}:set"))
    there = proposed is not MISSING
    return not there and not place.required, there or place.required or _was_drawn(form, place)


def _was_drawn(form: _Form, place: _Place) -> bool:
    return any(place.name + mark in form.typed for mark in ("", ":in", ":rows"))


def _start(part: Part, proposed: Any, form: _Form) -> Any:
    return proposed if proposed is not MISSING else parts.first_value(part.schema, form.root)


def _is_empty(form: _Form, part: Part, proposed: Any, place: _Place) -> bool:
    if not part.nullable:
        return False
    if f"{place.name}:nullable" in form.typed:
        return bool(form.typed.get(f"{place.name}:null"))
    return proposed is None or (proposed is MISSING and parts.first_value(part.schema, form.root) is None)


def _filled(form: _Form, drawn: Field, part: Part, place: _Place) -> Field:
    """With what is inside; nothing is inside of what is left out, or null."""
    if not drawn.present or drawn.empty:
        return drawn
    if part.kind == "object":
        inside = drawn.proposed if isinstance(drawn.proposed, dict) else {}
        return replace(drawn, children=_members(form, part, inside, place))
    if part.kind == "list":
        return replace(drawn, **_rows(form, part, drawn, place))
    if part.kind == "union":
        return replace(drawn, **_way(form, part, drawn, place))
    return drawn


def _members(form: _Form, part: Part, values: Mapping[str, Any], place: _Place) -> tuple[Field, ...]:
    required = part.schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    return tuple(
        _field(form, schema, values.get(name, MISSING), place.under(name, required=name in needed))
        for name, schema in part.properties.items()
    )


def _rows(form: _Form, part: Part, drawn: Field, place: _Place) -> dict[str, Any]:
    proposed = drawn.proposed if isinstance(drawn.proposed, list) else []
    numbers = row_numbers(form.typed.get(f"{place.name}:rows"), len(proposed))
    children = [
        _field(
            form,
            _row_schema(part, now),
            proposed[number] if number < len(proposed) else MISSING,
            place.under(str(number), now=str(now), label=str(now + 1)),
        )
        for now, number in enumerate(numbers)
    ]
    told = form.typed.get(f"{place.name}:new", "")
    news = int(told) if told.isdecimal() and len(told) < MAX_DIGITS else 0
    return {
        "children": tuple(children),
        "row_numbers": ",".join(map(str, numbers)),
        "next_row": max([news, len(proposed), *(number + 1 for number in numbers)]),
    }


def row_numbers(sent: str | None, proposed: int) -> list[int]:
    """The rows of a list by their numbers: those of the proposal, then new ones. Nonsense counts as untouched."""
    told = (sent or "").split(",") if sent is not None else []
    if sent is None or not all(part.isdecimal() and len(part) < MAX_DIGITS for part in told if part):
        return list(range(proposed))
    return list(dict.fromkeys(int(part) for part in told if part))[: proposed + MOST]


def _row_schema(part: Part, place: int) -> Any:
    first = part.schema.get("prefixItems") or []
    return first[place] if place < len(first) else part.schema.get("items", {})


def _way(form: _Form, part: Part, drawn: Field, place: _Place) -> dict[str, Any]:
    meant = form.typed.get(f"{place.name}:as", "")
    inside = MISSING if drawn.proposed is None else drawn.proposed
    own = parts.chosen(part, inside, form.root)
    way = int(meant) if meant.isdecimal() and int(meant) < len(part.options) else own
    value = inside if way == own else MISSING
    label = parts.name_of(part.options[way], form.root)
    inner = _Place(place.name + "/", place.path, label, place.level, required=True)
    child = _field(form, part.options[way], value, inner)
    return {"chosen": str(way), "children": (child,)}


def _given(number: str, proposed: Any, place: _Place) -> Field:
    return Field(
        id=number,
        name=place.name,
        label=place.label,
        path=place.path,
        kind="json",
        value="",
        proposed=proposed,
        editable=False,
        whole=False,
        present=proposed is not MISSING,
        optional=False,
        hint="",
        shown=_shown(proposed),
        level=place.level,
        **_finding(proposed),
    )


# ---- inside: what a field shows


def _shown(value: Any) -> SafeString | str:
    """A value that may not be edited: a text of several lines as it reads, anything else as JSON."""
    if value is MISSING:
        return ""
    if len(value if isinstance(value, str) else canonical.dumps(value)) > GIVEN_SHOWN:
        return pretty.brief(value)
    return hidden.draw(value) if isinstance(value, str) and "\n" in value else pretty.inline(value)


def _finding(value: Any) -> dict[str, Any]:
    found = hidden.count(value) if isinstance(value, str) else {}
    return {"hidden_count": sum(found.values()), "hidden_note": hidden.draw(value) if found else ""}


def _text(kind: str, value: Any) -> str:
    if value is MISSING or (value is None and kind not in ("json", "choice")):
        return ""
    if kind in PLAIN and isinstance(value, str):
        return value
    if kind == "choice":
        return choice_value(value)
    return (
        ""
        if kind in ("object", "list", "union")
        else canonical.dumps(value, indent=2 if kind == "json" else None)
    )


def choice_value(value: Any) -> str:
    """What is sent for one of several values: a text as it is, unless it could be taken for something else."""
    plain = isinstance(value, str) and not value.startswith("json:")
    return str(value) if plain else f"json:{canonical.dumps(value)}"


def _choices(part: Part, root: Any) -> tuple[Choice, ...]:
    if part.kind == "boolean":
        return (Choice("true", "true", True), Choice("false", "false", False))
    if part.kind == "union":
        return tuple(
            Choice(str(place), parts.name_of(way, root), way) for place, way in enumerate(part.options)
        )
    if part.kind not in ("choice", "const"):
        return ()
    return tuple(
        Choice(choice_value(value), value if isinstance(value, str) else canonical.dumps(value), value)
        for value in part.options
    )


def _errors(form: _Form, part: Part, place: _Place) -> tuple[str, ...]:
    """What is wrong here; of a group only with itself, what is wrong inside stands there."""
    inside = part.kind in ("object", "list", "union")
    return tuple(
        said(problem.message)
        for problem in form.problems
        if problem.path == place.path or (not inside and problem.path.startswith(f"{place.path}/"))
    )


def _hint(part: Part) -> str:
    schema = part.schema
    said = str(schema.get("description") or "")
    form = {"integer": gettext("Whole number"), "number": gettext("Number"), "json": "JSON"}.get(
        part.kind, ""
    )
    asked = ", ".join(one for one in (form, *_limits(schema)) if one)
    if said and asked:
        return f"{said.rstrip('.')}; {asked[0].lower() if form != 'JSON' else asked[0]}{asked[1:]}"
    return asked or said.rstrip(".")


def _limits(schema: Mapping[str, Any]) -> list[str]:
    said = [
        ("minimum", gettext("at least {}")),
        ("maximum", gettext("at most {}")),
        ("exclusiveMinimum", gettext("more than {}")),
        ("exclusiveMaximum", gettext("less than {}")),
        ("minLength", gettext("at least {} characters")),
        ("maxLength", gettext("at most {} characters")),
        ("minItems", gettext("at least {} rows")),
        ("maxItems", gettext("at most {} rows")),
        ("pattern", gettext("pattern {}")),
        ("format", "{}"),
    ]
    return [text.format(_plain(schema[key])) for key, text in said if key in schema]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical.dumps(value)
