"""One run with its timeline and checkpoints. What people do to it is in `steering` and `keeping`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from runs import operations, policies, queries, sights, store, workflows
from runs.engine import Workflow, canonical
from runs.engine.lineage import Line
from runs.engine.position import all_steps, every_conflict
from runs.engine.redaction import Sight
from runs.errors import HitlError
from runs.models import Event, Run, Step, Wait
from runs.templatetags import pretty
from runs.web import branches, keeping, once, picture, run_page, sentence, timeline, versions, ways
from runs.web.banner import of_error
from runs.web.door import Request, number, page, see_other
from runs.web.fragments import drawn
from runs.web.runs import hide

STEPS: Final = 400
CHECKPOINTS: Final = 200
EVENTS: Final = 100
LINES: Final = 100


@page()
def show(request: Request, run_id: UUID) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    return drawn(request, _context(request, run, checkpoint=run.head), "runs/run.html", "runs/_run.html")


@page()
def checkpoint(request: Request, run_id: UUID, no: int) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    chosen = {"chosen": request.get_full_path()}
    if request.htmx and request.htmx.target == "_checkpoints" and not request.htmx.history_restore_request:
        shown = {"run": run, **_checkpoints(request, run, queries.checkpoint(run, no)), **chosen}
        return render(request, "runs/_checkpoints.html", {"page": shown, "now": store.now()})
    context = _context(request, run, checkpoint=no)
    context["page"] |= chosen
    return drawn(request, context, "runs/run.html", "runs/_run.html")


def _context(request: Request, run: Run, *, checkpoint: int) -> dict[str, Any]:
    now = store.now()
    stir = queries.stir_of(run.pk) if run.status == "running" else ""  # before what it stands for is read
    live = queries.live([run.pk])[run.pk]
    sight = sights.of(request.actor, run)
    hide(run, live, sight)
    steps = queries.steps_of(run.pk, limit=STEPS)
    journal = queries.calls_in(run.pk, steps)
    sights.steps(steps, sight)
    sights.calls(journal, sight)
    lines, heads = queries.branches_of(run.pk)
    line = store.lineage(run.pk, run.branch)
    approvals = [sights.approval(asked, sight) for asked in queries.approvals_of(run.pk)]
    log = queries.lines_of(run.pk, limit=LINES)
    sights.lines(log, sight)
    workflow = workflows.find(run.workflow, run.workflow_version)
    drawn = timeline.build(
        steps,
        queries.waits_of(run.pk),
        journal,
        now=now,
        line=line,
        running=not run.is_terminal,
        order=ways.order_of(workflow),
        spent=queries.spent_in(run.pk),
    )
    # An erased run has no checkpoint to show; one that was asked for by its number says so itself.
    erased = run.erased_at is not None and checkpoint == run.head
    moment = None if erased else queries.checkpoint(run, checkpoint)
    at_head = moment is not None and checkpoint == run.head
    head = moment.position if moment and at_head else queries.head_or_fault(run)[0]
    said = sentence.of_run(
        run,
        now=now,
        steps=live.steps,
        waits=live.waits,
        approvals=live.approvals,
        standing=queries.standing_of(run),
    )
    skipped = _skipped(workflow, steps, head, line) if not drawn.left_out else []
    shown = {
        "run": run,
        "sentence": said,
        "actions": _actions(request, run),
        "lost": versions.lost(run, live.waits, may_migrate=policies.can_migrate(request.actor, run)),
        "refresh": not run.is_terminal,
        "payload": request.POST.get("payload", ""),
        "signals": _signals(request, run, live.waits),
        "parent": queries.parent_of(run),
        "children": queries.children_of(run.pk),
        "origin": queries.origin_of(run),
        "forks": queries.forks_of(run.pk),
        "may_label": policies.can_steer(request.actor, run),
        "form_token": once.token(request),
        "mark": run_page.mark(run, stir),
        "time_left": run_page.time_left(run, now),
        "mismatch": run_page.mismatch(run.error),
        "log": [run_page.log_row(line) for line in log],
        "picture": _picture(run, workflow, live, line, skipped, now),
        "timeline": drawn,
        "skipped": skipped,
        "conflicts": run_page.conflict_rows(
            [sights.conflict(found, sight) for found in every_conflict(head)] if head else []
        ),
        "legend": [(kind, timeline.WORDS[kind]) for kind in drawn.kinds],
        "branches": branches.build(
            lines, heads, current=run.branch, compare=reverse("run-compare", args=[run.pk])
        ),
        "effects": _effects(run, sight),
        "approvals": [run_page.approval_row(approval) for approval in approvals],
        "kept": keeping.of_run(request.actor, run),
        "input": pretty.text_lines(_laid_out(run.input)),
        "output": pretty.text_lines(_laid_out(run.output)) if run.output else None,
        "error": pretty.lines(run.error) if run.error else None,
        "news": request.get_full_path(),
        "narrow": sight.narrow,
        **_history(request, run, sight),
        **_checkpoints(request, run, moment, line=line),
    }
    return {"page": shown, "now": now}


def _picture(
    run: Run,
    workflow: Workflow | None,
    live: queries.Live,
    line: Line,
    skipped: Sequence[str],
    now: datetime,
) -> picture.Picture | None:
    """None where this process does not know the run's version of the workflow."""
    if workflow is None:
        return None
    done = picture.tallies(
        queries.visits_by_node(run.pk, line),
        steps=live.steps,
        waits=live.waits,
        approvals=live.approvals,
        skipped=skipped,
        now=now,
    )
    return picture.build(workflow, done, ended=run.status == "completed")


