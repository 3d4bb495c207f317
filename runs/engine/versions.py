"""Versions of a workflow: how they are ordered, which way leads from one to another, and how two graphs differ in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runs.engine.canonical import Json
from runs.errors import WorkflowError

DEV: Final = "+dev."  # in development a changed graph is `1+dev.<fingerprint>`
Carry = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Migration:
    """What takes the runs of one version of a workflow to another.

    state: a pure function from a whole state document to another. nodes: new names by old ones, as they are shown
    (`outer/inner` for the node of a nested workflow). inside: functions for the states of nested workflows that are under
    way, by the old name of the node around them.
    """

    workflow: str
    from_version: str
    to_version: str
    state: Carry
    nodes: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, Carry] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"the migration of {self.workflow} from {self.from_version} to {self.to_version}"

    def renamed(self, node: str) -> str:
        """The name that a node has afterwards; inside a renamed node, with the new name around it."""
        if node in self.nodes:
            return self.nodes[node]
        outer, inner, name = node.rpartition("/")
        return f"{self.renamed(outer)}/{name}" if inner else node


def base_of(version: str) -> str:
    """The version that the author wrote, without what development adds."""
    return version.partition(DEV)[0]


def order(version: str) -> tuple[tuple[int, str], ...]:
    """Numbers by value, so that version 10 follows version 9; texts after numbers."""
    return tuple((int(part), "") if part.isdigit() else (10**9, part) for part in version.split("."))


def by_start(migrations: Iterable[Migration]) -> dict[str, Migration]:
    """The one migration that leads on from each version. Raises `WorkflowError` if there are two."""
    found: dict[str, Migration] = {}
    for migration in migrations:
        other = found.setdefault(migration.from_version, migration)
        if other is not migration:
            raise WorkflowError(
                f"{migration.workflow}: two migrations lead on from version {migration.from_version}, to "
                f"{other.to_version} and to {migration.to_version}; a run can take one.",
                reason="migration_registered_twice",
            )
    return found


def way(migrations: Iterable[Migration], start: str, ends: Collection[str]) -> list[Migration] | None:
    """The migrations from a version to the nearest of `ends`, in order; None if no way leads there."""
    leads, here, steps = by_start(migrations), base_of(start), list[Migration]()
    while here in leads and len(steps) < len(leads):
        steps.append(leads[here])
        here = leads[here].to_version
        if here in ends:
            return steps
    return None


@dataclass(frozen=True, slots=True)
class Move:
    """A checkpoint at which a run came to another version."""

    branch: int
    checkpoint: int
    from_version: str
    to_version: str


def stored_as(moves: Iterable[Move], line: Mapping[int, int], *, now: str) -> str:
    """The version as which a checkpoint is stored. moves: of its run. line: what it can see, by branch the last checkpoint that
    counts. now: the version that the run is at."""
    every = sorted(moves, key=lambda move: move.checkpoint)
    if not every:
        return now
    seen = [move for move in every if move.checkpoint <= line.get(move.branch, -1)]
    return seen[-1].to_version if seen else every[0].from_version


# ---- how two graphs differ


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """How a graph differs from what it was, for people: nodes, edges, schema fields. From two `Workflow.shape`s."""
    return list(_changes(before, after, ""))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Iterator[str]:
    old, new = ({node["name"]: node for node in shape["nodes"]} for shape in (before, after))
    gone, come = [name for name in old if name not in new], [name for name in new if name not in old]
    for name in gone:
        likely = next((other for other in come if _alike(old[name], new[other])), None)
        if likely is not None:
            come.remove(likely)
            yield f"node {prefix}{name} is now {prefix}{likely} (renamed?)"
        else:
            yield f"node {prefix}{name} is gone"
    yield from (f"node {prefix}{name} is new" for name in come)
    if before["entry"] != after["entry"] or before.get("entries") != after.get("entries"):
        yield f"{prefix}begins at {_entries(after)}, before at {_entries(before)}"
    for name in old:
        if name in new:
            yield from _node_changes(old[name], new[name], f"{prefix}{name}")
    for what in ("state", "input"):
        yield from _schema_changes(before[what], after[what], f"{prefix}{what}")


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return {**one, "name": ""} == {**other, "name": ""}


def _entries(shape: Mapping[str, Any]) -> str:
    return ", ".join(shape.get("entries") or [shape["entry"]])


def _node_changes(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> Iterator[str]:
    was, now = ({_edge(edge) for edge in node["edges"]} for node in (one, other))
    yield from (f"edge {name} -> {edge} is gone" for edge in sorted(was - now))
    yield from (f"edge {name} -> {edge} is new" for edge in sorted(now - was))
    if was == now and one["edges"] != other["edges"]:
        yield f"the edges of {name} stand in another order"
    for key in sorted(one.keys() | other.keys()):
        before, after = one.get(key), other.get(key)
        if key in ("name", "edges") or before == after:
            continue
        if key == "subflow" and before and after:
            yield from _changes(before, after, f"{name}/")
        elif isinstance(before, dict) and isinstance(after, dict):
            different = [
                part for part in sorted(before.keys() | after.keys()) if before.get(part) != after.get(part)
            ]
            told = ", ".join(f"{part} {before.get(part)!r} -> {after.get(part)!r}" for part in different)
            yield f"{key} of {name}: {told}"
        else:
            yield f"{key} of {name}: {_brief(before)} -> {_brief(after)}"


def _edge(edge: Mapping[str, Any]) -> str:
    return f"{edge['to']} ({edge['when']})" if edge["when"] else str(edge["to"])


def _brief(value: Json) -> str:
    return "one" if isinstance(value, dict) else repr(value)


def _schema_changes(before: Mapping[str, Any], after: Mapping[str, Any], where: str) -> Iterator[str]:
    was, now = before.get("properties", {}), after.get("properties", {})
    yield from (f"{where} field {key} is gone" for key in was if key not in now)
    yield from (f"{where} field {key} is new" for key in now if key not in was)
    changed = [key for key in was if key in now and was[key] != now[key]]
    yield from (f"{where} field {key} is described differently" for key in changed)
    required = sorted(set(before.get("required", [])) ^ set(after.get("required", [])))
    yield from (f"{where} field {key}: required or not" for key in required if key in was and key in now)
    if was == now and not required and before != after:
        yield f"the schema of the {where} differs beside its fields"
