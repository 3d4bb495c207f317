"""Pages of time travel: fork, two checkpoints side by side, names of branches."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, queries, sights
from runs.errors import HitlError
from runs.templatetags import words
from runs.web import once, run_page
from runs.web.door import Request, see_other
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
        gettext("{id} goes on from checkpoint {no} of {origin}.").format(
            id=words.short_id(forked.pk, "R-"), no=no, origin=words.short_id(run_id, "R-")
        ),
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
    named = (
        gettext("Branch {no} is called {label}.").format(no=no, label=branch.label)
        if branch.label
        else gettext("Branch {no} has no name.").format(no=no)
    )
    messages.success(request, named)
    return see_other(once.remember(request, reverse("run-branches", args=[run_id])))
