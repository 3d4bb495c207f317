"""What people do to a run as a whole: rewind it, edit its state, retry it, pause it, cancel it, say how soon it is
let in. A page with a form each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, sights, store, workflows
from runs.engine import canonical
from runs.engine.limits import PRIORITIES
from runs.engine.position import every_conflict, lane_version
from runs.errors import BadRequest, HitlError, Unprocessable
from runs.models import Run
from runs.templatetags import pretty, words
from runs.web import run_page, sentence
from runs.web.door import Request, number
from runs.web.sheet import draw, sheet
from runs.web.stating import changes_of, chosen_lane, editors, form_of, known_lane, state_errors, state_of

# ---- rewind


def _rewind_page(request: Request, run_id: UUID, no: int, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    calls = request.POST.get("calls") or request.GET.get("calls", "reuse")
    preview = operations.preview_rewind(
        actor=request.actor, run_id=run_id, checkpoint=no, calls="again" if calls == "again" else "reuse"
    )
    sight = sights.of(request.actor, run)
    preview = replace(preview, made=sights.previews(preview.made, sight))
    for asked in preview.approvals:
        asked.title = sight.text(asked.title)
    lines, _ = queries.branches_of(run.pk)
    address = reverse("run-rewind", args=[run.pk, no])
    shown = {
        **form_of(request, run, queries.checkpoint(run, no), address=address, error=error),
        "new_branch": max(line.no for line in lines) + 1,
        "again": run_page.again(preview),
        "said_again": run_page.said_again(preview),
        "effects": run_page.preview_effects(preview),
        "calls_made": run_page.calls_again(preview.made, request.POST),
        "asked": preview.approvals,
        "stopped": preview.stopped,
        "given_back": preview.given_back,
        "consumed": preview.consumed,
        "detach": "detach" in request.POST,
        "calls": preview.calls,
    }
    return draw(request, "runs/rewind.html", shown, error)


@sheet(_rewind_page)
def rewind(request: Request, run_id: UUID, no: int) -> str:
    run = queries.run(request.actor.project.pk, run_id)
    position, lane = queries.checkpoint(run, no).position, chosen_lane(request)
    changes = changes_of(request.POST.get("state"), state_of(request, run, position, lane))
    rewound = operations.rewind(
        actor=request.actor,
        run_id=run_id,
        checkpoint=no,
        reason=request.POST.get("reason", ""),
        changes=changes,
        calls=request.POST.get("calls", "reuse"),
        exceptions=run_page.set_apart(request.POST, request.POST.get("calls", "reuse")),
        version=_version(request),
        lane=lane or None,
        detach="detach" in request.POST,
    )
    edited = gettext(", with an edited state") if changes else ""
    return gettext("Rewound to checkpoint {no}{edited}; the run goes on, on branch {branch}.").format(
        no=no, edited=edited, branch=rewound.branch
    )


# ---- edit state


def _edit_state_page(
    request: Request,
    run_id: UUID,
    *,
    error: HitlError | None = None,
    changes: Mapping[str, Any] | None = None,
) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_steer(request.actor, run)
    head = queries.head(run)
    lane = known_lane(head, chosen_lane(request))
    state = state_of(request, run, head, lane)
    typed = request.POST.get("state")
    shown = {
        "run": run,
        "lanes": run_page.lane_rows(head, url=reverse("run-edit-state", args=[run.pk]), chosen=lane),
        "lane": lane,
        "lane_version": lane_version(head, lane) if lane else None,
        "conflicts": run_page.conflict_rows(
            [sights.conflict(found, sights.of(request.actor, run)) for found in every_conflict(head)]
        ),
        "state": canonical.dumps(state, indent=2) if typed is None else typed,
        "editors": editors(request, workflows.find(run.workflow, run.workflow_version), head, lane),
        "typed": typed is not None,
        "state_errors": state_errors(error),
        "changes": pretty.changes(state, {**state, **changes}) if changes else [],
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "runs/edit_state.html", shown, error)


@sheet(_edit_state_page)
def edit_state(request: Request, run_id: UUID) -> str | HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    lane = chosen_lane(request)
    changes = changes_of(request.POST.get("state"), state_of(request, run, queries.head(run), lane))
    if "show" in request.POST:
        return _edit_state_page(request, run_id, changes=changes)
    if not changes:
        raise Unprocessable("Nothing differs from the state as it is.")
    edited = operations.edit_state(
        actor=request.actor,
        run_id=run_id,
        version=None if lane else _version(request),
        changes=changes,
        reason=request.POST.get("reason", ""),
        lane=lane or None,
        lane_version=number(request.POST.get("lane_version")),
    )
    return gettext("Checkpoint {head} holds the edited state: {listing}.").format(
        head=edited.head, listing=words.listing(sorted(changes))
    )


# ---- retry


def _retry_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    preview, sight = (
        operations.preview_retry(actor=request.actor, run_id=run_id),
        sights.of(request.actor, run),
    )
    failed = [replace(step, error=sight.error(step.error)) for step in preview.failed]
    shown = {
        "run": run,
        "failed": run_page.failed_steps(failed),
        "not_run": preview.not_run,
        "kept": preview.kept,
        "conflicts": run_page.conflict_rows([sights.conflict(found, sight) for found in preview.conflicts]),
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "runs/retry.html", shown, error)


@sheet(_retry_page)
def retry(request: Request, run_id: UUID) -> str:
    operations.retry(
        actor=request.actor,
        run_id=run_id,
        reason=request.POST.get("reason", ""),
        version=_version(request),
    )
    return gettext("{id} goes on with what failed or had not run.").format(id=words.short_id(run_id, "R-"))


# ---- cancel


def _cancel_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    preview = operations.preview_cancel(actor=request.actor, run_id=run_id)
    sight = sights.of(request.actor, run)
    live = queries.live([run.pk])[run.pk]
    shown = {
        "run": run,
        "sentence": _sentence(run, live),
        "open_count": len(live.approvals),
        "back": run_page.calls_in_order(sights.previews(preview.back, sight)),
        "stays": run_page.calls_again(sights.previews(preview.stays, sight), {}),
        "children": preview.children,
        "compensate": request.method != "POST" or "compensate" in request.POST,
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "runs/cancel.html", shown, error)


@sheet(_cancel_page)
def cancel(request: Request, run_id: UUID) -> str:
    run = queries.run(request.actor.project.pk, run_id)
    cancelled = operations.cancel(
        actor=request.actor,
        run_id=run_id,
        reason=request.POST.get("reason", ""),
        compensate="compensate" in request.POST,
    )
    name = words.short_id(run.pk, "R-")
    if cancelled.status == "cancelling" and cancelled.ending:
        return gettext("{name} takes back {calls}, and is cancelled then.").format(
            name=name, calls=words.some(cancelled.ending["calls"], "{count} call", "{count} calls")
        )
    return gettext("Cancelled {name}.").format(name=name)


# ---- pause and resume


def _pause_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_pause(request.actor, run)
    live = queries.live([run.pk])[run.pk]
    shown = {
        "run": run,
        "sentence": _sentence(run, live),
        "open_count": len(live.approvals),
        "ready_count": sum(step.status == "ready" for step in live.steps),
        "executing": [step for step in live.steps if step.status == "executing"],
        "children": queries.children_of(run.pk),
        "with_children": "children" in request.POST,
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "runs/pause.html", shown, error)


@sheet(_pause_page)
def pause(request: Request, run_id: UUID) -> str:
    operations.pause(
        actor=request.actor,
        run_id=run_id,
        reason=request.POST.get("reason", ""),
        children="children" in request.POST,
    )
    return gettext("Paused {id}.").format(id=words.short_id(run_id, "R-"))


@sheet(_pause_page)
def resume(request: Request, run_id: UUID) -> str:
    operations.resume(actor=request.actor, run_id=run_id, reason=request.POST.get("reason", ""))
    return gettext("{id} goes on.").format(id=words.short_id(run_id, "R-"))


# ---- priority


def _priority_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_prioritise(request.actor, run)
    standing = queries.standing_of(run)
    shown = {
        "run": run,
        "sentence": sentence.of_run(run, now=store.now(), standing=standing),
        "priority": request.POST.get("priority", str(run.priority)),
        "lowest": PRIORITIES[0],
        "highest": PRIORITIES[-1],
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "runs/priority.html", shown, error)


@sheet(_priority_page)
def prioritise(request: Request, run_id: UUID) -> str:
    queries.run(request.actor.project.pk, run_id)
    run = operations.prioritise(
        actor=request.actor,
        run_id=run_id,
        priority=_priority(request),
        reason=request.POST.get("reason", ""),
    )
    return gettext("{id} has priority {priority} now.").format(
        id=words.short_id(run_id, "R-"), priority=run.priority
    )


def _priority(request: Request) -> int:
    text = request.POST.get("priority", "").strip()
    negative = text.startswith("-")
    found = number(text.removeprefix("-"))
    if found is None:
        raise BadRequest("A priority is a whole number, as 10 or -5.")
    return -found if negative else found


# ---- inside


def _version(request: Request) -> int | None:
    return number(request.POST.get("version"))


def _sentence(run: Run, live: queries.Live) -> sentence.Sentence:
    return sentence.of_run(run, now=store.now(), steps=live.steps, waits=live.waits, approvals=live.approvals)
