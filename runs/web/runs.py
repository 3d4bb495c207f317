"""The list of runs. The page of one is in `run`, what people do to it in `steering` and `keeping`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse

from runs import queries, sights, store
from runs.engine.redaction import Sight
from runs.models import Run
from runs.templatetags import words
from runs.web import run_page, sentence, signs
from runs.web.door import Request, page
from runs.web.fragments import drawn

ROWS: Final = 50
VIEWS: Final = {
    "": "All",
    "running": "Running",
    "waiting": "Waiting",
    "paused": "Paused",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Cancelled",
}


@page()
def index(request: Request) -> HttpResponse:
    status = request.GET.get("status", "")
    status = status if status in VIEWS or status in signs.RUN else ""
    workflow = request.GET.get("workflow", "")
    after = _after(request)
    version = request.GET.get("version", "")
    stuck = request.GET.get("waiting_for") == store.NEEDS_MIGRATION
    found = queries.runs(
        request.actor.project.pk,
        status=status or None,
        workflow=workflow or None,
        version=version or None,
        without_code=stuck,
        after=after,
        limit=ROWS,
    )
    told = {"workflow": workflow, "version": version}
    only = {**told, "waiting_for": store.NEEDS_MIGRATION if stuck else ""}
    now = store.now()
    live = queries.live([run.pk for run in found.rows])
    for run in found.rows:
        hide(request, run, live[run.pk])
    shown = {
        "mark": queries.runs_mark(request.actor.project.pk),
        "rows": [_row(run, live[run.pk], now) for run in found.rows],
        "views": [
            *(
                run_page.Link(word, _list_url(status=key, **told), key == status and not stuck)
                for key, word in VIEWS.items()
            ),
            run_page.Link(
                "Needs migration", _list_url(**{**told, "waiting_for": store.NEEDS_MIGRATION}), stuck
            ),
        ],
        "version": version,
        "stuck": stuck,
        "status": status,
        "workflow": workflow,
        "workflows": queries.workflow_names(),
        "older": _older(found, status=status, **only),
        "newest": _list_url(status=status, **only) if after else "",
        "here": request.get_full_path(),
        "bulk": _bulk_links(status=status, workflow=workflow)
        if found.rows and not stuck and not version
        else [],
        "nothing": "No run is like this."
        if status or workflow or version or stuck or after
        else "No run was submitted yet.",
    }
    return drawn(request, {"page": shown, "now": now}, "runs/runs.html", "runs/_runs.html")


def hide(request: Request, run: Run, live: queries.Live) -> Sight:
    """What is hidden from this reader is taken out of what was read."""
    sight = sights.of(request.actor, run)
    sights.run(run, sight)
    sights.steps(live.steps, sight)
    for asked in live.approvals:
        asked.title = sight.text(asked.title)
    return sight


def _row(run: Run, live: queries.Live, now: datetime) -> dict[str, Any]:
    said = sentence.of_run(run, now=now, steps=live.steps, waits=live.waits, approvals=live.approvals)
    nodes = list(dict.fromkeys(step.node for step in live.steps))
    at = words.listing(nodes) or (
        "end" if run.status == "completed" else str((run.error or {}).get("step", ""))
    )
    return {"run": run, "sentence": said, "node": at}


def _list_url(**parameters: str) -> str:
    told = {key: value for key, value in parameters.items() if value}
    return reverse("runs") + (f"?{urlencode(told)}" if told else "")


def _bulk_links(**told: str) -> list[run_page.Link]:
    """What can be done to all runs that match; a page says first to how many."""
    said = {key: value for key, value in told.items() if value}
    return [
        run_page.Link(word, f"{reverse('runs-bulk')}?{urlencode({'verb': verb, **said})}")
        for verb, word in signs.BULK.items()
    ]


def _older(found: queries.Page[Run], **told: str) -> str:
    if not found.more:
        return ""
    last = found.rows[-1]
    return _list_url(**told, before=f"{last.created_at.timestamp():.6f}", id=str(last.pk))


def _after(request: Request) -> tuple[datetime, UUID] | None:
    try:
        return datetime.fromtimestamp(float(request.GET["before"]), UTC), UUID(request.GET["id"])
    except (KeyError, ValueError, OverflowError):
        return None
