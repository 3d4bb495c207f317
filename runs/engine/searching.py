"""What of a state is searched for: fields that its author has marked, as short texts by name. Pure.

    order_id: Annotated[str, Searchable]

The mark travels in the JSON Schema (`searchable`), as who may see a field does. What is hidden from anybody is searched for
by nobody: a search that finds says what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.redaction import hidden_in
from runs.errors import WorkflowError

MARK: Final = "searchable"
LONGEST: Final = 200  # characters of a value; a longer one is not searched for
MOST: Final = 20  # fields of one workflow

Path = tuple[str, ...]


class Searchable:
    """A field of a state by which runs are found in the list and over the API: `Annotated[str, Searchable]`.

    A text of at most 200 characters, a number or a boolean, also inside nested models; of what lies in a list nothing is
    searched for. Values are kept in the clear beside the run. `json_schema_extra={"searchable": True}` says the same.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        return {**handler(core), MARK: True}


def fields_of(schema: Json) -> dict[str, Path]:
    """Marked fields by their dotted name, each with its keys from the top. Raises `WorkflowError` for a mark that cannot hold."""
    found = dict(_marked(schema, schema, (), ()))
    if len(found) > MOST:
        raise WorkflowError(f"At most {MOST} fields of a state are Searchable, not {len(found)}.")
    for name, path in found.items():
        if hides(schema, path):
            raise WorkflowError(f"The field {name!r} is Sensitive: it cannot be Searchable.")
    return found


def hides(schema: Json, path: Path) -> bool:
    """Whether a schema hides what lies there from anybody."""
    document: Json = ""
    for key in reversed(path):
        document = {key: document}
    return bool(hidden_in(document, schema, frozenset()))


def values_in(state: Mapping[str, Json], fields: Mapping[str, Path]) -> dict[str, str]:
    """What there is to search for, by name. Nothing for what is missing, null, too long, or no single value."""
    found = {}
    for name, path in fields.items():
        text = _text(_at(state, path))
        if text and len(text) <= LONGEST:
            found[name] = text
    return found


def _marked(root: Json, part: Json, path: Path, seen: tuple[int, ...]) -> Iterator[tuple[str, Path]]:
    if not isinstance(part, dict) or id(part) in seen:
        return
    seen = (*seen, id(part))
    if part.get(MARK) is True and path:
        yield ".".join(path), path
    for inner in _parts(root, part):
        yield from _marked(root, inner, path, seen)
    properties = part.get("properties")
    for key, inner in properties.items() if isinstance(properties, dict) else ():
        yield from _marked(root, inner, (*path, key), seen)


def _parts(root: Json, part: Mapping[str, Any]) -> Iterator[Json]:
    """What else describes the same value."""
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/") and isinstance(root, dict):
        yield root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
    for word in ("allOf", "anyOf", "oneOf"):
        yield from part.get(word) or ()


def _at(document: Json, path: Path) -> Json:
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return canonical.dumps(value) if isinstance(value, int | float) else ""
