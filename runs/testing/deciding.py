"""What people say in a played run: told beforehand by node, or given when it is their turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from runs.engine import approval as rules
from runs.engine import canonical, machine
from runs.engine import position as at
from runs.engine.approval import ActionDecision, Judged
from runs.engine.canonical import Json
from runs.engine.stages import VoteFact
from runs.engine.status import ApprovalStatus
from runs.engine.workflow import DECISIONS, ApprovalOptions
from runs.errors import (
    AlreadyDecided,
    AlreadyVoted,
    ApprovalClosed,
    HitlError,
    NotACandidate,
    SelfApproval,
    TimedOut,
)
from runs.testing import waking
from runs.testing.book import ApprovalRow, PlayError, RevisionRow, SaidRow, VoteRow
from runs.testing.looking import asked_now
from runs.testing.writing import World, aggregate

MOST_VOTES: Final = 50
TIMEOUT: Final = "timeout"


class DecisionMissing(PlayError):
    """An approval is open, and the play was not told what to say."""

    code = "decision_missing"


class Unused(UserWarning):
    """The play was told decisions or signals that nothing asked for."""


@dataclass(frozen=True, slots=True)
class Said:
    """One person's answer. args: other arguments of the only action, or by action key if there are several. reasons: chosen of
    those that the node offers."""

    type: str
    args: Mapping[str, Any] | None = None
    text: str = ""
    by: str = ""
    each: Mapping[str, Said] = field(default_factory=dict)
    reasons: Sequence[str] = ()


def approve(
    *,
    args: Mapping[str, Any] | None = None,
    comment: str = "",
    by: str = "",
    reasons: Sequence[str] = (),
) -> Said:
    """Approve; with `args` (those that change are enough) an edit."""
    return Said("edit" if args is not None else "approve", args, comment, by, reasons=reasons)


def edit(args: Mapping[str, Any] | None = None, /, *, comment: str = "", by: str = "", **more: Any) -> Said:
    """Approve with other arguments; those that change are enough."""
    return Said("edit", {**(args or {}), **more}, comment, by)


def reject(comment: str = "", *, by: str = "", reasons: Sequence[str] = ()) -> Said:
    """reasons: of those that the approval offers (`reasons=`); what is written comes after them."""
    return Said("reject", None, comment, by, reasons=reasons)


def respond(message: str, *, by: str = "") -> Said:
    """Answer in place of the action."""
    return Said("respond", None, message, by)


def per_action(*, by: str = "", comment: str = "", **each: Said | str) -> Said:
    """A decision for each action of an approval, by its key."""
    told = {key: Said(one) if isinstance(one, str) else one for key, one in each.items()}
    return Said("", None, comment, by, told)


Decisions = Mapping[str, Any]  # by node: a text, a `Said`, a function of the document, or a list of these


@dataclass(slots=True)
class Script:
    """The decisions that were told beforehand. None: people decide by hand, by `Played.decide`."""

    decisions: Decisions | None
    _used: set[str] = field(default_factory=set)

    def key_of(self, approval: ApprovalRow) -> str | None:
        """Under which name an approval finds its decision: a question in code also by its `key=` (`buy.tea`), one of a nested
        workflow also without what is around it."""
        place = approval.occurrence.partition("~")[0]
        names = [f"{approval.node}.{place}"] if approval.name else []
        names += [approval.node, approval.node.rpartition("/")[2]]
        return next((name for name in names if name in (self.decisions or {})), None)

    def next(self, world: World, approval: ApprovalRow) -> Said | None:
        """What is said about an open approval; None to let its time run out. Raises `DecisionMissing`."""
        assert self.decisions is not None
        key = self.key_of(approval)
        if key is None:
            raise DecisionMissing(_missing(approval, ""), node=approval.node)
        told: Any = self.decisions[key]
        if isinstance(told, (list, tuple)):
            used = len(world.book.find(SaidRow, key=key))
            if used >= len(told):
                raise DecisionMissing(
                    _missing(approval, f" All {len(told)} that were told for it have been used."),
                    node=approval.node,
                )
            told = told[used]
        said = _said(told, approval)
        if said.type == TIMEOUT and approval.due_at is None:
            raise PlayError(f"{approval.node!r} has no due=; its time never runs out.", node=approval.node)
        return None if said.type == TIMEOUT else said

    def note(self, world: World, approval: ApprovalRow) -> None:
        key = self.key_of(approval)
        if key is not None:
            world.book.add(SaidRow(key=key))

    def unused(self, world: World) -> list[str]:
        """Decisions that nothing has asked for, as `confirm`, or `confirm[1:]` of a list."""
        found = []
        for key, told in (self.decisions or {}).items():
            used = len(world.book.find(SaidRow, key=key))
            most = len(told) if isinstance(told, (list, tuple)) else 1
            if used < most:
                found.append(f"{key}[{used}:]" if used else key)
        return found


def _missing(approval: ApprovalRow, more: str) -> str:
    actions = [
        f"{action['key']}({canonical.dumps(action['args'])}): {', '.join(action['allowed'])}"
        for action in approval.document["actions"]
    ]
    late = ', or "timeout"' if approval.due_at is not None else ""
    where = f"{approval.node!r}" + (f" (ctx.ask {approval.occurrence})" if approval.name else "")
    return (
        f"{where} asks {approval.title!r} and no decision is told for it.{more} Say decisions={{{approval.node!r}: …}}; "
        f"what can be said: {'; '.join(actions)}{late}."
    )


def _said(told: Any, approval: ApprovalRow) -> Said:
    if callable(told) and not isinstance(told, Said):
        told = told(canonical.loads(canonical.dumps(approval.document)))
    if isinstance(told, str):
        told = Said(told)
    if not isinstance(told, Said):
        raise PlayError(
            f"{told!r:.200} is no decision for {approval.node!r}; write a text ({', '.join(DECISIONS)}, timeout), "
            "approve(…), edit(…), reject(…), respond(…), per_action(…), a function of the document, or a list of these.",
            node=approval.node,
        )
    if not told.each and told.type not in (*DECISIONS, TIMEOUT):
        raise PlayError(
            f"{told.type!r} is no decision for {approval.node!r}; it is one of {', '.join(DECISIONS)}, timeout.",
            node=approval.node,
        )
    return told


# ---- saying it


def say(world: World, approval_id: str, told: Any) -> None:
    """One person's answer to an open approval."""
    approval = world.book.get(ApprovalRow, id=approval_id)
    said = _said(told, approval)
    if said.type == TIMEOUT:
        raise PlayError("Time runs out by advance_time.")
    try:
        _vote(world, approval, said)
    except HitlError as error:
        error.add_note(f"while {said.by or 'somebody'} said {said.type or 'each'} to {approval.node!r}")
        raise


