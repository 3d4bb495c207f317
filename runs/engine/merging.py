"""What lanes have written, and how it comes together.

Theory. A scope (a run, or a nested workflow) has a base, the state before it split, and segments: logs of writes, each of
one lane between two splits or joins. A segment names the segments it grew out of and is never written again once another
grew out of it, so a split or a join costs a patch of a few bytes whatever the lanes have written. What a lane sees is the
base plus the writes of its segment and of everything behind it, each segment once, in lane order.

A write `set` or `edit` replaces the key; `append` (a reducer) adds items. Of the replacing writes that a lane has behind
it, the one that has seen all others counts. If there are two of which neither had seen the other, they conflict. What an
`append` adds counts if the replacing write had not seen it: an edit in one lane replaces what that lane had, and what its
siblings appended comes after it. So the result depends on what was decided and never on what finished first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.engine.canonical import Json
from runs.errors import MergeConflict

Scope = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """One write of a key: by which node, in which segment, at which place of its log."""

    segment: str
    place: int
    node: str
    address: str
    kind: str
    value: Json


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two writes of one key of which neither had seen the other."""

    key: str
    one: Written
    other: Written

    def as_dict(self) -> dict[str, Json]:
        return {
            "key": self.key,
            "steps": [
                {"node": w.node, "address": w.address, "value": w.value} for w in (self.one, self.other)
            ],
        }


@dataclass(frozen=True, slots=True)
class Merged:
    """The state of some lanes together. A key in conflict shows the base's value."""

    state: dict[str, Json]
    conflicts: list[Conflict]

    def checked(self) -> dict[str, Json]:
        """The state, or `MergeConflict` naming key, steps and values."""
        if self.conflicts:
            raise conflict_error(self.conflicts)
        return self.state


def merged(scope: Scope, segments: Sequence[str]) -> Merged:
    """The state that lanes with these segments have together, in this order."""
    state = dict(scope["base"])
    conflicts = []
    for key, writes in _by_key(scope, segments).items():
        found = _latest(scope, key, writes)
        if isinstance(found, Conflict):
            conflicts.append(found)
        else:
            state[key] = _value(scope, state.get(key), writes, found)
    return Merged(state, conflicts)


def additions(scope: Scope, segments: Sequence[str]) -> dict[str, list[Json]]:
    """Keys that were only appended to, with the items: what folding has to add instead of writing the list anew."""
    return {
        key: [item for write in writes for item in write.value]
        for key, writes in _by_key(scope, segments).items()
        if all(write.kind == "append" for write in writes)
    }


def written_keys(scope: Scope, segments: Sequence[str]) -> list[str]:
    return list(_by_key(scope, segments))


def conflict_error(conflicts: Sequence[Conflict]) -> MergeConflict:
    first = conflicts[0]
    return MergeConflict(
        f"{first.one.node!r} and {first.other.node!r} have both written {first.key!r}, in lanes that did not know of "
        "each other. Give the key a reducer, let one of them write another key, or edit the state and retry.",
        key=first.key,
        conflicts=[conflict.as_dict() for conflict in conflicts],
    )


def _by_key(scope: Scope, segments: Sequence[str]) -> dict[str, list[Written]]:
    found: dict[str, list[Written]] = {}
    for name in behind(scope, segments):
        for key, log in scope["segments"][name]["writes"].items():
            for place, (node, address, kind, value) in enumerate(log):
                found.setdefault(key, []).append(Written(name, place, node, address, kind, value))
    return found


def behind(scope: Scope, segments: Iterable[str]) -> Iterator[str]:
    """These segments and all that they grew out of, each once, every one after those it grew out of, in lane order."""
    seen: set[str] = set()
    work: list[tuple[str, bool]] = [(name, False) for name in reversed(list(segments))]
    while work:
        name, parents_done = work.pop()
        if parents_done:
            yield name
        elif name not in seen:
            seen.add(name)
            work.append((name, True))
            work.extend((parent, False) for parent in reversed(scope["segments"][name]["of"]))


def _latest(scope: Scope, key: str, writes: Sequence[Written]) -> Written | Conflict | None:
    """The replacing write that has seen all others, two that have not seen each other, or None if nothing replaces."""
    latest: list[Written] = []
    for write in writes:
        if write.kind != "append":
            latest = [*(other for other in latest if not _has_seen(scope, write, other)), write]
    if len(latest) > 1:
        return Conflict(key, latest[0], latest[1])
    return latest[0] if latest else None


def _value(scope: Scope, before: Json, writes: Sequence[Written], replaced: Written | None) -> Json:
    value = before if replaced is None else replaced.value
    for write in writes:
        if write.kind == "append" and (replaced is None or not _has_seen(scope, replaced, write)):
            value = [*value, *write.value]
    return value


def _has_seen(scope: Scope, later: Written, earlier: Written) -> bool:
    if later.segment == earlier.segment:
        return later.place > earlier.place
    return earlier.segment in _ancestors(scope, later.segment)


def _ancestors(scope: Scope, segment: str) -> set[str]:
    return set(behind(scope, [segment])) - {segment}
