"""What stays of an old run's checkpoints, and how those that stay are written so that each can still be read.

A branch is one line of checkpoints, each a patch against the one before or a snapshot. Of those that go, the ops are handed
on to the next one that stays: patches in a row are one longer patch, so nothing is compared and nothing can be lost. Where
that would weigh more than the whole document, or where a snapshot lay in between, the one that stays becomes a snapshot. So
a compacted branch never weighs more than before, and reading a checkpoint of it never costs more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.engine import canonical, patch
from runs.engine.canonical import Json


@dataclass(frozen=True, slots=True)
class Point:
    """A checkpoint as it is stored: a patch against its parent, or a snapshot."""

    no: int
    parent: int | None
    patch: str | None
    snapshot: str | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that stays, as it is to be stored. document: what it says; the next one is made of it in place."""

    no: int
    parent: int | None
    snapshot_no: int
    patch: str | None
    snapshot: str | None
    document: Json


@dataclass(frozen=True, slots=True)
class Written:
    """A call in the journal: who may still be answered by it."""

    branch: int
    address: str
    name: str
    occurrence: str
    args_digest: str
    after: int
    effect: str


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint that stays, as a rewind to it would see the journal: the steps that are to do, and up to which
    checkpoint the entries of each branch of its line count (None: all of them)."""

    no: int
    to_do: frozenset[str]
    line: Mapping[int, int | None]


def rewritten(points: Iterable[Point], kept: frozenset[int]) -> Iterator[Kept]:
    """The checkpoints of one branch that stay, in order of their numbers. Raises `ValueError` if one cannot be read.

    The first of them keeps its parent, which is where the branch came off, if it is the branch's first; the others get
    the one that stays before them.
    """
    document: Json = None
    ops: list[Any] | None = None  # since the last one that stays; None: a snapshot lay in between
    weight, base = 0, 0
    before: int | None = None
    for index, point in enumerate(points):
        if index == 0:
            before = point.parent
        if point.snapshot is not None:
            document, ops = canonical.loads(point.snapshot), None
        else:
            added = canonical.loads(point.patch or "")
            document = patch.apply(document, added)
            if ops is not None:
                ops, weight = ops + added, weight + len((point.patch or "").encode())
        if point.no not in kept:
            continue
        whole = canonical.dumps(document)
        if ops is None or weight > len(whole.encode()):
            base = point.no
            yield Kept(point.no, before, base, None, whole, document)
        else:
            yield Kept(point.no, before, base, canonical.dumps(ops), None, document)
        before, ops, weight = point.no, [], 0


def needless(entries: Sequence[Written], places: Sequence[Place]) -> list[Written]:
    """Entries of the journal that no rewind to a checkpoint that stays can be answered by: copies of what a newer branch
    has, without an effect, that are not part of a step which is to do at such a checkpoint.

    What did something to the world always stays: the effects ledger is made of it.
    """
    newest: dict[tuple[str, str, str, str], int] = {}
    for entry in entries:
        key = (entry.address, entry.name, entry.occurrence, entry.args_digest)
        newest[key] = max(newest.get(key, 0), entry.branch)
    return [
        entry
        for entry in entries
        if entry.effect == "none"
        and newest[entry.address, entry.name, entry.occurrence, entry.args_digest] > entry.branch
        and not any(_sees(place, entry) for place in places)
    ]


def _sees(place: Place, entry: Written) -> bool:
    """Whether a branch that starts here would find the entry in its own line, rather than among those it may reuse."""
    if entry.address not in place.to_do or entry.branch not in place.line:
        return False
    limit = place.line[entry.branch]
    return entry.after < (place.no if limit is None else min(limit, place.no))
