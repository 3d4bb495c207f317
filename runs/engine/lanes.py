"""How lanes move: on to a node, apart at a split, together at a join, to the end.

A `Lanes` is one scope of a position while a transition changes it, through a recorder, so that the ops are the patch.
`plan` says where a lane would go and raises what speaks against it; only then `write` and `go` change anything.

What a lane does to itself (`is_local`) touches its own paths alone and may be committed beside its siblings' commits. All
else changes the set of lanes, or may let a join go on that waits: it is worked out on the true document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.graph import END, START, node_of
from runs.engine.merging import additions, merged, written_keys
from runs.engine.patch import Recorder
from runs.engine.position import ARRIVED, ENDED, LIVE, ROOT_LANE, Document, LiveStep, address_of
from runs.engine.state import Write
from runs.engine.workflow import Workflow
from runs.errors import JoinDeadlock, LoopLimit, StepLimit

Finish = Callable[[dict[str, Json]], object]


@dataclass(frozen=True, slots=True)
class Move:
    """Where a lane goes next: to a slot, and what that does to its loop counters."""

    slot: str
    loops: dict[str, int] = field(default_factory=dict)

    @property
    def node(self) -> str:
        return node_of(self.slot)


def first(workflow: Workflow, state: dict[str, Json]) -> Document:
    """The position before anything has run."""
    document: Document = {"visits": {}, "commits": 0}
    _open(workflow, Recorder(document), state, cause=START)
    return document


def is_local(workflow: Workflow, position: Document, step: LiveStep, moves: Sequence[Move]) -> bool:
    """Whether a lane that moves like this changes nothing but itself, and lets no join go on."""
    if len(moves) != 1 or step.item is not None:
        return False
    if "segments" not in at.scope_at(position, step.lane):
        return True  # alone in its scope: a nested workflow is noticed outside only when it ends
    graph = at.workflow_of(workflow, position, step.lane).graph
    return moves[0].slot not in graph.joins and (step.name, moves[0].node) not in graph.narrowing


class Lanes:
    """The lanes of one scope of a position."""

    def __init__(self, workflow: Workflow, recorder: Recorder, lane: str) -> None:
        document: Document = recorder.document
        self.recorder = recorder
        self.document = document
        self.max_steps = workflow.max_steps
        self.path = at.scope_path(lane)
        self.is_top = self.path == ("root",)
        self.scope: Document = at.look_at(document, self.path)
        self.workflow = at.workflow_of(workflow, document, lane)
        self.lane_prefix = lane.rpartition("/")[0] + "/" if "/" in lane else ""
        outer = at.outer_step(document, lane)
        self.node_prefix = f"{outer.node}/" if outer else ""
        self.begun: list[LiveStep] = []
        self.is_finished = False

    # ---- planning

    def plan(self, lane: str, targets: Iterable[str]) -> list[Move]:
        """Where a lane really goes when it wants to go to `targets`: loop limits and the run's step limit hold."""
        if at.commits(self.document) >= self.max_steps:
            raise StepLimit(f"The run has made its {self.max_steps:,} steps.", limit=self.max_steps)
        here = self._lane(lane)
        moves: dict[str, Move] = {}
        for target in targets:
            if target != END:
                move = self._planned(here, target)
                if move.node != END:
                    moves.setdefault(move.slot, move)
        return list(moves.values())

    def _planned(self, here: Document, target: str) -> Move:
        source, loops = here["node"], here["loops"]
        move = self._passed(loops, source, target)
        instead = self.workflow.way(source).limit
        if move is None and instead is not None:
            move = self._passed(
                loops, source, instead
            )  # may close a loop around this one, which counts as well
        if move is None:
            limit = self.workflow.nodes[target].loop_limit
            raise LoopLimit(f"The loop of {target!r} has made its {limit} passes.", limit=limit, node=target)
        return move

    def _passed(self, loops: dict[str, int], source: str, target: str) -> Move | None:
        """The move along an edge, or None if that closes a loop which is used up."""
        kept, graph = self._entered(loops, source, target), self.workflow.graph
        if (source, target) not in graph.back:
            return Move(target, kept)
        passes = loops.get(target, 0) + 1
        if passes >= self.workflow.nodes[target].loop_limit:
            return None
        return Move(graph.slot(source, target), {**kept, target: passes})

    def _entered(self, loops: dict[str, int], source: str, target: str) -> dict[str, int]:
        """Counters of the loops that both nodes are in; a loop that is left, or entered from outside, starts at nothing."""
        headers = self.workflow.graph.headers
        return {
            header: passes
            for header, passes in loops.items()
            if target in headers.get(header, ()) and source in headers[header]
        }

    # ---- changing

    def write(self, lane: str, writes: Sequence[Write], *, address: str = "", edit: bool = False) -> None:
        """What a step (or a person) changes in the state as this lane sees it."""
        if edit:
            self._put(lane, "edits", self._lane(lane).get("edits", 0) + 1)
        if "segments" not in self.scope:
            for change in writes:
                self._write_base(change)
            return
        here = self._lane(lane)
        log = [*self.path, "segments", here["segment"], "writes"]
        for change in writes:
            kind = "edit" if edit else change.kind
            entry = [self.node_prefix + here["node"], address or here["step"], kind, change.value]
            if change.key in at.look_at(self.document, log):
                self.recorder.append([*log, change.key], [entry])
            else:
                self.recorder.put([*log, change.key], [entry])

    def _write_base(self, change: Write) -> None:
        path = [*self.path, "base", change.key]
        if change.kind == "append":
            self.recorder.append(path, change.value)
        else:
            self.recorder.put(path, change.value)

    def go(
        self, lane: str, moves: Sequence[Move], *, finish: Finish | None = None, local: bool = False
    ) -> None:
        """Let a lane go on as planned: `begun` are the new steps, `is_finished` says that the scope has ended.

        finish: called with the final state before the scope ends; if it raises, the ended lanes are joined into one step
        that can fail, instead of the step that happened to end last. local: as `is_local` answered.
        """
        self._count_commit(lane)
        if local:
            self._begin(lane, moves[0])
            return
        if len(moves) == 1:
            self._arrive(lane, moves[0])
        elif moves:
            self._split(lane, moves)
        elif "segments" in self.scope:
            self._leave(lane)
            self._put(lane, "status", ENDED)
        else:
            self._take_out(lane)
        if "segments" in self.scope:
            self._settle()
        if not self._standing():
            self._end(finish)

    def catch(self, lane: str, moves: Sequence[Move], errors: dict[str, Json], *, finish: Finish) -> None:
        """Let a lane go on after a failure; the nodes after it can read the errors."""
        self._put(lane, "errors", {**self._lane(lane).get("errors", {}), **errors})
        self.go(lane, moves, finish=finish if self.is_top else None)

    def go_back(self, lane: str, node: str) -> None:
        """Let a lane do again what it did before, wherever its present node leads."""
        here = self._lane(lane)
        self._count_commit(lane)
        self._begin(lane, Move(node, self._entered(here["loops"], here["node"], node)))

    def begin_all(self, lane: str, moves: Sequence[Move]) -> None:
        """Let a scope begin with several lanes."""
        self._split(lane, moves)
        self._settle()

    def stand(self) -> None:
        """Let joins go on that need not wait any more: of a position that was not made by this graph."""
        if "segments" in self.scope:
            self._settle()

    def fold(self) -> None:
        """If one lane is left and nothing conflicts, its log goes into the base."""
        if "segments" not in self.scope or len(self.scope["order"]) != 1:
            return
        lane = self.scope["order"][0]
        here = self._lane(lane)
        if here.get("status", LIVE) != LIVE or merged(self.scope, [here["segment"]]).conflicts:
            return
        self._fold_into_base([here["segment"]])
        self._hand_up([lane])
        for name in ("segment", "visits", "commits"):
            self.recorder.remove([*self._at(lane), name])

    # ---- one lane

    def _arrive(self, lane: str, move: Move) -> None:
        if "segments" not in self.scope or move.slot not in self.workflow.graph.joins:
            self._begin(lane, move)
            return
        self._leave(lane)
        self._put(lane, "status", ARRIVED)
        self._put(lane, "slot", move.slot)
        if self._lane(lane)["loops"] != move.loops:
            self._put(lane, "loops", move.loops)

    def _begin(self, lane: str, move: Move) -> None:
        """The lane is at a node with a new step."""
        here = self._lane(lane)
        key = self.node_prefix + move.node
        visits = (*at.holder(self.document, self.lane_prefix + lane), "visits")
        visit = 1 + max(self.document["visits"].get(key, 0), at.look_at(self.document, visits).get(key, 0))
        stands = {
            "node": move.node,
            "step": address_of(key, [here["step"]]),
            "visit": visit,
            "loops": move.loops,
        }
        for name, value in stands.items():
            if here[name] != value:
                self._put(lane, name, value)
        self._leave(lane)
        self.recorder.put((*visits, key), visit)
        self._note(lane)

    def _leave(self, lane: str) -> None:
        here = self._lane(lane)
        for left in ("status", "slot", "fan", "scope", "made_as", "joined"):
            if left in here:
                self.recorder.remove([*self._at(lane), left])

    def _note(self, lane: str) -> None:
        here = self._lane(lane)
        self.begun.append(
            LiveStep(self.lane_prefix + lane, self.node_prefix + here["node"], here["step"], here["visit"])
        )

    # ---- apart and together

    def _split(self, lane: str, moves: Sequence[Move]) -> None:
        """One lane for each edge, in the order of the edges; none of them sees what another will write."""
        here = self._lane(lane)
        behind = [here["segment"]] if "segment" in here else []
        fresh = {self._child(here, move): move for move in moves}
        if not behind:
            self._put_scope("segments", {name: _segment([]) for name in fresh})
        else:
            for name in fresh:
                self.recorder.put([*self.path, "segments", name], _segment(behind))
        order = self.scope["order"]
        place = order.index(lane)
        self.recorder.remove(self._at(lane))
        for index, (name, move) in enumerate(fresh.items()):
            child = _bare(
                here, segment=name, loops=move.loops, commits=here.get("commits", 0) if index == 0 else 0
            )
            child.update({"visits": here.get("visits", {}), "status": ARRIVED, "slot": move.slot})
            self.recorder.put(self._at(name), child)
        self._put_scope("order", [*order[:place], *fresh, *order[place + 1 :]])

    def _child(self, here: Document, move: Move) -> str:
        return address_of(self.node_prefix + move.node, [here["step"]])[:12]

    def _settle(self) -> None:
        """Let every slot go on at which nobody can arrive any more, until nothing moves."""
        while (slot := self._ready_slot()) is not None:
            self._fire(slot)
        statuses = self._standing()
        if statuses and LIVE not in statuses:
            raise JoinDeadlock(lanes=[self.lane_prefix + lane for lane in self.scope["order"]])

    def _ready_slot(self) -> str | None:
        waiting: dict[str, None] = {
            here["slot"]: None for here in self._lanes() if here.get("status") == ARRIVED
        }
        return next((slot for slot in waiting if self._may_fire(slot)), None)

    def _may_fire(self, slot: str) -> bool:
        graph = self.workflow.graph
        if slot not in graph.joins:
            return True
        return not any(
            graph.can_arrive(
                here["slot"] if here.get("status") == ARRIVED else here["node"],
                arrived=here.get("status") == ARRIVED,
                at=slot,
            )
            for here in self._lanes()
            if here.get("status") != ENDED and here.get("slot") != slot
        )

    def _fire(self, slot: str) -> None:
        parts = [lane for lane in self.scope["order"] if self._lane(lane).get("slot") == slot]
        if len(parts) == 1:
            self._begin(parts[0], Move(slot, self._lane(parts[0])["loops"]))
        else:
            self._join(parts, node_of(slot))

    def _join(self, parts: Sequence[str], node: str) -> None:
        """Several lanes go on as one, which takes the place of the first; its log is all of theirs in lane order."""
        lanes = [self._lane(lane) for lane in parts]
        step = address_of(self.node_prefix + node, [here["step"] for here in lanes])
        name = step[:12]
        visits = _highest(here["visits"] for here in lanes)
        key = self.node_prefix + node
        visit = max(self.document["visits"].get(key, 0), visits.get(key, 0)) + 1
        joined = {
            "node": node,
            "step": step,
            "visit": visit,
            "loops": _highest(here["loops"] for here in lanes),
            "answers": _newest(here["answers"] for here in lanes),
            "segment": name,
            "visits": {**visits, key: visit},
            "commits": sum(here["commits"] for here in lanes),
        }
        errors = {node: error for here in lanes for node, error in here.get("errors", {}).items()}
        if errors:
            joined["errors"] = errors
        if self.workflow.schema.is_whole:  # each part fitted the model by itself; together they may not
            joined["joined"] = [self.node_prefix + here["node"] for here in lanes]
        self.recorder.put([*self.path, "segments", name], _segment([here["segment"] for here in lanes]))
        order = [name if lane == parts[0] else lane for lane in self.scope["order"]]
        for lane in parts:
            self.recorder.remove(self._at(lane))
        self.recorder.put(self._at(name), joined)
        self._put_scope("order", [lane for lane in order if lane not in parts])
        self.fold()
        self._note(name)

    def _end(self, finish: Finish | None) -> None:
        """Nobody is left. If the lanes that ended can be merged the scope has ended; if not, a step fails that can be
        retried after an edit."""
        ended = list(self.scope["order"])
        if "segments" in self.scope:
            segments = [self._lane(lane)["segment"] for lane in ended]
            if not self._is_whole(segments, finish):
                self._join(ended, END)
                return
            self._fold_into_base(segments)
            self._hand_up(ended)
            self._put_scope("lanes", {})
            self._put_scope("order", [])
        self.is_finished = True

    def _is_whole(self, segments: Sequence[str], finish: Finish | None) -> bool:
        found = merged(self.scope, segments)
        if found.conflicts:
            return False
        try:
            if finish:
                finish(found.state)
        except Exception:  # noqa: BLE001  # an author's code; the step at the end raises it again, where it can be retried
            return False
        return True

    def _take_out(self, lane: str) -> None:
        self.recorder.remove(self._at(lane))
        self._put_scope("order", [other for other in self.scope["order"] if other != lane])

    # ---- logs and counts

    def _fold_into_base(self, segments: Sequence[str]) -> None:
        state, added = merged(self.scope, segments).state, additions(self.scope, segments)
        for key in written_keys(self.scope, segments):
            if key in added and key in self.scope["base"]:
                self.recorder.append([*self.path, "base", key], added[key])
            else:
                self.recorder.put([*self.path, "base", key], state[key])
        self.recorder.remove([*self.path, "segments"])

    def _hand_up(self, lanes: Sequence[str]) -> None:
        """The counts of lanes that are gone belong to the lane around them, or to the run."""
        path = self._outer_holder()
        above = at.look_at(self.document, path)
        self.recorder.put(
            [*path, "commits"], above["commits"] + sum(self._lane(lane)["commits"] for lane in lanes)
        )
        for node, visit in _highest(self._lane(lane)["visits"] for lane in lanes).items():
            if visit > above["visits"].get(node, 0):
                self.recorder.put([*path, "visits", node], visit)

    def _outer_holder(self) -> tuple[str, ...]:
        outer = self.lane_prefix.removesuffix("/")
        return at.holder(self.document, outer) if outer else ()

    def _count_commit(self, lane: str) -> None:
        counted = (*at.holder(self.document, self.lane_prefix + lane), "commits")
        self.recorder.put(counted, at.look_at(self.document, counted) + 1)

    # ---- places

    def _lane(self, lane: str) -> Document:
        found: Document = self.scope["lanes"][lane]
        return found

    def _lanes(self) -> list[Document]:
        return [self._lane(lane) for lane in self.scope["order"]]

    def _standing(self) -> set[str]:
        """Statuses of the lanes that have not ended."""
        return {here.get("status", LIVE) for here in self._lanes()} - {ENDED}

    def _at(self, lane: str) -> tuple[str, ...]:
        return (*self.path, "lanes", lane)

    def _put(self, lane: str, name: str, value: Json) -> None:
        self.recorder.put([*self._at(lane), name], value)

    def _put_scope(self, name: str, value: Json) -> None:
        self.recorder.put([*self.path, name], value)


