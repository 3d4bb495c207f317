"""Workflows in the database: the shape under which a name and version was first seen stays what it is."""

from __future__ import annotations

from django.conf import settings

from runs import store, workflows
from runs.engine import Workflow, canonical
from runs.engine.limits import declared
from runs.errors import WorkflowError
from runs.models import WorkflowVersion


def register_workflows() -> None:
    """Write down every workflow of the code; runs in line follow its limits and its queue.

    Raises `WorkflowError` if a graph changed without a new version.
    """
    for workflow in workflows.every():
        version_for(workflow)
        store.follow_code(workflow.name, queue=workflow.queue, declared=declared(workflow.limits))


def version_for(workflow: Workflow) -> str:
    """The version under which runs of this workflow start.

    In development a changed graph is version `1+dev.<fingerprint>`, so that a first edit does not end in an error.
    """
    known = _recorded(workflow, workflow.version)
    if known == workflow.fingerprint:
        return workflow.version
    if not settings.DEBUG:
        raise WorkflowError(
            f"{workflow.name} version {workflow.version} is registered with another graph or schema "
            f"({known}, not {workflow.fingerprint}); raise version=.",
            reason="graph_changed_without_version",
        )
    version = f"{workflow.version}+dev.{workflow.fingerprint}"
    _recorded(workflow, version)
    return version


def _recorded(workflow: Workflow, version: str) -> str:
    row, _ = WorkflowVersion.objects.get_or_create(
        name=workflow.name,
        version=version,
        defaults={"fingerprint": workflow.fingerprint, "shape": canonical.dumps(workflow.shape)},
    )
    return row.fingerprint
