"""The position of a run: the document that a checkpoint holds, and how it is read. `lanes` is how it changes.

    {"root": SCOPE, "visits": {node: n}, "commits": n, "taken": {signal name: [number]}}
    SCOPE = {"base": {...state...}, "lanes": {id: LANE}, "order": [id], "segments": {id: SEGMENT}}
    LANE = {"node", "step", "visit", "loops", "answers"}

A lane says where it stands: `node`, `step` (the address of the live step), `visit`, `loops` (passes per header),
`answers` (the newest decision per approval node), `errors` (what `on_error` caught), `edits` (how often people changed its
state). A scope with one lane keeps the
state in its base. Once it splits it has segments (see `merging`), and each lane has `segment`, its own counts of `visits`
and `commits`, so that what one lane does to itself touches no other lane's paths, and a `status`: live (left out),
arrived (at the join `slot`, its `step` done) or ended. A lane inside a fan-out has `fan` (how many items, finished
results), one inside a nested workflow has a `scope` of its own. A scope without lanes has ended. `made_as`: the name that the
node had when the step's address was made, if a migration has renamed it since. `joined`: after a join, the nodes whose lanes it
joined, where the model is validated as a whole.

Leases, attempts, open waits and approvals are not in it: they are rows, and every live step of a position is stored as to
do. Outside of the document a lane is named by its path: `0`, `4f0c.../0` in a nested workflow, `0#3` for the item of a
fan-out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from runs.engine.canonical import Json
from runs.engine.graph import node_of
from runs.engine.merging import Conflict, Merged, merged
from runs.engine.patch import Recorder
from runs.engine.state import Write
from runs.engine.workflow import Node, Workflow

ROOT_LANE: Final = "0"
LIVE: Final = "live"
ARRIVED: Final = "arrived"
ENDED: Final = "ended"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LiveStep:
    """A step that is to do: which node, on which lane, under which address."""

    lane: str
    node: str
    address: str
    visit: int

    @property
    def item(self) -> int | None:
        """Which item of a fan-out this is."""
        _, _, index = self.lane.partition("#")
        return int(index) if index else None

    @property
    def name(self) -> str:
        """The node's name in its own workflow."""
        return self.node.rpartition("/")[2]


def address_of(node: str, causes: Sequence[str]) -> str:
    """A step's identity: equal on every branch and in every order of events, unique in one line of history."""
    return hashlib.sha256("\n".join([node, *causes]).encode()).hexdigest()[:32]


def item_address(node: str, step: str, index: int) -> str:
    return address_of(node, [step, f"#{index}"])


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


# ---- places in the document


def scope_path(lane: str) -> tuple[str, ...]:
    """Where the scope of a lane stands."""
    return lane_path(lane)[:-2]


@lru_cache(maxsize=4096)
def lane_path(lane: str) -> tuple[str, ...]:
    """Where a lane stands."""
    first, *inner = lane.partition("#")[0].split("/")
    path = ["root", "lanes", first]
    for name in inner:
        path += ["scope", "lanes", name]
    return tuple(path)


def look_at(position: Document, path: Sequence[str]) -> Any:
    found: Any = position
    for token in path:
        found = found[token]
    return found


def lane_at(position: Document, lane: str) -> Document:
    found: Document = look_at(position, lane_path(lane))
    return found


def scope_at(position: Document, lane: str) -> Document:
    found: Document = look_at(position, scope_path(lane))
    return found


def workflow_of(workflow: Workflow, position: Document, lane: str) -> Workflow:
    """The workflow that a lane is in: the run's, or a nested one."""
    if "/" not in lane:
        return workflow
    scope = position["root"]
    for name in lane.partition("#")[0].split("/")[:-1]:
        nested = workflow.nodes[scope["lanes"][name]["node"]].subflow
        assert nested is not None
        workflow, scope = nested.workflow, scope["lanes"][name]["scope"]
    return workflow


def is_alone(position: Document, lane: str) -> bool:
    """Whether no other lane of the run can be anywhere but behind or inside this one: nobody else changes the document."""
    scope = position["root"]
    if "#" in lane:
        return False
    first, *inner = lane.split("/")
    if "segments" in scope:
        return False
    for name in inner:
        scope = scope["lanes"][first]["scope"]
        if "segments" in scope:
            return False
        first = name
    return True


