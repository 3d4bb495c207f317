"""Pages of time travel: fork, two checkpoints side by side, names of branches, one verb for many runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from runs import operations, policies, queries, sights, store
from runs.errors import BadRequest, HitlError
from runs.operations import Bulk, Item, Order
from runs.queries import RunFilter
from runs.templatetags import words
from runs.web import once, run_page, signs
from runs.web.door import Request, page, see_other
from runs.web.sheet import draw, sheet
from runs.web.stating import (
    changes_of,
    chosen_lane,
    form_of,
    state_of,
)

# ---- fork


def _fork_page(request: Request, run_id: UUID, no: int, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    preview = operations.preview_fork(actor=request.actor, run_id=run_id, checkpoint=no)
    address, sight = reverse("run-fork", args=[run.pk, no]), sights.of(request.actor, run)
    shown = {
        **form_of(request, run, queries.checkpoint(run, no), address=address, error=error),
        "preview": preview,
        "kept": run_page.calls_again(sights.previews(preview.kept, sight), {}),
        "effects": [
            call
            for call in run_page.calls_again(sights.previews(preview.not_kept, sight), {})
            if call.effect != "none"
        ],
    }
    return draw(request, "runs/fork.html", shown, error)


@sheet(_fork_page)
def fork(request: Request, run_id: UUID, no: int) -> HttpResponse:
    """It leads to the fork, not back to the run."""
    run = queries.run(request.actor.project.pk, run_id)
    lane = chosen_lane(request)
    seen_state = state_of(request, run, queries.checkpoint(run, no).position, lane)
    forked = operations.fork(
        actor=request.actor,
        run_id=run_id,
        checkpoint=no,
        reason=request.POST.get("reason", ""),
        changes=changes_of(request.POST.get("state"), seen_state),
        lane=lane or None,
    ).run
    messages.success(
        request,
        f"{words.short_id(forked.pk, 'R-')} goes on from checkpoint {no} of {words.short_id(run_id, 'R-')}.",
    )
    return see_other(once.remember(request, reverse("run", args=[forked.pk])))


# ---- names of branches


def _label_page(request: Request, run_id: UUID, no: int, *, error: HitlError | None = None) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_steer(request.actor, run)
    branches, _ = queries.branches_of(run.pk)
    found = next((branch for branch in branches if branch.no == no), None)
    shown = {
        "run": run,
        "no": no,
        "branch": found,
        "label": request.POST.get("label", found.label if found else ""),
    }
    return draw(request, "runs/label.html", shown, error)


@sheet(_label_page)
def label(request: Request, run_id: UUID, no: int) -> HttpResponse:
    branch = operations.label_branch(
        actor=request.actor, run_id=run_id, branch=no, label=request.POST.get("label", "")
    )
    named = f"Branch {no} is called {branch.label}." if branch.label else f"Branch {no} has no name."
    messages.success(request, named)
    return see_other(once.remember(request, reverse("run-branches", args=[run_id])))


# ---- one verb for many runs


@dataclass(frozen=True, slots=True)
class BulkRow:
    item: Item
    sign: signs.Sign


def bulk_again(request: Request, error: HitlError) -> HttpResponse:
    return _bulk_page(request, request.POST, error=error)


@page(methods="GET POST", refused=bulk_again)
def bulk(request: Request) -> HttpResponse:
    """GET: how many, which, and which would be refused. POST: do it to those that were shown, and say what came of each."""
    if request.method != "POST":
        return _bulk_page(request, request.GET)
    order, ids = _order(request.POST), _ids(request)
    if not ids:
        raise BadRequest("No run is chosen.")
    result = operations.bulk(
        actor=request.actor, order=order, which=RunFilter(ids=ids), dry=False, expect=ids
    )
    shown = {"verb": order.verb, "word": signs.BULK[order.verb], **_rows(result)}
    return render(request, "runs/bulk_done.html", {"page": shown, "now": store.now()})


def _bulk_page(request: Request, told: Mapping[str, str], *, error: HitlError | None = None) -> HttpResponse:
    order = _order(told)
    which = RunFilter(status=told.get("status", ""), workflow=told.get("workflow", ""))
    asks = order.verb != "rewind" or bool(order.node) or order.checkpoint is not None
    result = Bulk([], None, dry=True)
    if asks:
        looked = Order(order.verb, order.reason or "a look", order.checkpoint, order.node, order.calls)
        after = told.get("after", "")
        result = operations.bulk(
            actor=request.actor,
            order=looked,
            which=which,
            dry=True,
            after=_uuid(after),
        )
    said = {key: told[key] for key in ("status", "workflow", "node", "checkpoint", "calls") if told.get(key)}
    more = {"verb": order.verb, **said, "after": str(result.next)}
    shown = {
        "verb": order.verb,
        "word": signs.BULK[order.verb],
        "status": which.status,
        "workflow": which.workflow,
        "order": order,
        "asks": asks,
        "next": f"{reverse('runs-bulk')}?{urlencode(more)}" if result.next else "",
        "reason": told.get("reason", ""),
        **_rows(result),
    }
    return draw(request, "runs/bulk.html", shown, error)


def _rows(result: Bulk) -> dict[str, Any]:
    return {
        "done": [BulkRow(item, signs.RUN[item.run.status]) for item in result.done],
        "refused": [BulkRow(item, signs.RUN[item.run.status]) for item in result.refused],
    }


def _order(told: Mapping[str, str]) -> Order:
    verb, text = told.get("verb", ""), told.get("checkpoint", "").strip()
    if verb not in signs.BULK:
        raise BadRequest(f"Many runs at once can be told to {words.listing(list(signs.BULK))}.")
    no = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    rewinds = verb == "rewind"
    return Order(
        verb,
        told.get("reason", ""),
        no if rewinds else None,
        told.get("node", "").strip() if rewinds else "",
        "again" if rewinds and told.get("calls") == "again" else "reuse",
    )


def _ids(request: Request) -> list[UUID]:
    return [found for text in request.POST.getlist("run") if (found := _uuid(text))]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
