"""The state of a run as a sentence: who or what is waited for, since when, until when, what then. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs.models import Approval, Run, Step, Wait
from runs.queries import Standing, died_at, votes_of
from runs.store import Use
from runs.templatetags import words
from runs.web import signs

AFTER_DUE = {
    "reject": "then rejected",
    "escalate": "then rejected",
    "approve": "then approved",
    "fail": "then the run fails",
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """`word` is the status in a list, `text` what follows it there; `whole` is both, for the head of the page."""

    sign: signs.Sign
    text: str
    whole: str
    open_approval: Approval | None = None
    share: int | None = None

    @property
    def tone(self) -> str:
        return self.sign.tone


def of_run(
    run: Run,
    *,
    now: datetime,
    steps: Sequence[Step] = (),
    waits: Sequence[Wait] = (),
    approvals: Sequence[Approval] = (),
    standing: Standing | None = None,
) -> Sentence:
    """steps: the live ones; waits and approvals: the open ones of the run. standing: where it stands in line, if that is
    known."""
    lost = next((wait for wait in waits if wait.kind == "needs_migration"), None)
    if lost is not None:
        return _for_code(run, lost, now=now)
    if run.status == "paused":
        return _paused(run, approvals, now=now)
    if run.ending is not None:
        return _taking_back(run, steps, now=now)
    if run.is_in_line:
        return _in_line(run, standing, now=now)
    if run.status == "waiting" and approvals:
        return _for_people(approvals, now=now)
    retry = next((wait for wait in waits if wait.kind == "retry"), None)
    if run.status == "waiting" and retry:
        step = next((step for step in steps if step.address == retry.address), None)
        return _for_retry(retry, step, now=now)
    if run.status == "waiting" and waits:
        return _for_something(waits, now=now)
    if run.status in ("running", "queued"):
        return _working(run, steps, now=now)
    return _ended(run, now=now)


def whom(approval: Approval) -> str:
    """Who is asked: "finance", "finance or user felix", "any reviewer"."""
    return words.listing([*approval.teams, *approval.users], "or") or "any reviewer"


def due(approval: Approval, now: datetime) -> str:
    """ "due in 21 h, then rejected", or nothing without a due time."""
    if approval.due_at is None:
        return ""
    then = after_due(approval)
    left = approval.due_at - now
    when = f"due in {words.span(left)}" if left.total_seconds() > 0 else f"overdue since {words.span(-left)}"
    return f"{when}, {then}" if then else when


def after_due(approval: Approval) -> str:
    """What happens when the time is over: the next team is asked, or the answer of the clock."""
    chain = approval.options.get("escalate_to", [])
    if approval.level < len(chain):
        return f"then {chain[approval.level].removeprefix('user:')} is asked too"
    return AFTER_DUE.get(str(approval.options.get("on_timeout", "")), "")


def share(approval: Approval, now: datetime) -> int | None:
    """How much of the time to decide is over, in percent."""
    if approval.due_at is None:
        return None
    whole = (approval.due_at - approval.opened_at).total_seconds()
    gone = (now - approval.opened_at).total_seconds()
    return max(0, min(100, round(100 * gone / whole))) if whole > 0 else 100


def _paused(run: Run, approvals: Sequence[Approval], *, now: datetime) -> Sentence:
    told = run.paused or {}
    since = words.age(datetime.fromisoformat(told["since"]), now) if "since" in told else ""
    by = f"with the run above it, by {told.get('by')}" if told.get("with") else f"by {told.get('by')}"
    because = f": {told['reason']}" if told.get("reason") else ""
    asks = f"; {words.some(len(approvals), 'approval')} can be decided" if approvals else ""
    text = f"since {since} {by}{because}{asks}"
    return Sentence(signs.RUN["paused"], text, f"Paused {text}")


def _taking_back(run: Run, steps: Sequence[Step], *, now: datetime) -> Sentence:
    """Of a run that takes back its calls before it ends: which one, and what was wrong with it before."""
    cancels = (run.ending or {}).get("as") == "cancelled"
    step = next((step for step in steps if step.undoes), None)
    again = (
        f", attempt {step.attempt}: {(step.error or {}).get('message')}" if step and step.attempt > 1 else ""
    )
    which = f" {step.undoes[2]} of {step.node}{again}" if step and step.undoes else " what it did"
    text = f"takes back{which}"
    sign = signs.RUN["cancelling" if cancels else "failing"]
    return Sentence(sign, text, f"{sign.word}, {text} first")


def _for_people(approvals: Sequence[Approval], *, now: datetime) -> Sentence:
    first = min(approvals, key=lambda approval: approval.due_at or datetime.max.replace(tzinfo=now.tzinfo))
    votes = f" ({votes_of(first)} of {first.quorum})" if first.quorum > 1 else ""
    more = f"; {words.some(len(approvals) - 1, 'more approval')} open" if len(approvals) > 1 else ""
    parts = [f"{whom(first)}{votes} since {words.age(first.opened_at, now)}", due(first, now)]
    text = ", ".join(part for part in parts if part) + more
    return Sentence(signs.RUN["waiting"], text, f"Waiting for {text}", first, share(first, now))


def _for_code(run: Run, wait: Wait, *, now: datetime) -> Sentence:
    """The code of its version is gone: it needs an operator, or a worker that has it."""
    where = f" at {wait.facts['step']}" if wait.facts and wait.facts.get("step") else ""
    text = f"from version {run.workflow_version} of {run.workflow}{where}, since {words.age(wait.opened_at, now)}"
    return Sentence(signs.WAITING["needs_migration"], text, f"Needs a migration {text}")


def _for_retry(wait: Wait, step: Step | None, *, now: datetime) -> Sentence:
    left = (wait.due_at - now).total_seconds() if wait.due_at else 0
    when = f"in {words.span(left)}" if left >= 1 else "now"
    because = f": {step.error['message']}" if step and step.error and step.error.get("message") else ""
    text = f"{wait.node} {when}, attempt {step.attempt if step else 1}{because}"
    return Sentence(signs.RUN["retrying"], text, f"Tries {text}")


def _for_something(waits: Sequence[Wait], *, now: datetime) -> Sentence:
    """For time, a signal or a child run: the one that is due first, or was asked for first."""
    first = min(
        waits, key=lambda wait: (wait.due_at or datetime.max.replace(tzinfo=now.tzinfo), wait.opened_at)
    )
    what = {
        "timer": "time to pass",
        "signal": f"the signal {first.name}",
        "child": f"the child run of {first.name}",
    }
    parts = [f"{what.get(first.kind, first.kind)} since {words.age(first.opened_at, now)}"]
    if first.due_at is not None:
        left = first.due_at - now
        parts.append(f"due in {words.span(left)}" if left.total_seconds() > 0 else "due now")
    more = f"; {words.some(len(waits) - 1, 'more wait')}" if len(waits) > 1 else ""
    text = ", ".join(parts) + more
    return Sentence(signs.WAITING.get(first.kind, signs.RUN["waiting"]), text, f"Waiting for {text}")


def _working(run: Run, steps: Sequence[Step], *, now: datetime) -> Sentence:
    under_way = [step for step in steps if step.status == "executing"]
    executing = next(
        (step for step in under_way if _is_silent(step, now)), under_way[0] if under_way else None
    )
    dead = next((step for step in under_way if died_at(step)), None)
    if dead is not None:
        return _without_worker(dead, now=now)
    if executing is None:
        since = words.age(run.updated_at, now)
        return Sentence(
            signs.RUN["queued"], f"since {since}", f"Queued since {since}, a worker takes it next"
        )
    if executing.lease_until and _is_silent(executing, now):
        text = f"{executing.node}: its worker is silent since {words.age(executing.lease_until, now)}, another takes over"
        return Sentence(signs.RUN["stalled"], text, f"Stalled at {text}")
    since = words.age(executing.entered_at or executing.created_at, now)
    text = f"{executing.node} since {since}"
    again = f", attempt {executing.attempt}" if executing.attempt > 1 else ""
    more = f"; {words.some(len(under_way) - 1, 'more step')} beside it" if len(under_way) > 1 else ""
    return Sentence(signs.RUN["running"], text + again + more, f"Working on {text}{again}{more}")


def _without_worker(step: Step, *, now: datetime) -> Sentence:
    """Its lease is void as soon as the worker is known to be dead, and runs out in any case."""
    since = died_at(step) or now
    left = (step.lease_until - now).total_seconds() if step.lease_until else 0.0
    when = f"within {words.span(left)}" if left >= 1 else "now"
    text = f"{step.node} for {words.age(since, now)}: its worker died, another takes over {when}"
    return Sentence(signs.RUN["stalled"], text, f"Stalled at {text}")


def _in_line(run: Run, standing: Standing | None, *, now: datetime) -> Sentence:
    """Which limit it waits for, or that its turn has not come yet, and how many come before it."""
    since = words.age(run.updated_at, now)
    if standing is None:
        return Sentence(signs.RUN["queued"], f"in line since {since}", f"In line since {since}")
    use = standing.full
    what = "for its turn" if use is None else _for_slot(use, now)
    text = f"{what}, since {since}; {standing.said_before} before it"
    return Sentence(signs.RUN["queued"], text, f"In line {text}")


def _for_slot(use: Use, now: datetime) -> str:
    of = "the project" if not use.workflow else f"the limit {use.name}"
    key = f" for {use.key}" if use.key else ""
    if use.per is None:
        return f"for a slot of {of}{key}: {use.taken} of {use.most} in use"
    left = (use.until - now).total_seconds() if use.until else 0
    when = f", the next in {words.span(left)}" if left >= 1 else ""
    return f"for {of}{key}: {use.taken} of {use.most} started within {words.span(use.per)}{when}"


def _is_silent(step: Step, now: datetime) -> bool:
    return step.lease_until is not None and step.lease_until < now


def _reason(error: dict[str, Any]) -> str:
    """Why a run has failed. Of lanes in conflict the page shows both sides, so the key is enough."""
    if error.get("code") == "merge_conflict":
        return f"two lanes have written {error.get('key', 'the same key')}"
    return str(error.get("message") or error.get("code") or "no reason was recorded")


def _ended(run: Run, *, now: datetime) -> Sentence:
    sign = signs.RUN[run.status]
    if run.status == "completed" and run.finished_at:
        text = f"after {words.span(run.finished_at - run.created_at, parts=2)}"
        return Sentence(sign, text, f"Completed {text}, {words.age(run.finished_at, now)} ago")
    if run.status == "failed":
        error = run.error or {}
        where = f"{error['step']}: " if error.get("step") else ""
        text = f"{where}{_reason(error)}"
        return Sentence(sign, text, f"Failed at {text}" if where else f"Failed: {text}")
    if run.finished_at:
        ago = words.age(run.finished_at, now)
        return Sentence(sign, f"{ago} ago", f"{sign.word} {ago} ago")
    return Sentence(
        sign, f"since {words.age(run.updated_at, now)}", f"{sign.word} since {words.age(run.updated_at, now)}"
    )
