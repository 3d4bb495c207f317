"""RFC 6902 patches: made from what a transition changes, applied to a document, and drawn as differences.

Patches are built op by op where the change is made (`Recorder`); a document is never compared with itself to find
out what a step did. `difference` compares two documents, and is only for people who look.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from runs.engine.canonical import Json, same

Op = dict[str, Any]
Path = Sequence[str | int]

_PLACE = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")


def pointer(path: Path) -> str:
    """A JSON Pointer (RFC 6901)."""
    return _pointer(tuple(path))


@lru_cache(maxsize=4096)  # a run's steps name the same few places again and again
def _pointer(path: tuple[str | int, ...]) -> str:
    return "".join(["/" + str(token).replace("~", "~0").replace("/", "~1") for token in path])


def tokens(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not a JSON Pointer: it does not start with '/'")
    return [token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/")]


@dataclass(slots=True)
class Recorder:
    """A document and the ops that were applied to it. The document is changed in place."""

    document: Json
    ops: list[Op] = field(default_factory=list)

    def put(self, path: Path, value: Json) -> None:
        """Add or replace a member of an object."""
        parent, key = self._parent(path)
        self.ops.append({"op": "replace" if key in parent else "add", "path": pointer(path), "value": value})
        parent[key] = _own(value)  # a later op may change it in place; the op must keep what it said

    def remove(self, path: Path) -> None:
        parent, key = self._parent(path)
        self.ops.append({"op": "remove", "path": pointer(path)})
        del parent[key]

    def append(self, path: Path, items: Sequence[Json]) -> None:
        """Add items to the end of a list."""
        target = self._at(path)
        for item in items:
            self.ops.append({"op": "add", "path": pointer([*path, "-"]), "value": item})
            target.append(_own(item))

    def _parent(self, path: Path) -> tuple[Any, str | int]:
        return self._at(path[:-1]), path[-1]

    def _at(self, path: Path) -> Any:
        node = self.document
        for token in path:
            node = node[token]
        return node


def _own(value: Json) -> Json:
    """A copy of a document: `copy.deepcopy` would look for what JSON does not have."""
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_own(item) for item in value]
    return value


def apply(document: Json, ops: Sequence[Op]) -> Json:
    """Apply ops that a `Recorder` wrote, in place; returns the document. Raises `ValueError` on ops that do not fit."""
    return apply_fresh(document, copy.deepcopy(ops))


def apply_fresh(document: Json, ops: Sequence[Op]) -> Json:
    """`apply` of ops that nobody else has: their values become parts of the document."""
    if not isinstance(ops, (list, tuple)):
        raise ValueError("A patch is not a list of ops.")  # noqa: TRY004  # a damaged row, no mistake of the caller
    for op in ops:
        try:
            way, key = _way(op["path"])
            if key is None:
                document = _whole(op)
                continue
            parent = document
            for token in way:
                parent = parent[_place(parent, token)] if type(parent) is list else parent[token]
            _apply_to(parent, key, op)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"The op {op!r:.200} does not fit the document.") from error
    return document


@lru_cache(maxsize=4096)  # the patches of a run name the same few places again and again
def _way(text: str) -> tuple[tuple[str, ...], str | None]:
    """Where a pointer leads: the way to what holds the place, and its name in there; None is the document itself."""
    found = tokens(text)
    return tuple(found[:-1]), found[-1] if found else None


def _whole(op: Op) -> Json:
    if op["op"] not in ("add", "replace"):
        raise KeyError(op["op"])
    return op["value"]


def _apply_to(parent: Any, key: str, op: Op) -> None:
    kind = op["op"]
    if type(parent) is list:
        _apply_to_list(parent, key, kind, op)
    elif (kind == "replace" and key in parent) or kind == "add":
        parent[key] = op["value"]
    elif kind == "remove":
        del parent[key]
    else:
        raise KeyError(kind, key)


def _apply_to_list(target: list[Json], key: str, kind: str, op: Op) -> None:
    if kind == "add" and key == "-":
        target.append(op["value"])
    elif kind == "add":
        target.insert(_place(target, key, end=1), op["value"])
    elif kind == "replace":
        target[_place(target, key)] = op["value"]
    elif kind == "remove":
        del target[_place(target, key)]
    else:
        raise KeyError(kind)


def _place(target: list[Json], token: str, *, end: int = 0) -> int:
    """A place in a list. Python would read -1, +1, 01 and more as places too, and insert beyond the end."""
    if not _PLACE.match(token) or int(token) >= len(target) + end:
        raise IndexError(token)
    return int(token)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two documents. `kind` is added, removed or changed."""

    path: str
    kind: str
    before: Json = None
    after: Json = None


def difference(before: Json, after: Json, path: str = "") -> Iterator[Change]:
    """What differs, in the order of keys; lists are compared place by place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            place = path + pointer([key])
            if key not in after:
                yield Change(place, "removed", before=before[key])
            elif key not in before:
                yield Change(place, "added", after=after[key])
            else:
                yield from difference(before[key], after[key], place)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_difference(before, after, path)
    elif not same(before, after):
        yield Change(path, "changed", before=before, after=after)


def _list_difference(before: list[Json], after: list[Json], path: str) -> Iterator[Change]:
    common = min(len(before), len(after))
    for index in range(common):
        yield from difference(before[index], after[index], f"{path}/{index}")
    for index in range(common, len(after)):
        yield Change(f"{path}/{index}", "added", after=after[index])
    for index in range(common, len(before)):
        yield Change(f"{path}/{index}", "removed", before=before[index])
