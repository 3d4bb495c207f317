"""By which values a run is found. A workflow that marks nothing of its state pays nothing here."""

from __future__ import annotations

from typing import Any

from runs import workflows
from runs.engine import position as at
from runs.engine.searching import values_in
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
    if flow is None or not flow.schema.searchable:
        return
    state = at.state(position if position is not None else read_position(run.pk, run.head))
    hidden = workflows.hidden_fields(flow)
    fields = {name: path for name, path in flow.schema.searchable.items() if name not in hidden}
    found = values_in(state, fields)
    rows = RunTerm.objects.filter(run=run, kind="state")
    known = dict(rows.values_list("name", "value"))
    changed = {name for name, value in known.items() if found.get(name) != value}
    if changed:
        rows.filter(name__in=changed).delete()
    _insert(run, "state", {name: found[name] for name in found if known.get(name) != found[name]})


def _insert(run: Run, kind: str, found: dict[str, str]) -> None:
    if found:
        RunTerm.objects.bulk_create(
            RunTerm(run=run, project_id=run.project_id, kind=kind, name=name, value=value)
            for name, value in found.items()
        )
