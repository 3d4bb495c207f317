"""The workflow of a run as a picture: nodes in layers from left to right, with what the run has done of each. Pure.

An edge has a place of its own in each layer that it only passes through, so that no line runs behind a node; in which row what
stands, `straight` says. Edges that close a loop are drawn below everything, from right to left. Lengths are pixels; the page
scales the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final

from django.utils.translation import gettext

from runs.engine import END, Workflow
from runs.models import Approval, Step, Wait
from runs.queries import votes_of
from runs.templatetags import codes, words
from runs.tongue import Words, number
from runs.web import sentence, signs, straight, ways
from runs.web.straight import Edge

WIDTH: Final = 148
HEIGHT: Final = 42
BETWEEN_LAYERS: Final = 56
ROW_HEIGHTS: Final = (20, 60, 72)  # from one row to the next, by how many of the two have nodes
EDGE: Final = 6  # around everything
LOOP_EVERY: Final = 16  # from one loop's line to the next below it
END_RADIUS: Final = 5
ROOM_FOR_END: Final = 24  # right of or below a node
NAME_ROOM: Final = 17  # letters that fit into a node
SAID_ROOM: Final = 20
LETTER: Final = 6  # how wide one of a wire's label is
URGENCY: Final = ("executing", "waiting", "ready")  # of several live steps of a node, what it is said to do
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tally:
    """What a run has done of one node on its present branch. said: what it is about now, if it is."""

    state: str = "todo"  # todo, skipped, ready, work, people, time, retry, failed, done
    visits: int = 0
    said: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    label: str
    said: str
    state: str
    kind: str
    x: float
    y: float
    visits: int
    leads_to: str  # in words, for the list

    @property
    def word(self) -> str:
        return WORDS[self.state]

    @property
    def sign(self) -> signs.Sign:
        return SIGNS[self.state]


@dataclass(frozen=True, slots=True)
class Wire:
    path: str
    head: str  # of the arrow
    been: bool
    label: str = ""
    label_x: float = 0.0
    label_y: float = 0.0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """Where a run may end: a ring at the node that it ends after."""

    path: str
    x: float
    y: float
    title: str
    been: bool


@dataclass(frozen=True, slots=True)
class Picture:
    width: float
    height: float
    shapes: list[Shape]
    wires: list[Wire]
    exits: list[Exit]
    title: str


WORDS: Final = Words(
    {
        "todo": "not yet",
        "skipped": "not taken",
        "ready": "ready",
        "work": "working",
        "people": "waits for people",
        "time": "waits",
        "retry": "will be tried again",
        "failed": "failed",
        "done": "done",
    }
)


SIGNS: Final = {
    "todo": signs.Sign("none", "", ""),
    "skipped": signs.Sign("none", "", ""),
    "ready": signs.STEP["ready"],
    "work": signs.STEP["executing"],
    "people": signs.STEP["waiting"],
    "time": signs.WAITING["timer"],
    "retry": signs.RUN["retrying"],
    "failed": signs.STEP["failed"],
    "done": signs.STEP["completed"],
}


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything stands, whatever a run has done. routes: the points that an edge passes between its ends."""

    at: dict[str, Point]
    routes: dict[Edge, list[Point]]
    loops: tuple[Edge, ...]
    exits: tuple[str, ...]
    reasons: dict[Edge, list[str]]

    def label(self, edge: Edge) -> str:
        return ", ".join(map(codes.word, self.reasons.get(edge, ())))

    @property
    def lowest(self) -> float:
        passed = (y for points in self.routes.values() for _, y in points)
        return max([*(y for _, y in self.at.values()), *passed]) + HEIGHT / 2 + ROOM_FOR_END


