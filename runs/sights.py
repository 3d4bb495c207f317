"""What a reader is shown of rows: documents with what is hidden from their roles left out.

Every way out of the product goes through here: pages, API, exports. `of` gives a person's sight of one run; the functions
below put it over rows that were read to be looked at. Such rows are never saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

from django.db.models import QuerySet
from pydantic import BaseModel

from runs import store, workflows
from runs.engine import Workflow, canonical
from runs.engine.canonical import Json
from runs.engine.merging import Conflict
from runs.engine.redaction import Sight
from runs.models import Approval, Event, JournalEntry, LogLine, Revision, Run, Signal, Step, WorkflowVersion
from runs.policies import Actor


def of(actor: Actor, run: Run) -> Sight:
    """What this person sees of this run. No query beside their roles, one for a workflow that is not registered here."""
    return _of(actor.roles, run)


def findable(run: Run, document: dict[str, Any], *, first: Approval | None = None) -> dict[str, Any]:
    """An approval's document as whoever sees least of its run reads it: only by that may it be found, as a search that
    finds something tells what stands in it. first: the approval as stored, where people have changed its arguments."""
    sight = _of(frozenset(), run)
    if not sight.hides_in(document):
        return document
    quoted = sight.quotable_of_input(canonical.loads(run.input))
    if first is not None:
        quoted |= _quoted_before(first, sight)
    return sight.of_question(document, quotable=sorted(quoted))


def _of(roles: frozenset[str], run: Run, recorded: str | None = None) -> Sight:
    """recorded: the shape of a version that is not registered here, if it has been asked for; empty where there is none."""
    workflow = workflows.find(run.workflow, run.workflow_version)
    others = [
        flow.schema.json_schema
        for flow in workflows.every_version()
        if flow.name == run.workflow and flow is not workflow
    ]
    if workflow is not None:
        return replace(_of_workflow(roles, workflow), others=others)
    at = run.workflow, run.workflow_version
    if recorded is None:
        recorded = _recorded({at}).get(at)
    shape: dict[str, Any] = canonical.loads(recorded) if recorded else {}
    return Sight(roles, shape.get("state"), shape.get("input"), None, _nested(shape), others)


def of_many(actor: Actor, runs: Iterable[Run] = ()) -> Callable[[Run], Sight]:
    """The same for a list of runs: each version of a workflow is looked up once. runs: of which it is asked for sure; then one
    query for all that are not registered here."""
    known: dict[tuple[str, str], Sight] = {}
    places = {(run.workflow, run.workflow_version) for run in runs}
    shapes = _recorded({place for place in places if workflows.find(*place) is None})

    def sight_of(run: Run) -> Sight:
        at = run.workflow, run.workflow_version
        if at not in known:
            known[at] = _of(actor.roles, run, shapes.get(at, "" if at in places else None))
        return known[at]

    return sight_of


def _recorded(places: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The shapes of versions, by name and version. One query, none for none."""
    if not places:
        return {}
    names, versions = (sorted(set(some)) for some in zip(*places, strict=True))
    rows = store.answers("shapes", _shapes, names=names, versions=versions)
    return {(name, version): shape for name, version, shape in rows if (name, version) in places}


def _shapes() -> QuerySet[WorkflowVersion, Any]:
    any_name, any_version = (store.Given(one, many=True) for one in ("names", "versions"))
    return WorkflowVersion.objects.filter(name=any_name, version=any_version).values_list(
        "name", "version", "shape"
    )


def of_workflow(actor: Actor, workflow: Workflow) -> Sight:
    return _of_workflow(actor.roles, workflow)


def _of_workflow(roles: frozenset[str], workflow: Workflow) -> Sight:
    state = workflow.schema.json_schema
    output: Json = state if workflow.output is None else None
    if isinstance(workflow.output, type):
        output = _schema_of(workflow.output)
    nested = _nested(workflow.shape) if any(node.subflow for node in workflow.nodes.values()) else []
    return Sight(roles, state, workflow.input_schema.json_schema, output, nested)


@cache
def _schema_of(model: type[BaseModel]) -> Json:
    return model.model_json_schema()


