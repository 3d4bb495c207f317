"""What a reader is shown of rows: documents with what is hidden from their roles left out.

Every way out of the product goes through here: pages, API, exports. `of` gives a person's sight of one run; the functions
below put it over rows that were read to be looked at. Such rows are never saved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from runs import workflows
from runs.engine import Workflow, canonical
from runs.engine.canonical import Json
from runs.engine.merging import Conflict
from runs.engine.redaction import Sight
from runs.engine.state import StateSchema
from runs.models import Approval, Event, JournalEntry, LogLine, Revision, Run, Signal, Step, WorkflowVersion
from runs.policies import Actor


def of(actor: Actor, run: Run) -> Sight:
    """What this person sees of this run. No query beside their roles, one for a workflow that is not registered here."""
    workflow = workflows.find(run.workflow, run.workflow_version)
    if workflow is not None:
        return of_workflow(actor, workflow)
    rows = WorkflowVersion.objects.filter(name=run.workflow, version=run.workflow_version)
    recorded = rows.values_list("shape", flat=True).first()
    shape: dict[str, Any] = canonical.loads(recorded) if recorded else {}
    nested = [node["subflow"] for node in shape.get("nodes", []) if "subflow" in node]
    return Sight(actor.roles, shape.get("state"), shape.get("input"), None, nested)


def of_workflow(actor: Actor, workflow: Workflow) -> Sight:
    state = workflow.schema.json_schema
    output: Json = state if workflow.output is None else None
    if isinstance(workflow.output, type):
        output = StateSchema(workflow.output).json_schema
    nested = [node.subflow.workflow.shape for node in workflow.nodes.values() if node.subflow]
    return Sight(actor.roles, state, workflow.input_schema.json_schema, output, nested)


def run(row: Run, sight: Sight) -> Run:
    """Its error is always read; input and output only where they were asked for."""
    row.error = sight.error(row.error)
    loaded = set(row.__dict__)
    if "input" in loaded:
        row.input = canonical.dumps(sight.of_input(canonical.loads(row.input)))
    if "output" in loaded and row.output is not None:
        row.output = canonical.dumps(sight.of_output(canonical.loads(row.output)))
    return row


def approval(row: Approval, sight: Sight, *, beside: Approval | None = None) -> Approval:
    """With its votes. beside: another one that it is compared with, as it is stored."""
    true = row.content
    for vote in row.votes.all():
        vote.decisions = canonical.dumps(sight.of_decisions(canonical.loads(vote.decisions), true))
    seen = sight.of_question(true, against=beside.content if beside else None)
    row.document, row.title = canonical.dumps(seen), str(seen["title"])
    return row


def revisions(rows: Iterable[Revision], sight: Sight, *, now: Approval) -> None:
    """Earlier versions, each against the present one as it is stored."""
    true = now.content
    for row in rows:
        row.document = canonical.dumps(sight.of_question(canonical.loads(row.document), against=true))


def steps(rows: Iterable[Step], sight: Sight) -> None:
    for row in rows:
        row.error = sight.error(row.error)
        if row.progress and sight.narrow:
            row.progress = {**row.progress, "note": sight.text(str(row.progress.get("note", "")))}


def calls(rows: Iterable[JournalEntry], sight: Sight) -> None:
    """No schema describes arguments and results of calls. Of a child run it is told which one it is."""
    if not sight.narrow:
        return
    for row in rows:
        row.result = canonical.dumps(_result(row.kind, canonical.loads(row.result), sight))
        row.arguments = sight.text(row.arguments)


class ToldCall(Protocol):
    """A call as a preview tells it."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> str: ...
    @property
    def result(self) -> Json: ...
    @property
    def arguments(self) -> str: ...


Told = TypeVar("Told", bound=ToldCall)


def previews(rows: Iterable[Told], sight: Sight) -> list[Told]:
    return [
        replace(row, result=_result(row.kind, row.result, sight), arguments=sight.text(row.arguments))
        if sight.narrow
        else row
        for row in rows
    ]


def _result(kind: str, result: Json, sight: Sight) -> Json:
    hidden = sight.free(result)
    if kind == "call" or not isinstance(result, dict):
        return hidden
    return {**hidden, **{key: result[key] for key in ("run", "workflow", "status") if key in result}}


def events(rows: Iterable[Event], sight: Sight) -> None:
    if not sight.narrow:
        return
    for row in rows:
        if row.payload is not None:
            row.payload = canonical.dumps(sight.of_event(canonical.loads(row.payload)))


def lines(rows: Iterable[LogLine], sight: Sight) -> None:
    """What nodes say may quote anything."""
    if not sight.narrow:
        return
    for row in rows:
        row.message, row.facts = sight.text(row.message), "{}"


def signal(row: Signal, sight: Sight) -> Signal:
    if sight.narrow:
        row.payload = canonical.dumps(sight.free(canonical.loads(row.payload)))
    return row


def conflict(found: Conflict, sight: Sight) -> Conflict:
    """Both sides of two lanes that wrote one key."""
    one, other = (
        replace(side, value=sight.of_state({found.key: side.value})[found.key])
        for side in (found.one, found.other)
    )
    return replace(found, one=one, other=other)


class ToldSide(Protocol):
    """One side of a comparison."""

    run: Run
    calls: dict[Any, JournalEntry]

    @property
    def state(self) -> dict[str, Json]: ...


def compared(left: ToldSide, right: ToldSide, actor: Actor) -> tuple[Json, Json]:
    """Both states as this person sees them, each by its own workflow; the calls on both sides are redacted too."""
    for side in (left, right):
        calls(side.calls.values(), of(actor, side.run))
    before = of(actor, left.run).of_state(left.state, against=right.state)
    return before, of(actor, right.run).of_state(right.state)