# ---- fan-outs and nested workflows


def open_fan(recorder: Recorder, step: LiveStep, *, count: int, at_once: int) -> list[LiveStep]:
    """The items are listed; returns those to begin with."""
    lane = at.lane_path(step.lane)
    recorder.put([*lane, "fan"], {"n": count, "at_once": at_once, "results": {}})
    holder = at.holder(recorder.document, step.lane)
    recorder.put([*holder, "commits"], at.look_at(recorder.document, holder)["commits"] + 1)
    here = at.lane_at(recorder.document, step.lane)
    return [at.item_step(here, step, index) for index in range(min(count, at_once))]


def finish_item(recorder: Recorder, step: LiveStep, result: Json) -> bool:
    """Keep an item's result; says whether it was the last."""
    recorder.put([*at.lane_path(step.lane), "fan", "results", str(step.item)], result)
    return not at.is_fanning(at.lane_at(recorder.document, step.lane))


def results(position: Document, lane: str) -> list[Json]:
    """The results of a fan-out whose items are all finished, in item order."""
    fan = at.lane_at(position, lane)["fan"]
    return [fan["results"][str(index)] for index in range(fan["n"])]


def open_scope(
    workflow: Workflow, recorder: Recorder, step: LiveStep, state: dict[str, Json]
) -> list[LiveStep]:
    """A nested workflow begins; returns its first steps."""
    holder = at.holder(recorder.document, step.lane)
    recorder.put([*holder, "commits"], at.look_at(recorder.document, holder)["commits"] + 1)
    _open(workflow, recorder, state, cause=step.address, around=step)
    return [found for found in at.live_steps(recorder.document) if found.lane.startswith(f"{step.lane}/")]


