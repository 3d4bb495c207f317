"""Two checkpoints side by side, of one branch, of two branches or of two runs: what led to each, what was decided, what came of
it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, queries, sights, store
from runs.engine import canonical
from runs.engine.position import live_steps
from runs.errors import BadRequest
from runs.models import Approval, JournalEntry, Run, Step
from runs.operations import At, Comparison, Side
from runs.queries import Live
from runs.templatetags import pretty, words
from runs.web import run_page, sentence, signs, timeline
from runs.web.door import Request, asked_number, identity, page

MOST: Final = 200  # rows of a table


@dataclass(frozen=True, slots=True)
class SideColumn:
    """What stands above and below a side: which checkpoint, what led to it, what was used and what came of it.

    more: steps on this side alone that are not listed.
    """

    name: str
    run: Run
    checkpoint: int
    branch: int
    url: str
    next: str
    steps: int
    worked: str
    alone: list[run_page.AgainStep]
    more: int
    decisions: int
    usage: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Outcome:
    sign: signs.Sign
    words: str


@dataclass(frozen=True, slots=True)
class Decided:
    approval: Approval
    row: run_page.ApprovalRow


@dataclass(frozen=True, slots=True)
class DecisionPair:
    """What was decided at one node, the first time on both sides, the second time, and so on; None where it was not asked."""

    node: str
    left: Decided | None
    right: Decided | None
    differs: bool


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
    left = At(checkpoint=asked_number(request, "checkpoint"), branch=asked_number(request, "branch"))
    right = At(
        _run_named(request), asked_number(request, "other_checkpoint"), asked_number(request, "other_branch")
    )
    if right == At():
        left, right = operations.compared_with(actor=request.actor, run_id=run_id, left=left), left
    found = operations.compare(actor=request.actor, run_id=run_id, left=left, right=right)
    run = found.run
    before, after = sights.compared(found.left, found.right, request.actor)
    branches = queries.branches_by_number(run.pk)
    going = {side.run.pk for side in (found.left, found.right) if not side.run.is_terminal}
    now, live = store.now(), queries.live(going)
    shown = {
        "run": run,
        "branches": branches if len(branches) > 1 else [],
        "left": _column(
            found.left, found.only_left, gettext("Left"), _outcome(request, found.left, live, now)
        ),
        "right": _column(
            found.right, found.only_right, gettext("Right"), _outcome(request, found.right, live, now)
        ),
        "other": "" if found.right.run.pk == run.pk else str(found.right.run.pk),
        "same_run": found.left.run.pk == found.right.run.pk,
        "changes": pretty.changes(before, after)[:MOST],
        "decisions": _decision_pairs(found.left.decisions, found.right.decisions),
        "calls": _call_differences(found)[:MOST],
        "calls_left_out": max(len(found.calls) - MOST, 0),
        "common": found.common,
        "turned": _turned(found),
    }
    return render(request, "runs/compare.html", {"page": shown, "now": now})


def _turned(found: Comparison) -> str:
    """The same two sides the other way round."""
    told = {
        "checkpoint": found.right.checkpoint,
        "other_run": found.left.run.pk,
        "other_checkpoint": found.left.checkpoint,
    }
    return f"{reverse('run-compare', args=[found.right.run.pk])}?{urlencode(told)}"


def _column(side: Side, alone: Sequence[Step], name: str, outcome: Outcome) -> SideColumn:
    return SideColumn(
        name=name,
        run=side.run,
        checkpoint=side.checkpoint,
        branch=side.branch,
        url=reverse("run-checkpoint", args=[side.run.pk, side.checkpoint]),
        next=words.listing([step.node for step in live_steps(side.position)]) or gettext("end"),
        steps=len(side.steps),
        worked=words.span(sum(map(_length, side.steps.values())), parts=2),
        alone=[_step_row(step) for step in alone[:MOST]],
        more=max(len(alone) - MOST, 0),
        decisions=len(side.decisions),
        usage=timeline.spent_text(side.usage) or gettext("nothing"),
        outcome=outcome,
    )


def _length(step: Step) -> float:
    """Seconds from its start to its end, waiting included."""
    if step.started_at is None or step.ended_at is None:
        return 0.0
    return (step.ended_at - step.started_at).total_seconds()


def _outcome(request: Request, side: Side, live: Mapping[UUID, Live], now: datetime) -> Outcome:
    """What came of the way on which a checkpoint lies: of the run, or that it was left for another branch."""
    if side.branch != side.run.branch:
        return Outcome(
            signs.STEP["void"],
            gettext("left behind: the run is on branch {branch}").format(branch=side.run.branch),
        )
    run, going, sight = side.run, live[side.run.pk], sights.of(request.actor, side.run)
    run.error = sight.error(run.error)
    sights.live(going.steps, going.approvals, sight)
    said = sentence.of_run(run, now=now, steps=going.steps, waits=going.waits, approvals=going.approvals)
    return Outcome(said.sign, said.whole)


def _step_row(step: Step) -> run_page.AgainStep:
    name = f"{step.node} #{step.visit}" if step.visit > 1 else step.node
    return run_page.AgainStep(
        name, gettext("checkpoint {checkpoint}").format(checkpoint=step.checkpoint), signs.STEP[step.status]
    )


def _decision_pairs(left: Sequence[Approval], right: Sequence[Approval]) -> list[DecisionPair]:
    """By node and how often it was asked before, in the order of the left side, then of the right one."""
    one, other = _in_turn(left), _in_turn(right)
    pairs = []
    for place in dict.fromkeys([*one, *other]):
        sides = one.get(place), other.get(place)
        said = {side and (side.approval.outcome, side.row.who, side.row.said) for side in sides}
        pairs.append(DecisionPair(place[0], *sides, differs=len(said) > 1))
    return pairs


def _in_turn(decisions: Sequence[Approval]) -> dict[tuple[str, int], Decided]:
    found: dict[tuple[str, int], Decided] = {}
    asked: Counter[str] = Counter()
    for approval in decisions:
        found[approval.node, asked[approval.node]] = Decided(approval, run_page.approval_row(approval))
        asked[approval.node] += 1
    return found


def _call_differences(found: Comparison) -> list[CallDifference]:
    rows = []
    for pair in found.calls:
        one = pair.left or pair.right
        assert one is not None
        rows.append(CallDifference(one.node, one.name, one.effect, _receipt(pair.left), _receipt(pair.right)))
    return rows


def _receipt(call: JournalEntry | None) -> str:
    return "" if call is None else run_page.receipt(canonical.loads(call.result))


def _run_named(request: Request) -> UUID | None:
    text = request.GET.get("other_run", "").strip()
    found = identity(text)
    if text and found is None:
        raise BadRequest("The other run is named by its whole id.")
    return found
