"""How long a run is kept: what its page says of it, the legal hold, and erasing what it says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from runs import operations, policies, queries, store
from runs.errors import HitlError
from runs.models import LegalHold, Run
from runs.policies import Actor
from runs.templatetags import words
from runs.web import once
from runs.web.banner import of_error
from runs.web.door import Request, page, see_other


@dataclass(frozen=True, slots=True)
class KeptRow:
    """What the page of a run says of its future and of what has gone already. until: None if nothing will take it."""

    hold: LegalHold | None
    until: datetime | None
    by: str
    reason: str
    may_keep: bool
    may_erase: bool


def of_run(actor: Actor, run: Run) -> KeptRow:
    """One query for a run that has ended, none for a live one."""
    hold, erasure = queries.hold_of(run), run.erasure or {}
    may_keep = policies.can_keep(actor, run)
    return KeptRow(
        hold,
        None if hold else queries.kept_until(run),
        str(erasure.get("by", {}).get("name", "")),
        str(erasure.get("reason", "")),
        may_keep,
        may_keep and run.is_terminal and hold is None and run.erased_at is None,
    )


# ---- hold


def hold_again(request: Request, error: HitlError, run_id: UUID) -> HttpResponse:
    return _hold_page(request, run_id, error=error)


@page(methods="GET POST", refused=hold_again)
def hold(request: Request, run_id: UUID) -> HttpResponse:
    """GET: the form. POST: put the run under a hold, or lift it."""
    if request.method != "POST":
        return _hold_page(request, run_id)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    reason = request.POST.get("reason", "")
    if request.POST.get("lift"):
        operations.release(actor=request.actor, run_id=run_id, reason=reason)
        messages.success(request, f"{words.short_id(run_id, 'R-')} is under no legal hold any more.")
    else:
        operations.hold(actor=request.actor, run_id=run_id, reason=reason)
        messages.success(request, f"{words.short_id(run_id, 'R-')} is under a legal hold.")
    return see_other(once.remember(request, reverse("run", args=[run_id])))


def _hold_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = _run(request, run_id)
    shown = {"run": run, "hold": queries.hold_of(run), "reason": request.POST.get("reason", "")}
    return _sheet(request, "runs/hold.html", shown, error)


# ---- erase


def erase_again(request: Request, error: HitlError, run_id: UUID) -> HttpResponse:
    return _erase_page(request, run_id, error=error)


@page(methods="GET POST", refused=erase_again)
def erase(request: Request, run_id: UUID) -> HttpResponse:
    """GET: what it means. POST: do it."""
    if request.method != "POST":
        return _erase_page(request, run_id)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    text = request.POST.get("version", "")
    operations.erase(
        actor=request.actor,
        run_id=run_id,
        reason=request.POST.get("reason", ""),
        version=int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None,
    )
    messages.success(request, f"What {words.short_id(run_id, 'R-')} said is erased.")
    return see_other(once.remember(request, reverse("run", args=[run_id])))


def _erase_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = _run(request, run_id)
    shown = {
        "run": run,
        "effect_count": len(queries.effects_of(run.pk)),
        "approval_count": len(queries.approvals_of(run.pk)),
        "reason": request.POST.get("reason", ""),
    }
    return _sheet(request, "runs/erase.html", shown, error)


def _run(request: Request, run_id: UUID) -> Run:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_keep(request.actor, run)
    return run


def _sheet(request: Request, template: str, shown: dict[str, Any], error: HitlError | None) -> HttpResponse:
    context = {
        "page": shown,
        "banner": of_error(error) if error else None,
        "form_token": once.token(request),
        "now": store.now(),
    }
    return render(request, template, context)