def holder(position: Document, lane: str) -> tuple[str, ...]:
    """Where the counts of visits and commits of a lane are kept: with the innermost lane that has siblings, or at the top."""
    path: tuple[str, ...] = ()
    whole = lane_path(lane)
    for end in range(3, len(whole) + 1, 3):
        if "segments" in look_at(position, whole[: end - 2]):
            path = whole[:end]
    return path


# ---- what is to do


def live_steps(position: Document) -> list[LiveStep]:
    """What is to do at this position, in lane order; of a fan-out, the items that would be begun first."""
    found = []
    for step, lane in _walk(position["root"], "", ""):
        if is_fanning(lane):
            found += [item_step(lane, step, index) for index in unfinished(lane)[: lane["fan"]["at_once"]]]
        elif not is_nesting(lane):
            found.append(step)
    return found


def opened_steps(position: Document) -> list[LiveStep]:
    """Steps that wait for their own items or for their nested workflow, in lane order."""
    return [step for step, lane in _walk(position["root"], "", "") if is_nesting(lane) or is_fanning(lane)]


def all_steps(position: Document) -> list[LiveStep]:
    """Every unfinished step in lane order: what is to do, every unfinished item, and the steps that wait for those."""
    found = []
    for step, lane in _walk(position["root"], "", ""):
        found.append(step)
        if is_fanning(lane):
            found += [item_step(lane, step, index) for index in unfinished(lane)]
    return found


def _walk(scope: Document, lane_prefix: str, node_prefix: str) -> Iterator[tuple[LiveStep, Document]]:
    """Live lanes with their steps, in lane order; a nested workflow's after the one around it."""
    for name in scope["order"]:
        lane = scope["lanes"][name]
        if lane.get("status", LIVE) == LIVE:
            step = LiveStep(lane_prefix + name, node_prefix + lane["node"], lane["step"], lane["visit"])
            yield step, lane
            if is_nesting(lane):
                yield from _walk(lane["scope"], f"{step.lane}/", f"{step.node}/")


def item_step(lane: Document, step: LiveStep, index: int) -> LiveStep:
    """The step of an item of a fan-out. lane: where the fan-out's own step stands."""
    named = lane.get("made_as", step.node)
    return LiveStep(f"{step.lane}#{index}", step.node, item_address(named, step.address, index), step.visit)


def is_nesting(lane: Document) -> bool:
    """Whether a nested workflow of this lane is under way."""
    return "scope" in lane and bool(lane["scope"]["lanes"])


def is_fanning(lane: Document) -> bool:
    """Whether items of this lane are to do."""
    return "fan" in lane and len(lane["fan"]["results"]) < lane["fan"]["n"]


def unfinished(lane: Document) -> list[int]:
    """The items of a fan-out that have no result yet."""
    fan = lane["fan"]
    return [index for index in range(fan["n"]) if str(index) not in fan["results"]]


def find(position: Document, address: str) -> LiveStep | None:
    """The unfinished step with this address."""
    quick = next((step for step in live_steps(position) if step.address == address), None)
    return quick or next((step for step in all_steps(position) if step.address == address), None)


def lane_of(position: Document, address: str) -> str | None:
    step = find(position, address)
    return step.lane if step else None


def outer_step(position: Document, lane: str) -> LiveStep | None:
    """The step that waits for this lane: the fan-out of an item, the node around a nested workflow; None at the top."""
    outer, item, _ = lane.partition("#")
    if not item:
        outer = lane.rpartition("/")[0]
    if not outer:
        return None
    names = outer.split("/")
    nodes = [lane_at(position, "/".join(names[: i + 1]))["node"] for i in range(len(names))]
    here = lane_at(position, outer)
    return LiveStep(outer, "/".join(nodes), here["step"], here["visit"])


def phase(position: Document, step: LiveStep, node: Node) -> str:
    """What a worker has to do for a step: run its `body`; of a fan-out `list`, an `item`, `gather`; `enter` or `leave`
    a nested workflow."""
    if step.item is not None:
        return "item"
    lane = lane_at(position, step.lane)
    if node.fan_out:
        return "gather" if "fan" in lane else "list"
    if node.subflow:
        return "leave" if "scope" in lane else "enter"
    return "body"


# ---- signals


def taken(position: Document, name: str) -> list[int]:
    """The signals of this name that were taken on the way here, by their numbers."""
    found: list[int] = position.get("taken", {}).get(name, [])
    return found


