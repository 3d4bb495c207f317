"""The checked graph of a workflow: loops, joins, and which lane can still arrive where. Static, made once a workflow.

Theory. Lanes arrive at slots. A slot is a node (arrivals over forward edges) or the latch `h^` of a loop's header `h`
(arrivals over edges back into it); a latch leads to its header. A slot with two or more incoming edges is a join: all
lanes that arrive there go on as one, once no other lane can still arrive. A lane X can still arrive at p, where P waits,
if a path leads from X to p that passes no join which P itself will reach: such a join would wait for P. Without this
exception an outer loop, through which everything reaches everything, would let joins wait for each other and nodes with a
loop of their own for siblings that they have nothing to do with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from runs.errors import WorkflowError

START: Final = "START"
END: Final = "END"
LATCH: Final = "^"  # no node's name has it

Successors = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Graph:
    """What the engine needs of a checked graph.

    successors: every possible target of a node, END included, in declaration order.
    back: the edges that close a loop, as (source, header). headers: loop headers with the nodes of their loops.
    slots: successors by slot, latches included, END left out. joins: slots with two or more incoming edges.
    arriving: for each join, from which slots it can still be reached without passing a join that it leads to itself.
    walls: for each join, the joins that it will reach itself. warnings: what is allowed and seldom meant.
    """

    successors: Mapping[str, tuple[str, ...]]
    back: frozenset[tuple[str, str]]
    headers: Mapping[str, frozenset[str]]
    slots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joins: frozenset[str] = frozenset()
    arriving: Mapping[str, frozenset[str]] = field(default_factory=dict)
    walls: Mapping[str, frozenset[str]] = field(default_factory=dict)
    narrowing: frozenset[tuple[str, str]] = frozenset()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, successors: Mapping[str, tuple[str, ...]], *, splits: Successors) -> Graph:
        """Check a graph. successors: targets of every node, the entries under START. splits: nodes all of whose edges are
        taken, with their targets. Raises `WorkflowError` naming the node."""
        back = _back_edges(name, successors)
        _refuse_dead_ends(name, successors)
        _refuse_two_entrances(name, successors, back)
        headers = {header: _loop(successors, back, header) for _, header in sorted(back)}
        slots = _slots(successors, back)
        joins = _joins(slots)
        walls = _walls(slots, headers, joins)
        arriving = {join: _arriving(slots, join, walls[join]) for join in joins}
        graph = cls(successors, frozenset(back), headers, slots, joins, arriving, walls)
        return cls(
            graph.successors,
            graph.back,
            graph.headers,
            slots,
            joins,
            arriving,
            walls,
            _narrowing(graph),
            tuple(_warnings(graph, splits)),
        )

    def slot(self, source: str, target: str) -> str:
        """Where a lane arrives that goes from a node to another: at the node, or at the latch of its loop."""
        return target + LATCH if (source, target) in self.back else target

    def can_arrive(self, place: str, *, arrived: bool, at: str) -> bool:
        """Whether a lane can still arrive at the join `at`. place: the node it works on, or the slot it only arrived at."""
        if arrived and place in self.walls[at]:
            return False
        return place in self.arriving[at]


def node_of(slot: str) -> str:
    return slot.removesuffix(LATCH)


# ---- loops


def _back_edges(name: str, successors: Successors) -> list[tuple[str, str]]:
    """Depth first from START in declaration order: an edge to a node that is still on the stack closes a loop."""
    seen: set[str] = {START}
    on_stack: dict[str, None] = {START: None}
    back: list[tuple[str, str]] = []
    work = [(START, iter(successors[START]))]
    while work:
        node, targets = work[-1]
        target = next(targets, None)
        if target is None:
            work.pop()
            del on_stack[node]
        elif target in on_stack:
            back.append((node, target))
        elif target != END and target not in seen:
            seen.add(target)
            on_stack[target] = None
            work.append((target, iter(successors[target])))
    unreachable = [node for node in successors if node not in seen]
    if unreachable:
        raise WorkflowError(
            f"{name}: no way leads to {', '.join(map(repr, unreachable))}.", node=unreachable[0]
        )
    return back


def _refuse_dead_ends(name: str, successors: Successors) -> None:
    can_end = {END}
    while True:
        more = {
            node for node, targets in successors.items() if node not in can_end and can_end & set(targets)
        }
        if not more:
            break
        can_end |= more
    stuck = [node for node in successors if node not in can_end and node != START]
    if stuck:
        raise WorkflowError(f"{name}: from {stuck[0]!r} no way leads to the end.", node=stuck[0])


def _refuse_two_entrances(name: str, successors: Successors, back: Iterable[tuple[str, str]]) -> None:
    for source, header in back:
        # The header dominates the source exactly if the source cannot be reached once the header is taken away.
        reached = {START}
        work = [START]
        while work:
            for target in successors.get(work.pop(), ()):
                if target != header and target not in reached:
                    reached.add(target)
                    work.append(target)
        if source in reached and source != header:
            raise WorkflowError(
                f"{name}: the loop of {source!r} and {header!r} has two entrances; enter it at {header!r} only.",
                node=header,
                reason="loop_with_two_entrances",
            )


def _loop(successors: Successors, back: Iterable[tuple[str, str]], header: str) -> frozenset[str]:
    """The natural loop: backwards from the sources of the edges back, on the graph as it was declared."""
    predecessors = _turned(successors)
    members = {header}
    work = [source for source, target in back if target == header]
    while work:
        node = work.pop()
        if node not in members:
            members.add(node)
            work.extend(predecessors.get(node, ()))
    return frozenset(members)


def _turned(successors: Successors) -> dict[str, list[str]]:
    predecessors: dict[str, list[str]] = {}
    for source, targets in successors.items():
        for target in targets:
            predecessors.setdefault(target, []).append(source)
    return predecessors


# ---- joins


def _slots(successors: Successors, back: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    closing = set(back)
    slots = {
        node: tuple(
            target + LATCH if (node, target) in closing else target for target in targets if target != END
        )
        for node, targets in successors.items()
    }
    return {**slots, **{header + LATCH: (header,) for _, header in closing}}


def _joins(slots: Successors) -> frozenset[str]:
    incoming: dict[str, int] = {}
    for source, targets in slots.items():
        if not source.endswith(LATCH):
            for target in targets:
                incoming[target] = incoming.get(target, 0) + 1
    return frozenset(slot for slot, count in incoming.items() if count > 1)


def _walls(
    slots: Successors, headers: Mapping[str, frozenset[str]], joins: frozenset[str]
) -> dict[str, frozenset[str]]:
    """The joins that each join will reach itself: forward, or after leaving the loops it is in, without another round."""
    ahead = {
        slot: _exits(slots, headers[node_of(slot)]) if slot.endswith(LATCH) else targets
        for slot, targets in slots.items()
    }
    return {join: frozenset(_reached(ahead, join) & joins) for join in joins}


def _exits(slots: Successors, body: frozenset[str]) -> tuple[str, ...]:
    """Slots that follow nodes of a loop and are outside of it."""
    following = (slot for node in sorted(body) for slot in slots[node])
    return tuple(dict.fromkeys(slot for slot in following if node_of(slot) not in body))


def _reached(successors: Successors, start: str) -> set[str]:
    """Everything on some way from `start`; `start` itself only if a way leads back to it."""
    seen: set[str] = set()
    work = [start]
    while work:
        for target in successors.get(work.pop(), ()):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen


def _arriving(slots: Successors, join: str, wall: frozenset[str]) -> frozenset[str]:
    """From where a way leads to a join that passes no wall: backwards, since only the way's end is fixed."""
    predecessors = _turned(slots)
    found: set[str] = set()
    work = [join]
    while work:
        for source in predecessors.get(work.pop(), ()):
            if source not in found:
                found.add(source)
                if source not in wall and source != join:
                    work.append(source)
    return frozenset(found)


