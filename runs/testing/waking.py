"""What a played run waits for, and what ends the waiting: time, signals, child runs, answers of people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from runs.engine import approval as rules
from runs.engine import canonical, given, machine, schedule
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.compensation import put_off, undo_due
from runs.engine.given import Given
from runs.engine.schema import validate
from runs.engine.stages import PERSON
from runs.engine.status import TERMINAL, ApprovalStatus
from runs.engine.transition import Aggregate, Event, Transition, is_undo
from runs.engine.waits import Candidate, first_satisfied
from runs.engine.workflow import ApprovalOptions
from runs.errors import AlreadyTerminal, DeadlineExceeded, SignalReused, Unprocessable
from runs.testing import undoing
from runs.testing.book import ApprovalRow, RunRow, SignalRow, StepRow, VoteRow, WaitRow
from runs.testing.writing import SYSTEM, World, aggregate, children_to_stop, commit, open_waits


def store(world: World, run: RunRow, transition: Transition, *, compensate: bool = True, **how: Any) -> None:
    """Commit a transition, with what follows from it for the run's children and for the run that started it.

    compensate: whether calls are taken back before the run, and its children, are cancelled.
    """
    with world.book.transaction():
        if transition.ended and run.ending is None:
            transition = put_off(
                transition, undoing.to_take_back(world, run, transition, compensate), status=run.status
            )
        commit(world, run, transition, **how)
        now = world.run(run.id)
        stopped, reason = children_to_stop(world, now, transition, rewound=how.get("branch") is not None)
        for child in stopped:
            if child.ending is None:
                cancelled = machine.cancel(child.status, reason=reason)
                store(world, child, cancelled, actor=SYSTEM, compensate=compensate)
        if transition.ended and now.parent:
            for wait in world.book.find(WaitRow, child=now.id, closed_at=None):
                settle(world, wait.run, wait.address)


# ---- what satisfies a step


def settle(world: World, run_id: str, address: str) -> None:
    """Apply everything that satisfies a waiting step by now, one after the other."""
    while True:
        run = world.run(run_id)
        if run.status in TERMINAL:
            return
        facts = aggregate(world, run)
        found = first_due(world, run, facts, address)
        if found is None:
            return
        if found.wait.kind == "approval":
            expire(world, approval_of(world, found.wait))
        else:
            answer(world, run, facts, found.wait, _given_by(found), SYSTEM)


def first_due(world: World, run: RunRow, facts: Aggregate, address: str) -> Candidate | None:
    waits = [wait for wait in open_waits(world.book, run, address) if wait.name]
    return first_satisfied([one for wait in waits for one in _candidates(world, run, facts, wait)])


def _candidates(world: World, run: RunRow, facts: Aggregate, wait: WaitRow) -> Iterator[Candidate]:
    if wait.due_at is not None and wait.due_at <= world.now:
        yield Candidate(wait.due_at, wait.position, late=True, wait=wait)
    if wait.kind == "signal":
        signal = _fitting(world, run, facts, wait)
        if signal is not None:
            yield Candidate(signal.received_at, wait.position, late=False, wait=wait, found=signal)
    child = world.run(wait.child) if wait.child else None
    if child is not None and child.finished_at is not None:
        yield Candidate(child.finished_at, wait.position, late=False, wait=wait, found=child)


def _fitting(world: World, run: RunRow, facts: Aggregate, wait: WaitRow) -> SignalRow | None:
    """The oldest signal of the name that nothing took and that fits."""
    taken = at.taken(facts.position, wait.name)
    free = [row for row in world.book.find(SignalRow, run=run.id, name=wait.name) if row.no not in taken]
    return next((row for row in free if not validate(row.payload, wait.schema)), None)


def _given_by(candidate: Candidate) -> Given:
    wait, found = candidate.wait, candidate.found
    if isinstance(found, SignalRow):
        return given.of_signal(
            found.name, id=found.sent_id, no=found.no, at=found.received_at, payload=found.payload
        )
    if isinstance(found, RunRow):
        return given.of_child(
            wait.name, run=found.id, status=found.status, output=found.output, error=found.error
        )
    return given.of_time(wait.kind, wait.name, wait.due_at)


def answer(
    world: World, run: RunRow, facts: Aggregate, wait: WaitRow, told: Given, actor: dict[str, Json]
) -> None:
    """Journal an answer; the step is ready if it waits for nothing else, or only for the first of several."""
    step = at.find(facts.position, wait.address)
    assert step is not None
    found = given.satisfied(wait, open_waits(world.book, run, wait.address), told)
    store(world, run, machine.satisfy(facts, step, found), position=facts.position, actor=actor)


# ---- approvals


def approval_of(world: World, wait: WaitRow) -> ApprovalRow:
    return world.book.get(
        ApprovalRow,
        run=wait.run,
        branch=wait.branch,
        address=wait.address,
        name=wait.name,
        occurrence=wait.occurrence,
        status=ApprovalStatus.OPEN.value,
    )


def wait_for(world: World, approval: ApprovalRow) -> WaitRow:
    """The open wait of an approval."""
    return world.book.get(
        WaitRow,
        run=approval.run,
        branch=approval.branch,
        address=approval.address,
        name=approval.name,
        occurrence=approval.occurrence,
        closed_at=None,
    )


def expire(world: World, approval: ApprovalRow) -> None:
    """Nobody has answered in time: the next are asked, or it is decided as the workflow says."""
    if escalate(world, approval):
        return
    assert approval.due_at is not None
    said, results = rules.timed_out(approval.document, approval.options)
    with world.book.transaction():
        add_vote(world, approval, user="", outcome="timeout", signature=said, results=results)
        because = f"no answer before {approval.due_at.isoformat()}"
        decision = decision_of(world, approval, said, SYSTEM, "timeout", because, results)
        close(world, approval, ApprovalStatus.EXPIRED, "timeout")
        go_on(world, approval, "timeout", decision, SYSTEM)


def escalate(world: World, approval: ApprovalRow) -> bool:
    """Ask the next of the chain; False if nobody is left to ask."""
    options = ApprovalOptions.of(approval.options)
    to = options.escalate_to[approval.level] if approval.level < len(options.escalate_to) else ""
    hours = world.people.hours_of(to) if options.counts_hours and not to.startswith(PERSON) else None
    following = schedule.next_escalation(approval.options, approval.level, world.now, hours=hours)
    if following is None:
        return False
    with world.book.transaction():
        approval.level, approval.due_at, approval.runs_out = following.level, following.due, False
        approval.remind_at = schedule.remind_at(approval.options, following.due, after=world.now)
        wait = wait_for(world, approval)
        wait.due_at = following.due
        world.book.save(approval, wait)
        facts: dict[str, Json] = {
            "approval": approval.id,
            "to": following.to,
            "level": following.level,
            "due": following.due.isoformat(),
        }
        tell(world, approval, "approval_escalated", facts, SYSTEM)
    return True


def remind(world: World, approval: ApprovalRow) -> None:
    """People are reminded that the time of an approval will be over."""
    with world.book.transaction():
        approval.remind_at = schedule.remind_at(approval.options, approval.due_at, after=world.now)
        world.book.save(approval)
        if approval.due_at is None or approval.due_at <= world.now:
            return
        facts: dict[str, Json] = {"approval": approval.id, "due": approval.due_at.isoformat()}
        tell(world, approval, "approval_reminded", facts, SYSTEM)


def reminders(world: World) -> list[ApprovalRow]:
    """Open approvals of which people will be reminded, the next first."""
    rows = [row for row in world.book.find(ApprovalRow, status=ApprovalStatus.OPEN.value) if row.remind_at]
    return sorted(rows, key=lambda row: (row.remind_at or world.now, row.row))


def tell(
    world: World, approval: ApprovalRow, kind: str, facts: dict[str, Json], actor: dict[str, Json]
) -> None:
    event = Event(kind, facts, approval.node, approval.address)
    commit(world, world.run(approval.run), Transition(events=[event]), actor=actor)


def add_vote(
    world: World,
    approval: ApprovalRow,
    *,
    user: str,
    outcome: str,
    signature: str,
    results: list[dict[str, Json]],
    request: str = "",
) -> None:
    """results: what was decided per action, if this vote decides."""
    row = VoteRow(
        approval=approval.id,
        version=approval.version,
        user=user,
        outcome=outcome,
        signature=signature,
        stage=approval.stage,
        decisive=bool(results),
        approved_digest=rules.approved_digest(results) if results else "",
        request=request,
    )
    world.book.add(row)


def close(
    world: World, approval: ApprovalRow, status: ApprovalStatus, outcome: str, comment: str = ""
) -> None:
    approval.status, approval.outcome, approval.closed_at = status.value, outcome, world.now
    approval.comment = comment
    world.book.save(approval)


def decision_of(
    world: World,
    approval: ApprovalRow,
    outcome: str,
    by: dict[str, Json],
    reason: str,
    comment: str,
    results: list[dict[str, Json]],
) -> dict[str, Json]:
    shown = rules.Shown(approval.id, approval.version, approval.digest)
    return rules.decision_of(
        shown, outcome, by=by, reason=reason, comment=comment, at=world.now, results=results
    )


def go_on(
    world: World, approval: ApprovalRow, outcome: str, decision: dict[str, Json], actor: dict[str, Json]
) -> None:
    run = world.run(approval.run)
    facts = aggregate(world, run, address=approval.address)
    if approval.name:
        told = given.of_decision(outcome, decision, on_timeout=str(approval.options.get("on_timeout")))
        answer(world, run, facts, wait_for(world, approval), told, actor)
        return
    step = at.find(facts.position, approval.address)
    assert step is not None
    transition = machine.answer(facts, step, outcome, decision)
    store(world, run, transition, position=facts.position, actor=actor)


# ---- signals


def signal(world: World, run_id: str, name: str, payload: Json, signal_id: str | None, by: Json) -> None:
    """Put a signal into a run's mailbox, and wake what waits for it. The same id again changes nothing."""
    with world.book.transaction():
        run, book = world.run(run_id), world.book
        canonical.check({"name": name, "payload": payload, "id": signal_id})
        digest = canonical.digest({"name": name, "payload": payload})
        earlier = book.one(SignalRow, run=run_id, sent_id=signal_id) if signal_id else None
        if earlier is not None and earlier.digest != digest:
            raise SignalReused(name=earlier.name, received_at=earlier.received_at.isoformat())
        if earlier is not None:
            return
        if run.status in TERMINAL:
            raise AlreadyTerminal(f"The run is {run.status}; nothing waits for a signal.", status=run.status)
        waits = _waiting_for(world, run, name)
        faults = [validate(payload, wait.schema) for wait in waits]
        if faults and all(faults):
            raise Unprocessable(
                f"The payload of {name!r} does not fit what the run waits for.", errors=faults[0]
            )
        sent = book.add(
            SignalRow(
                run=run_id,
                no=len(book.find(SignalRow, run=run_id)) + 1,
                name=name,
                sent_id=signal_id or world.new_id(),
                payload=payload,
                digest=digest,
                received_at=world.now,
            )
        )
        told: dict[str, Json] = {"name": name, "id": sent.sent_id, "no": sent.no, "payload": payload}
        commit(world, run, Transition(events=[Event("signal_received", told)]), actor=by)
        for address in dict.fromkeys(wait.address for wait in waits):
            settle(world, run_id, address)


