"""By which values a run is found. A workflow that marks nothing of its state pays nothing here."""

from __future__ import annotations

from typing import Any

from runs import workflows
from runs.engine import position as at
from runs.engine.searching import Path, is_hidden, values_in
from runs.engine.status import RunStatus
from runs.models import Run, RunTerm
from runs.store.reading import read_position


def note_labels(run: Run) -> None:
    """Labels of a new run; they never change."""
    _insert(run, "label", run.labels)


def note_state(run: Run, position: dict[str, Any] | None) -> None:
    """What of the state is searched for, if the run has come to rest or begins. position: of its head, if that is at hand."""
    if run.status == RunStatus.RUNNING or (run.status == RunStatus.QUEUED and position is None):
        return
    flow = workflows.find(run.workflow, run.workflow_version)
    fields = flow.schema.searchable if flow else {}
    if not fields:
        return
    state = at.state(position if position is not None else read_position(run.pk, run.head))
    found = values_in(state, _open(run.workflow, fields))
    rows = RunTerm.objects.filter(run=run, kind="state")
    known = dict(rows.values_list("name", "value"))
    changed = {name for name, value in known.items() if found.get(name) != value}
    if changed:
        rows.filter(name__in=changed).delete()
    _insert(run, "state", {name: found[name] for name in found if known.get(name) != found[name]})


def _open(workflow: str, fields: dict[str, Path]) -> dict[str, Path]:
    """Without what another version hides: as that one the same state may be shown."""
    others = [flow.schema for flow in workflows.every_version() if flow.name == workflow]
    marked = [schema.json_schema for schema in others if schema.has_marks]
    return {
        name: path for name, path in fields.items() if not any(is_hidden(schema, path) for schema in marked)
    }


def _insert(run: Run, kind: str, found: dict[str, str]) -> None:
    if found:
        RunTerm.objects.bulk_create(
            RunTerm(run=run, project_id=run.project_id, kind=kind, name=name, value=value)
            for name, value in found.items()
        )