def build(
    workflow: Workflow,
    tallies: Mapping[str, Tally],
    *,
    ended: bool,
    taken: Mapping[Edge, int] | None = None,
) -> Picture:
    """tallies: by node; nodes without one have not been come to. ended: whether the run has come to its end. taken: how often
    each edge was taken; None where nobody knows, then those between visited nodes count."""
    places = places_of(workflow)
    nodes = {name: tallies.get(name, Tally()) for name in places.at}
    counts = _guessed(places, nodes) if taken is None else taken
    lowest = places.lowest
    wires = [_wire(places, edge, counts.get(edge, 0)) for edge in places.routes]
    for turn, edge in enumerate(places.loops):
        below = lowest + LOOP_EVERY * (turn + 1)
        wires.append(_loop(places, edge, below, counts.get(edge, 0)))
    return Picture(
        width=max(x for x, _ in places.at.values()) + WIDTH / 2 + ROOM_FOR_END + EDGE,
        height=lowest + LOOP_EVERY * len(places.loops) + EDGE,
        shapes=[_shape(workflow, name, tally, places.at[name], counts) for name, tally in nodes.items()],
        wires=wires,
        exits=[
            _exit_of(workflow, places, name, been=ended and _left_by(workflow, name, nodes[name], taken))
            for name in places.exits
        ],
        title=gettext("{workflow}, version {version}: {said_of_all}").format(
            workflow=workflow.name, version=workflow.version, said_of_all=_said_of_all(nodes)
        ),
    )


def _guessed(places: Places, nodes: Mapping[str, Tally]) -> dict[Edge, int]:
    been = {name for name, tally in nodes.items() if tally.visits}
    again = [(source, header) for source, header in places.loops if nodes[header].visits > 1]
    return {edge: 1 for edge in [*places.routes, *again] if set(edge) <= been}


def _left_by(workflow: Workflow, name: str, tally: Tally, taken: Mapping[Edge, int] | None) -> bool:
    """Whether a run that has ended came to its end after this node: once it did not go on to another."""
    if taken is None:
        return tally.visits > 0
    return tally.visits > sum(taken.get((name, target), 0) for target in workflow.graph.successors[name])


@lru_cache(maxsize=256)
def places_of(workflow: Workflow) -> Places:
    """Made once for a workflow, which never changes."""
    edges, loops = _edges(workflow)
    layers = _layers(workflow, edges)
    chains = {edge: _through(edge, layers) for edge in edges}
    rows = _heights(straight.rows(layers, chains), nodes=layers)
    at = {name: _point(layer, rows[name]) for name, layer in layers.items()}
    routes = {
        edge: [_point(layer, rows[step]) for layer, step in enumerate(chain[1:-1], start=layers[edge[0]] + 1)]
        for edge, chain in chains.items()
    }
    exits = tuple(name for name in workflow.nodes if END in workflow.graph.successors[name])
    return Places(at, routes, tuple(loops), exits, _reasons(workflow))


# ---- where things stand


def _edges(workflow: Workflow) -> tuple[list[Edge], list[Edge]]:
    """The edges that lead on, and those that close a loop, between nodes only."""
    every, back = ways.edges_of(workflow), workflow.graph.back
    return [edge for edge in every if edge not in back], [edge for edge in every if edge in back]


def _layers(workflow: Workflow, edges: Sequence[Edge]) -> dict[str, int]:
    """Each node one layer behind the last that leads to it: the longest way counts."""
    before: dict[str, list[str]] = {name: [] for name in workflow.nodes}
    for source, target in edges:
        before.setdefault(target, []).append(source)
    layers: dict[str, int] = {}
    waiting = dict.fromkeys(before)
    while waiting:
        ready = [name for name in waiting if all(source in layers for source in before[name])]
        for name in ready:
            layers[name] = max((layers[source] + 1 for source in before[name]), default=0)
            del waiting[name]
    return layers


def _through(edge: Edge, layers: Mapping[str, int]) -> list[str]:
    """The ends of an edge, and between them a name for each layer that it only passes."""
    source, target = edge
    passed = range(layers[source] + 1, layers[target])
    return [source, *(f"{source}\n{target}\n{layer}" for layer in passed), target]


def _heights(rows: Mapping[str, float], *, nodes: Iterable[str]) -> dict[str, float]:
    """Pixels from the top for each row: full height between nodes, little between lines that only pass."""
    thick = {rows[name] for name in nodes}
    heights = {0.0: 0.0}
    for above, below in pairwise(sorted(set(rows.values()))):
        step = ROW_HEIGHTS[len({above, below} & thick)]
        heights[below] = heights[above] + (below - above) * step
    return {name: heights[row] for name, row in rows.items()}


