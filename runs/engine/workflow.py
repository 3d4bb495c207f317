"""The builder that authors use: a named, versioned graph of nodes over a typed state.

    refund = Workflow("refund", version=1, state=Refund)

    @refund.node
    def look_up(state, ctx): ...

    @refund.approval(reviewers=["finance"])
    def confirm(state, ctx): ...

    refund.edge("look_up", "confirm")
    refund.choose("confirm", approve="pay", reject="tell_customer")

The constructor and the decorators only collect. `validate` (called when the workflow is registered) checks the graph
and raises `WorkflowError` naming the node.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, overload

from pydantic import BaseModel

from runs.engine.canonical import Json, digest
from runs.engine.retry import ONCE, Retry
from runs.engine.state import StateSchema
from runs.errors import WorkflowError

START: Final = "START"
END: Final = "END"
DECISIONS: Final = ("approve", "edit", "reject", "respond")
OUTCOMES: Final = ("approve", "reject", "mixed", "timeout", "respond")
RISKS: Final = ("low", "medium", "high", "critical")
DEFAULT_LOOP_LIMIT: Final = 100
DEFAULT_MAX_STEPS: Final = 10_000
LONGEST_DUE: Final = 10 * 365 * 86400.0

Effect = Literal["none", "reversible", "irreversible"]
OnTimeout = Literal["reject", "approve", "escalate", "fail"]
Body = Callable[[Any, Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
Target = str | Callable[..., Any]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}\Z")
_VERSION = re.compile(r"[A-Za-z0-9_.-]{1,39}\Z")  # in development a fingerprint is added; both have 60 places
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)\Z")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that people are asked about.

    tool, args: what would be called, with which arguments (JSON values).
    schema: a pydantic model or JSON Schema of the arguments; edits are checked against it.
    key: tells several actions of one approval apart; default the tool.
    allowed: which answers are offered; default all but edit.
    editable: argument names or JSON Pointers that an edit may change; any makes edit allowed.
    effect: what the call does to the world. risk: low, medium, high or critical.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    schema: type[BaseModel] | Mapping[str, Any] | None = None
    key: str | None = None
    allowed: Sequence[str] | None = None
    editable: Sequence[str] = ()
    effect: Effect = "none"
    risk: str | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """What an approval function may return instead of bare actions.

    title, facts, reason come from the workflow's code; agent_note holds the agent's own words, shown apart as not verified.
    """

    actions: Action | Sequence[Action]
    title: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    agent_note: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalOptions:
    reviewers: tuple[str, ...] = ()
    quorum: int = 1
    reject_quorum: int = 1
    due: float | None = None
    on_timeout: OnTimeout = "reject"
    editor_may_approve: bool = False
    requester_may_decide: bool = False
    reason_required: bool = False
    recheck: str | None = None

    def as_dict(self) -> dict[str, Json]:
        return {
            "reviewers": list(self.reviewers),
            "quorum": self.quorum,
            "reject_quorum": self.reject_quorum,
            "due": self.due,
            "on_timeout": self.on_timeout,
            "editor_may_approve": self.editor_may_approve,
            "requester_may_decide": self.requester_may_decide,
            "reason_required": self.reason_required,
            "recheck": self.recheck,
        }


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    body: Body
    retry: Retry
    loop_limit: int
    approval: ApprovalOptions | None = None

    @property
    def kind(self) -> str:
        return "approval" if self.approval else "function"


@dataclass(slots=True)
class Way:
    """Where a node leads: one target, a target per outcome, or what a router answers among `to`."""

    plain: str | None = None
    outcomes: dict[str, str] = field(default_factory=dict)
    router: Callable[..., Any] | None = None
    to: tuple[str, ...] = ()
    limit: str | None = None
    recheck: str | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Every possible target, in declaration order, once each."""
        every = [self.plain] if self.plain else [*self.outcomes.values(), *self.to]
        every.extend(target for target in (self.limit, self.recheck) if target)
        return tuple(dict.fromkeys(every))