def take_signal(recorder: Recorder, name: str, number: int) -> None:
    """A wait has taken a signal: a rewind to before this gives it back."""
    if "taken" not in recorder.document:
        recorder.put(["taken"], {name: [number]})
    elif name not in recorder.document["taken"]:
        recorder.put(["taken", name], [number])
    else:
        recorder.append(["taken", name], [number])


# ---- state


def state(position: Document) -> dict[str, Json]:
    """The state that people and APIs see: of all lanes together, as if they ended here."""
    return shown(position["root"]).state


def conflicts(position: Document) -> list[Conflict]:
    """Keys that lanes would conflict in if they ended here; the shown state has the base's value there."""
    return shown(position["root"]).conflicts


def shown(scope: Document) -> Merged:
    if "segments" not in scope:
        return Merged(scope["base"], [])
    return merged(scope, [scope["lanes"][name]["segment"] for name in scope["order"]])


def lane_state(position: Document, lane: str) -> dict[str, Json]:
    """The state as a lane sees it. Raises `MergeConflict` if what it joined cannot be merged."""
    return lane_view(position, lane).checked()


def lane_view(position: Document, lane: str) -> Merged:
    """The state as a lane sees it, with the conflicts of what it joined."""
    scope, here = scope_at(position, lane), lane_at(position, lane)
    if "segment" not in here:
        return Merged(scope["base"], [])
    return merged(scope, [here["segment"]])


def written(before: dict[str, Json], writes: Sequence[Write]) -> dict[str, Json]:
    """The state after these writes; `before` stays as it is."""
    after = dict(before)
    for change in writes:
        after[change.key] = [*after[change.key], *change.value] if change.kind == "append" else change.value
    return after


def answers(position: Document, lane: str) -> dict[str, Json]:
    found: dict[str, Json] = lane_at(position, lane)["answers"]
    return found


def errors(position: Document, lane: str) -> dict[str, Json]:
    """What `on_error` caught on the way of a lane, by node."""
    found: dict[str, Json] = lane_at(position, lane).get("errors", {})
    return found


def lane_names(position: Document) -> list[str]:
    """Every lane that has not ended, in lane order."""
    return [str(lane["lane"]) for lane in lanes(position) if lane["status"] != ENDED]


def lanes(position: Document) -> list[dict[str, Json]]:
    """Every lane with where it stands and the state as it sees it, in lane order; nested ones after the one around them."""
    return list(_lanes(position, position["root"], "", ""))


def _lanes(
    position: Document, scope: Document, lane_prefix: str, node_prefix: str
) -> Iterator[dict[str, Json]]:
    for name in scope["order"]:
        here, lane = scope["lanes"][name], lane_prefix + name
        seen = lane_view(position, lane)
        yield {
            "lane": lane,
            "node": node_prefix + here["node"],
            "address": here["step"],
            "status": here.get("status", LIVE),
            "waits_at": node_of(here["slot"]) if "slot" in here else None,
            "version": lane_version(position, lane),
            "state": seen.state,
            "conflicts": [conflict.as_dict() for conflict in seen.conflicts],
        }
        if is_nesting(here):
            yield from _lanes(position, here["scope"], f"{lane}/", f"{node_prefix}{here['node']}/")


def lane_version(position: Document, lane: str) -> int:
    """Raised by every commit of a lane and by every edit of its state, and by nothing that its siblings do."""
    path, version = lane_path(lane), int(position["commits"])
    for end in range(3, len(path) + 1, 3):
        around = look_at(position, path[:end])
        version += around.get("commits", 0) + around.get("edits", 0)
    return version


def every_conflict(position: Document) -> list[Conflict]:
    """Conflicts of the shown state, those inside nested workflows included."""
    return list(_conflicts(position["root"]))


def _conflicts(scope: Document) -> Iterator[Conflict]:
    yield from shown(scope).conflicts
    for name in scope["order"]:
        if is_nesting(scope["lanes"][name]):
            yield from _conflicts(scope["lanes"][name]["scope"])


def commits(position: Document) -> int:
    """How many commits of lanes led here, on this branch and those behind it."""
    made: int = position["commits"]
    return made + _commits(position["root"])


def _commits(scope: Document) -> int:
    return sum(
        lane.get("commits", 0) + (_commits(lane["scope"]) if "scope" in lane else 0)
        for lane in scope["lanes"].values()
    )
