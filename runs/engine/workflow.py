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
from typing import Any, Final, Literal, TypeVar, get_args, overload

from pydantic import BaseModel

from runs.engine.canonical import Json, digest, is_name
from runs.engine.durations import seconds
from runs.engine.graph import END as END
from runs.engine.graph import START as START
from runs.engine.graph import Graph
from runs.engine.hours import Business, business
from runs.engine.limits import (
    DEFAULT_QUEUE,
    OF_WORKFLOW,
    Concurrency,
    Limit,
    Place,
    check_limits,
    check_priority,
    check_queue,
    places,
)
from runs.engine.retry import ONCE, Retry
from runs.engine.stages import PERSON, Stage, listed
from runs.engine.state import StateSchema
from runs.engine.versions import Carry, Migration, by_start
from runs.errors import WorkflowError

DECISIONS: Final = ("approve", "edit", "reject", "respond")
OUTCOMES: Final = ("approve", "reject", "mixed", "timeout", "respond")
RISKS: Final = ("low", "medium", "high", "critical")
DEFAULT_LOOP_LIMIT: Final = 100
DEFAULT_MAX_STEPS: Final = 10_000
DEFAULT_CONCURRENCY: Final = 10
UNDO_RETRY: Final = Retry(attempts=5)
LONGEST_DUE: Final = 10 * 365 * 86400.0
MAX_REASONS: Final = 12
MAX_REASON: Final = 80  # characters
MOST_BUSINESS: Final = {"hours": 4_000.0, "days": 500.0}