class Workflow:
    """A named, versioned graph of nodes over a typed state.

    name: letters, digits, `_ . -`. version: an int or a text; raise it whenever graph or schema change.
    state: a pydantic model. input: a model for what a submitter sends (default: the state model).
    output: a model whose fields are taken from the final state, or a function of it (default: the final state).
    max_steps: commits that one branch of a run may make.
    """

    def __init__(
        self,
        name: str,
        *,
        version: int | str = 1,
        state: type[BaseModel],
        input: type[BaseModel] | None = None,
        output: type[BaseModel] | Callable[[Any], Any] | None = None,
        title: str = "",
        max_steps: int = DEFAULT_MAX_STEPS,
    ) -> None:
        self.name = name
        self.version = str(version)
        self.title = title or name.replace("_", " ").replace("-", " ")
        self.state_model = state
        self.input_model = input or state
        self.output = output
        self.max_steps = max_steps
        self.nodes: dict[str, Node] = {}
        self.ways: dict[str, Way] = {}

    def __repr__(self) -> str:
        return f"<Workflow {self.name} version {self.version}>"

    # ---- collecting

    @overload
    def node(self, function: Function, /) -> Function: ...
    @overload
    def node(
        self, /, *, name: str | None = None, retry: Retry = ONCE, loop_limit: int = DEFAULT_LOOP_LIMIT
    ) -> Callable[[Function], Function]: ...
    def node(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
    ) -> Function | Callable[[Function], Function]:
        """Declare a node. `function(state, ctx)` returns a partial update of the state, or None.

        loop_limit: how many passes a loop that begins here may make before `limit=` is taken or the step fails.
        """

        def declare(body: Function) -> Function:
            self._add(Node(name or body.__name__, body, retry, loop_limit))
            return body

        return declare(function) if function else declare

    @overload
    def approval(self, function: Function, /) -> Function: ...
    @overload
    def approval(
        self,
        /,
        *,
        name: str | None = None,
        reviewers: Iterable[str] = (),
        quorum: int = 1,
        reject_quorum: int = 1,
        due: str | float | None = None,
        on_timeout: OnTimeout = "reject",
        editor_may_approve: bool = False,
        requester_may_decide: bool = False,
        reason_required: bool = False,
        recheck: Target | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
    ) -> Callable[[Function], Function]: ...
    def approval(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        reviewers: Iterable[str] = (),
        quorum: int = 1,
        reject_quorum: int = 1,
        due: str | float | None = None,
        on_timeout: OnTimeout = "reject",
        editor_may_approve: bool = False,
        requester_may_decide: bool = False,
        reason_required: bool = False,
        recheck: Target | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
    ) -> Function | Callable[[Function], Function]:
        """Declare an approval. `function(state, ctx)` returns an `Action`, a list of them, or an `Ask`.

        reviewers: team names, or `user:NAME` for one person; none means every reviewer of the project.
        quorum: how many different people must agree. reject_quorum: how many rejects it takes.
        due: seconds, or a text such as "30m", "24h", "7d"; `on_timeout` says what happens then.
        recheck: the node that looks at edited arguments (`ctx.edited`) before people are asked anew; an edit is no vote then.
        """

        def declare(body: Function) -> Function:
            where = f"approval {name or body.__name__!r} of {self.name!r}"
            options = ApprovalOptions(
                reviewers=tuple([reviewers] if isinstance(reviewers, str) else reviewers),
                quorum=quorum,
                reject_quorum=reject_quorum,
                due=seconds(due, where=where),
                on_timeout=on_timeout,
                editor_may_approve=editor_may_approve,
                requester_may_decide=requester_may_decide,
                reason_required=reason_required,
                recheck=self.name_of(recheck) if recheck else None,
            )
            self._add(Node(name or body.__name__, body, retry, loop_limit, approval=options))
            return body

        return declare(function) if function else declare

    def edge(self, source: Target, target: Target) -> None:
        """After `source` comes `target` (a node, its function, or END). `edge(START, node)` sets the entry."""
        before, after = self.name_of(source), self.name_of(target)
        way = self.ways.setdefault(before, Way())
        if way.plain == after:
            raise WorkflowError(
                f"{self.name}: the edge from {before!r} to {after!r} is declared twice.", node=before
            )
        if way.plain:
            raise WorkflowError(
                f"{self.name}: {before!r} leads to {way.plain!r} and to {after!r}; "
                "one node has one way on (use choose to pick one of several).",
                node=before,
            )
        if way.targets:
            raise WorkflowError(
                f"{self.name}: {before!r} has a choose already; it cannot have an edge.", node=before
            )
        way.plain = after

    def choose(
        self,
        source: Target,
        router: Callable[..., Any] | None = None,
        *,
        to: Iterable[Target] = (),
        limit: Target | None = None,
        **outcomes: Target,
    ) -> None:
        """After an approval: a target per outcome (approve=, reject=, mixed=, timeout=, respond=).

        After any node: `router(state)` answers one of `to` (a name, or END). `limit`: where to go when a loop is used up.
        """
        before = self.name_of(source)
        if before == START:
            raise WorkflowError(
                f"{self.name}: START leads to one node, by edge(START, node); that node can choose.",
                node=START,
            )
        if before in self.ways:
            raise WorkflowError(f"{self.name}: {before!r} has a way on already.", node=before)
        unknown = sorted(set(outcomes) - set(OUTCOMES))
        if unknown:
            raise WorkflowError(
                f"{self.name}: choose({before!r}) knows no outcome {unknown[0]!r}; it takes {', '.join(OUTCOMES)}.",
                node=before,
            )
        self.ways[before] = Way(
            outcomes={outcome: self.name_of(target) for outcome, target in outcomes.items()},
            router=router,
            to=tuple(self.name_of(target) for target in to),
            limit=self.name_of(limit) if limit else None,
        )

    def _add(self, node: Node) -> None:
        if not _NAME.match(node.name) or node.name in (START, END):
            raise WorkflowError(
                f"{self.name}: {node.name!r} cannot name a node; use letters, digits, '_', '.', '-'.",
                node=node.name,
            )
        if node.name in self.nodes:
            raise WorkflowError(f"{self.name}: two nodes are named {node.name!r}.", node=node.name)
        self.nodes[node.name] = node

    # ---- reading

    def name_of(self, target: Target) -> str:
        """The name of a node that is given by name or as the function declared for it."""
        if isinstance(target, str):
            return target
        found = (node.name for node in self.nodes.values() if node.body is target)
        return next(found, getattr(target, "__name__", repr(target)))

    @property
    def entry(self) -> str:
        way = self.ways.get(START)
        return way.plain if way and way.plain else next(iter(self.nodes))

    def way(self, node: str) -> Way:
        """Where a node leads; without an edge, to END. An approval's recheck is a way of its own."""
        way = self.ways.get(node) or Way(plain=END)
        options = self.nodes[node].approval if node in self.nodes else None
        return dataclasses.replace(way, recheck=options.recheck) if options and options.recheck else way

    @cached_property
    def schema(self) -> StateSchema:
        return StateSchema(self.state_model)

    @cached_property
    def input_schema(self) -> StateSchema:
        return self.schema if self.input_model is self.state_model else StateSchema(self.input_model)

    @cached_property
    def graph(self) -> Graph:
        """The checked graph: loops and their headers. Raises `WorkflowError`."""
        return Graph.of(self)

    def validate(self) -> None:
        """Raise `WorkflowError` if this cannot be registered."""
        if not _NAME.match(self.name):
            raise WorkflowError(f"{self.name!r} cannot name a workflow; use letters, digits, '_', '.', '-'.")
        if not _VERSION.match(self.version):
            raise WorkflowError(
                f"{self.name}: version {self.version!r} is not 1 to 39 letters, digits, '_', '.', '-'."
            )
        if not self.nodes:
            raise WorkflowError(f"{self.name}: a workflow needs at least one node.")
        for node in self.nodes.values():
            self._check_node(node)
        _ = self.graph, self.schema, self.input_schema
        lost = sorted(set(self.input_model.model_fields) - set(self.state_model.model_fields))
        if lost:
            raise WorkflowError(
                f"{self.name}: the input has the field {lost[0]!r}, which the state does not keep."
            )

    def _check_node(self, node: Node) -> None:
        way = self.way(node.name)
        if way.outcomes and not node.approval:
            raise WorkflowError(
                f"{self.name}: {node.name!r} is no approval; choose needs a router and to=[...] here.",
                node=node.name,
            )
        if way.router and not way.to:
            raise WorkflowError(f"{self.name}: choose({node.name!r}, router) needs to=[...].", node=node.name)
        if not way.router and (way.to or not (way.plain or node.approval)):
            raise WorkflowError(
                f"{self.name}: choose({node.name!r}, to=[...]) needs a router.", node=node.name
            )
        if way.router and way.outcomes:
            raise WorkflowError(
                f"{self.name}: choose({node.name!r}) has both a router and outcomes; only one of them can say "
                "where it goes on.",
                node=node.name,
            )
        if node.loop_limit < 1:
            raise WorkflowError(f"{self.name}: loop_limit of {node.name!r} is at least 1.", node=node.name)
        if node.approval:
            self._check_approval(node, node.approval, way)

    def _check_approval(self, node: Node, options: ApprovalOptions, way: Way) -> None:
        if not (way.plain or way.router) and "approve" not in way.outcomes:
            raise WorkflowError(
                f"{self.name}: choose({node.name!r}) says nothing of approve=.", node=node.name
            )
        if options.quorum < 1 or options.reject_quorum < 1:
            raise WorkflowError(f"{self.name}: a quorum of {node.name!r} is at least 1.", node=node.name)
        if options.on_timeout not in ("reject", "approve", "fail"):
            raise WorkflowError(
                f"{self.name}: on_timeout of {node.name!r} is reject, approve or fail, not {options.on_timeout!r}.",
                node=node.name,
            )

    @cached_property
    def shape(self) -> dict[str, Json]:
        """Graph and schemas as data: what the fingerprint covers, and what a picture is drawn from."""
        return {
            "name": self.name,
            "entry": self.entry,
            "nodes": [
                {
                    "name": node.name,
                    "kind": node.kind,
                    "loop_limit": node.loop_limit,
                    "approval": node.approval.as_dict() if node.approval else None,
                    "edges": _edges(self.way(node.name)),
                }
                for node in self.nodes.values()
            ],
            "state": self.schema.json_schema,
            "input": self.input_schema.json_schema,
        }

    @cached_property
    def fingerprint(self) -> str:
        """Digest of graph and schemas. Bodies of nodes are not in it."""
        return digest(self.shape)[:16]