def _effects(run: Run, sight: Sight) -> list[run_page.EffectRow]:
    """The ledger: what was done, what of it was taken back, and what came too late to be."""
    entries = queries.effects_of(run.pk)
    sights.calls(entries, sight)
    undone = queries.undone_in(run.pk, entries)
    late = store.made_too_late([run.pk]) if run.status in ("cancelling", "cancelled") else []
    return [
        *(run_page.effect_row(entry, undone) for entry in entries),
        *(run_page.late_effect(note) for note in late),
    ]


def _skipped(
    workflow: Workflow | None, steps: Sequence[Step], head: dict[str, Any] | None, line: Line
) -> list[str]:
    if head is None or not steps:
        return []
    visited = [step.node for step in steps if step.branch in line and step.status != "void"]
    return ways.skipped(workflow, visited=visited, standing=[step.node for step in all_steps(head)])


def _history(request: Request, run: Run, sight: Sight) -> dict[str, Any]:
    """The newest rows, or those before one; for a page that has heard of a change, only what it does not have yet."""
    before, seen, oldest = (_number(request, name) for name in ("events", "seen", "from"))
    if before is None and seen and oldest:
        added = queries.events(run.pk, after=seen, limit=EVENTS)
        if not added.more:  # a page that missed more than it would show begins anew
            sights.events(added.rows, sight)
            return _history_rows(added.rows[::-1], newest=seen, oldest=oldest, adds=True)
    rows = queries.newest_events(run.pk, before=before, limit=EVENTS).rows
    sights.events(rows, sight)
    return _history_rows(rows, oldest=rows[-1].seq if rows else 1)


def _history_rows(
    rows: Sequence[Event], *, oldest: int, newest: int = 0, adds: bool = False
) -> dict[str, Any]:
    newest = rows[0].seq if rows else newest
    return {
        "events": [run_page.event_row(event) for event in rows],
        "adds": adds,
        "newest_event": newest,
        "oldest_event": oldest,
        "shown_events": newest - oldest + 1,
        "older_events": f"?events={oldest}#history" if oldest > 1 else "",
    }


def _checkpoints(
    request: Request, run: Run, moment: queries.Moment | None, *, line: Line | None = None
) -> dict[str, Any]:
    may_steer = policies.can_steer(request.actor, run) and run.erased_at is None
    may_fork = policies.can_fork(request.actor, run) and run.erased_at is None
    found = queries.newest_checkpoints(run.pk, before=_number(request, "checkpoints"), limit=CHECKPOINTS)
    line = store.lineage(run.pk, run.branch) if line is None else line
    older = f"?checkpoints={found.rows[-1].no}" if found.more else ""
    return {
        "checkpoints": [
            run_page.checkpoint_row(point, run=run, line=line, may_steer=may_steer) for point in found.rows
        ],
        "older_checkpoints": older,
        "selected": moment
        and run_page.selected(
            moment,
            run=run,
            line=line,
            show=request.GET.get("show", ""),
            may_steer=may_steer,
            may_fork=may_fork,
            sight=sights.of(request.actor, run),
        ),
    }