def _nested(shape: dict[str, Any]) -> list[Json]:
    """Schemas of the states of workflows inside this one, at any depth."""
    inside = [node["subflow"] for node in shape.get("nodes", []) if "subflow" in node]
    return [schema for flow in inside for schema in (flow["state"], *_nested(flow))]


def run(row: Run, sight: Sight) -> Run:
    """Its error and what it waits for are always read; input and output only where they were asked for."""
    row.error = sight.error(row.error)
    row.waiting_for = [_reason(told, sight) for told in row.waiting_for]
    loaded = set(row.__dict__)
    if "input" in loaded:
        row.input = canonical.dumps(sight.of_input(canonical.loads(row.input)))
    if "output" in loaded and row.output is not None:
        row.output = canonical.dumps(sight.of_output(canonical.loads(row.output)))
    return row


def _reason(told: dict[str, Json], sight: Sight) -> dict[str, Json]:
    """Why the code that is here cannot take a run on may quote its state: what a migration raised, or what fits no schema."""
    if not sight.narrow or "detail" not in told:
        return told
    kept = {key: value for key, value in told.items() if key != "errors"}
    return {**kept, "detail": sight.text(str(told["detail"]))}


def approval(row: Approval, sight: Sight, *, beside: Approval | None = None) -> Approval:
    """With its votes. beside: another one that it is compared with, as it is stored."""
    true = row.content
    if not sight.hides_in(true) and not (beside and sight.hides_in(beside.content)):
        return row
    for vote in row.votes.all():
        vote.decisions = canonical.dumps(sight.of_decisions(canonical.loads(vote.decisions), true))
    seen = sight.of_question(
        true, against=beside.content if beside else None, quotable=_quotable(row, true, sight)
    )
    row.document, row.title = canonical.dumps(seen), str(seen["title"])
    return row


def question(row: Approval, document: dict[str, Any], sight: Sight) -> dict[str, Any]:
    """This or another version of an approval's document, against what is stored now."""
    return sight.of_question(document, against=row.content, quotable=_quotable(row, row.content, sight))


def _quotable(row: Approval, true: dict[str, Any], sight: Sight) -> list[str]:
    """What its words may quote: they were made of the run's state, and of the arguments before any edit.

    Two queries at most, none where nothing is hidden.
    """
    if not sight.hides_in(true):
        return []
    return sorted(sight.quotable_of_input(canonical.loads(row.run.input)) | _quoted_before(row, sight))


def _quoted_before(row: Approval, sight: Sight) -> set[str]:
    """What its first version hides. One query, none for one that nobody has edited."""
    if row.version == 1:
        return set()
    first = Revision.objects.filter(approval=row.pk, version=1).first()
    return sight.quotable(canonical.loads(first.document)) if first else set()


def revisions(rows: Iterable[Revision], sight: Sight, *, now: Approval) -> None:
    """Earlier versions, each against the present one as it is stored."""
    true = now.content
    if not sight.hides_in(true):
        return
    quotable = _quotable(now, true, sight)
    for row in rows:
        document = canonical.loads(row.document)
        row.document = canonical.dumps(sight.of_question(document, against=true, quotable=quotable))


def steps(rows: Iterable[Step], sight: Sight) -> None:
    for row in rows:
        row.error = sight.error(row.error)
        if row.progress and sight.narrow:
            row.progress = {**row.progress, "note": sight.text(str(row.progress.get("note", "")))}


def live(going: Iterable[Step], asked: Iterable[Approval], sight: Sight) -> None:
    """What is going on in a run: its live steps, and the titles of what is asked."""
    steps(going, sight)
    for row in asked:
        row.title = sight.text(row.title)


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
    decisions: list[Approval]

    @property
    def state(self) -> dict[str, Json]: ...


def compared(left: ToldSide, right: ToldSide, actor: Actor) -> tuple[Json, Json]:
    """Both states as this person sees them, each by its own workflow; the calls on both sides are redacted too."""
    for side in (left, right):
        sight = of(actor, side.run)
        calls(side.calls.values(), sight)
        for asked in side.decisions:
            asked.title = sight.text(asked.title)
    before = of(actor, left.run).of_state(left.state, against=right.state)
    return before, of(actor, right.run).of_state(right.state)
