"""The page of one run: where it stands, and what of it is evidence. Its parts are in `run_parts`; what people do to it is in
`steering`, `travel` and `keeping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, sights, store, tracing, workflows
from runs.engine import Workflow, canonical
from runs.engine.lineage import Line
from runs.engine.position import all_steps, every_conflict
from runs.errors import HitlError
from runs.models import Run, Wait
from runs.queries import Live
from runs.store import Ways
from runs.web import (
    once,
    picture,
    run_page,
    versions,
    ways,
)
from runs.web.banner import of_error
from runs.web.door import Request, page, see_other
from runs.web.seen import Seen, draw, live_of, look, tabs

ON_OVERVIEW: Final = ("timeline", "checkpoints", "branches", "effects")
AS_EVIDENCE: Final = ("data", "approvals", "effects", "branches", "timeline", "history")


# ---- where it stands


@page()
def show(request: Request, run_id: UUID) -> HttpResponse:
    return _overview(request, run_id)


def _overview(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    seen = look(request, run_id)
    run, sight = seen.run, seen.sight
    live = live_of(seen)
    workflow = workflows.find(run.workflow, run.workflow_version)
    line = tracing.line_of(run)
    way = None if workflow is None else _way(workflow, run.pk, line)
    done = {} if way is None else way.visits
    position = None if run.erased_at else queries.head_or_fault(run)[0]
    skipped = _skipped(workflow, list(done), position)
    failed = tracing.failed_steps(run) if run.status == "failed" else []
    sights.steps(failed, sight)
    shown = {
        "lost": versions.lost(run, live.waits, may_migrate=policies.can_migrate(request.actor, run)),
        "payload": request.POST.get("payload", ""),
        "signals": _signals(request, run, live.waits),
        "mismatch": run_page.mismatch(run.error),
        "faults": run_page.faults([*failed, *live.steps]),
        "picture": None
        if workflow is None or way is None
        else _picture(seen, workflow, live, way, skipped, position),
        "skipped": skipped,
        "conflicts": run_page.conflict_rows(
            [sights.conflict(found, sight) for found in every_conflict(position)] if position else []
        ),
        "parts": [one for one in tabs(seen) if one.name in ON_OVERVIEW and one.count != 1],
    }
    return draw(request, seen, "", shown, live=live, banner=of_error(error) if error else None)


def _way(workflow: Workflow, run_id: UUID, line: Line) -> Ways:
    joining = {name for edge in ways.joining(workflow) for name in edge}
    return store.ways_taken(run_id, line, edges=ways.edges_of(workflow), joining=joining)


def _picture(
    seen: Seen,
    workflow: Workflow,
    live: Live,
    way: Ways,
    skipped: Sequence[str],
    position: dict[str, Any] | None,
) -> picture.Picture:
    found = picture.tallies(
        way.visits,
        steps=live.steps,
        waits=live.waits,
        approvals=live.approvals,
        skipped=skipped,
        now=seen.now,
    )
    taken = ways.taken(workflow, way, position=position)
    return picture.build(workflow, found, ended=seen.run.status == "completed", taken=taken)


def _skipped(workflow: Workflow | None, visited: Sequence[str], head: dict[str, Any] | None) -> list[str]:
    if head is None or not visited:
        return []
    return ways.skipped(workflow, visited=visited, standing=[step.node for step in all_steps(head)])


@page()
def evidence(request: Request, run_id: UUID) -> HttpResponse:
    """What to print or to keep of a run: who decided what, what it did, everything that happened."""
    seen = look(request, run_id)
    shown = {
        "parts": [one for one in tabs(seen) if one.name in AS_EVIDENCE],
        "hash": bytes(seen.run.head_hash).hex(),
    }
    return draw(request, seen, "evidence", shown)


# ---- signals


def show_again(request: Request, error: HitlError, run_id: UUID) -> HttpResponse:
    return _overview(request, run_id, error=error)


@page(methods="POST", refused=show_again)
def signal(request: Request, run_id: UUID) -> HttpResponse:
    """Send what a run waits for. The payload is JSON; nothing typed is null."""
    before = once.first_result(request)
    if before:
        return see_other(before)
    queries.run(request.actor.project.pk, run_id)
    text = request.POST.get("payload", "").strip()
    name = request.POST.get("name", "")
    operations.signal(
        actor=request.actor, run_id=run_id, name=name, payload=canonical.parse(text) if text else None
    )
    messages.success(request, gettext("Sent {name}.").format(name=name))
    return see_other(once.remember(request, reverse("run", args=[run_id])))


def _signals(request: Request, run: Run, waits: Sequence[Wait]) -> list[str]:
    """Names of the signals that the run waits for, for those who may send one."""
    names = list(dict.fromkeys(wait.name for wait in waits if wait.kind == "signal"))
    return names if names and policies.can_signal(request.actor, run) else []