def _narrowing(graph: Graph) -> frozenset[tuple[str, str]]:
    """Moves after which some join needs to wait no longer: their commit must look at the other lanes."""
    return frozenset(
        (source, target)
        for source, targets in graph.successors.items()
        for target in targets
        if target != END
        and any(
            source in found and target not in found and graph.slot(source, target) != join
            for join, found in graph.arriving.items()
        )
    )


# ---- warnings


def _warnings(graph: Graph, splits: Successors) -> Iterable[str]:
    for split, targets in splits.items():
        around = [header for header, body in graph.headers.items() if split in body]
        ways = {target: _before_a_join(graph, split, target) for target in targets}
        for target, way in ways.items():
            if around and END in way:
                yield (
                    f"the lane from {split!r} over {target!r} can end inside the loop of {around[0]!r}: "
                    "what it wrote is kept apart until the run ends"
                )
        for source, header in sorted(graph.back):
            beside = [target for target, way in ways.items() if source in way]
            if header in around and source != split and 0 < len(beside) < len(ways):
                yield (
                    f"{source!r} leads back to {header!r} beside the lanes that {split!r} has split: both rounds "
                    "meet at their join once"
                )


def _before_a_join(graph: Graph, split: str, target: str) -> set[str]:
    """Nodes (or END) that a lane may be at before it meets others."""
    if graph.slot(split, target) in graph.joins:
        return set()
    seen, work = {target}, [target]
    while work:
        node = work.pop()
        for following in graph.successors.get(node, ()):
            if following in seen or (following != END and graph.slot(node, following) in graph.joins):
                continue
            seen.add(following)
            work.append(following)
    return seen