def _point(layer: int, height: float) -> Point:
    return EDGE + WIDTH / 2 + layer * (WIDTH + BETWEEN_LAYERS), EDGE + HEIGHT / 2 + height


# ---- what is drawn


def _shape(workflow: Workflow, name: str, tally: Tally, at: Point, counts: Mapping[Edge, int]) -> Shape:
    x, y = at
    targets = [target for target in workflow.graph.successors[name] if target != END]
    return Shape(
        name=name,
        label=_short(name, NAME_ROOM),
        said=_short(tally.said, SAID_ROOM),
        state=tally.state,
        kind=workflow.nodes[name].kind,
        x=x - WIDTH / 2,
        y=y - HEIGHT / 2,
        visits=tally.visits,
        leads_to=words.listing([target + _times(counts.get((name, target), 0)) for target in targets], "or"),
    )


def _exit_of(workflow: Workflow, places: Places, name: str, *, been: bool) -> Exit:
    """Right of a node that leads nowhere else, below one that does."""
    x, y = places.at[name]
    reason = places.label((name, END))
    title = gettext("{reason}: the run ends").format(reason=reason) if reason else gettext("the run ends")
    if workflow.graph.successors[name] == (END,):
        right = x + WIDTH / 2
        return Exit(
            f"M{right:g} {y:g}h{ROOM_FOR_END - 2 * END_RADIUS}",
            right + ROOM_FOR_END - END_RADIUS,
            y,
            title,
            been,
        )
    foot = y + HEIGHT / 2
    aside = x + WIDTH / 2 - 12
    drop = ROOM_FOR_END - 2 * END_RADIUS - 4
    return Exit(f"M{aside:g} {foot:g}v{drop}", aside, foot + drop + END_RADIUS, title, been)


def _times(count: int) -> str:
    return f" {number(count)}×" if count > 1 else ""


def _told(places: Places, edge: Edge, count: int) -> tuple[str, str]:
    """What stands at an edge, and what it says to who points at it."""
    label = places.label(edge) + _times(count)
    told = words.some(count, "{count} time", "{count} times") if count else gettext("not taken")
    way = gettext("{node} to {next}: {told}").format(node=edge[0], next=edge[1], told=told)
    return label.strip(), way


def _wire(places: Places, edge: Edge, count: int) -> Wire:
    """Curves from layer to layer; level through the layers that are only passed."""
    (from_x, from_y), (x, y) = places.at[edge[0]], places.at[edge[1]]
    start = (from_x + WIDTH / 2, from_y)
    path = f"M{start[0]:g} {start[1]:g}"
    here = start
    for px, py in places.routes[edge]:
        path += _curve(here, (px - WIDTH / 2, py)) + f"H{px + WIDTH / 2:g}"
        here = (px + WIDTH / 2, py)
    goal = (x - WIDTH / 2 - 6, y)
    first = (places.routes[edge] or [places.at[edge[1]]])[0]
    label, title = _told(places, edge, count)
    # A long label goes on between the rows, not under the node that its wire leaves.
    half = max(BETWEEN_LAYERS, len(label) * LETTER) / 2
    return Wire(
        path=path + _curve(here, goal),
        head=f"M{goal[0] + 6:g} {y:g}l-7-4v8z",
        been=count > 0,
        label=label,
        label_x=start[0] + half,
        label_y=(start[1] + first[1]) / 2 - 4,
        title=title,
    )


def _curve(start: Point, end: Point) -> str:
    middle = (start[0] + end[0]) / 2
    return f"C{middle:g} {start[1]:g} {middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"


