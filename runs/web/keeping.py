"""How long a run is kept: what its page says of it, the legal hold, and erasing what it says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import HttpResponse
from django.utils.translation import gettext

from runs import operations, policies, queries
from runs.errors import HitlError
from runs.models import LegalHold, Run
from runs.policies import Actor
from runs.templatetags import words
from runs.web.door import Request, number
from runs.web.sheet import draw, sheet


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


def _hold_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = _run(request, run_id)
    shown = {"run": run, "hold": queries.hold_of(run), "reason": request.POST.get("reason", "")}
    return draw(request, "runs/hold.html", shown, error)


@sheet(_hold_page)
def hold(request: Request, run_id: UUID) -> str:
    """Put the run under a hold, or lift it."""
    reason = request.POST.get("reason", "")
    if request.POST.get("lift"):
        operations.release(actor=request.actor, run_id=run_id, reason=reason)
        return gettext("{id} is under no legal hold any more.").format(id=words.short_id(run_id, "R-"))
    operations.hold(actor=request.actor, run_id=run_id, reason=reason)
    return gettext("{id} is under a legal hold.").format(id=words.short_id(run_id, "R-"))


# ---- erase


def _erase_page(request: Request, run_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    run = _run(request, run_id)
    shown = {
        "run": run,
        "effect_count": len(queries.effects_of(run.pk)),
        "approval_count": len(queries.approvals_of(run.pk)),
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "runs/erase.html", shown, error)


@sheet(_erase_page)
def erase(request: Request, run_id: UUID) -> str:
    operations.erase(
        actor=request.actor,
        run_id=run_id,
        reason=request.POST.get("reason", ""),
        version=number(request.POST.get("version")),
    )
    return gettext("What {id} said is erased.").format(id=words.short_id(run_id, "R-"))


def _run(request: Request, run_id: UUID) -> Run:
    run = queries.run(request.actor.project.pk, run_id)
    policies.check_keep(request.actor, run)
    return run