def _open(
    workflow: Workflow,
    recorder: Recorder,
    state: dict[str, Json],
    *,
    cause: str,
    around: LiveStep | None = None,
) -> None:
    """Put a scope with its first lanes into a document: the run's, or the one inside a step."""
    lane = f"{around.lane}/{ROOT_LANE}" if around else ROOT_LANE
    flow = _inside(workflow, around)
    entries = [entry for entry in flow.entries if entry != END]
    node = entries[0] if len(entries) == 1 else START
    name = f"{around.node}/{node}" if around else node
    holder = at.holder(recorder.document, around.lane) if around else ()
    counts = at.look_at(recorder.document, holder)["visits"]
    visit = counts.get(name, 0) + 1
    start = {"node": node, "step": address_of(name, [cause]), "visit": visit, "loops": {}, "answers": {}}
    if node == START:
        start = {**start, "step": cause, "visit": 0}
    scope = {"base": state, "lanes": {ROOT_LANE: start}, "order": [ROOT_LANE]}
    recorder.put(at.scope_path(lane), scope)
    if node == START:
        Lanes(workflow, recorder, lane).begin_all(ROOT_LANE, [Move(entry) for entry in entries])
    else:
        recorder.put([*holder, "visits", name], visit)


def _inside(workflow: Workflow, around: LiveStep | None) -> Workflow:
    if around is None:
        return workflow
    nested = workflow.nodes[around.node].subflow
    assert nested is not None
    return nested.workflow


def _bare(here: Mapping[str, Any], *, segment: str, loops: dict[str, int], commits: int) -> Document:
    kept = {name: here[name] for name in ("node", "step", "visit", "answers", "errors") if name in here}
    return {**kept, "loops": loops, "segment": segment, "commits": commits}


def _segment(behind: list[str]) -> Document:
    return {"of": behind, "writes": {}}


def _highest(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            found[name] = max(number, found.get(name, 0))
    return found


def _newest(every: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
    """The newest decision per approval; of decisions of one moment, the one of the last lane."""
    found: dict[str, Any] = {}
    for answers in every:
        for node, answer in answers.items():
            if node not in found or str(answer.get("at", "")) >= str(found[node].get("at", "")):
                found[node] = answer
    return found