def _loop(places: Places, edge: Edge, below: float, count: int) -> Wire:
    """Out of the bottom of a node, back below everything, into the bottom of the loop's first."""
    (from_x, from_y), (to_x, to_y) = places.at[edge[0]], places.at[edge[1]]
    out, into = from_x + 14, to_x - 14
    foot = to_y + HEIGHT / 2
    label, title = _told(places, edge, count)
    path = f"M{out:g} {from_y + HEIGHT / 2:g}V{below - 8:g}a8 8 0 0 1 -8 8H{into + 8:g}a8 8 0 0 1 -8 -8V{foot + 6:g}"
    return Wire(
        path=path,
        head=f"M{into:g} {foot:g}l-4 7h8z",
        been=count > 0,
        label=label,
        label_x=(out + into) / 2,
        label_y=below - 4,
        title=title,
    )


def _reasons(workflow: Workflow) -> dict[Edge, list[str]]:
    """Why a way is taken, where a reason has a name."""
    found: dict[Edge, list[str]] = {}
    for source, way in workflow.ways.items():
        for outcome, target in way.outcomes.items():
            found.setdefault((source, target), []).append(outcome)
        others = {"limit": way.limit, "recheck": way.recheck, "error": way.on_error}
        for reason, special in others.items():
            if special:
                found.setdefault((source, special), []).append(reason)
    return found


def _said_of_all(nodes: Mapping[str, Tally]) -> str:
    """In words, for those who do not see the picture."""
    told = [
        f"{name} {WORDS[tally.state]}"
        for name, tally in nodes.items()
        if tally.state not in ("todo", "skipped")
    ]
    return words.listing(told) if told else gettext("nothing has begun")


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


# ---- what a run has done


def tallies(
    done: Mapping[str, Mapping[str, int]],
    *,
    steps: Sequence[Step],
    waits: Sequence[Wait],
    approvals: Sequence[Approval],
    skipped: Iterable[str],
    now: datetime,
) -> dict[str, Tally]:
    """By node of the outermost workflow. done: steps of each status on the present branch; steps: the live ones; waits and
    approvals: the open ones."""
    found = {name: Tally("skipped") for name in skipped}
    found |= {name: _past(counts) for name, counts in done.items()}
    asked = {approval.address: approval for approval in approvals}
    waited: dict[str, list[Wait]] = {}
    for wait in waits:
        waited.setdefault(wait.address, []).append(wait)
    for step in sorted(steps, key=lambda step: URGENCY.index(step.status), reverse=True):
        name = outermost(step.node)
        state, said = _present(step, waited.get(step.address, ()), asked.get(step.address), now)
        beside = sum(outermost(other.node) == name for other in steps) - 1
        more = gettext(", {beside} more").format(beside=beside) if beside else ""
        found[name] = Tally(state, sum(done.get(name, {}).values()), said + more)
    return found


def outermost(node: str) -> str:
    return node.partition("/")[0]


def _past(counts: Mapping[str, int]) -> Tally:
    visits = sum(counts.values())
    state = "failed" if counts.get("failed") else "done" if counts.get("completed") else "ready"
    return Tally(state, visits, words.some(visits, "{count} visit", "{count} visits") if visits > 1 else "")


def _present(step: Step, waits: Sequence[Wait], asked: Approval | None, now: datetime) -> tuple[str, str]:
    """The state of a live step and what it is about."""
    if step.status == "executing":
        return "work", gettext("since {age}").format(age=words.age(step.entered_at or step.created_at, now))
    if asked is not None:
        votes = (
            gettext(" {votes_of} of {quorum}").format(votes_of=votes_of(asked), quorum=asked.quorum)
            if asked.quorum > 1
            else ""
        )
        return "people", sentence.whom(asked) + votes
    if not waits:
        return "ready", ""
    first = min(waits, key=lambda wait: (wait.due_at is None, wait.due_at or wait.opened_at))
    left = (
        ""
        if first.due_at is None
        else gettext("{span} left").format(span=words.span(max(first.due_at - now, timedelta(0))))
    )
    if first.kind == "retry":
        return "retry", gettext("attempt {attempt}, {left}").format(
            attempt=step.attempt, left=left
        ) if left else gettext("attempt {attempt}").format(attempt=step.attempt)
    if first.kind == "timer":
        return "time", left
    what = {
        "signal": gettext("for signal {name}").format(name=first.name),
        "child": gettext("for a child run"),
    }
    return "time", what.get(first.kind, "")
