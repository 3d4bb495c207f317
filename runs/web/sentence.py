"""The state of a run as a sentence: who or what is waited for, since when, until when, what then. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from runs.models import Approval, Run, Step, Wait
from runs.queries import Standing, died_at, votes_of
from runs.store import Use
from runs.templatetags import words
from runs.tongue import Words
from runs.web import signs

AFTER_DUE = Words(
    {
        "reject": "then rejected",
        "escalate": "then rejected",
        "approve": "then approved",
        "fail": "then the run fails",
    }
)


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
    return words.listing([*approval.teams, *approval.users], "or") or gettext("any reviewer")


def due(approval: Approval, now: datetime) -> str:
    """ "due in 21 h, then rejected", or nothing without a due time."""
    if approval.due_at is None:
        return ""
    then = after_due(approval)
    left = approval.due_at - now
    when = (
        gettext("due in {span}").format(span=words.span(left))
        if left.total_seconds() > 0
        else gettext("overdue since {span}").format(span=words.span(-left))
    )
    return f"{when}, {then}" if then else when


def after_due(approval: Approval) -> str:
    """What happens when the time is over: the next team is asked, or the answer of the clock."""
    chain = approval.options.get("escalate_to", [])
    if approval.level < len(chain):
        return gettext("then {who} is asked too").format(who=chain[approval.level].removeprefix("user:"))
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
    by = (
        gettext("with the run above it, by {by}").format(by=told.get("by"))
        if told.get("with")
        else gettext("by {by}").format(by=told.get("by"))
    )
    because = f": {told['reason']}" if told.get("reason") else ""
    asks = (
        gettext("; {approvals} can be decided").format(
            approvals=words.some(len(approvals), "{count} approval", "{count} approvals")
        )
        if approvals
        else ""
    )
    text = gettext("since {since} {by}{because}{asks}").format(since=since, by=by, because=because, asks=asks)
    return Sentence(signs.RUN["paused"], text, gettext("Paused {text}").format(text=text))


def _taking_back(run: Run, steps: Sequence[Step], *, now: datetime) -> Sentence:
    """Of a run that takes back its calls before it ends: which one, and what was wrong with it before."""
    cancels = (run.ending or {}).get("as") == "cancelled"
    step = next((step for step in steps if step.undoes), None)
    again = (
        gettext(", attempt {attempt}: {message}").format(
            attempt=step.attempt, message=(step.error or {}).get("message")
        )
        if step and step.attempt > 1
        else ""
    )
    which = (
        gettext(" {undoes} of {node}{again}").format(undoes=step.undoes[2], node=step.node, again=again)
        if step and step.undoes
        else gettext(" what it did")
    )
    text = gettext("takes back{which}").format(which=which)
    sign = signs.RUN["cancelling" if cancels else "failing"]
    return Sentence(sign, text, gettext("{word}, {text} first").format(word=sign.word, text=text))


def _for_people(approvals: Sequence[Approval], *, now: datetime) -> Sentence:
    first = min(approvals, key=lambda approval: approval.due_at or datetime.max.replace(tzinfo=now.tzinfo))
    votes = (
        gettext(" ({votes_of} of {quorum})").format(votes_of=votes_of(first), quorum=first.quorum)
        if first.quorum > 1
        else ""
    )
    more = (
        gettext("; {approvals} open").format(
            approvals=words.some(len(approvals) - 1, "{count} more approval", "{count} more approvals")
        )
        if len(approvals) > 1
        else ""
    )
    parts = [
        gettext("{whom}{votes} since {age}").format(
            whom=whom(first), votes=votes, age=words.age(first.opened_at, now)
        ),
        due(first, now),
    ]
    text = ", ".join(part for part in parts if part) + more
    return Sentence(
        signs.RUN["waiting"], text, gettext("Waiting for {text}").format(text=text), first, share(first, now)
    )


def _for_code(run: Run, wait: Wait, *, now: datetime) -> Sentence:
    """The code of its version is gone: it needs an operator, or a worker that has it."""
    where = (
        gettext(" at {step}").format(step=wait.facts["step"]) if wait.facts and wait.facts.get("step") else ""
    )
    text = gettext("from version {workflow_version} of {workflow}{where}, since {age}").format(
        workflow_version=run.workflow_version,
        workflow=run.workflow,
        where=where,
        age=words.age(wait.opened_at, now),
    )
    return Sentence(
        signs.WAITING["needs_migration"], text, gettext("Needs a migration {text}").format(text=text)
    )


def _for_retry(wait: Wait, step: Step | None, *, now: datetime) -> Sentence:
    left = (wait.due_at - now).total_seconds() if wait.due_at else 0
    when = gettext("in {span}").format(span=words.span(left)) if left >= 1 else gettext("now")
    because = f": {step.error['message']}" if step and step.error and step.error.get("message") else ""
    text = gettext("{node} {when}, attempt {attempt}{because}").format(
        node=wait.node, when=when, attempt=step.attempt if step else 1, because=because
    )
    return Sentence(signs.RUN["retrying"], text, gettext("Tries {text}").format(text=text))


def _for_something(waits: Sequence[Wait], *, now: datetime) -> Sentence:
    """For time, a signal or a child run: the one that is due first, or was asked for first."""
    first = min(
        waits, key=lambda wait: (wait.due_at or datetime.max.replace(tzinfo=now.tzinfo), wait.opened_at)
    )
    what = {
        "timer": gettext("time to pass"),
        "signal": gettext("the signal {name}").format(name=first.name),
        "child": gettext("the child run of {name}").format(name=first.name),
    }
    parts = [
        gettext("{what} since {age}").format(
            what=what.get(first.kind, first.kind), age=words.age(first.opened_at, now)
        )
    ]
    if first.due_at is not None:
        left = first.due_at - now
        parts.append(
            gettext("due in {span}").format(span=words.span(left))
            if left.total_seconds() > 0
            else gettext("due now")
        )
    more = (
        "; " + words.some(len(waits) - 1, "{count} more wait", "{count} more waits") if len(waits) > 1 else ""
    )
    text = ", ".join(parts) + more
    return Sentence(
        signs.WAITING.get(first.kind, signs.RUN["waiting"]),
        text,
        gettext("Waiting for {text}").format(text=text),
    )


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
            signs.RUN["queued"],
            gettext("since {since}").format(since=since),
            gettext("Queued since {since}, a worker takes it next").format(since=since),
        )
    if executing.lease_until and _is_silent(executing, now):
        text = gettext("{node}: its worker is silent since {age}, another takes over").format(
            node=executing.node, age=words.age(executing.lease_until, now)
        )
        return Sentence(signs.RUN["stalled"], text, gettext("Stalled at {text}").format(text=text))
    since = words.age(executing.entered_at or executing.created_at, now)
    text = gettext("{node} since {since}").format(node=executing.node, since=since)
    again = gettext(", attempt {attempt}").format(attempt=executing.attempt) if executing.attempt > 1 else ""
    more = (
        gettext("; {steps} beside it").format(
            steps=words.some(len(under_way) - 1, "{count} more step", "{count} more steps")
        )
        if len(under_way) > 1
        else ""
    )
    return Sentence(
        signs.RUN["running"],
        text + again + more,
        gettext("Working on {text}{again}{more}").format(text=text, again=again, more=more),
    )


def _without_worker(step: Step, *, now: datetime) -> Sentence:
    """Its lease is void as soon as the worker is known to be dead, and runs out in any case."""
    since = died_at(step) or now
    left = (step.lease_until - now).total_seconds() if step.lease_until else 0.0
    when = gettext("within {span}").format(span=words.span(left)) if left >= 1 else gettext("now")
    text = gettext("{node} for {age}: its worker died, another takes over {when}").format(
        node=step.node, age=words.age(since, now), when=when
    )
    return Sentence(signs.RUN["stalled"], text, gettext("Stalled at {text}").format(text=text))


def _in_line(run: Run, standing: Standing | None, *, now: datetime) -> Sentence:
    """Which limit it waits for, or that its turn has not come yet, and how many come before it."""
    since = words.age(run.updated_at, now)
    if standing is None:
        return Sentence(
            signs.RUN["queued"],
            gettext("in line since {since}").format(since=since),
            gettext("In line since {since}").format(since=since),
        )
    use = standing.full
    what = gettext("for its turn") if use is None else _for_slot(use, now)
    text = gettext("{what}, since {since}; {said_before} before it").format(
        what=what, since=since, said_before=standing.said_before
    )
    return Sentence(signs.RUN["queued"], text, gettext("In line {text}").format(text=text))


def _for_slot(use: Use, now: datetime) -> str:
    of = gettext("the project") if not use.workflow else gettext("the limit {name}").format(name=use.name)
    key = gettext(" for {key}").format(key=use.key) if use.key else ""
    if use.per is None:
        return gettext("for a slot of {of}{key}: {taken} of {most} in use").format(
            of=of, key=key, taken=use.taken, most=use.most
        )
    left = (use.until - now).total_seconds() if use.until else 0
    when = gettext(", the next in {span}").format(span=words.span(left)) if left >= 1 else ""
    return gettext("for {of}{key}: {taken} of {most} started within {span}{when}").format(
        of=of, key=key, taken=use.taken, most=use.most, span=words.span(use.per), when=when
    )


def _is_silent(step: Step, now: datetime) -> bool:
    return step.lease_until is not None and step.lease_until < now


def _reason(error: dict[str, Any]) -> str:
    """Why a run has failed. Of lanes in conflict the page shows both sides, so the key is enough."""
    if error.get("code") == "merge_conflict":
        if error.get("key"):
            return gettext("two lanes have written {key}").format(key=error["key"])
        return gettext("two lanes have written the same key")
    return str(error.get("message") or error.get("code") or gettext("no reason was recorded"))


def _ended(run: Run, *, now: datetime) -> Sentence:
    sign = signs.RUN[run.status]
    if run.status == "completed" and run.finished_at:
        text = gettext("after {span}").format(span=words.span(run.finished_at - run.created_at, parts=2))
        return Sentence(
            sign,
            text,
            gettext("Completed {text}, {age} ago").format(text=text, age=words.age(run.finished_at, now)),
        )
    if run.status == "failed":
        error = run.error or {}
        where = f"{error['step']}: " if error.get("step") else ""
        text = f"{where}{_reason(error)}"
        return Sentence(
            sign,
            text,
            gettext("Failed at {text}").format(text=text)
            if where
            else gettext("Failed: {text}").format(text=text),
        )
    if run.finished_at:
        ago = words.age(run.finished_at, now)
        return Sentence(
            sign,
            gettext("{ago} ago").format(ago=ago),
            gettext("{word} {ago} ago").format(word=sign.word, ago=ago),
        )
    return Sentence(
        sign,
        gettext("since {age}").format(age=words.age(run.updated_at, now)),
        gettext("{word} since {age}").format(word=sign.word, age=words.age(run.updated_at, now)),
    )
