"""What the API answers about workflows: their graphs, versions and limits, and what is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from runs import sights
from runs.api.documents import UsageDocument, usage_document
from runs.api.shapes import Object, Time, exact, time_text
from runs.engine import Workflow
from runs.engine.limits import Limit, Rate, window
from runs.engine.redaction import Sight
from runs.models import Project
from runs.policies import Actor
from runs.queries import Spent, VersionRow
from runs.store import Use


@exact
class InUse(TypedDict):
    key: Annotated[
        str | None,
        Field(
            description="Null: of a limit without keys. It is made of the input: hidden with what is hidden there."
        ),
    ]
    taken: int


@exact
class LimitDocument(TypedDict):
    """A limit that a workflow declares; it counts by project, and by key if it has one."""

    name: str
    kind: Literal["concurrency", "rate"]
    limit: int
    per: Annotated[float | None, Field(description="Of a rate: within so many seconds.")]
    keyed: Annotated[bool, Field(description="Whether runs are counted apart by a key of their input.")]
    holds: Annotated[
        Literal["work", "run"] | None,
        Field(
            description="Of a concurrency limit: the slot is kept while there is work, or for the whole run."
        ),
    ]
    in_use: NotRequired[
        Annotated[list[InUse], Field(description="In this project, the most first; with `usage=true`.")]
    ]


@exact
class ProjectLimit(TypedDict):
    max_concurrent_runs: Annotated[int | None, Field(description="Of all workflows; null: any number.")]
    taken: NotRequired[Annotated[int, Field(description="With `usage=true`.")]]


@exact
class WorkflowNode(TypedDict):
    name: str
    kind: Literal["function", "approval", "fan_out", "subflow"]
    next: Annotated[list[str], Field(description="All of them are taken, or the one that is chosen.")]


@exact
class VersionDocument(TypedDict):
    """A version of a workflow, and the live runs that are at it."""

    version: str
    fingerprint: Annotated[str, Field(description="Of graph and schemas.")]
    registered_at: Time | None
    live_runs: int
    is_newest: Annotated[bool, Field(description="Whether new runs get it.")]
    is_here: Annotated[bool, Field(description="Whether the process that answers has its code.")]
    has_worker: Annotated[bool, Field(description="Whether a worker that lives has its code.")]
    leads_to: Annotated[list[str], Field(description="Versions to which runs at it can be migrated.")]
    refused: Annotated[
        Object | None,
        Field(
            description="The newest attempt to register another graph under this version: what was different, and when."
        ),
    ]


@exact
class WorkflowDocument(TypedDict):
    name: str
    title: str
    version: Annotated[str, Field(description="The version that new runs get.")]
    input: Annotated[Object, Field(description="JSON Schema of the input.")]
    state: Annotated[Object, Field(description="JSON Schema of the state.")]
    nodes: list[WorkflowNode]
    queue: str
    priority: int
    limits: list[LimitDocument]
    usage: NotRequired[
        Annotated[
            UsageDocument,
            Field(description="Of all its runs in this project, of all versions; with `usage=true`."),
        ]
    ]
    versions: NotRequired[
        Annotated[list[VersionDocument], Field(description="The newest first; with `versions=true`.")]
    ]


@exact
class WorkflowList(TypedDict):
    items: list[WorkflowDocument]
    project: ProjectLimit


def workflow_document(
    workflow: Workflow,
    spent: Mapping[str, Spent] | None = None,
    *,
    actor: Actor,
    taken: Sequence[Use] | None = None,
    versions: Mapping[str, Sequence[VersionRow]] | None = None,
) -> WorkflowDocument:
    """spent: what all runs of each workflow used, taken: what is in use of limits, versions: all there ever were, if that was
    asked for."""
    sight = sights.of_workflow(actor, workflow)
    document: WorkflowDocument = {
        "name": workflow.name,
        "title": workflow.title,
        "version": workflow.version,
        "input": workflow.input_schema.json_schema,
        "state": workflow.schema.json_schema,
        "nodes": [_node(workflow, name) for name in workflow.nodes],
        "queue": workflow.queue,
        "priority": workflow.priority,
        "limits": [_limit(workflow, limit, taken, sight) for limit in workflow.limits],
    }
    if spent is not None:
        document["usage"] = usage_document(spent.get(workflow.name, Spent()))
    if versions is not None:
        document["versions"] = [_version(row) for row in versions.get(workflow.name, ())]
    return document


def _limit(workflow: Workflow, limit: Limit, taken: Sequence[Use] | None, sight: Sight) -> LimitDocument:
    document: LimitDocument = {
        "name": limit.name,
        "kind": "rate" if isinstance(limit, Rate) else "concurrency",
        "limit": limit.limit,
        "per": window(limit) if isinstance(limit, Rate) else None,
        "keyed": limit.key is not None,
        "holds": None if isinstance(limit, Rate) else limit.holds,
    }
    if taken is not None:
        document["in_use"] = [
            {"key": sight.text(use.key) or None, "taken": use.taken}
            for use in taken
            if (use.workflow, use.name) == (workflow.name, limit.name)
        ]
    return document


def project_limit(project: Project, taken: Sequence[Use] | None = None) -> ProjectLimit:
    document: ProjectLimit = {"max_concurrent_runs": project.max_concurrent_runs}
    if taken is not None:
        document["taken"] = sum(use.taken for use in taken if not use.workflow)
    return document


def _version(row: VersionRow) -> VersionDocument:
    return {
        "version": row.version,
        "fingerprint": row.fingerprint,
        "registered_at": time_text(row.registered_at) if row.registered_at else None,
        "live_runs": row.live_runs,
        "is_newest": row.is_newest,
        "is_here": row.is_here,
        "has_worker": row.has_worker,
        "leads_to": row.leads_to,
        "refused": row.refused,
    }


def _node(workflow: Workflow, name: str) -> WorkflowNode:
    kind: Any = workflow.nodes[name].kind
    return {"name": name, "kind": kind, "next": list(workflow.way(name).targets)}