def _actions(request: Request, run: Run) -> list[run_page.ActionLink]:
    steers, cancels = policies.can_steer(request.actor, run), policies.can_cancel(request.actor, run)
    no_right = "Its content was erased" if run.erased_at else "Your roles do not allow it"
    steers = steers and run.erased_at is None
    edits = run.status in ("waiting", "queued", "paused", "failed")
    retry = run_page.ActionLink(
        "Retry",
        "s-retry",
        reverse("run-retry", args=[run.pk]),
        "" if policies.can_retry(request.actor, run) and run.erased_at is None else no_right,
    )
    migrate = run_page.ActionLink(
        "Migrate",
        "s-migration",
        reverse("run-migrate", args=[run.pk]),
        "" if policies.can_migrate(request.actor, run) else no_right,
    )
    moves = versions.can_move(run) and run.status not in ("completed", "cancelled", "cancelling")
    return [
        *([retry] if run.status == "failed" else []),
        *([migrate] if moves else []),
        *_holding(request, run),
        run_page.ActionLink(
            "Rewind",
            "rewind",
            f"{reverse('run', args=[run.pk])}#_checkpoints",
            "" if steers else no_right,
        ),
        run_page.ActionLink(
            "Fork",
            "fork",
            f"{reverse('run', args=[run.pk])}#_checkpoints",
            "" if policies.can_fork(request.actor, run) else no_right,
        ),
        run_page.ActionLink(
            "Edit state",
            "pencil",
            reverse("run-edit-state", args=[run.pk]),
            no_right if not steers else "" if edits else f"The run is {run.status}",
        ),
        *([_priority(request, run)] if run.is_in_line else []),
        run_page.ActionLink(
            "Cancel run",
            "stop",
            reverse("run-cancel", args=[run.pk]),
            no_right if not cancels else f"The run is {run.status}" if run.is_terminal else "",
            danger=True,
        ),
    ]


def _priority(request: Request, run: Run) -> run_page.ActionLink:
    may = policies.can_prioritise(request.actor, run)
    address = reverse("run-priority", args=[run.pk])
    return run_page.ActionLink("Priority", "swap", address, "" if may else "Your roles do not allow it")


def _holding(request: Request, run: Run) -> list[run_page.ActionLink]:
    """Pause or Resume, for as long as the run goes on."""
    if run.is_terminal or run.status == "cancelling":
        return []
    refusal = "" if policies.can_pause(request.actor, run) else "Your roles do not allow it"
    verb, word, icon = ("resume", "Resume", "right") if run.paused else ("pause", "Pause", "s-paused")
    return [run_page.ActionLink(word, icon, reverse(f"run-{verb}", args=[run.pk]), refusal)]


def _laid_out(text: str) -> str:
    return canonical.dumps(canonical.loads(text), indent=2)


def _number(request: Request, name: str) -> int | None:
    return number(request.GET.get(name))


# ---- signals


def show_again(request: Request, error: HitlError, run_id: UUID) -> HttpResponse:
    run = queries.run(request.actor.project.pk, run_id)
    context = _context(request, run, checkpoint=run.head)
    return render(request, "runs/run.html", {**context, "banner": of_error(error)})


@page(methods="POST", refused=show_again)
def signal(request: Request, run_id: UUID) -> HttpResponse:
    """Send what a run waits for. The payload is JSON; nothing typed is null."""
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    queries.run(request.actor.project.pk, run_id)
    text = request.POST.get("payload", "").strip()
    name = request.POST.get("name", "")
    operations.signal(
        actor=request.actor, run_id=run_id, name=name, payload=canonical.parse(text) if text else None
    )
    messages.success(request, f"Sent {name}.")
    return see_other(once.remember(request, reverse("run", args=[run_id])))


def _signals(request: Request, run: Run, waits: Sequence[Wait]) -> list[str]:
    """Names of the signals that the run waits for, for those who may send one."""
    names = list(dict.fromkeys(wait.name for wait in waits if wait.kind == "signal"))
    return names if names and policies.can_signal(request.actor, run) else []
