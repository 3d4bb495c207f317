"""The registry of workflows, filled from the `workflows.py` of every installed app, as Django's admin fills its own.

A workflow is found by being a `Workflow` at the top level of such a module, and is checked there: what cannot work
stops the start, naming module, node and reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from django.conf import settings

from runs.engine import Workflow
from runs.engine.limits import DEFAULT_QUEUE
from runs.errors import UnknownWorkflow, WorkflowError

logger = logging.getLogger(__name__)
_by_name: dict[str, dict[str, Workflow]] = {}


def autodiscover() -> None:
    """Import `workflows.py` of every installed app and register what it holds."""
    from django.apps import apps

    for config in apps.get_app_configs():
        name = f"{config.name}.workflows"
        if config.name == "runs" or find_spec(name) is None:
            continue
        try:
            module = import_module(name)
        except WorkflowError as error:
            raise _in_module(name, error) from error
        except Exception as error:
            raise WorkflowError(f"{name} does not import: {type(error).__name__}: {error}") from error
        register_module(module)


def register_module(module: object) -> None:
    for workflow in list(vars(module).values()):
        if isinstance(workflow, Workflow):
            try:
                register(workflow)
            except WorkflowError as error:
                raise _in_module(getattr(module, "__name__", ""), error) from error


def _in_module(name: str, error: WorkflowError) -> WorkflowError:
    """Where it stands: several modules may name a workflow alike."""
    return WorkflowError(f"{name}: {error.detail}" if name else error.detail, module=name, **error.facts)


def register(workflow: Workflow) -> None:
    """Check a workflow and make it known. Raises `WorkflowError`."""
    workflow.validate()
    for warning in workflow.graph.warnings:
        logger.warning("%s: %s", workflow.name, warning)
    versions = _by_name.setdefault(workflow.name, {})
    known = versions.get(workflow.version)
    if known is not None and known is not workflow and known.fingerprint != workflow.fingerprint:
        raise WorkflowError(
            f"Two different workflows are named {workflow.name!r} version {workflow.version!r}."
        )
    versions[workflow.version] = workflow


def unregister(name: str) -> None:
    """Forget a workflow; for tests and notebooks."""
    _by_name.pop(name, None)


def get(name: str, version: str | None = None) -> Workflow:
    """The workflow of this name: the version asked for, or the newest. Raises `UnknownWorkflow` naming what there is."""
    versions = _by_name.get(name)
    if not versions:
        known = ", ".join(sorted(_by_name)) or "none"
        raise UnknownWorkflow(f"No workflow is named {name!r}. Registered: {known}.")
    if version is None:
        return newest(versions)
    found = find(name, version)
    if found is None:
        raise UnknownWorkflow(
            f"{name!r} has no version {version!r}. Registered: {', '.join(sorted(versions))}."
        )
    return found


def find(name: str, version: str) -> Workflow | None:
    """The workflow of this name and version, or None: for who only looks, and must see runs of workflows that are gone."""
    versions = _by_name.get(name, {})
    return versions.get(version) or versions.get(version.partition("+dev.")[0])


def every() -> Iterator[Workflow]:
    """All workflows, newest version of each, by name."""
    for name in sorted(_by_name):
        yield newest(_by_name[name])


def queues() -> list[str]:
    """The default queue, and every other that a workflow names."""
    named = {flow.queue for versions in _by_name.values() for flow in versions.values()}
    return [DEFAULT_QUEUE, *sorted(named - {DEFAULT_QUEUE})]


def queues_served() -> list[str]:
    """The queues of which this process takes work: those it was told, or all."""
    return list(settings.HITL_WORKER_QUEUES) or queues()


def newest(versions: dict[str, Workflow]) -> Workflow:
    return max(versions.values(), key=lambda workflow: _order(workflow.version))


def _order(version: str) -> tuple[tuple[int, str], ...]:
    # Numbers by value, so that version 10 follows version 9; texts after numbers.
    return tuple((int(part), "") if part.isdigit() else (10**9, part) for part in version.split("."))
