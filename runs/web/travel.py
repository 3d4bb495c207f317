"""Pages of time travel: fork, two checkpoints side by side, names of branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from runs import operations, policies, queries, sights, store
from runs.engine import canonical
from runs.engine.position import live_steps
from runs.errors import BadRequest, HitlError
from runs.models import Approval, JournalEntry, Run, Step
from runs.operations import At, Comparison, Side
from runs.templatetags import pretty, words
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
    return see_other(once.remember(request, f"{reverse('run', args=[run_id])}#branches"))


# ---- two checkpoints side by side


@dataclass(frozen=True, slots=True)
class SideColumn:
    """What stands above and below a side: which checkpoint, what led to it, what was decided and used."""

    name: str
    run: Run
    checkpoint: int
    branch: int
    url: str
    next: str
    steps: int
    alone: list[run_page.AgainStep]
    decisions: list[Decided]
    usage: str


@dataclass(frozen=True, slots=True)
class Decided:
    approval: Approval
    sign: signs.Sign
    who: str


@dataclass(frozen=True, slots=True)
class CallDifference:
    node: str
    name: str
    effect: str
    left: str
    right: str


@page()
def compare(request: Request, run_id: UUID) -> HttpResponse:
    """Without script: a form in the address that names both sides."""
    run = queries.run(request.actor.project.pk, run_id)
    left = At(checkpoint=_number(request, "checkpoint"), branch=_number(request, "branch"))
    right = At(_run_named(request), _number(request, "other_checkpoint"), _number(request, "other_branch"))
    if right == At():
        left, right = operations.compared_with(actor=request.actor, run_id=run_id, left=left), left
    found = operations.compare(actor=request.actor, run_id=run_id, left=left, right=right)
    before, after = sights.compared(found.left, found.right, request.actor)
    branches, _ = queries.branches_of(run.pk)
    shown = {
        "run": run,
        "branches": branches if len(branches) > 1 else [],
        "left": _column(found.left, found.only_left, "Left"),
        "right": _column(found.right, found.only_right, "Right"),
        "other": "" if found.right.run.pk == run.pk else str(found.right.run.pk),
        "same_run": found.left.run.pk == found.right.run.pk,
        "changes": pretty.changes(before, after),
        "calls": _call_differences(found),
        "common": found.common,
        "turned": _turned(found),
    }
    return render(request, "runs/compare.html", {"page": shown, "now": store.now()})


def _turned(found: Comparison) -> str:
    """The same two sides the other way round."""
    told = {
        "checkpoint": found.right.checkpoint,
        "other_run": found.left.run.pk,
        "other_checkpoint": found.left.checkpoint,
    }
    return f"{reverse('run-compare', args=[found.right.run.pk])}?{urlencode(told)}"


def _column(side: Side, alone: Sequence[Step], name: str) -> SideColumn:
    spent = side.usage
    usage = f"{spent.model_tokens_in:,} tokens in, {spent.model_tokens_out:,} out" if spent else "nothing"
    costs = [f"{amount.normalize():f} {currency}" for currency, amount in sorted(spent.cost.items())]
    return SideColumn(
        name,
        side.run,
        side.checkpoint,
        side.branch,
        reverse("run-checkpoint", args=[side.run.pk, side.checkpoint]),
        words.listing([step.node for step in live_steps(side.position)]) or "end",
        len(side.steps),
        [_step_row(step) for step in alone],
        [_decided(approval) for approval in side.decisions],
        ", ".join([usage, *costs]),
    )


def _step_row(step: Step) -> run_page.AgainStep:
    name = f"{step.node} #{step.visit}" if step.visit > 1 else step.node
    return run_page.AgainStep(name, f"checkpoint {step.checkpoint}", signs.STEP[step.status])


def _decided(approval: Approval) -> Decided:
    row = run_page.approval_row(approval)
    return Decided(approval, row.sign, row.who)


def _call_differences(found: Comparison) -> list[CallDifference]:
    rows = []
    for pair in found.calls:
        one = pair.left or pair.right
        assert one is not None
        rows.append(CallDifference(one.node, one.name, one.effect, _receipt(pair.left), _receipt(pair.right)))
    return rows


def _receipt(call: JournalEntry | None) -> str:
    return "" if call is None else run_page.receipt(canonical.loads(call.result))


def _number(request: Request, name: str) -> int | None:
    text = request.GET.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _run_named(request: Request) -> UUID | None:
    text = request.GET.get("other_run", "").strip()
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise BadRequest("The other run is named by its whole id.") from None
