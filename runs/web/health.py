"""How the house does: which parts answer, who works, what is stuck and why, whether what must hold does, and putting it right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from runs import invariants, operations, policies, queries, store, watching
from runs.errors import HitlError
from runs.invariants import Look, Violation
from runs.models import Run
from runs.templatetags import words
from runs.tongue import Words
from runs.watching import Stuck
from runs.web.door import Request, page
from runs.web.sheet import Done, draw, forms

BUTTONS: Final = Words(
    {
        "rewind": "Rewind to its head",
        "close": "Close what is left",
        "move": "Put it there",
        "tell": "Tell them",
        "migrate": "Migrate",
    }
)


@dataclass(frozen=True, slots=True)
class Way:
    """The action that puts something right, for whoever may: a page that says what it comes to and asks why."""

    words: str
    url: str


@page()
def health(request: Request) -> HttpResponse:
    policies.check_watch(request.actor)
    project = request.actor.project.pk
    shown = {
        "parts": watching.parts(),
        "queues": watching.queues(),
        "workers": watching.workers(project),
        "stuck": [(row, _way_on(request, row)) for row in watching.stuck(project)],
        "rules": invariants.RULES,
        "looked_at": invariants.LOOKED_AT,
        "violations": [(row, _repair_of(request, row)) for row in invariants.violations(Look(project))],
        "inbox": invariants.inbox_of(request.actor),
        "sent": watching.deliveries(project),
    }
    return render(request, "health/health.html", {"page": shown, "now": store.now()})


def _way_on(request: Request, stuck: Stuck) -> Way | None:
    if stuck.way == "migrate" and policies.can_migrate(request.actor, stuck.run):
        return Way(BUTTONS["migrate"], reverse("run-migrate", args=[stuck.run.pk]))
    if stuck.way == "rewind" and policies.can_steer(request.actor, stuck.run):
        return _rewind(stuck.run)
    return None


def _repair_of(request: Request, violation: Violation) -> Way | None:
    rule, run = violation.rule, violation.run
    if not rule.by or not policies.can_repair(request.actor, run):
        return None
    if rule.by == "rewind":
        return _rewind(run)
    return Way(BUTTONS[rule.by], reverse("health-repair", args=[rule.key, violation.target]))


def _rewind(run: Run) -> Way:
    return Way(BUTTONS["rewind"], reverse("run-rewind", args=[run.pk, run.head]))


# ---- putting right


def _repair_page(
    request: Request, rule: str, target: UUID, *, error: HitlError | None = None
) -> HttpResponse:
    known = operations.repairable(rule)
    run = queries.run(request.actor.project.pk, operations.run_of(known, target))
    policies.check_repair(request.actor, run)
    shown = {
        "rule": known,
        "run": run,
        "target": target,
        "found": invariants.broken(known, run.pk, target),
        "left": _left_over(run) if known.by == "close" else "",
        "button": BUTTONS[known.by],
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "health/repair.html", shown, error)


def _left_over(run: Run) -> str:
    steps, waits, approvals = operations.left_over(run)
    told = [
        words.some(steps, "{count} step", "{count} steps"),
        words.some(waits, "{count} wait", "{count} waits"),
        words.some(approvals, "{count} open approval", "{count} open approvals"),
    ]
    return words.listing(told)


@forms(_repair_page)
def repair(request: Request, rule: str, target: UUID) -> Done:
    run = operations.repair(
        actor=request.actor, rule=rule, target=target, reason=request.POST.get("reason", "")
    )
    return Done(
        gettext("Put right, in {id}; its log says what was done.").format(id=words.short_id(run.pk, "R-")),
        reverse("health"),
    )