Effect = Literal["none", "reversible", "irreversible"]
OnTimeout = Literal["reject", "approve", "escalate", "fail"]
Body = Callable[[Any, Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
Target = str | Callable[..., Any]
OnItemError = Literal["fail", "collect"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}\Z")
_VERSION = re.compile(r"[A-Za-z0-9_.-]{1,39}\Z")  # in development a fingerprint is added; both have 60 places


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
    reviewers, quorum, stages, due: whom this one question asks, and until when, in place of what the node says; they may
    come from the state.
    """

    actions: Action | Sequence[Action]
    title: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    agent_note: str = ""
    reviewers: Sequence[str] | str | None = None
    quorum: int | None = None
    stages: Sequence[Stage] | None = None
    due: str | float | None = None


@dataclass(frozen=True, slots=True)
class ApprovalOptions:
    """By which rules people are asked.

    stages: whom, one after the other; without any, reviewers and quorum are the only one. due: seconds, or working time.
    escalate_to: who is asked too, one after the other, each time the time is over. remind: seconds before the time is over.
    reasons: that people choose from, or write beside.
    """

    reviewers: tuple[str, ...] = ()
    quorum: int = 1
    reject_quorum: int = 1
    due: float | Business | None = None
    on_timeout: OnTimeout = "reject"
    editor_may_approve: bool = False
    requester_may_decide: bool = False
    reason_required: bool = False
    recheck: str | None = None
    stages: tuple[Stage, ...] = ()
    escalate_to: tuple[str, ...] = ()
    remind: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[Stage, ...]:
        """The stages; there is always one."""
        return self.stages or (Stage(self.reviewers, self.quorum),)

    @property
    def counts_hours(self) -> bool:
        """Whether its time is working time."""
        return isinstance(self.due, Business)

    def asked_at(self, level: int) -> tuple[Stage, ...]:
        """The stages after so many escalations: who was asked too is asked at every stage."""
        return tuple(stage.joined_by(self.escalate_to[:level]) for stage in self.asked)

    def as_dict(self) -> dict[str, Json]:
        told: dict[str, Json] = {
            "reviewers": list(self.reviewers),
            "quorum": self.quorum,
            "reject_quorum": self.reject_quorum,
            "due": self.due.as_dict() if isinstance(self.due, Business) else self.due,
            "on_timeout": self.on_timeout,
            "editor_may_approve": self.editor_may_approve,
            "requester_may_decide": self.requester_may_decide,
            "reason_required": self.reason_required,
            "recheck": self.recheck,
        }
        # Told only where an author wrote them: the fingerprints of workflows that do not use them stay what they were.
        if self.stages:
            told["stages"] = [stage.as_dict() for stage in self.stages]
        if self.escalate_to:
            told["escalate_to"] = list(self.escalate_to)
        if self.remind:
            told["remind"] = list(self.remind)
        if self.reasons:
            told["reasons"] = list(self.reasons)
        return told

    @staticmethod
    def of(told: Mapping[str, Any]) -> ApprovalOptions:
        """The rules as they were written down when people were asked; a deploy in between changes nothing."""
        known = {name: value for name, value in told.items() if name in ApprovalOptions.__dataclass_fields__}
        due = known.get("due")
        return ApprovalOptions(
            **{
                **known,
                "reviewers": tuple(known.get("reviewers", ())),
                "due": Business(**due) if isinstance(due, Mapping) else due,
                "stages": tuple(Stage(**stage) for stage in known.get("stages", ())),
                "escalate_to": tuple(known.get("escalate_to", ())),
                "remind": tuple(known.get("remind", ())),
                "reasons": tuple(known.get("reasons", ())),
            }
        )

    def fault(self) -> str:
        """What is wrong with them, or nothing."""
        if not all(isinstance(stage, Stage) for stage in self.stages):
            return "stages are Stage(…) objects"
        counts = [self.quorum, self.reject_quorum, *(stage.quorum for stage in self.stages)]
        if any(type(count) is not int or count < 1 for count in counts):
            return "a quorum is a whole number, at least 1"
        switches = ("editor_may_approve", "requester_may_decide", "reason_required")
        if odd := next((name for name in switches if type(getattr(self, name)) is not bool), ""):
            return f"{odd} is True or False"
        if self.on_timeout not in get_args(OnTimeout):
            return f"on_timeout is one of {', '.join(get_args(OnTimeout))}; not {self.on_timeout!r:.100}"
        if self.stages and (self.reviewers or self.quorum != 1):
            return "stages have reviewers and quorums of their own; say those, or reviewers= and quorum="
        if self.on_timeout == "escalate" and not self.escalate_to:
            return "on_timeout='escalate' needs escalate_to=, whom to ask then"
        if self.due is None and (self.escalate_to or self.remind):
            return "escalate_to= and remind= need due="
        if any(type(name) is not str or not name.removeprefix(PERSON) for name in self._names):
            return "reviewers are names of teams, or user:NAME"
        if any(before <= 0 for before in self.remind):
            return "remind= is a length of time before the time is over"
        if isinstance(self.due, float) and any(before >= self.due for before in self.remind):
            return "a reminder comes before the time is over: remind= is shorter than due="
        if len(self.reasons) > MAX_REASONS or not all(is_name(one, MAX_REASON) for one in self.reasons):
            return f"reasons are up to {MAX_REASONS} short texts, each of up to {MAX_REASON} characters"
        return ""

    @property
    def _names(self) -> list[str]:
        return [name for stage in self.asked for name in stage.reviewers] + list(self.escalate_to)


def options_from(
    *,
    where: str,
    reviewers: Iterable[str] | str = (),
    quorum: int = 1,
    reject_quorum: int = 1,
    stages: Iterable[Stage] = (),
    due: str | float | None = None,
    on_timeout: OnTimeout = "reject",
    escalate_to: Iterable[str] | str = (),
    remind: Iterable[str | float] | str | float = (),
    reasons: Iterable[str] | str = (),
    **more: Any,
) -> ApprovalOptions:
    """The rules of an approval as an author writes them. Raises `WorkflowError` for a length that is none."""
    reminders = [remind] if isinstance(remind, (int, float)) else listed(remind, where=where, what="remind")
    return ApprovalOptions(
        reviewers=listed(reviewers, where=where, what="reviewers"),
        quorum=quorum,
        reject_quorum=reject_quorum,
        stages=listed(stages, where=where, what="stages"),
        due=due_of(due, where=where),
        on_timeout=on_timeout,
        escalate_to=listed(escalate_to, where=where, what="escalate_to"),
        remind=tuple(
            sorted((seconds(one, where=where, what="remind") or 0.0 for one in reminders), reverse=True)
        ),
        reasons=listed(reasons, where=where, what="reasons"),
        **more,
    )


@dataclass(frozen=True, slots=True)
class FanOut:
    """One body for many items. items: gives the list, from the state. into: the key that takes all results, in item order."""

    items: Callable[[Any], Any]
    into: str
    concurrency: int
    on_item_error: OnItemError
    max_open: int | None


@dataclass(frozen=True, slots=True)
class Subflow:
    """A workflow inside another. input: its input, from the state around it. output: an update of that, from its output."""

    workflow: Workflow
    input: Callable[[Any], Any] | None
    output: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    body: Body
    retry: Retry
    loop_limit: int
    approval: ApprovalOptions | None = None
    fan_out: FanOut | None = None
    subflow: Subflow | None = None
    timeout: float | None = None

    @property
    def kind(self) -> str:
        if self.fan_out:
            return "fan_out"
        if self.subflow:
            return "subflow"
        return "approval" if self.approval else "function"


class Nodes(dict[str, Node]):
    """The nodes of a workflow by name, in declaration order. `outer/inner` finds the node of a nested workflow."""

    def __missing__(self, name: str) -> Node:
        outer, _, inner = name.partition("/")
        if inner:
            nested = self[outer].subflow
            if nested:
                return nested.workflow.nodes[inner]
        if name == END:
            return _JOINED_END
        raise KeyError(name)


@dataclass(slots=True)
class Way:
    """Where a node leads: to all its edges, to a target per outcome, or to what a router answers among `to`."""

    edges: tuple[str, ...] = ()
    outcomes: dict[str, str] = field(default_factory=dict)
    router: Callable[..., Any] | None = None
    to: tuple[str, ...] = ()
    limit: str | None = None
    recheck: str | None = None
    on_error: str | None = None

    @property
    def plain(self) -> str | None:
        """The one target of a node that neither splits nor chooses."""
        return self.edges[0] if len(self.edges) == 1 else None

    @property
    def targets(self) -> tuple[str, ...]:
        """Every possible target, in declaration order, once each."""
        every = [*self.edges, *self.outcomes.values(), *self.to]
        every.extend(target for target in (self.limit, self.recheck, self.on_error) if target)
        return tuple(dict.fromkeys(every))


class Workflow:
    """A named, versioned graph of nodes over a typed state.

    name: letters, digits, `_ . -`. version: an int or a text; raise it whenever graph or schema change.
    state: a pydantic model. input: a model for what a submitter sends (default: the state model).
    output: a model whose fields are taken from the final state, or a function of it (default: the final state).
    max_steps: commits that one branch of a run may make.
    deadline: how long a run may take, in seconds or as "2h"; its clock stops while it only waits for people.
    compensate: a run that fails takes back its calls with an `undo=` first; one that is cancelled always does.
    undo_retry: how taking a call back is tried again.
    queue: which workers do it: those that listen to this queue. priority: -100 to 100, the higher goes first among the
    project's runs that stand in line; a submission may say its own.
    max_concurrent_runs: how many runs of a project may be at work at once; short for `Concurrency` without a key.
    limits: `Concurrency` and `Rate`, which may count by a key of the input.
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
        deadline: str | float | None = None,
        compensate: bool = False,
        undo_retry: Retry = UNDO_RETRY,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        max_concurrent_runs: int | None = None,
        limits: Iterable[Limit] = (),
    ) -> None:
        if not all(isinstance(text, str) for text in (name, title)):
            raise WorkflowError(
                f"Name and title of a workflow are texts, not {name!r:.100} and {title!r:.100}."
            )
        self.name = name
        self.version = str(version)
        self.title = title or name.replace("_", " ").replace("-", " ")
        self.state_model = state
        self.input_model = input or state
        self.output = output
        self.max_steps = max_steps
        self.deadline = seconds(deadline, where=f"workflow {name!r}", what="deadline")
        self.compensate = compensate
        self.undo_retry = undo_retry
        self.queue = queue
        self.priority = priority
        own = () if max_concurrent_runs is None else (Concurrency(max_concurrent_runs, name=OF_WORKFLOW),)
        self.limits: tuple[Limit, ...] = (*own, *listed(limits, where=name, what="limits"))
        self.nodes = Nodes()
        self.ways: dict[str, Way] = {}
        self.error_ways: dict[str, str] = {}
        self.migrations: list[Migration] = []

    def __repr__(self) -> str:
        return f"<Workflow {self.name} version {self.version}>"

    # ---- collecting

    @overload
    def node(self, function: Function, /) -> Function: ...
    @overload
    def node(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
        timeout: str | float | None = None,
    ) -> Callable[[Function], Function]: ...
    def node(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
        timeout: str | float | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Declare a node. `function(state, ctx)` returns a partial update of the state, or None; it may be `async def`.

        loop_limit: how many passes a loop that begins here may make before `limit=` is taken or the step fails.
        timeout: how long one attempt may work, in seconds or as "90s", "5m"; time it waits does not count. Then it fails
        as `StepTimeout`, which `retry` counts.
        """

        def declare(body: Function) -> Function:
            limit = seconds(timeout, where=f"node {name or body.__name__!r} of {self.name!r}", what="timeout")
            self._add(Node(name or body.__name__, body, retry, loop_limit, timeout=limit))
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
        stages: Iterable[Stage] = (),
        due: str | float | None = None,
        on_timeout: OnTimeout = "reject",
        escalate_to: Iterable[str] = (),
        remind: Iterable[str | float] | str | float = (),
        editor_may_approve: bool = False,
        requester_may_decide: bool = False,
        reason_required: bool = False,
        reasons: Iterable[str] = (),
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
        stages: Iterable[Stage] = (),
        due: str | float | None = None,
        on_timeout: OnTimeout = "reject",
        escalate_to: Iterable[str] = (),
        remind: Iterable[str | float] | str | float = (),
        editor_may_approve: bool = False,
        requester_may_decide: bool = False,
        reason_required: bool = False,
        reasons: Iterable[str] = (),
        recheck: Target | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
    ) -> Function | Callable[[Function], Function]:
        """Declare an approval. `function(state, ctx)` returns an `Action`, a list of them, or an `Ask`.

        reviewers: team names, or `user:NAME` for one person; none means every reviewer of the project.
        quorum: how many different people must agree. reject_quorum: how many rejects it takes.
        stages: `Stage`s that are asked one after the other, in place of reviewers and quorum.
        due: seconds, or a text such as "30m", "24h", "7d", "8 business hours", "2 business days" (of the team that is asked
        first); `on_timeout` says what happens then. escalate_to: teams that are asked too, one after the other, each time
        `due` is over; `on_timeout` comes after the last. remind: how long before `due` people are reminded.
        reasons: short texts that people choose from when they answer; what they write comes after the chosen one.
        recheck: the node that looks at edited arguments (`ctx.edited`) before people are asked anew; an edit is no vote then.
        """

        def declare(body: Function) -> Function:
            where = f"approval {name or body.__name__!r} of {self.name!r}"
            options = options_from(
                where=where,
                reviewers=reviewers,
                quorum=quorum,
                reject_quorum=reject_quorum,
                stages=stages,
                due=due,
                on_timeout=on_timeout,
                escalate_to=escalate_to,
                remind=remind,
                editor_may_approve=editor_may_approve,
                requester_may_decide=requester_may_decide,
                reason_required=reason_required,
                reasons=reasons,
                recheck=self.name_of(recheck) if recheck else None,
            )
            self._add(Node(name or body.__name__, body, retry, loop_limit, approval=options))
            return body

        return declare(function) if function else declare

    @overload
    def fan_out(
        self,
        name: str,
        body: Callable[..., Any],
        /,
        *,
        items: Callable[[Any], Any],
        into: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        on_item_error: OnItemError = "fail",
        max_open: int | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
        timeout: str | float | None = None,
    ) -> None: ...
    @overload
    def fan_out(
        self,
        name: str | None = None,
        /,
        *,
        items: Callable[[Any], Any],
        into: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        on_item_error: OnItemError = "fail",
        max_open: int | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
        timeout: str | float | None = None,
    ) -> Callable[[Function], Function]: ...
    def fan_out(
        self,
        name: str | None = None,
        body: Callable[..., Any] | None = None,
        /,
        *,
        items: Callable[[Any], Any],
        into: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        on_item_error: OnItemError = "fail",
        max_open: int | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
        timeout: str | float | None = None,
    ) -> Callable[[Function], Function] | None:
        """Declare a node that works on many items: `body(state, ctx, item)` returns one item's result.

        items: `items(state)` gives the list; it is listed once, when the node starts. into: the state's key that takes the
        results in item order (default the node's name), as one update. concurrency: how many items are worked on at once.
        on_item_error: a failed item fails the node, or its error is collected as `{"error": {...}}` in its place.
        max_open: how many items may be begun and unfinished, those that wait for people included. retry, timeout:
        each item's.
        """

        def declare(function: Function) -> Function:
            label = name or function.__name__
            options = FanOut(items, into or label, concurrency, on_item_error, max_open)
            limit = seconds(timeout, where=f"fan-out {label!r} of {self.name!r}", what="timeout")
            self._add(Node(label, function, retry, loop_limit, fan_out=options, timeout=limit))
            return function

        if body is None:
            return declare
        declare(body)
        return None

    def subflow(
        self,
        name: str,
        workflow: Workflow,
        *,
        input: Callable[[Any], Any] | None = None,
        output: Callable[[Any], Any] | None = None,
        retry: Retry = ONCE,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
    ) -> None:
        """Declare a node that is a whole workflow, with a state of its own.

        input: `input(state)` gives its input; by default the keys that both know. output: `output(result)` gives the update
        of the state around it; by default those keys of its output that the state knows.
        """
        if not isinstance(workflow, Workflow):
            raise WorkflowError(f"{self.name}: subflow({name!r}, …) takes a Workflow, not {workflow!r:.100}.")
        nested = Subflow(workflow, input, output)
        self._add(Node(name, _no_body, retry, loop_limit, subflow=nested))

    def edge(self, source: Target, target: Target, *, limit: Target | None = None) -> None:
        """After `source` comes `target` (a node, its function, or END). `edge(START, node)` sets the entry.

        Several edges of one node are all taken: each opens a lane. limit: where to go instead when a loop that the edge
        closes is used up.
        """
        before, after = self.name_of(source), self.name_of(target)
        way = self.ways.setdefault(before, Way())
        if after in way.edges:
            raise WorkflowError(
                f"{self.name}: the edge from {before!r} to {after!r} is declared twice.", node=before
            )
        if way.outcomes or way.to or way.router:
            raise WorkflowError(
                f"{self.name}: {before!r} has a choose already; it cannot have an edge.", node=before
            )
        way.edges = (*way.edges, after)
        if limit is None:
            return
        instead = self.name_of(limit)
        if way.limit not in (None, instead):
            raise WorkflowError(
                f"{self.name}: {before!r} has two limits, {way.limit!r} and {instead!r}; it can go to one.",
                node=before,
            )
        way.limit = instead

    def on_error(self, source: Target, target: Target) -> None:
        """If a step of `source` fails finally, its lane goes on at `target`, which reads `ctx.failure(source)`."""
        before, after = self.name_of(source), self.name_of(target)
        if before in self.error_ways:
            raise WorkflowError(f"{self.name}: on_error({before!r}) is declared twice.", node=before)
        if before == START:
            raise WorkflowError(f"{self.name}: START cannot fail.", node=before)
        self.error_ways[before] = after

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
        if router is not None and not callable(router):
            raise WorkflowError(f"{self.name}: the router of {before!r} is a function, not {router!r:.100}.")
        several = listed(to, where=f"{self.name}: choose({before!r})", what="to=")
        self.ways[before] = Way(
            outcomes={outcome: self.name_of(target) for outcome, target in outcomes.items()},
            router=router,
            to=tuple(self.name_of(target) for target in several),
            limit=self.name_of(limit) if limit else None,
        )

    @overload
    def migrate(
        self,
        function: Function,
        /,
        *,
        from_version: int | str,
        to: int | str | None = None,
        nodes: Mapping[str, Target] | None = None,
        inside: Mapping[str, Carry] | None = None,
    ) -> Function: ...
    @overload
    def migrate(
        self,
        /,
        *,
        from_version: int | str,
        to: int | str | None = None,
        nodes: Mapping[str, Target] | None = None,
        inside: Mapping[str, Carry] | None = None,
    ) -> Callable[[Function], Function]: ...
    def migrate(
        self,
        function: Function | None = None,
        /,
        *,
        from_version: int | str,
        to: int | str | None = None,
        nodes: Mapping[str, Target] | None = None,
        inside: Mapping[str, Carry] | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Declare how runs of an older version come to this one. `function(document)` returns the state as this version has it.

        from_version: the version they were at. to: the version they come to (default this workflow's), so that a version whose
        code is gone keeps its link in the chain. nodes: new names by old ones, of nodes that were renamed, or whose work another
        one does now. inside: for nested workflows that are under way, `function(document)` by the node around them.
        The function is pure: it is given a whole state (a dict of its own), of every lane and for every look at an old one.
        """

        def declare(carry: Function) -> Function:
            start, end = str(from_version), self.version if to is None else str(to)
            if start == end:
                raise WorkflowError(f"{self.name}: a migration leads from version {start} to itself.")
            names = {old: self.name_of(new) for old, new in (nodes or {}).items()}
            made = Migration(self.name, start, end, carry, names, dict(inside or {}))
            by_start([*self.migrations, made])
            self.migrations.append(made)
            return carry

        return declare(function) if function else declare

    def _add(self, node: Node) -> None:
        if not is_name(node.name, 100) or not _NAME.match(node.name) or node.name in (START, END):
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
        """The first entry: of a workflow that begins with several lanes, the first lane's."""
        return self.entries[0]

    @property
    def entries(self) -> tuple[str, ...]:
        way = self.ways.get(START)
        return way.edges if way and way.edges else (next(iter(self.nodes)),)

    def way(self, node: str) -> Way:
        """Where a node leads; without an edge, to END. An approval's recheck is a way of its own."""
        outer, _, inner = node.partition("/")
        if inner:
            nested = self.nodes[outer].subflow
            assert nested is not None
            return nested.workflow.way(inner)
        way = self.ways.get(node) or Way(edges=(END,))
        options = self.nodes[node].approval if node in self.nodes else None
        more: dict[str, Any] = {"recheck": options.recheck} if options and options.recheck else {}
        if node in self.error_ways:
            more["on_error"] = self.error_ways[node]
        return dataclasses.replace(way, **more) if more else way

    @cached_property
    def schema(self) -> StateSchema:
        return StateSchema(self.state_model)

    @cached_property
    def input_schema(self) -> StateSchema:
        return self.schema if self.input_model is self.state_model else StateSchema(self.input_model)

    def first_state(self, input: Json) -> dict[str, Json]:
        """The state that a run (or a nested workflow) begins with. Raises `Unprocessable` with pointers."""
        accepted = self.input_schema.accept(input)
        return accepted if self.input_model is self.state_model else self.schema.accept(accepted)

    def places(self, input: Json) -> list[Place]:
        """Which limits a run with this input stands under. Raises `Unprocessable` or `InvalidLimitKey`."""
        if not any(limit.key for limit in self.limits):
            return places(self.limits, None)
        values = self.input_schema.load(self.input_schema.accept(input))
        return places(self.limits, self.input_schema.view(values))

    @cached_property
    def graph(self) -> Graph:
        """The checked graph: loops, joins, and who can still arrive where. Raises `WorkflowError`."""
        splits = {
            source: [target for target in way.edges if target != END]
            for source, way in self.ways.items()
            if len(way.edges) > 1
        }
        return Graph.of(self.name, self._successors(), splits=splits)

    def _successors(self) -> dict[str, tuple[str, ...]]:
        for source in (*self.ways, *self.error_ways):
            if source not in self.nodes and source != START:
                raise WorkflowError(f"{self.name}: an edge leaves {source!r}, which is no node.", node=source)
        successors = {name: self.way(name).targets for name in self.nodes}
        successors[START] = self.entries
        for source, targets in successors.items():
            for target in targets:
                if target not in self.nodes and target != END:
                    raise WorkflowError(
                        f"{self.name}: {source!r} leads to {target!r}, which is no node.", node=source
                    )
        return successors

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
        check_queue(self.queue, where=self.name)
        check_priority(self.priority, where=self.name)
        check_limits(self.limits, where=self.name)
        if not isinstance(self.undo_retry, Retry):
            raise WorkflowError(f"{self.name}: undo_retry is a Retry(…), not {self.undo_retry!r:.100}.")
        if self.output is not None and not callable(self.output):
            raise WorkflowError(f"{self.name}: output is a model or a function, not {self.output!r:.100}.")
        if type(self.max_steps) is not int or self.max_steps < 1:
            raise WorkflowError(f"{self.name}: max_steps={self.max_steps!r:.100} is no whole number from 1.")
        for node in self.nodes.values():
            self._check_node(node)
        _ = self.graph, self.schema, self.input_schema
        for migration in self.migrations:
            self._check_migration(migration)
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
        if not way.router and (way.to or not (way.edges or node.approval)):
            raise WorkflowError(
                f"{self.name}: choose({node.name!r}, to=[...]) needs a router.", node=node.name
            )
        if way.router and way.outcomes:
            raise WorkflowError(
                f"{self.name}: choose({node.name!r}) has both a router and outcomes; only one of them can say "
                "where it goes on.",
                node=node.name,
            )
        if not isinstance(node.retry, Retry):
            raise WorkflowError(
                f"{self.name}: retry of {node.name!r} is a Retry(…), not {node.retry!r:.100}.", node=node.name
            )
        if type(node.loop_limit) is not int or node.loop_limit < 1:
            raise WorkflowError(f"{self.name}: loop_limit of {node.name!r} is at least 1.", node=node.name)
        if node.approval:
            self._check_approval(node, node.approval, way)
        if node.fan_out:
            self._check_fan_out(node, node.fan_out)
        if node.subflow:
            self._check_subflow(node, node.subflow)

    def _check_migration(self, migration: Migration) -> None:
        """What it leads to must be there, if that is this version."""
        if migration.to_version != self.version:
            return
        for node in migration.nodes.values():
            try:
                _ = self.nodes[node]
            except KeyError:
                raise WorkflowError(
                    f"{self.name}: {migration} leads to {node!r}, which is no node.", node=node
                ) from None

    def _check_fan_out(self, node: Node, options: FanOut) -> None:
        counts = [count for count in (options.concurrency, options.max_open) if count is not None]
        if any(type(count) is not int or count < 1 for count in counts):
            raise WorkflowError(
                f"{self.name}: concurrency and max_open of {node.name!r} are whole numbers, at least 1.",
                node=node.name,
            )
        if not callable(options.items):
            raise WorkflowError(
                f"{self.name}: items= of {node.name!r} is a function of the state, not {options.items!r:.100}.",
                node=node.name,
            )
        if options.on_item_error not in get_args(OnItemError):
            raise WorkflowError(
                f"{self.name}: on_item_error of {node.name!r} is {' or '.join(get_args(OnItemError))}, "
                f"not {options.on_item_error!r}.",
                node=node.name,
            )
        if options.into not in self.schema.fields:
            raise WorkflowError(
                f"{self.name}: the results of {node.name!r} go into {options.into!r}, which the state does not know; "
                "say into=.",
                node=node.name,
            )

    def _check_subflow(self, node: Node, nested: Subflow) -> None:
        if nested.workflow is self or nested.workflow.contains(self):
            raise WorkflowError(f"{self.name}: {node.name!r} is the workflow itself.", node=node.name)
        try:
            nested.workflow.validate()
        except WorkflowError as error:
            raise WorkflowError(
                f"{self.name}: inside {node.name!r}: {error.detail}", node=node.name
            ) from None

    def contains(self, workflow: Workflow) -> bool:
        """Whether a workflow is nested in this one, at whatever depth."""
        inside = [node.subflow.workflow for node in self.nodes.values() if node.subflow]
        return any(flow is workflow or flow.contains(workflow) for flow in inside)

    def _check_approval(self, node: Node, options: ApprovalOptions, way: Way) -> None:
        if not (way.edges or way.router) and "approve" not in way.outcomes:
            raise WorkflowError(
                f"{self.name}: choose({node.name!r}) says nothing of approve=.", node=node.name
            )
        fault = options.fault()
        if fault:
            raise WorkflowError(f"{self.name}: {node.name!r}: {fault}.", node=node.name)

    @cached_property
    def shape(self) -> dict[str, Json]:
        """Graph and schemas as data: what the fingerprint covers, and what a picture is drawn from."""
        return {
            "name": self.name,
            "entry": self.entry,
            "nodes": [self._drawn(node) for node in self.nodes.values()],
            "state": self.schema.json_schema,
            "input": self.input_schema.json_schema,
            **({"entries": list(self.entries)} if len(self.entries) > 1 else {}),
        }

    def _drawn(self, node: Node) -> dict[str, Json]:
        drawn: dict[str, Json] = {
            "name": node.name,
            "kind": node.kind,
            "loop_limit": node.loop_limit,
            "approval": node.approval.as_dict() if node.approval else None,
            "edges": _edges(self.way(node.name)),
        }
        if node.fan_out:
            drawn["fan_out"] = {
                "into": node.fan_out.into,
                "concurrency": node.fan_out.concurrency,
                "on_item_error": node.fan_out.on_item_error,
                "max_open": node.fan_out.max_open,
            }
        if node.subflow:
            drawn["subflow"] = node.subflow.workflow.shape
        return drawn

    @cached_property
    def fingerprint(self) -> str:
        """Digest of graph and schemas. Bodies of nodes are not in it."""
        return digest(self.shape)[:16]


def _edges(way: Way) -> list[Json]:
    edges: list[Json] = [{"to": target, "when": ""} for target in way.edges]
    edges += [{"to": target, "when": outcome} for outcome, target in way.outcomes.items()]
    edges += [{"to": target, "when": "router"} for target in way.to]
    if way.limit:
        edges.append({"to": way.limit, "when": "limit"})
    if way.recheck:
        edges.append({"to": way.recheck, "when": "edit"})
    if way.on_error:
        edges.append({"to": way.on_error, "when": "error"})
    return edges


def _no_body(state: Any, ctx: Any) -> None:
    return None


# Where several ended lanes of a run or a nested workflow are one again, if they could not simply be merged.
_JOINED_END: Final = Node(END, _no_body, ONCE, DEFAULT_LOOP_LIMIT)


def due_of(due: str | float | None, *, where: str) -> float | Business | None:
    """When an answer is due: seconds, or working time for a text such as "8 business hours". Raises `WorkflowError`."""
    length = business(due) if isinstance(due, str) else None
    if length is None:
        return seconds(due, where=where)
    whole = length.unit == "hours" or length.amount == int(length.amount)
    if not whole or not 0 < length.amount <= MOST_BUSINESS[length.unit]:
        raise WorkflowError(f"{where}: due={due!r:.100} is no working time that passes within two years.")
    return length
