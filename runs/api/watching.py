"""What the API answers about how a project does: statistics, the health of the house, putting right what does not hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from runs import invariants, operations, policies, stats, store, watching
from runs.api import bodies, parameters
from runs.api.documents import UsageDocument, usage_document
from runs.api.endpoint import Endpoint, actor_of, rendered
from runs.api.schema import described
from runs.api.shapes import Id, Time, exact, maybe_time, time_text
from runs.invariants import Look, Violation
from runs.stats import Bar, Node, Overview, Spread
from runs.watching import Part, Stuck

# ---- statistics


@exact
class TimesDocument(TypedDict):
    """How long things took. Right to within a fifth; null of nothing."""

    count: int
    p50: Annotated[float | None, Field(description="Seconds.")]
    p95: Annotated[float | None, Field(description="Seconds.")]


@exact
class BarDocument(TypedDict):
    at: Annotated[Time, Field(description="From here on, for as long as `bar_seconds` says.")]
    begun: int
    completed: int
    failed: int
    cancelled: int
    steps: Annotated[int, Field(description="Visits of nodes that were finished.")]


@exact
class TeamTimes(TypedDict):
    team: Annotated[str, Field(description="Empty: any reviewer was asked.")]
    times: TimesDocument


@exact
class FailureCount(TypedDict):
    workflow: str
    code: str
    runs: int


@exact
class WorkflowUsage(TypedDict):
    workflow: str
    usage: UsageDocument


@exact
class AgeCount(TypedDict):
    age: str
    open: int


@exact
class NodeTimes(TypedDict):
    node: str
    times: TimesDocument
    failed: int


@exact
class StatsDocument(TypedDict):
    """What was counted of a project, or of one workflow of it. A run that was retried has ended more than once."""

    range: str
    workflow: str | None
    begins: Time
    bar_seconds: int
    counted_until: Annotated[Time | None, Field(description="Null: nothing was counted yet.")]
    bars: list[BarDocument]
    total: BarDocument
    before: Annotated[BarDocument, Field(description="As long a time before.")]
    runs: Annotated[TimesDocument, Field(description="From submission to the end.")]
    decisions: Annotated[TimesDocument, Field(description="From asked to decided, by people.")]
    outcomes: Annotated[dict[str, int], Field(description="Of approvals; `timeout`: the clock decided.")]
    teams: list[TeamTimes]
    open: Annotated[list[AgeCount], Field(description="Open approvals now, counted up to ten thousand.")]
    failures: list[FailureCount]
    usage: list[WorkflowUsage]
    nodes: Annotated[list[NodeTimes], Field(description="Of the workflow that was asked for, else empty.")]


class Stats(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_stats",
        summary="Throughput, latencies, failures and usage over a range of time",
        query=parameters.StatsQuery,
        answers={200: StatsDocument},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.StatsQuery) -> Response:
        actor = actor_of(request)
        policies.check_stats(actor)
        now = store.now()
        found = stats.overview(
            actor.project.pk, stats.RANGES[wanted.range], workflow=wanted.workflow or "", now=now
        )
        opened = stats.open_now(actor.project.pk, now, workflow=found.workflow)
        return rendered(stats_document(found, opened))


def stats_document(found: Overview, opened: stats.Open) -> StatsDocument:
    return {
        "range": found.range.name,
        "workflow": found.workflow or None,
        "begins": time_text(found.begins),
        "bar_seconds": int(found.range.bar.total_seconds()),
        "counted_until": maybe_time(found.until),
        "bars": [_bar(bar) for bar in found.bars],
        "total": _bar(found.whole),
        "before": _bar(found.before),
        "runs": _times(found.took),
        "decisions": _times(found.decisions),
        "outcomes": dict(found.outcomes),
        "teams": [{"team": team, "times": _times(took)} for team, took in found.teams.items()],
        "open": [{"age": age, "open": count} for age, count in opened.ages],
        "failures": [
            {"workflow": one.workflow, "code": one.code, "runs": one.count} for one in found.failures
        ],
        "usage": [
            {"workflow": name, "usage": usage_document(spent)} for name, spent in sorted(found.usage.items())
        ],
        "nodes": [_node(node) for _, node in sorted(found.nodes.items())],
    }


def _bar(bar: Bar) -> BarDocument:
    return {
        "at": time_text(bar.at),
        "begun": bar.begun,
        "completed": bar.completed,
        "failed": bar.failed,
        "cancelled": bar.cancelled,
        "steps": bar.steps,
    }


def _times(took: Spread) -> TimesDocument:
    return {"count": took.count, "p50": took.p50, "p95": took.p95}


def _node(node: Node) -> NodeTimes:
    return {"node": node.name, "times": _times(node.took), "failed": node.failed}


# ---- health


@exact
class PartDocument(TypedDict):
    name: str
    well: bool
    said: str
    help: str


@exact
class QueueDocument(TypedDict):
    name: str
    hints: Annotated[int | None, Field(description="In the broker; null: it does not answer.")]
    in_line: Annotated[int, Field(description="Runs that were not let in yet, counted up to a thousand.")]


@exact
class StuckDocument(TypedDict):
    run: Id
    node: str
    since: Time
    reason: str
    help: str
    action: Annotated[
        Literal["migrate", "rewind"] | None, Field(description="What of the run's own puts it right.")
    ]


@exact
class ViolationDocument(TypedDict):
    rule: str
    says: Annotated[str, Field(description="What must hold and does not.")]
    run: Id
    target: Annotated[Id, Field(description="What `POST /health/repairs` takes: the run, or its approval.")]
    repair: str
    by: Annotated[
        Literal["rewind", "close", "move", "tell"] | None,
        Field(description="`rewind`: a rewind to its head; null: a person has to look; others: a repair."),
    ]


@exact
class DeliveryCounts(TypedDict):
    """Counted up to a thousand each."""

    pending: int
    late: int
    dead: int
    blocked: int
    disabled_endpoints: int


@exact
class InboxCounts(TypedDict):
    """Of whoever asks; equal, or something is wrong."""

    badge: int
    listed: int
    may_decide: int


@exact
class HealthDocument(TypedDict):
    well: Annotated[bool, Field(description="Every part is well, nothing is stuck, and what must hold does.")]
    parts: list[PartDocument]
    queues: list[QueueDocument]
    stuck: list[StuckDocument]
    violations: list[ViolationDocument]
    inbox: InboxCounts
    deliveries: DeliveryCounts


@exact
class RepairedDocument(TypedDict):
    run: Id
    rule: str


class Health(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_health",
        summary="How the house does: parts, queues, stuck runs, and whether what must hold does",
        answers={200: HealthDocument},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        policies.check_watch(actor)
        project = actor.project.pk
        parts, stuck = watching.parts(), watching.stuck(project)
        broken = invariants.violations(Look(project))
        inbox, sent = invariants.inbox_of(actor), watching.deliveries(project)
        document: HealthDocument = {
            "well": all(part.well for part in parts) and not stuck and not broken and inbox.agrees,
            "parts": [_part(part) for part in parts],
            "queues": [
                {"name": row.name, "hints": row.hints, "in_line": row.in_line} for row in watching.queues()
            ],
            "stuck": [_stuck(row) for row in stuck],
            "violations": [_violation(row) for row in broken],
            "inbox": {"badge": inbox.badge, "listed": inbox.listed, "may_decide": inbox.may_decide},
            "deliveries": {
                "pending": sent.pending,
                "late": sent.late,
                "dead": sent.dead,
                "blocked": sent.blocked,
                "disabled_endpoints": sent.endpoints,
            },
        }
        return rendered(document)


class Repairs(Endpoint):
    @described(
        operation_id="repair",
        summary="Put right what must hold and does not",
        body=bodies.RepairBody,
        answers={200: RepairedDocument},
        errors=["not_found", "missing_scope", "reason_required", "nothing_to_repair", "busy"],
    )
    def post(self, request: Request, body: bodies.RepairBody) -> Response:
        run = operations.repair(
            actor=actor_of(request), rule=body.rule, target=body.target, reason=body.reason
        )
        return rendered({"run": str(run.pk), "rule": body.rule})


def _part(part: Part) -> PartDocument:
    return {"name": part.name, "well": part.well, "said": part.said, "help": part.help}


def _stuck(row: Stuck) -> StuckDocument:
    return {
        "run": str(row.run.pk),
        "node": row.node,
        "since": time_text(row.since),
        "reason": row.reason,
        "help": row.help,
        "action": row.way or None,
    }


def _violation(row: Violation) -> ViolationDocument:
    return {
        "rule": row.rule.key,
        "says": row.rule.says,
        "run": str(row.run.pk),
        "target": str(row.target),
        "repair": row.rule.repair,
        "by": row.rule.by or None,
    }