def _edges(way: Way) -> list[Json]:
    edges: list[Json] = [{"to": way.plain, "when": ""}] if way.plain else []
    edges += [{"to": target, "when": outcome} for outcome, target in way.outcomes.items()]
    edges += [{"to": target, "when": "router"} for target in way.to]
    if way.limit:
        edges.append({"to": way.limit, "when": "limit"})
    if way.recheck:
        edges.append({"to": way.recheck, "when": "edit"})
    return edges


def seconds(due: str | float | None, *, where: str) -> float | None:
    """A duration: seconds as a number, or a text such as 90s, 30m, 24h, 7d."""
    if due is None:
        return None
    if isinstance(due, str):
        match = _DURATION.match(due.strip())
        if not match:
            raise WorkflowError(
                f"{where}: due={due!r} is no duration; write seconds, or 90s, 30m, 24h, 7d, 2w."
            )
        length = float(match[1]) * _UNITS[match[2]]
    else:
        length = float(due)
    if not 0 < length < LONGEST_DUE:
        raise WorkflowError(f"{where}: due={due!r} is not between 0 seconds and 10 years.")
    return length


# ---- the graph


@dataclass(frozen=True, slots=True)
class Graph:
    """What the engine needs of a checked graph.

    successors: every possible target of a node, END included, in declaration order.
    back: the edges that close a loop, as (source, header).
    headers: loop headers with the nodes of their loops.
    """

    successors: Mapping[str, tuple[str, ...]]
    back: frozenset[tuple[str, str]]
    headers: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, workflow: Workflow) -> Graph:
        successors = _successors(workflow)
        back = _back_edges(workflow, successors)
        _refuse_dead_ends(workflow, successors)
        _refuse_two_entrances(workflow, successors, back)
        headers = {header: _loop(successors, back, header) for _, header in sorted(back)}
        return cls(successors, frozenset(back), headers)


