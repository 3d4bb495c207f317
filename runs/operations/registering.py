"""Workflows in the database: the shape under which a name and version was first seen stays what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from runs import store, workflows
from runs.engine import Workflow, canonical, redaction
from runs.engine.limits import declared
from runs.engine.versions import DEV, changes
from runs.errors import GraphChanged
from runs.models import WorkflowVersion
from runs.operations.finding import forget_words


def register_workflows() -> None:
    """Write down every workflow of the code, each version; runs in line follow the limits and the queue of the newest.

    Raises `GraphChanged` if a graph changed without a new version.
    """
    refused = [told for workflow in workflows.every_version() if (told := _refused(workflow)) is not None]
    if refused:
        raise refused[0]
    store.follow_code({flow.name: (flow.queue, declared(flow.limits)) for flow in workflows.every()})


def register_or_stop() -> None:
    """For the start of a process, where whoever calls would swallow any error: what cannot be registered ends it."""
    try:
        register_workflows()
    except GraphChanged as refused:
        raise SystemExit(refused.detail) from None


def version_for(workflow: Workflow) -> str:
    """The version under which runs of this workflow start. Raises `GraphChanged` saying what is different.

    In development a changed graph is version `1+dev.<fingerprint>`, so that a first edit does not end in an error.
    """
    known = _recorded(workflow, workflow.version)
    if known.fingerprint == workflow.fingerprint:
        return workflow.version
    if not settings.DEBUG:
        raise _changed(workflow, known)
    version = f"{workflow.version}{DEV}{workflow.fingerprint}"
    _recorded(workflow, version)
    return version


def _refused(workflow: Workflow) -> GraphChanged | None:
    """Register a version; a refusal is written down, for whoever looks why its runs stand still."""
    try:
        version_for(workflow)
    except GraphChanged as refused:
        _note(workflow, {"at": store.now().isoformat(), **refused.facts})
        return refused
    row = WorkflowVersion.objects.filter(name=workflow.name, version=workflow.version, refused__isnull=False)
    row.filter(fingerprint=workflow.fingerprint).update(refused=None)
    return None


def _note(workflow: Workflow, refused: dict[str, Any]) -> None:
    rows = WorkflowVersion.objects.filter(name=workflow.name, version=workflow.version)
    rows.update(refused=refused)


def _changed(workflow: Workflow, known: WorkflowVersion) -> GraphChanged:
    different = changes(canonical.loads(known.shape), workflow.shape)
    return GraphChanged(
        f"{workflow.name} version {workflow.version} is registered with another graph or schema; raise version= and keep "
        f"the old one for the runs that are at it. What changed: {_listed(different)}.",
        workflow=workflow.name,
        version=workflow.version,
        fingerprint=workflow.fingerprint,
        registered=known.fingerprint,
        changes=different,
    )


def _listed(different: Sequence[str]) -> str:
    return "; ".join(different) or "a detail that has no words"


def _recorded(workflow: Workflow, version: str) -> WorkflowVersion:
    row, is_new = WorkflowVersion.objects.get_or_create(
        name=workflow.name,
        version=version,
        defaults={"fingerprint": workflow.fingerprint, "shape": canonical.dumps(workflow.shape)},
    )
    if is_new and next(redaction.marks(workflow.shape), None) is not None:
        forget_words(workflow.name)
    return row
