"""The position of a run: the document that a checkpoint holds, and how a lane moves in it.

    {"root": {"base": {...state...}, "lanes": {"0": {...}}, "order": ["0"]}, "visits": {node: n}, "commits": n}

A lane says where it stands: `node`, `step` (the address of the live step), `visit`, `loops` (passes per header),
`answers` (the newest decision per approval node). A run without lanes has ended. Leases, attempts, open waits and
approvals are not in it: they are rows, and every live step of a position is stored as to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runs.engine.canonical import Json
from runs.engine.patch import Recorder
from runs.engine.state import Write
from runs.engine.workflow import END, Workflow
from runs.errors import LoopLimit, StepLimit

ROOT_LANE: Final = "0"


@dataclass(frozen=True, slots=True)
class LiveStep:
    """A step that is to do: which node, on which lane, under which address."""

    lane: str
    node: str
    address: str
    visit: int


@dataclass(frozen=True, slots=True)
class Move:
    """Where a lane goes next: to `node` (END ends it), and what that does to its loop counters."""

    node: str
    loops: dict[str, int] = field(default_factory=dict)


def address_of(node: str, causes: Sequence[str]) -> str:
    """A step's identity: equal on every branch and in every order of events, unique in one line of history."""
    return hashlib.sha256("\n".join([node, *causes]).encode()).hexdigest()[:32]


def first(workflow: Workflow, state: dict[str, Json]) -> dict[str, Json]:
    """The position before anything has run."""
    node = workflow.entry
    lane = {"node": node, "step": address_of(node, ["START"]), "visit": 1, "loops": {}, "answers": {}}
    root = {"base": state, "lanes": {ROOT_LANE: lane}, "order": [ROOT_LANE]}
    return {"root": root, "visits": {node: 1}, "commits": 0}


def is_position(document: Json) -> bool:
    """Whether something that was stored has the shape of a position; what a damaged row holds seldom has."""
    match document:
        case {
            "root": {"base": dict(), "lanes": dict() as lanes, "order": list() as order},
            "visits": dict(),
            "commits": int(),
        }:
            return sorted(lanes) == sorted(map(str, order)) and all(map(_is_lane, lanes.values()))
    return False


def _is_lane(lane: Json) -> bool:
    match lane:
        case {"node": str(), "step": str(), "visit": int(), "loops": dict(), "answers": dict()}:
            return True
    return False


def live_steps(position: dict[str, Any]) -> list[LiveStep]:
    """What is to do at this position, in lane order."""
    lanes = position["root"]["lanes"]
    return [
        LiveStep(lane, lanes[lane]["node"], lanes[lane]["step"], lanes[lane]["visit"])
        for lane in position["root"]["order"]
    ]


def state(position: dict[str, Any]) -> dict[str, Json]:
    """The state that people and APIs see."""
    shown: dict[str, Json] = position["root"]["base"]
    return shown


def answers(position: dict[str, Any], lane: str) -> dict[str, Json]:
    found: dict[str, Json] = position["root"]["lanes"][lane]["answers"]
    return found


def plan(workflow: Workflow, position: dict[str, Any], *, lane: str, target: str) -> Move:
    """Where a lane really goes when it wants to go to `target`: loop limits and the run's step limit hold."""
    if position["commits"] >= workflow.max_steps:
        raise StepLimit(f"The run has made its {workflow.max_steps:,} steps.", limit=workflow.max_steps)
    here = position["root"]["lanes"][lane]
    source, loops = here["node"], here["loops"]
    move = _passed(workflow, loops, source, target)
    instead = workflow.way(source).limit
    if move is None and instead is not None:
        move = _passed(
            workflow, loops, source, instead
        )  # may close a loop around this one, which counts as well
    if move is None:
        limit = workflow.nodes[target].loop_limit
        raise LoopLimit(f"The loop of {target!r} has made its {limit} passes.", limit=limit, node=target)
    return move


def back_to(workflow: Workflow, position: dict[str, Any], *, lane: str, node: str) -> Move:
    """The move of a lane to a node that it has been at, not along an edge: the counters of loops around both are kept."""
    here = position["root"]["lanes"][lane]
    return Move(node, _entered(workflow, here["loops"], here["node"], node))


def _passed(workflow: Workflow, loops: dict[str, int], source: str, target: str) -> Move | None:
    """The move along an edge, or None if that closes a loop which is used up."""
    kept = _entered(workflow, loops, source, target)
    if (source, target) not in workflow.graph.back:
        return Move(target, kept)
    passes = loops.get(target, 0) + 1
    return Move(target, {**kept, target: passes}) if passes < workflow.nodes[target].loop_limit else None


def _entered(workflow: Workflow, loops: dict[str, int], source: str, target: str) -> dict[str, int]:
    """Counters of the loops that both nodes are in; a loop that is left, or entered from outside, starts at nothing."""
    headers = workflow.graph.headers
    return {
        header: passes
        for header, passes in loops.items()
        if target in headers.get(header, ()) and source in headers[header]
    }


def written(before: dict[str, Json], writes: Sequence[Write]) -> dict[str, Json]:
    """The state after these writes; `before` stays as it is."""
    after = dict(before)
    for change in writes:
        after[change.key] = [*after[change.key], *change.value] if change.kind == "append" else change.value
    return after


def write(recorder: Recorder, writes: Sequence[Write]) -> None:
    for change in writes:
        path = ["root", "base", change.key]
        if change.kind == "append":
            recorder.append(path, change.value)
        else:
            recorder.put(path, change.value)


def move(recorder: Recorder, *, lane: str, to: Move) -> LiveStep | None:
    """Let a lane go on; returns its next step, or None if it ends."""
    position = recorder.document
    recorder.put(["commits"], position["commits"] + 1)
    if to.node == END:
        recorder.remove(["root", "lanes", lane])
        recorder.put(["root", "order"], [other for other in position["root"]["order"] if other != lane])
        return None
    here = position["root"]["lanes"][lane]
    visit = position["visits"].get(to.node, 0) + 1
    step = address_of(to.node, [here["step"]])
    path = ["root", "lanes", lane]
    recorder.put([*path, "node"], to.node)
    recorder.put([*path, "step"], step)
    if here["visit"] != visit:
        recorder.put([*path, "visit"], visit)
    if here["loops"] != to.loops:
        recorder.put([*path, "loops"], to.loops)
    recorder.put(["visits", to.node], visit)
    return LiveStep(lane, to.node, step, visit)