def _successors(workflow: Workflow) -> dict[str, tuple[str, ...]]:
    for source in workflow.ways:
        if source not in workflow.nodes and source != START:
            raise WorkflowError(f"{workflow.name}: an edge leaves {source!r}, which is no node.", node=source)
    successors = {name: workflow.way(name).targets for name in workflow.nodes}
    successors[START] = (workflow.entry,)
    for source, targets in successors.items():
        for target in targets:
            if target not in workflow.nodes and target != END:
                raise WorkflowError(
                    f"{workflow.name}: {source!r} leads to {target!r}, which is no node.", node=source
                )
    return successors


def _back_edges(workflow: Workflow, successors: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Depth first from START in declaration order: an edge to a node that is still on the stack closes a loop."""
    seen: set[str] = {START}
    on_stack: list[str] = [START]
    back: list[tuple[str, str]] = []
    work = [(START, iter(successors[START]))]
    while work:
        node, targets = work[-1]
        target = next(targets, None)
        if target is None:
            work.pop()
            on_stack.remove(node)
        elif target in on_stack:
            back.append((node, target))
        elif target != END and target not in seen:
            seen.add(target)
            on_stack.append(target)
            work.append((target, iter(successors[target])))
    unreachable = [name for name in workflow.nodes if name not in seen]
    if unreachable:
        raise WorkflowError(
            f"{workflow.name}: no way leads to {', '.join(map(repr, unreachable))}.", node=unreachable[0]
        )
    return back


def _refuse_dead_ends(workflow: Workflow, successors: Mapping[str, Sequence[str]]) -> None:
    can_end = {END}
    while True:
        more = {
            node for node, targets in successors.items() if node not in can_end and can_end & set(targets)
        }
        if not more:
            break
        can_end |= more
    stuck = [name for name in workflow.nodes if name not in can_end]
    if stuck:
        raise WorkflowError(f"{workflow.name}: from {stuck[0]!r} no way leads to the end.", node=stuck[0])


def _refuse_two_entrances(
    workflow: Workflow, successors: Mapping[str, Sequence[str]], back: Iterable[tuple[str, str]]
) -> None:
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
                f"{workflow.name}: the loop of {source!r} and {header!r} has two entrances; enter it at {header!r} only.",
                node=header,
                reason="loop_with_two_entrances",
            )


def _loop(
    successors: Mapping[str, Sequence[str]], back: Iterable[tuple[str, str]], header: str
) -> frozenset[str]:
    predecessors: dict[str, list[str]] = {}
    for source, targets in successors.items():
        for target in targets:
            predecessors.setdefault(target, []).append(source)
    members = {header}
    work = [source for source, target in back if target == header]
    while work:
        node = work.pop()
        if node not in members:
            members.add(node)
            work.extend(predecessors.get(node, ()))
    return frozenset(members)
