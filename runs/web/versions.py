"""Pages about versions of workflows: all of them side by side, and taking a run to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, sights, store, workflows
from runs.engine.redaction import Sight
from runs.engine.versions import base_of
from runs.errors import HitlError, NeedsMigration
from runs.models import Run, Wait
from runs.operations import MigrationPreview
from runs.queries import VersionRow
from runs.templatetags import pretty, words
from runs.tongue import speak
from runs.web import run_page, signs
from runs.web.door import Request, number, page
from runs.web.sheet import draw, sheet


@dataclass(frozen=True, slots=True)
class Lost:
    """A run that waits for code, and the three ways out. faults: places in the state, each as (pointer, words)."""

    version: str
    detail: str
    step: str
    migrate: str
    reachable: list[str]
    faults: list[tuple[str, str]] = field(default_factory=list)


def lost(run: Run, waits: list[Wait], *, may_migrate: bool) -> Lost | None:
    """Of a run that needs a migration, what its page says about that."""
    mark = next((wait for wait in waits if wait.kind == store.NEEDS_MIGRATION), None)
    if mark is None:
        return None
    facts = mark.facts or {}
    faults = [(str(one["path"]), str(one["message"])) for one in facts.get("errors", ()) if one.get("path")]
    return Lost(
        run.workflow_version,
        str(facts.get("detail", "")),
        str(facts.get("step", "")),
        reverse("run-migrate", args=[run.pk]) if may_migrate else "",
        workflows.reachable(run.workflow, run.workflow_version),
        faults,
    )


# ---- one run


def _migrate_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_migrate(request.actor, run)
    to = request.POST.get("to") or request.GET.get("to") or None
    preview, fault = _previewed(request, run, to)
    sight = sights.of(request.actor, run)
    shown = {
        "run": run,
        "from": run.workflow_version,
        "targets": _targets(run, to or (preview.to_version if preview else "")),
        "preview": preview,
        "changes": _changes(preview, sight) if preview else [],
        "conflicts": run_page.conflict_rows([sights.conflict(one, sight) for one in preview.conflicts])
        if preview
        else [],
        "fault": fault,
        "faults": [(problem.path, problem.message) for problem in fault.errors if problem.path]
        if fault
        else [],
        "reason": request.POST.get("reason", ""),
        "checkpoints": reverse("run-checkpoints", args=[run.pk]),
    }
    return draw(
        request, "runs/migrate.html", shown, error if error is not None and error is not fault else None
    )


def _changes(preview: MigrationPreview, sight: Sight) -> list[pretty.Change]:
    return pretty.changes(
        sight.of_state(preview.before, against=preview.state), sight.of_state(preview.state)
    )


def _previewed(
    request: Request, run: Run, to: str | None
) -> tuple[MigrationPreview | None, NeedsMigration | None]:
    """What it would come to, or what speaks against it: both are what this page is for."""
    preview, fault = operations.try_migration(actor=request.actor, run_id=run.pk, to=to)
    if fault is not None:
        speak(fault)
    return preview, fault


def _targets(run: Run, chosen: str) -> list[run_page.Link]:
    here = reverse("run-migrate", args=[run.pk])
    found = workflows.reachable(run.workflow, run.workflow_version)
    return [run_page.Link(to, f"{here}?{urlencode({'to': to})}", to == chosen) for to in found]


@sheet(_migrate_page)
def migrate(request: Request, run_id: UUID) -> str:
    run = operations.migrate(
        actor=request.actor,
        run_id=run_id,
        to=request.POST.get("to") or None,
        reason=request.POST.get("reason", ""),
        version=number(request.POST.get("version")),
    )
    return gettext("{id} is at version {workflow_version}, by checkpoint {head}.").format(
        id=words.short_id(run_id, "R-"), workflow_version=run.workflow_version, head=run.head
    )


# ---- all workflows


@dataclass(frozen=True, slots=True)
class Row:
    version: VersionRow
    sign: signs.Sign
    runs: str
    refusal: str = ""


@page()
def index(request: Request) -> HttpResponse:
    """Versions side by side, and how many live runs are at each."""
    found = queries.versions(request.actor.project.pk)
    shown: dict[str, Any] = {
        "workflows": [
            {"name": name, "title": _title(name), "rows": [row_of(version) for version in versions]}
            for name, versions in found.items()
        ],
        "startable": {flow.name for flow in workflows.every()} if policies.can_submit(request.actor) else (),
    }
    return render(request, "workflows/index.html", {"page": shown, "now": store.now()})


def _title(name: str) -> str:
    return next((flow.title for flow in workflows.every() if flow.name == name), "")


def row_of(version: VersionRow) -> Row:
    told = {"workflow": version.name, "version": version.version}
    refused = version.refused or {}
    refusal = "; ".join(str(change) for change in refused.get("changes", ()))
    return Row(version, _sign(version), f"{reverse('runs')}?{urlencode(told)}", refusal)


def _sign(version: VersionRow) -> signs.Sign:
    if version.has_worker:
        return signs.CODE["works"]
    if version.live_runs and not version.is_here and not version.leads_to:
        return signs.CODE["gone"]
    if version.leads_to and not version.is_here:
        return signs.CODE["leads on"]
    return signs.CODE["here"] if version.is_here else signs.CODE["past"]


def can_move(run: Run) -> bool:
    """Whether there is another version to take a run to, or its own is not here."""
    own = workflows.find(run.workflow, run.workflow_version)
    return bool(workflows.reachable(run.workflow, base_of(run.workflow_version))) or own is None