def decide(world: World, script: Script, approval: ApprovalRow) -> bool:
    """Say what was told about an open approval until it is decided; False to let its time run out."""
    said = script.next(world, approval)
    with world.book.transaction():
        script.note(world, approval)
        for _ in range(MOST_VOTES):
            if said is None:
                approval.runs_out = True
                world.book.save(approval)
                return False
            say(world, approval.id, said)
            approval = world.book.get(ApprovalRow, id=approval.id)
            if approval.status != ApprovalStatus.OPEN:
                return True
            told = (script.decisions or {}).get(script.key_of(approval) or "")
            if isinstance(told, (list, tuple)):
                return True  # the next of the list is the next vote
    raise PlayError(f"{MOST_VOTES} people have answered {approval.node!r}, and it is still open.")


def _vote(world: World, approval: ApprovalRow, said: Said) -> None:
    with world.book.transaction():
        if approval.status == ApprovalStatus.OPEN and approval.due_at and approval.due_at <= world.now:
            waking.escalate(world, approval)
        _check_open(world, approval)
        votes = world.book.find(VoteRow, approval=approval.id)
        by = said.by or _somebody(world, approval, votes)
        _check_asked(world, approval, by)
        said = replace(said, text=rules.worded(said.reasons, said.text, options=approval.options))
        decisions = _decisions(approval, said)
        request = canonical.digest([*(decision.as_dict() for decision in decisions), said.text])
        mine = [vote for vote in votes if vote.user == by and vote.version == approval.version]
        if any(vote.request == request for vote in mine):
            return  # the same answer once more changes nothing
        judged = rules.judge(
            approval.document,
            decisions,
            user=by,
            comment=said.text if said.type in ("approve", "edit", "reject", "") else "",
            options=_options(approval),
            votes=[
                VoteFact(vote.user, vote.signature, vote.outcome, vote.stage)
                for vote in votes
                if vote.version == approval.version
            ],
            editors=_editors(world, approval),
            stage=approval.stage,
        )
        if mine and not judged.edited:
            raise AlreadyVoted(f"{by} has answered version {approval.version} already.")
        _record(world, approval, said, judged, by, request)


def _record(world: World, approval: ApprovalRow, said: Said, judged: Judged, by: str, request: str) -> None:
    actor: dict[str, Json] = {"type": "user", "id": None, "name": by}
    comment = said.text if said.type != "respond" else ""
    if judged.recheck:
        _send_to_recheck(world, approval, judged, actor, comment)
        return
    if judged.edited:
        approval.version += 1
        approval.document, approval.digest = judged.document, canonical.digest(judged.document)
        world.book.save(approval)
        world.book.add(RevisionRow(approval=approval.id, version=approval.version, author=by))
    vote = judged.vote
    results = judged.results if judged.decided is not None else []
    waking.add_vote(
        world,
        approval,
        user=by,
        outcome=vote.outcome,
        signature=vote.signature,
        results=results,
        request=request,
    )
    if judged.decided is None:
        told: dict[str, Json] = {
            "approval": approval.id,
            "version": approval.version,
            "vote": vote.outcome,
            "edited": judged.edited,
            "comment": comment,
        }
        if approval.options.get("stages"):
            told["stage"] = approval.stage
        waking.tell(world, approval, "vote_recorded", told, actor)
        _pass_on(world, approval, judged.stage, actor)
        return
    decision = waking.decision_of(world, approval, judged.decided, actor, "decision", comment, judged.results)
    waking.close(world, approval, ApprovalStatus.DECIDED, judged.decided, comment)
    waking.go_on(world, approval, judged.decided, decision, actor)


