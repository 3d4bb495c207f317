"""The registry of workflows, filled from the `workflows.py` of every installed app, as Django's admin fills its own.

A workflow is found by being a `Workflow` at the top level of such a module, and is checked there: what cannot work
stops the start, naming module, node and reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.conf import settings

from runs.engine import Workflow
from runs.engine.limits import DEFAULT_QUEUE
from runs.engine.searching import hides
from runs.engine.versions import Migration, base_of, by_start, order, way
from runs.errors import (
    GraphChanged,
    MigrationMissing,
    NeedsMigration,
    SchemaNewerThanCode,
    Told,
    UnknownWorkflow,
    WorkflowError,
)

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
    by_start(_migrations({**versions, workflow.version: workflow}))
    versions[workflow.version] = workflow


def unregister(name: str) -> None:
    """Forget a workflow; for tests and notebooks."""
    _by_name.pop(name, None)


def get(name: str, version: str | None = None) -> Workflow:
    """The workflow of this name: the version asked for, or the newest. Raises `UnknownWorkflow` naming what there is."""
    versions = _by_name.get(name)
    if not versions:
        known = ", ".join(sorted(_by_name)) or "none"
        raise UnknownWorkflow(
            Told("No workflow is named {name!r}. Registered: {known}.", name=name, known=known)
        )
    if version is None:
        return newest(versions)
    found = find(name, version)
    if found is None:
        raise UnknownWorkflow(
            Told(
                "{name!r} has no version {version!r}. Registered: {choices}.",
                name=name,
                version=version,
                choices=", ".join(sorted(versions)),
            )
        )
    return found


def find(name: str, version: str) -> Workflow | None:
    """The workflow of this name and version, or None: for who only looks, and must see runs of workflows that are gone."""
    versions = _by_name.get(name, {})
    return versions.get(version) or versions.get(base_of(version))


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


def every_version() -> Iterator[Workflow]:
    """All workflows, every version of each, by name and from the oldest on."""
    for name in sorted(_by_name):
        yield from sorted(_by_name[name].values(), key=lambda workflow: order(workflow.version))


def hidden_fields(flow: Workflow) -> set[str]:
    """Fields that a workflow makes searchable and another version of it hides: as that one the same state may be shown."""
    fields = flow.schema.searchable
    others = _by_name.get(flow.name, {}).values() if fields else ()
    marked = [other.schema.json_schema for other in others if other.schema.has_marks]
    return {name for name, path in fields.items() if any(hides(schema, path) for schema in marked)}


def newest(versions: dict[str, Workflow]) -> Workflow:
    return max(versions.values(), key=lambda workflow: order(workflow.version))


# ---- versions of runs


def pinned(name: str, version: str, fingerprint: str, *, lenient: bool = False) -> Workflow | None:
    """The code that runs of this version and graph are at, if it is here. lenient: in development its graph may have changed."""
    found = find(name, version)
    return found if found is not None and (lenient or found.fingerprint == fingerprint) else None


def way_on(name: str, version: str, to: str | None = None) -> tuple[Workflow, list[Migration]]:
    """The workflow that a chain of migrations leads to from a version, and the chain: to the nearest version that is here, or to
    `to`. Raises what is the matter, a `NeedsMigration`."""
    versions = _by_name.get(name, {})
    start = base_of(version)
    if to is None and start in versions:
        raise _no_way(name, version, to)  # it is here, with another graph: its runs are not led away silently
    found = way(_migrations(versions), start, [end for end in versions if to is None or end == to])
    if found:
        return versions[found[-1].to_version], found
    raise _no_way(name, version, to)


def reachable(name: str, version: str) -> list[str]:
    """The versions that are here and that migrations lead to from a version, the nearest first."""
    versions = _by_name.get(name, {})
    every = [end for end in versions if end != base_of(version)]
    ways = {end: way(_migrations(versions), version, [end]) for end in every}
    return sorted((end for end in every if ways[end]), key=lambda end: len(ways[end] or ()))


def migrates_from(name: str) -> list[str]:
    """The versions from which a chain of migrations leads to one that is here."""
    versions = _by_name.get(name, {})
    leads = by_start(_migrations(versions))
    return [start for start in leads if way(leads.values(), start, versions) is not None]


def code() -> dict[str, list[list[str]]]:
    """What this process can run, as workers say it of themselves: has as (name, version, fingerprint), takes as (name, version)
    of what it would migrate."""
    return {
        "has": [[flow.name, flow.version, flow.fingerprint] for flow in every_version()],
        "takes": [[name, version] for name in sorted(_by_name) for version in migrates_from(name)],
    }


def _migrations(versions: dict[str, Workflow]) -> list[Migration]:
    return [migration for workflow in versions.values() for migration in workflow.migrations]


def _no_way(name: str, version: str, to: str | None) -> NeedsMigration:
    versions = _by_name.get(name, {})
    known = ", ".join(sorted(versions, key=order)) or "none"
    told: dict[str, Any] = {"workflow": name, "version": version, "registered": sorted(versions, key=order)}
    if to is None and base_of(version) in versions:
        return GraphChanged(
            Told(
                "{name} version {version} is here with another graph or schema than the run started with. "
                "Raise version= and keep the old one, or add a migration.",
                name=name,
                version=version,
            ),
            **told,
        )
    if to is None and versions and all(order(base_of(version)) > order(here) for here in versions):
        return SchemaNewerThanCode(
            Told(
                "The run is at version {version} of {name}, newer than what is here: {known}. The deployment went back.",
                version=version,
                name=name,
                known=known,
            ),
            **told,
        )
    wanted = f"to version {to}" if to is not None else "to one that is"
    return MigrationMissing(
        Told(
            "Version {version} of {name} is not here, and no migration leads from it {wanted}; registered: {known}.",
            version=version,
            name=name,
            wanted=wanted,
            known=known,
        )
        if to is None
        else Told(
            "No migration of {name} leads from version {version} {wanted}; registered: {known}.",
            name=name,
            version=version,
            wanted=wanted,
            known=known,
        ),
        **told,
    )
