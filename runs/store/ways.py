"""By which ways a run has come to where it is: counted where the steps are."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runs.engine.lineage import Line
from runs.store.prepared import ask

Edge = tuple[str, str]


@dataclass(slots=True)
class Ways:
    """visits: by node of the outermost workflow, the number of its steps of each status. alone: how often a lane took an edge by
    itself. joining: node and address of steps at joins and before them, in the order in which they were made; of very many
    the newest 2,000."""

    visits: dict[str, dict[str, int]] = field(default_factory=dict)
    alone: dict[Edge, int] = field(default_factory=dict)
    joining: list[tuple[str, str]] = field(default_factory=list)


def ways_taken(run_id: uuid.UUID, line: Line, *, edges: Sequence[Edge], joining: Iterable[str]) -> Ways:
    """edges: between nodes of the outermost workflow. joining: those that join lanes, or lead to a join. One query."""
    told = {
        "run": run_id,
        "branches": list(line),
        "left_at": list(line.values()),
        "sources": [source for source, _ in edges],
        "targets": [target for _, target in edges],
        "joining": list(joining),
    }
    found, steps = Ways(), []
    for kind, one, other, count in ask("ways_taken", told):
        if kind == "visits":
            found.visits.setdefault(one, {})[other] = count
        elif kind == "edge":
            found.alone[one, other] = count
        else:
            steps.append((count, one, other))
    found.joining = [(node, address) for _, node, address in sorted(steps)]
    return found