def _pass_on(world: World, approval: ApprovalRow, stage: int, actor: dict[str, Json]) -> None:
    """Another stage is asked: the next one, or the first again after an edit."""
    if stage == approval.stage:
        return
    approval.stage = stage
    world.book.save(approval)
    asked = asked_now(approval)
    facts: dict[str, Json] = {"approval": approval.id, "stage": stage, "who": [*asked.teams, *asked.users]}
    waking.tell(world, approval, "approval_passed_on", facts, actor)


def _send_to_recheck(
    world: World, approval: ApprovalRow, judged: Judged, actor: dict[str, Json], comment: str
) -> None:
    world.book.add(RevisionRow(approval=approval.id, version=approval.version + 1, author=str(actor["name"])))
    decision = waking.decision_of(world, approval, "edit", actor, "edited", comment, judged.results)
    run = world.run(approval.run)
    facts = aggregate(world, run, address=approval.address)
    step = at.find(facts.position, approval.address)
    assert step is not None
    transition = machine.recheck(facts, step, {**decision, "edited": True})
    waking.store(world, run, transition, position=facts.position, actor=actor)


def _check_open(world: World, approval: ApprovalRow) -> None:
    if approval.status == ApprovalStatus.DECIDED:
        raise AlreadyDecided(f"{approval.node!r} was decided: {approval.outcome}.", action=approval.outcome)
    if approval.status != ApprovalStatus.OPEN:
        raise ApprovalClosed(f"{approval.node!r} is {approval.status}.", reason=approval.closed_reason)
    if approval.due_at is not None and approval.due_at <= world.now:
        raise TimedOut(due_at=approval.due_at.isoformat())
    if approval.name and waking.wait_for(world, approval).race:
        run = world.run(approval.run)
        first = waking.first_due(world, run, aggregate(world, run), approval.address)
        if first is not None:
            raise ApprovalClosed(f"{first.wait.label!r} was first.", reason="first_of")


def _decisions(approval: ApprovalRow, said: Said) -> list[ActionDecision]:
    actions = approval.document["actions"]
    if said.each:
        known = {action["key"]: action for action in actions}
        return [
            _decision(known.get(key, {"key": key, "args": {}}), one, several=False)
            for key, one in said.each.items()
        ]
    return [_decision(action, said, several=len(actions) > 1) for action in actions]


def _decision(action: Mapping[str, Any], said: Said, *, several: bool) -> ActionDecision:
    kind, args = said.type, None
    if kind == "edit":
        told = said.args or {}
        if several:
            told = told.get(action["key"], {})
        args = {**action["args"], **told}
        kind = "edit" if told else "approve"
    return ActionDecision(action["key"], kind, args, said.text if kind == "respond" else "")


def _somebody(world: World, approval: ApprovalRow, votes: Sequence[VoteRow]) -> str:
    """The next who answers, where nobody is named."""
    asked = world.people.asked(asked_now(approval), approval.options)
    taken = {vote.user for vote in votes if vote.version == approval.version or asked is None}
    names = asked if asked is not None else ["reviewer", *(f"reviewer {n}" for n in range(2, MOST_VOTES + 2))]
    free = [name for name in names if name not in taken]
    if not free:
        raise PlayError(f"Nobody is left who may answer {approval.node!r}.", node=approval.node)
    return free[0]


def _check_asked(world: World, approval: ApprovalRow, by: str) -> None:
    if by in world.people.barred(approval.options):
        raise SelfApproval()
    stage = asked_now(approval)
    asked = world.people.asked(stage, approval.options)
    if asked is not None and by not in asked:
        told = ", ".join(stage.reviewers) or "a reviewer"
        raise NotACandidate(f"Only {told} may decide this, not {by}.", candidates=told)


def _options(approval: ApprovalRow) -> ApprovalOptions:
    options = ApprovalOptions.of(approval.options)
    return replace(options, stages=options.asked_at(approval.level), reviewers=(), quorum=1)


def _editors(world: World, approval: ApprovalRow) -> list[str]:
    """Who made what is asked now: edits of it, and the edit that it came out of by a recheck."""
    found: list[str] = []
    while True:
        rows = world.book.find(RevisionRow, approval=approval.id)
        found += [row.author for row in rows if row.author]
        before = world.book.one(ApprovalRow, id=approval.previous) if approval.previous else None
        if before is None or before.closed_reason != "edited":
            return found
        approval = before
