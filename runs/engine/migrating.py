"""Taking a run from one version of its workflow to another.

Theory. A migration is a pure function f from a whole state to a whole state, and new names for nodes. Of a run with one lane
the base goes through f. Where lanes have logs of their own, what a lane sees is base plus log, and f is applied to that: the
new base is f(base), and the new log of a segment is the difference between f of what was seen before it and f of what was
seen with it. So every lane sees f of what it saw. This is sound only if f and merging commute, which is checked: what joins
have merged, and what all lanes would come to if they ended now, must be f of what it was, without a conflict that was not
there. A function that works out one key from keys of several lanes does not, and is refused, naming key and nodes.

Where lanes stand goes by names. A step keeps its address, so its approval, waits, journal and attempts stay what they are.
Joins of the other graph that need not wait are let go on.

Several migrations in a row are one: their functions are applied in order, and what is in between is never checked, since its
schema may be gone.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.engine import canonical
from runs.engine import position as at
from runs.engine.authored import contained, origin
from runs.engine.canonical import Json
from runs.engine.graph import END, LATCH, node_of
from runs.engine.lanes import Lanes
from runs.engine.merging import behind, merged
from runs.engine.patch import Recorder
from runs.engine.position import ARRIVED, ENDED, LIVE, Document, LiveStep
from runs.engine.state import StateSchema
from runs.engine.status import TERMINAL, RunEvent, RunStatus, after
from runs.engine.transition import Aggregate, Checkpoint, Event, Moved, Transition, Wait
from runs.engine.versions import Migration
from runs.engine.workflow import Workflow
from runs.errors import (
    AlreadyTerminal,
    EventNotAllowed,
    HitlError,
    JoinDeadlock,
    MigrationFailed,
    Problem,
    StepError,
    StepExecuting,
    Told,
)


@dataclass(frozen=True, slots=True)
class Carried:
    """A position as another version has it. begun: steps that joins have begun; nodes: new names of renamed steps, by address."""

    position: Document
    begun: list[LiveStep]
    nodes: dict[str, str]


def carry(
    position: Document, steps: Sequence[Migration], target: Workflow, *, asked: Collection[str] = ()
) -> Carried:
    """A position at the version that `steps` lead to; the given one stays as it is.

    asked: addresses of steps that are parked at an approval node. Raises `MigrationFailed` naming the node or key.
    """
    after, before = copy.deepcopy(position), {step.address: step.node for step in at.all_steps(position)}
    mover = _Mover(steps, frozenset(asked))
    mover.visits(after)
    mover.scope(after["root"], target, "", "", "")
    recorder = Recorder(after)
    begun = _stood(target, recorder)
    nodes = {
        step.address: step.node
        for step in at.all_steps(after)
        if before.get(step.address, step.node) != step.node
    }
    return Carried(after, begun, nodes)


def migrate(
    run: Aggregate, carried: Carried, steps: Sequence[Migration], *, version: str, reason: str
) -> Transition:
    """The transition of a run whose head was carried to `run.workflow`, registered as `version`.

    What is parked, asked or waited for stays so. Raises `StepExecuting`, or `AlreadyTerminal`; a failed run may be retried
    afterwards.
    """
    if run.status in TERMINAL and run.status != RunStatus.FAILED:
        raise AlreadyTerminal(
            Told("The run is {status}; there is nothing to take along.", status=run.status), status=run.status
        )
    if run.status == RunStatus.CANCELLING:
        raise EventNotAllowed("The run is being cancelled.", status=run.status)
    if run.executing:
        raise StepExecuting("A step executes, by the code that the run is at; wait for it, or rewind.")
    moved = Moved(steps[0].from_version, version, run.workflow.fingerprint, carried.nodes)
    transition = Transition(
        events=[event_of(moved, steps, reason=reason)],
        checkpoint=Checkpoint("migration", ()),
        moved=moved,
        close_waits_of=[""],  # what the run itself waited for
    )
    if run.status != RunStatus.FAILED and carried.begun:
        transition.next_steps = carried.begun
        transition.status = after(run.status, RunEvent.WOKEN)
    return transition


def needed(facts: dict[str, Json]) -> Transition:
    """A run waits for code from now on, or for another reason than before. Its status stays what it is."""
    return Transition(
        events=[Event("migration_needed", facts)],
        wait=Wait("", "", "needs_migration", facts=facts),
        close_waits_of=[""],
    )


def not_needed(version: str) -> Transition:
    """The code is back, or there is other code to try."""
    return Transition(events=[Event("code_is_back", {"version": version})], close_waits_of=[""])


def on_the_way(rewound: Transition, target: Workflow, steps: Sequence[Migration], *, version: str) -> None:
    """Let the first checkpoint of a rewind's branch be the one at which the run comes to `target`: what it went back to is stored
    as an older version."""
    moved = Moved(steps[0].from_version, version, target.fingerprint)
    rewound.moved, rewound.checkpoint = moved, Checkpoint("migration", ())
    rewound.events.append(event_of(moved, steps, reason=str(rewound.events[0].payload.get("reason", ""))))


def event_of(moved: Moved, steps: Sequence[Migration], *, reason: str) -> Event:
    """What the history says of it: from, to, and the versions on the way."""
    facts: dict[str, Json] = {
        "from": moved.from_version,
        "to": moved.to_version,
        "way": [steps[0].from_version, *(step.to_version for step in steps)],
        "fingerprint": moved.fingerprint,
        "reason": reason,
    }
    return Event("state_migrated", facts)


@dataclass(frozen=True, slots=True)
class _Mover:
    steps: Sequence[Migration]
    asked: frozenset[str]

    # ---- names

    def name(self, node: str) -> str:
        """The name of a node, as it is shown, after all migrations."""
        for step in self.steps:
            node = step.renamed(node)
        return node

    def leaf(self, old: str, prefix: str, name: str) -> str:
        """The name in its own workflow of a node; `prefix` is what stands before it afterwards."""
        if name == END:
            return name
        renamed = self.name(f"{old}{name}")
        outer, inner, leaf = renamed.rpartition("/")
        if f"{outer}{inner}" != prefix:
            raise self._failed(
                f"{old}{name}", f"{old}{name} cannot become {renamed}: that is in another workflow"
            )
        return leaf

    def visits(self, counted: Document) -> None:
        counts: dict[str, int] = {}
        for node, visits in counted.get("visits", {}).items():
            counts[self.name(node)] = max(visits, counts.get(self.name(node), 0))
        if "visits" in counted:
            counted["visits"] = counts

    # ---- a scope and its lanes

    def scope(self, scope: Document, flow: Workflow, old: str, prefix: str, path: str) -> None:
        """A run, or a nested workflow. old, prefix: what stands before the names of its nodes, then and now."""
        self._state(scope, flow.schema, old.rstrip("/"), path)
        for name in scope["order"]:
            self._lane(scope["lanes"][name], flow, old, prefix, f"{path}/lanes/{name}")

    def _lane(self, lane: Document, flow: Workflow, old: str, prefix: str, path: str) -> None:
        was, status = lane["node"], lane.get("status", LIVE)
        self.visits(lane)
        for kept in ("answers", "errors"):
            if kept in lane:
                lane[kept] = {self.leaf(old, prefix, node): value for node, value in lane[kept].items()}
        loops = {self.leaf(old, prefix, header): passes for header, passes in lane["loops"].items()}
        lane["loops"] = {header: passes for header, passes in loops.items() if header in flow.graph.headers}
        if status == ENDED:
            return
        if status == ARRIVED:
            lane["slot"] = self._slot(lane["slot"], flow, old, prefix, path)
            return
        lane["node"] = self.leaf(old, prefix, was)
        self._check(lane, flow, f"{old}{was}", f"{prefix}{lane['node']}", path)
        if f"{prefix}{lane['node']}" != f"{old}{was}":
            lane.setdefault("made_as", f"{old}{was}")
        if "scope" in lane:
            nested = flow.nodes[lane["node"]].subflow
            assert nested is not None
            self.scope(
                lane["scope"], nested.workflow, f"{old}{was}/", f"{prefix}{lane['node']}/", f"{path}/scope"
            )

    def _slot(self, slot: str, flow: Workflow, old: str, prefix: str, path: str) -> str:
        """Where a lane has arrived: at the latch of a loop only if there still is one."""
        node = self.leaf(old, prefix, node_of(slot))
        if node not in flow.nodes and node != END:
            raise self._gone(f"{old}{node_of(slot)}", f"{path}/slot")
        latch = slot.endswith(LATCH) and node in flow.graph.headers
        return node + LATCH if latch else node

    def _check(self, lane: Document, flow: Workflow, was: str, now: str, path: str) -> None:
        """The step that is to do must find a node that can go on with it."""
        if lane["node"] == END:
            return
        if lane["node"] not in flow.nodes:
            raise self._gone(was, f"{path}/node")
        kind = flow.nodes[lane["node"]].kind
        wanted = "fan_out" if "fan" in lane else "subflow" if "scope" in lane else ""
        if lane["step"] in self.asked:
            wanted = "approval"
        if wanted and kind != wanted:
            what = {
                "approval": "waits for people",
                "fan_out": "has begun its items",
                "subflow": "has begun inside",
            }
            raise self._failed(
                was,
                f"the step at {was!r} {what[wanted]}, and {now!r} is no {wanted.replace('_', '-')}",
                f"{path}/node",
            )

    # ---- state

    def _state(self, scope: Document, schema: StateSchema, around: str, path: str) -> None:
        old = {"base": scope["base"], "segments": scope.get("segments", {})}
        scope["base"] = self.carried(old["base"], schema, around)
        if "segments" not in scope:
            return
        scope["segments"] = segments = {}
        logs = _Logs(self, old, schema, around)
        for name in behind(old, list(old["segments"])):
            segments[name] = {"of": old["segments"][name]["of"], "writes": logs.of(name)}
        for name in segments:
            self._check_merged(scope, [name], logs)
        self._check_merged(scope, [scope["lanes"][lane]["segment"] for lane in scope["order"]], logs)

    def carried(self, document: Document, schema: StateSchema, around: str) -> dict[str, Json]:
        """One whole state at the last version."""
        state: Any = copy.deepcopy(document)
        for step in self.steps:
            function = step.state if not around else step.inside.get(around)
            around = step.renamed(around)
            try:
                with contained:
                    state = state if function is None else function(state)
            except Exception as error:
                told = f"{type(origin(error)).__name__}: {error}"[:500]
                raise MigrationFailed(
                    Told("In {step}: {told}.", step=step, told=told),
                    errors=[Problem("", "migration_raised", canonical.visible(told))],
                    from_version=step.from_version,
                    to_version=step.to_version,
                ) from error
        try:
            return schema.adopt(state)
        except StepError as error:
            last = self.steps[-1]
            raise MigrationFailed(
                Told("After {last}: {detail}", last=last, detail=error.detail),
                errors=error.errors or [Problem(str(error.facts.get("path", "")), error.code, error.detail)],
                from_version=self.steps[0].from_version,
                to_version=last.to_version,
            ) from None

    def _check_merged(self, scope: Document, segments: Sequence[str], logs: _Logs) -> None:
        """What these lanes come to together must be what became of what they came to before."""
        now, before = merged(scope, segments), merged(logs.old, segments)
        known = {conflict.key for conflict in before.conflicts}
        fresh = next((found for found in now.conflicts if found.key not in known), None)
        if fresh is not None:
            nodes = [fresh.one.node, fresh.other.node]
            raise MigrationFailed(
                Told(
                    "Lanes at {one!r} and {other!r} would both have written {key!r}, and neither knows of the other: "
                    "a migration works out each key from what one lane writes.",
                    one=nodes[0],
                    other=nodes[1],
                    key=fresh.key,
                ),
                errors=[
                    Problem(f"/{canonical.escape(fresh.key)}", "lanes_cannot_be_mapped", " and ".join(nodes))
                ],
                nodes=nodes,
                key=fresh.key,
            )
        if before.conflicts or now.conflicts:
            return
        wanted = logs.after(before.state)
        different = next((key for key in wanted if not canonical.same(wanted[key], now.state[key])), None)
        if different is not None:
            raise MigrationFailed(
                Told(
                    "The lanes would come to another {different!r} than their joined state does: "
                    "a migration works out each key from what one lane writes.",
                    different=different,
                ),
                errors=[Problem(f"/{canonical.escape(different)}", "lanes_cannot_be_mapped", different)],
                key=different,
            )

    # ---- what cannot be

    def _gone(self, node: str, path: str) -> MigrationFailed:
        return self._failed(
            node,
            f"a lane stands at {node!r}, and version {self.steps[-1].to_version} has no such node; say "
            f"nodes={{{node!r}: …}}",
            path,
        )

    def _failed(self, node: str, told: str, path: str = "") -> MigrationFailed:
        return MigrationFailed(
            f"{told[0].upper()}{told[1:]}.",
            errors=[Problem(path, "node_not_mapped", told)],
            node=node,
            from_version=self.steps[0].from_version,
            to_version=self.steps[-1].to_version,
        )


class _Logs:
    """The logs of a scope, as the other version has them."""

    def __init__(self, mover: _Mover, old: Document, schema: StateSchema, around: str) -> None:
        self.old = old
        self._mover, self._schema, self._around = mover, schema, around

    def after(self, state: Mapping[str, Json]) -> dict[str, Json]:
        return self._mover.carried(dict(state), self._schema, self._around)

    def of(self, name: str) -> dict[str, list[Json]]:
        """What a segment has written: the difference that its writes make to the migrated state."""
        segment = self.old["segments"][name]
        before, with_it = (self.after(merged(self.old, names).state) for names in (segment["of"], [name]))
        return {
            key: [self._entry(segment["writes"], key, before[key], with_it[key])]
            for key in with_it
            if key in segment["writes"] or not canonical.same(before[key], with_it[key])
        }

    def _entry(self, writes: Mapping[str, Any], key: str, before: Json, now: Json) -> Json:
        own = writes.get(key) or [entry for log in writes.values() for entry in log]
        node, address, kind, _ = own[-1]
        only_added = all(entry[2] == "append" for entry in own) or key not in writes
        if key in self._schema.appending and only_added and _begins_with(now, before):
            return [node, address, "append", now[len(before) :]]
        return [node, address, "edit" if kind == "edit" else "set", now]


def _begins_with(longer: Json, shorter: Json) -> bool:
    if not isinstance(longer, list) or not isinstance(shorter, list) or len(longer) < len(shorter):
        return False
    return canonical.same(longer[: len(shorter)], shorter)


def _stood(target: Workflow, recorder: Recorder) -> list[LiveStep]:
    """Let joins go on that need not wait in this graph; returns the steps that begin, in lane order."""
    begun: list[LiveStep] = []
    try:
        for scope_lane in _first_lanes(recorder.document):
            lanes = Lanes(target, recorder, scope_lane)
            lanes.stand()
            begun += lanes.begun
    except JoinDeadlock as error:
        raise MigrationFailed(
            Told("In the other graph the lanes would wait for each other. {detail}", detail=error.detail)
        ) from None
    return begun


def _first_lanes(position: Any) -> list[str]:
    """One lane of every scope, the inner ones first."""
    found: dict[str, str] = {}
    for lane in at.lanes(position):
        path = str(lane["lane"])
        found.setdefault(path.rpartition("/")[0], path)
    return [found[outer] for outer in sorted(found, key=len, reverse=True)]


def fault(error: HitlError) -> dict[str, Json]:
    """Why a run needs a migration, as its page and its `waiting_for` say it."""
    facts: dict[str, Json] = {"code": error.code, "detail": error.detail}
    if error.errors:
        facts["errors"] = [problem.as_dict() for problem in error.errors[:5]]
    if "node" in error.facts:
        facts["step"] = error.facts["node"]
    return facts