def _waiting_for(world: World, run: RunRow, name: str) -> list[WaitRow]:
    """Open waits for a signal, the one that has waited longest first."""
    rows = world.book.find(WaitRow, run=run.id, branch=run.branch, closed_at=None, kind="signal", name=name)
    return sorted(rows, key=lambda wait: (wait.opened_at, wait.row))


# ---- the clock


def due_waits(world: World) -> list[WaitRow]:
    """Everything that will be due, the next first."""
    waits = [wait for wait in world.book.find(WaitRow, closed_at=None) if wait.due_at is not None]
    return sorted(waits, key=lambda wait: (wait.due_at or world.now, wait.row))


def fire(world: World) -> bool:
    """Do the first of what is due now; False if nothing is."""
    for run in world.runs():
        if run.deadline_at is not None and run.deadline_at <= world.now and run.status not in TERMINAL:
            error = DeadlineExceeded(
                f"The run took longer than {run.deadline:g} s, people's time not counted.",
                deadline=run.deadline,
            )
            store(world, run, machine.give_up(run.status, error), actor=SYSTEM)
            return True
    reminded = next((row for row in reminders(world) if row.remind_at and row.remind_at <= world.now), None)
    if reminded is not None:
        remind(world, reminded)
        return True
    wait = next((w for w in due_waits(world) if w.due_at is not None and w.due_at <= world.now), None)
    if wait is None:
        return False
    _fire(world, wait)
    return True


def _fire(world: World, wait: WaitRow) -> None:
    run = world.run(wait.run)
    if wait.name:
        settle(world, run.id, wait.address)
    elif wait.kind == "approval":
        expire(world, approval_of(world, wait))
    elif is_undo(wait.address):
        step_row = world.book.get(StepRow, run=run.id, branch=run.branch, address=wait.address)
        store(world, run, undo_due(undoing.undo_at(step_row)), actor=SYSTEM)
    else:
        facts = aggregate(world, run)
        step = at.find(facts.position, wait.address)
        assert step is not None
        store(world, run, machine.wake(facts, step), position=facts.position, actor=SYSTEM)


def move_clock(world: World, to: datetime) -> None:
    row = world.row
    row.now = max(row.now, to)
    world.book.save(row)
