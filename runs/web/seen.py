"""A run as its reader sees it, and how a part of its page is drawn.

A part is asked for in three ways: as a page, by a page that shows it among others (`HX-Target: part`), and by a page that has
heard of a change (`HX-Target: live`). Each comes to few queries, however long the run is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render

from runs import queries, sights, tracing
from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.models import Run
from runs.queries import Live
from runs.tracing import Traced
from runs.web import head, once, run_page, sentence
from runs.web.door import Request
from runs.web.fragments import drawn


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as its reader sees it."""

    traced: Traced
    sight: Sight

    @property
    def run(self) -> Run:
        return self.traced.run

    @property
    def now(self) -> datetime:
        return self.traced.now


def look(request: Request, run_id: UUID, *, whole: bool = False) -> Seen:
    """whole: with its input and output."""
    traced = tracing.run(request.actor.project.pk, run_id, whole=whole)
    sight = sights.of(request.actor, traced.run)
    sights.run(traced.run, sight)
    return Seen(traced, sight)


def live_of(seen: Seen) -> Live:
    live = queries.live([seen.run.pk])[seen.run.pk]
    sights.live(live.steps, live.approvals, seen.sight)
    return live


def draw(
    request: Request,
    seen: Seen,
    part: str,
    shown: dict[str, Any],
    *,
    live: Live | None = None,
    banner: Any = None,
) -> HttpResponse:
    """The part alone for a page that shows it among others; else where the run stands, with the part below."""
    context = {
        "page": {"run": seen.run, "narrow": seen.sight.narrow, **shown},
        "part": f"runs/_{part}.html" if part else "",
        "banner": banner,
        "now": seen.now,
    }
    asked = request.htmx and not request.htmx.history_restore_request
    if part and asked and request.htmx.target in ("part", f"_{part}"):
        return render(request, context["part"], context)
    context["page"] |= _head(request, seen, part, live)
    return drawn(request, context, "runs/run.html", "runs/_parts.html")


def _head(request: Request, seen: Seen, part: str, live: Live | None) -> dict[str, Any]:
    run = seen.run
    live = live_of(seen) if live is None else live
    return {
        "sentence": sentence.of_run(
            run,
            now=seen.now,
            steps=live.steps,
            waits=live.waits,
            approvals=live.approvals,
            standing=queries.standing_of(run),
        ),
        "actions": head.actions(request.actor, run),
        "tabs": head.marked(tabs(seen), part),
        "refresh": not run.is_terminal,
        "form_token": once.token(request),
        "mark": run_page.mark(run, seen.traced.stir if run.status == "running" else ""),
        "time_left": run_page.time_left(run, seen.now),
        "news": request.get_full_path(),
    }


def tabs(seen: Seen) -> list[head.Tab]:
    told = seen.traced
    return head.tabs(seen.run, approvals=told.approvals, branches=told.branches, others=told.others)


def file_of(document: Any, name: str) -> HttpResponse:
    return HttpResponse(
        canonical.dumps(document),
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
