"""The parts of the page of one run, each with an address of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse

from runs import attached, policies, queries, sights, store, tracing, workflows
from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.errors import HitlError
from runs.models import Event, Run
from runs.templatetags import pretty, words
from runs.tracing import EventFilter
from runs.web import (
    branches,
    history,
    keeping,
    once,
    run_page,
    timeline,
    viewer,
    ways,
    windows,
)
from runs.web.door import Request, asked_number, page
from runs.web.seen import Seen, draw, file_of, look

CHECKPOINTS: Final = 100
LATER: Final = 6  # checkpoints that stand above the chosen one
EVENTS: Final = 100
LINES: Final = 200
BRANCHES: Final = 100
EFFECTS: Final = 200
APPROVALS: Final = 100


@page()
def steps(request: Request, run_id: UUID) -> HttpResponse:
    """A window of the timeline: the newest steps, or those from a number on."""
    seen = look(request, run_id)
    run, sight = seen.run, seen.sight
    strip = tracing.stretches(run.pk)
    every = strip[-1].last if strip else 0
    newest = max(every - tracing.WINDOW + 1, 1)
    first = min(asked_number(request, "from") or newest, max(every, 1))
    window = tracing.steps_from(run.pk, first)
    sights.steps(window, sight)
    inside = tracing.inside(run.pk, window)
    true = request.GET.get("scale") == "true"
    made = timeline.build(
        window,
        inside.waits,
        inside.calls,
        now=seen.now,
        line=tracing.line_of(run),
        running=not run.is_terminal and first == newest,
        order=ways.order_of(workflows.find(run.workflow, run.workflow_version)),
        spent=inside.spent,
        url=lambda no: reverse("run-checkpoint", args=[run.pk, no]),
        true_to_time=true,
    )
    shown = {
        "timeline": made,
        "legend": [(kind, timeline.WORDS[kind]) for kind in made.kinds],
        "window": windows.window(
            strip,
            first=first,
            shown=len(window),
            size=tracing.WINDOW,
            url=reverse("run-timeline", args=[run.pk]),
            true_to_time=true,
        ),
        "more_calls": inside.more,
    }
    return draw(request, seen, "timeline", shown)


@page()
def checkpoints(request: Request, run_id: UUID) -> HttpResponse:
    seen = look(request, run_id)
    return _checkpoint_page(request, seen, None)


@page()
def checkpoint(request: Request, run_id: UUID, no: int) -> HttpResponse:
    return _checkpoint_page(request, look(request, run_id), no)


def _checkpoint_page(request: Request, seen: Seen, no: int | None) -> HttpResponse:
    run, actor = seen.run, request.actor
    look = viewer.Look(
        request.GET.get("show", ""), asked_number(request, "against"), request.GET.get("find", "").strip()
    )
    # An erased run has no checkpoint to show; one that was asked for by its number says so itself.
    wanted, moment = run.head if no is None else no, None
    if run.erased_at is None or wanted != run.head:
        moment = queries.checkpoint(run, wanted, against=look.against)
    line = tracing.line_of(run)
    may_steer = policies.can_steer(actor, run) and run.erased_at is None
    may_fork = policies.can_fork(actor, run) and run.erased_at is None
    found = queries.newest_checkpoints(run.pk, before=_before(request, no), limit=CHECKPOINTS)
    url = reverse("run-checkpoints", args=[run.pk])
    shown = {
        "checkpoints": [
            run_page.checkpoint_row(point, run=run, line=line, may_steer=may_steer) for point in found.rows
        ],
        "older": f"{url}?before={found.rows[-1].no}" if found.more else "",
        "newest": url if found.rows and found.rows[0].no < run.checkpoint_no else "",
        "selected": moment
        and viewer.selected(
            moment,
            run=run,
            line=line,
            look=look,
            may_steer=may_steer,
            may_fork=may_fork,
            sight=seen.sight,
        ),
        "chosen": request.get_full_path() if no is not None else "",
        "pushes": "/checkpoints/" in (request.htmx.current_url_abs_path or request.path),
    }
    return draw(request, seen, "checkpoints", shown)


def _before(request: Request, no: int | None) -> int | None:
    """Where the list begins: where it was told to, or so that the chosen one stands in it."""
    told = asked_number(request, "before")
    return told if told is not None or no is None else no + LATER


@page()
def state(request: Request, run_id: UUID, no: int) -> HttpResponse:
    """The exact state at a checkpoint, as a file."""
    seen = look(request, run_id)
    moment = queries.checkpoint(seen.run, no)
    document = seen.sight.of_state(moment.state)
    return file_of(document, f"{words.short_id(run_id, 'R-')}-{no}.json")


@page()
def tree(request: Request, run_id: UUID) -> HttpResponse:
    """The branches."""
    seen = look(request, run_id)
    run = seen.run
    found = tracing.branches(run, before=asked_number(request, "before"), limit=BRANCHES)
    url = reverse("run-branches", args=[run.pk])
    made = branches.build(
        found.rows,
        tracing.heads(run.pk, [branch.no for branch in found.rows]),
        current=run.branch,
        compare=reverse("run-compare", args=[run.pk]),
    )
    shown = {
        "branches": made,
        "forest": branches.picture(made),
        "older": f"{url}?before={found.rows[-1].no}" if found.more else "",
        "may_label": policies.can_steer(request.actor, run),
    }
    return draw(request, seen, "branches", shown)


@page()
def effects(request: Request, run_id: UUID) -> HttpResponse:
    """The ledger: what was done, what of it was taken back, and what came too late to be."""
    seen = look(request, run_id)
    run, sight = seen.run, seen.sight
    skip = asked_number(request, "skip") or 0
    entries = tracing.effects(run.pk, skip=skip, limit=EFFECTS)
    sights.calls(entries.rows, sight)
    undone = queries.undone_in(run.pk, entries.rows)
    late = store.made_too_late([run.pk]) if run.status in ("cancelling", "cancelled") else []
    url = reverse("run-effects", args=[run.pk])
    shown = {
        "effects": [
            *(run_page.effect_row(entry, undone) for entry in entries.rows),
            *(run_page.late_effect(note) for note in late),
        ],
        "older": f"{url}?skip={skip + EFFECTS}" if entries.more else "",
        "newest": url if skip else "",
    }
    return draw(request, seen, "effects", shown)


@page()
def approvals(request: Request, run_id: UUID) -> HttpResponse:
    seen = look(request, run_id)
    sight = seen.sight
    rows = [sights.approval(asked, sight) for asked in tracing.approvals(seen.run.pk, limit=APPROVALS)]
    shown = {
        "approvals": [run_page.approval_row(approval) for approval in rows],
        "left_out": max(seen.traced.approvals - APPROVALS, 0),
    }
    return draw(request, seen, "approvals", shown)


@page()
def others(request: Request, run_id: UUID) -> HttpResponse:
    """Runs that this one was started by, has started, was forked from or was forked to."""
    seen = look(request, run_id)
    run = seen.run
    shown = {
        "parent": queries.parent_of(run),
        "children": queries.children_of(run.pk),
        "origin": queries.origin_of(run),
        "forks": queries.forks_of(run.pk),
    }
    return draw(request, seen, "others", shown)


@page()
def data(request: Request, run_id: UUID) -> HttpResponse:
    return data_page(request, run_id)


def data_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    """What went in and came out, the files, and how long all of it is kept. error: why a file was not taken."""
    seen = look(request, run_id, whole=True)
    run = seen.run
    given, given_more = viewer.lines_of(_laid_out(run.input))
    made, made_more = viewer.lines_of(_laid_out(run.output)) if run.output else ([], 0)
    shown = {
        "input": given,
        "input_more": given_more,
        "output": made,
        "output_more": made_more,
        "error": pretty.lines(_without_traceback(run.error)) if run.error else None,
        "files": attached.of_run(request.actor, run),
        "attach": _attach(request, run),
        "not_attached": error.detail if error else "",
        "kept": keeping.of_run(request.actor, run),
    }
    return draw(request, seen, "data", shown)


def _attach(request: Request, run: Run) -> dict[str, Any] | None:
    """The form for a file: for who may give one, to a run that takes one; not among parts that are drawn together."""
    together = request.htmx and request.htmx.target == "part"
    if together or run.is_terminal or not policies.can_attach(request.actor, run):
        return None
    return {"limit": settings.HITL_ATTACHMENT_BYTES, "form_token": once.token(request)}


@page()
def document(request: Request, run_id: UUID, which: str) -> HttpResponse:
    """The exact input or output of a run, as a file."""
    run = look(request, run_id, whole=True).run
    text = run.input if which == "input" else run.output
    return file_of(canonical.loads(text or "null"), f"{words.short_id(run_id, 'R-')}-{which}.json")


@page()
def log(request: Request, run_id: UUID) -> HttpResponse:
    seen = look(request, run_id)
    found = tracing.lines(seen.run.pk, limit=LINES)
    sights.lines(found, seen.sight)
    shown = {"log": [run_page.log_row(line) for line in found], "full": len(found) == LINES}
    return draw(request, seen, "log", shown)


@page()
def events(request: Request, run_id: UUID) -> HttpResponse:
    """The history, newest first: all of it, or what is looked for. For a page that has heard of a change, only what it does not
    have yet."""
    seen = look(request, run_id)
    sight = seen.sight
    which = EventFilter(
        request.GET.get("kind", ""),
        request.GET.get("node", ""),
        request.GET.get("find", "").strip(),
        plain=sight.narrow,
    )
    told = tracing.told(seen.run.pk)
    shown = {
        "which": which,
        "kinds": history.kinds(told, which.kind),
        "nodes": history.nodes(told, which.node),
        "first_error": history.around(told.first_error, seen.run) if told.first_error else "",
        **_events(request, seen.run, which, sight),
    }
    return draw(request, seen, "history", shown)


def _events(request: Request, run: Run, which: EventFilter, sight: Sight) -> dict[str, Any]:
    before, seen, oldest = (asked_number(request, name) for name in ("before", "seen", "from"))
    if before is None and seen and oldest and not which:
        added = tracing.events_after(run.pk, seen, limit=EVENTS)
        if not added.more:  # a page that missed more than it would show begins anew
            return _event_rows(added.rows, run, which, sight, newest=seen, oldest=oldest, adds=True)
    found = tracing.events(run.pk, which, before=before, limit=EVENTS)
    last = found.rows[-1].seq if found.rows else 1
    return _event_rows(found.rows, run, which, sight, oldest=last, more=found.more)


def _event_rows(
    rows: Sequence[Event],
    run: Run,
    which: EventFilter,
    sight: Sight,
    *,
    oldest: int,
    newest: int = 0,
    adds: bool = False,
    more: bool | None = None,
) -> dict[str, Any]:
    sights.events(rows, sight)
    newest = rows[0].seq if rows else newest
    more = oldest > 1 if more is None else more
    url = reverse("run-history", args=[run.pk])
    return {
        "events": [history.event_row(event, narrow=sight.narrow) for event in rows],
        "adds": adds,
        "newest_event": newest,
        "oldest_event": oldest,
        "shown_events": len(rows) if which else newest - oldest + 1 if rows or adds else 0,
        "older": history.address(url, which, before=oldest) if more else "",
        "newest": history.address(url, which) if newest < run.seq and not which else "",
    }


@page()
def event(request: Request, run_id: UUID, seq: int) -> HttpResponse:
    """What one event tells, exactly, as a file."""
    seen = look(request, run_id)
    found = tracing.event(seen.run.pk, seq)
    sights.events([found], seen.sight)
    payload = canonical.loads(found.payload) if found.payload else None
    return file_of(payload, f"{words.short_id(run_id, 'R-')}-event-{seq}.json")


# ---- inside


def _without_traceback(error: Mapping[str, Any]) -> dict[str, Any]:
    """Where in its code it was stands where the run does."""
    return {key: value for key, value in error.items() if key != "traceback"}


def _laid_out(text: str) -> str:
    return canonical.dumps(canonical.loads(text), indent=2)
