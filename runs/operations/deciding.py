"""Answers of people to approvals, and the answer of the clock when nobody gives one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db import transaction

from runs import policies, queries, sights, store
from runs.engine import approval as rules
from runs.engine import canonical, given, machine
from runs.engine import position as at
from runs.engine.approval import ActionDecision, Judged, Shown, decision_of, timed_out
from runs.engine.canonical import Json
from runs.engine.position import LiveStep
from runs.engine.stages import VoteFact
from runs.engine.status import APPROVAL as TABLE
from runs.engine.status import ApprovalEvent, ApprovalStatus
from runs.engine.transition import Aggregate
from runs.engine.workflow import ApprovalOptions
from runs.errors import (
    AlreadyAssigned,
    AlreadyDecided,
    AlreadyVoted,
    AmbiguousTarget,
    ApprovalClosed,
    BadRequest,
    CheckpointUnreadable,
    DecisionNotAllowed,
    HitlError,
    NotFound,
    PayloadChanged,
    StaleVersion,
    TimedOut,
    Told,
    Unprocessable,
    VersionRequired,
)
from runs.models import Approval, Revision, Run, Step, User, Vote, Wait
from runs.operations import answering
from runs.operations.door import aggregate, as_uuid, audit_denied, commit, locked_run, verb
from runs.operations.escalating import ask_stage, escalate, keep_time, tell
from runs.operations.finding import renew_words
from runs.operations.links import use_link
from runs.operations.unseen import whole_args, whole_decisions
from runs.operations.versioning import noting, with_code
from runs.policies import SYSTEM, Actor, Seat

EDITED: Final = "edited"  # why an approval closed whose edit is checked again


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's answer to one approval, for the version and digest that was on the screen.

    link: the signed link that they came by; the answer uses it up. reasons: chosen of those that the node offers; they
    come before the comment, and before the message of whatever is rejected or answered.
    """

    approval_id: uuid.UUID | str
    version: int | None
    digest: str | None
    decisions: Sequence[ActionDecision]
    comment: str = ""
    link: str = ""
    reasons: Sequence[str] = ()

    def worded(self, options: Mapping[str, Json]) -> Answer:
        """With the reasons in its texts. Raises `Unprocessable` for one that the approval does not offer."""
        if not self.reasons:
            return self
        decisions = [
            replace(one, message=rules.worded(self.reasons, one.message, options=options))
            if one.type in ("reject", "respond")
            else one
            for one in self.decisions
        ]
        comment = rules.worded(self.reasons, self.comment, options=options)
        return replace(self, decisions=decisions, comment=comment, reasons=())

    @property
    def request_digest(self) -> str:
        """Recognises the same answer when it comes again."""
        decisions = sorted((decision.as_dict() for decision in self.decisions), key=lambda d: str(d["key"]))
        return canonical.digest({"version": self.version, "decisions": decisions, "comment": self.comment})


@dataclass(slots=True)
class Decided:
    """What an answer came to. `approval.status` is still open if more people must agree. error: of several runs, this one's."""

    approval: Approval | None
    run: Run | None
    replayed: bool = False
    error: HitlError | None = None


def decide(*, actor: Actor, answers: Sequence[Answer]) -> list[Decided]:
    """Answer approvals. Those of one run are stored together or not at all; over several runs, a result per item."""
    if not answers:
        raise BadRequest("No answer is given.")
    by_run: dict[uuid.UUID, list[int]] = {}
    for index, answer in enumerate(answers):
        by_run.setdefault(_run_of(actor, answer, one_of_several=len(answers) > 1), []).append(index)
    results: dict[int, Decided] = {}
    for run_id in sorted(by_run):
        mine = [answers[index] for index in by_run[run_id]]
        try:
            results.update(zip(by_run[run_id], _decide_run(actor, run_id, mine), strict=True))
        except HitlError as error:
            if len(by_run) == 1:
                raise
            results.update({index: Decided(None, None, error=error) for index in by_run[run_id]})
    return [results[index] for index in range(len(answers))]


def only_approval(
    *,
    actor: Actor,
    run_id: uuid.UUID | str,
    approval_id: uuid.UUID | str | None = None,
    lane: str | None = None,
) -> Approval:
    """The open approval of a run that an answer means which names the run: the only one, that of a lane, or a named one.

    Raises `AmbiguousTarget` naming approvals and lanes, or `NotFound`; an approval of another run is not found.
    """
    run = Run.objects.filter(pk=as_uuid(run_id), project=actor.project).first()
    if run is None or not actor.roles:
        raise NotFound()
    policies.check_scope(actor, "approvals:decide")
    if approval_id is not None:
        named = Approval.objects.filter(run=run, pk=as_uuid(approval_id)).first()
        if named is None:
            raise NotFound("The run has no such approval.")
        return named
    found = list(Approval.objects.filter(run=run, status=ApprovalStatus.OPEN).order_by("node", "opened_at"))
    lanes = _lanes_of(run, found)
    if lane is not None:
        found = [one for one in found if lanes[one.pk] == lane]
    if len(found) > 1:
        raise AmbiguousTarget(
            "Several approvals are open; say which one is answered.",
            approvals=[str(one.pk) for one in found],
            lanes=[lanes[one.pk] for one in found],
        )
    if not found:
        raise NotFound(
            "The run waits for no approval." if lane is None else "That lane waits for no approval."
        )
    return found[0]


def _lanes_of(run: Run, approvals: Sequence[Approval]) -> dict[uuid.UUID, str]:
    rows = Step.objects.filter(run=run, address__in={one.address for one in approvals})
    lanes = {(step.branch, step.address): step.lane for step in rows}
    return {one.pk: lanes[one.branch, one.address] for one in approvals}


def revise(
    *,
    actor: Actor,
    approval_id: uuid.UUID | str,
    version: int | None,
    args: Mapping[str, Json],
    comment: str = "",
) -> Approval:
    """Save other arguments as a new version, without a vote. Earlier votes no longer count."""
    answer = Answer(approval_id, version, None, ())
    with verb(actor, "revise", approval_id):
        run = locked_run(_run_of(actor, answer))
        approval = store.lock_approval(run, as_uuid(approval_id))
        moment = store.now()
        keep_time(run, approval, moment)
        policies.check_decide(actor, run, approval)
        check_open(approval, moment, ApprovalEvent.REVISED)
        _check_free(actor, approval, moment)
        _check_seen(actor, run, approval, answer)
        if approval.options.get("recheck"):
            raise DecisionNotAllowed("Edited arguments go through a check here: answer with edit instead.")
        check_words(comment)
        args = whole_args(actor, run, approval, args)
        document = _revised(approval, args)
        if canonical.digest(document) == approval.digest:
            return approval
        _save_version(approval, document, actor, comment)
        renew_words(run, approval)
        facts: dict[str, Json] = {
            "approval": str(approval.pk),
            "version": approval.version,
            "args": dict(args),
        }
        tell(run, approval, "approval_revised", facts, actor.as_dict())
        _pass_on(run, approval, 0, actor)
        return approval


def expire(*, run_id: uuid.UUID, address: str) -> bool:
    """Ask the next people about an approval whose time is over, or decide it as its workflow says. False: nothing to do."""
    with transaction.atomic(durable=True):
        run = store.lock_run(run_id)
        approval = (
            Approval.objects.select_for_update(no_key=True)
            .filter(run=run, branch=run.branch, address=address, name="", status=ApprovalStatus.OPEN)
            .first()
        )
        moment = store.now()
        if approval is None or approval.due_at is None or approval.due_at > moment:
            return False
        _expire(run, approval, moment)
        return True


def expire_question(run: Run, wait: Wait, moment: datetime) -> None:
    """The same for what was asked in the middle of code; the run is locked, and the wait is due."""
    asked = Approval.objects.select_for_update(no_key=True).filter(run=run, branch=run.branch)
    place = {"address": wait.address, "name": wait.name, "occurrence": wait.occurrence}
    _expire(run, asked.get(**place, status=ApprovalStatus.OPEN), moment)


def _expire(run: Run, approval: Approval, moment: datetime) -> None:
    if escalate(run, approval, moment):
        return
    assert approval.due_at is not None
    _bring_up(run, approval)
    said, results = timed_out(approval.content, approval.options)
    _vote(approval, None, "timeout", said, [], "", "system", decisive=True, results=results)
    because = f"no answer before {approval.due_at.isoformat()}"
    decision = _decision(approval, said, SYSTEM, "timeout", because, moment, results)
    _close(approval, ApprovalStatus.EXPIRED, "timeout", moment)
    _go_on(run, approval, "timeout", decision, SYSTEM)


# ---- one run


def _run_of(actor: Actor, answer: Answer, *, one_of_several: bool = False) -> uuid.UUID:
    run_id = queries.run_asking(actor.project.pk, _approval_id(answer))
    if run_id is None or not actor.roles:
        told: HitlError = NotFound()
        if actor.roles:
            told = queries.gone_or(actor.project.pk, answer.approval_id, told)
        audit_denied(actor, "decide", answer.approval_id, told.code)
        if one_of_several:
            told.facts["approval"] = str(answer.approval_id)
        raise told
    return run_id


def _approval_id(answer: Answer) -> uuid.UUID:
    return as_uuid(answer.approval_id)


def _decide_run(actor: Actor, run_id: uuid.UUID, answers: Sequence[Answer]) -> list[Decided]:
    """All answers of one run, in one transaction. A damaged approval or checkpoint is dealt with after it was refused."""
    try:
        with (
            noting(run_id),
            verb(actor, "decide", ",".join(str(answer.approval_id) for answer in answers)),
        ):
            asked = store.lock_question(run_id, _approval_id(answers[0]))
            first = _decide_one(actor, asked, answers[0])
            # Each is read in its turn: what was said before may have changed it.
            turns = ((store.lock_next(asked, _approval_id(answer)), answer) for answer in answers[1:])
            return [first, *(_decide_one(actor, *turn) for turn in turns)]
    except PayloadChanged as changed:
        _ask_anew(run_id, changed)
        raise
    except CheckpointUnreadable as unreadable:
        fail_unreadable(run_id=run_id, error=unreadable)
        raise


def _decide_one(actor: Actor, asked: store.Question, answer: Answer) -> Decided:
    run, approval, votes, moment = asked
    keep_time(run, approval, moment)
    seat = policies.check_decide(actor, run, approval)
    answer = answer.worded(approval.options)
    answer = replace(answer, decisions=whole_decisions(actor, run, approval, answer.decisions))
    if _was_said(actor, approval, answer, votes):
        return Decided(approval, run, replayed=True)
    check_open(approval, moment, ApprovalEvent.VOTED)
    _check_first(run, approval, moment)
    judged = check_answer(actor, run, approval, answer, seat, votes, moment)
    if judged.recheck:
        _send_to_recheck(actor, run, approval, answer, judged)
        return Decided(approval, run)
    if judged.edited:
        _save_version(approval, judged.document, actor, answer.comment)
    return _record(seat, actor, run, approval, answer, judged, moment)


def check_answer(
    actor: Actor,
    run: Run,
    approval: Approval,
    answer: Answer,
    seat: Seat,
    votes: Sequence[Vote],
    moment: datetime,
) -> Judged:
    """What an answer to an open approval comes to. votes: those of `store.votes_on`. Raises; then nothing may be stored."""
    _check_free(actor, approval, moment)
    _check_seen(actor, run, approval, answer)
    if answer.link:
        use_link(answer.link, actor=actor, approval=approval)
    judged = rules.judge(
        approval.content,
        answer.decisions,
        user=actor.user.username,
        comment=answer.comment,
        options=_options(approval),
        votes=_that_count(approval, votes),
        editors=_editors(approval),
        stage=approval.stage,
    )
    _check_text(answer)
    _check_first_word(actor, approval, votes, judged, seat)
    return judged


def _record(
    seat: Seat,
    actor: Actor,
    run: Run,
    approval: Approval,
    answer: Answer,
    judged: Judged,
    moment: datetime,
) -> Decided:
    """Store the vote, and if it decides, let the run go on: in the same transaction."""
    if judged.decided is not None:
        _bring_up(run, approval)
    _vote(
        approval,
        actor,
        judged.vote.outcome,
        judged.vote.signature,
        [decision.as_dict() for decision in answer.decisions],
        answer.comment,
        answer.request_digest,
        decisive=judged.decided is not None,
        results=judged.results,
        edited=judged.edited,
        in_place_of=None if seat.own else seat.user,
    )
    if answer.comment or judged.edited:
        renew_words(run, approval)
    by = _by(actor, seat)
    if judged.decided is None:
        facts: dict[str, Json] = {
            "approval": str(approval.pk),
            "version": approval.version,
            "vote": judged.vote.outcome,
            "edited": judged.edited,
            "comment": answer.comment,
            **({"stage": approval.stage} if _has_stages(approval) else {}),
        }
        tell(run, approval, "vote_recorded", facts, by)
        _let_go(actor, approval)
        _pass_on(run, approval, judged.stage, actor)
        return Decided(approval, run)
    decision = _decision(approval, judged.decided, by, "decision", answer.comment, moment, judged.results)
    _close(approval, ApprovalStatus.DECIDED, judged.decided, moment)
    _go_on(run, approval, judged.decided, decision, by)
    return Decided(approval, run)


def _by(actor: Actor, seat: Seat) -> dict[str, Json]:
    """Who answers, as history and decision tell it; a substitute with the name of whom they stand in for."""
    return actor.as_dict() if seat.own else {**actor.as_dict(), "in_place_of": str(seat.user)}


def _has_stages(approval: Approval) -> bool:
    return bool(approval.options.get("stages"))


def _let_go(actor: Actor, approval: Approval) -> None:
    """Who has voted does not work on it any more: others may."""
    if approval.assignee_id == actor.user.pk:
        approval.assignee, approval.assigned_until = None, None
        store.write(approval, "assignee", "assigned_until")


def _pass_on(run: Run, approval: Approval, stage: int, actor: Actor) -> None:
    """Another stage is asked: the next one, or the first again after an edit."""
    if stage == approval.stage:
        return
    ask_stage(approval, stage)
    facts: dict[str, Json] = {
        "approval": str(approval.pk),
        "stage": stage,
        "who": [*approval.teams, *approval.users],
    }
    tell(run, approval, "approval_passed_on", facts, actor.as_dict())


def _send_to_recheck(actor: Actor, run: Run, approval: Approval, answer: Answer, judged: Judged) -> None:
    """An edit that is checked before people are asked anew: no vote, this approval is superseded, the lane goes on."""
    store.insert(
        Revision(
            approval=approval,
            version=approval.version + 1,
            document=canonical.dumps(judged.document),
            digest=canonical.digest(judged.document),
            author=actor.user,
            comment=answer.comment,
        )
    )
    decision = _decision(
        approval, "edit", actor.as_dict(), EDITED, answer.comment, store.now(), judged.results
    )
    _bring_up(run, approval)
    facts = aggregate(run, address=approval.address)
    transition = machine.recheck(facts, _step(facts, approval), {**decision, "edited": True})
    commit(run, transition, position=facts.position, actor=actor.as_dict())
    approval.refresh_from_db()


def _was_said(actor: Actor, approval: Approval, answer: Answer, votes: Sequence[Vote]) -> bool:
    """Whether this person has given this same answer before, and it counts: as a vote, or as an edit that is being checked.

    A vote that a later version made void does not count; the answer then meets the newer version.
    """
    same = [
        vote
        for vote in votes
        if vote.user_id == actor.user.pk and vote.request_digest == answer.request_digest
    ]
    if any(vote.version == approval.version or vote.decisive for vote in same):
        return True
    if approval.closed_reason != EDITED or answer.version != approval.version:
        return False
    told = {decision.key: decision.args for decision in answer.decisions if decision.type == "edit"}
    edit = Revision.objects.filter(approval=approval, version=approval.version + 1, author=actor.user).first()
    if edit is None or not told:
        return False
    actions = {action["key"]: action["args"] for action in canonical.loads(edit.document)["actions"]}
    return all(key in actions and canonical.same(args, actions[key]) for key, args in told.items())


def _go_on(
    run: Run, approval: Approval, outcome: str, decision: dict[str, Json], actor: dict[str, Json]
) -> None:
    facts = aggregate(run, address=approval.address)
    if approval.name:
        _answer_body(run, facts, approval, outcome, decision, actor)
        return
    transition = machine.answer(facts, _step(facts, approval), outcome, decision)
    commit(run, transition, position=facts.position, actor=actor)


def _answer_body(
    run: Run,
    facts: Aggregate,
    approval: Approval,
    outcome: str,
    decision: dict[str, Json],
    actor: dict[str, Json],
) -> None:
    """What was asked in the middle of code is answered there: no edge of the graph is taken."""
    told = given.of_decision(outcome, decision, on_timeout=str(approval.options.get("on_timeout")))
    answering.answer(run, facts, answering.wait_for(run, approval), told, actor)


def _bring_up(run: Run, approval: Approval) -> None:
    """An outcome leads somewhere only by the code of the run; a migration may have renamed the node that asks."""
    at_first = run.workflow_version
    with_code(run)
    if run.workflow_version != at_first:
        approval.refresh_from_db(fields=["node"])


def _step(facts: Aggregate, approval: Approval) -> LiveStep:
    step = at.find(facts.position, approval.address)
    assert step is not None
    return step


# ---- checks


def _check_free(actor: Actor, approval: Approval, moment: datetime) -> None:
    if approval.is_worked_on(moment) and approval.assignee_id != actor.user.pk:
        raise taken(approval)


def taken(approval: Approval) -> AlreadyAssigned:
    """Somebody works on it."""
    return AlreadyAssigned(
        Told("{assignee} works on this; take it over with a reason.", assignee=approval.assignee),
        assignee=approval.assignee.username if approval.assignee else None,
        until=_text(approval.assigned_until),
    )


def check_open(approval: Approval, moment: datetime, event: ApprovalEvent) -> None:
    """Whether an approval can still be answered, or changed. Raises what is the matter."""
    refusal = TABLE[ApprovalStatus(approval.status), event]
    if refusal is AlreadyDecided:
        raise _already_decided(approval)
    if approval.status == ApprovalStatus.EXPIRED:
        raise TimedOut(
            "The time to decide was over; the workflow's answer stands.", due_at=_text(approval.due_at)
        )
    if not isinstance(refusal, ApprovalStatus):
        raise ApprovalClosed(
            Told(
                "This approval is {status}: {reason}.",
                status=approval.status,
                reason=approval.closed_reason.replace("_", " "),
            ),
            reason=approval.closed_reason,
            closed_at=_text(approval.closed_at),
        )
    if approval.due_at is not None and approval.due_at <= moment:
        raise TimedOut(due_at=_text(approval.due_at))


def _check_first(run: Run, approval: Approval, moment: datetime) -> None:
    """Of several that are waited for, another may have been first although nothing has noted it yet."""
    if not approval.name or not answering.wait_for(run, approval).race:
        return
    found = answering.first_due(run, aggregate(run), approval.address, moment)
    if found is not None:
        raise ApprovalClosed(
            Told("{label!r} was first; this is not waited for any more.", label=found.wait.label),
            reason="first_of",
        )


def _already_decided(approval: Approval) -> AlreadyDecided:
    vote = Vote.objects.select_related("user").filter(approval=approval, decisive=True).first()
    winner = str(vote.user) if vote and vote.user else "system"
    return AlreadyDecided(
        Told("{winner} was first: {outcome}.", winner=winner, outcome=approval.outcome),
        winner=winner,
        action=approval.outcome,
        decided_at=_text(approval.closed_at),
        version=approval.version,
    )


def _check_seen(actor: Actor, run: Run, approval: Approval, answer: Answer) -> None:
    """The answer must be for what is there now, and what is there must be what its digest was taken of."""
    if answer.version is None:
        raise VersionRequired("Send the version of the approval that you saw.", version=approval.version)
    if not approval.is_intact:
        raise PayloadChanged(approval=str(approval.pk), address=approval.address)
    if answer.version != approval.version or (answer.digest and answer.digest != approval.digest):
        sight, base = sights.of(actor, run), _base(approval, answer.version)
        raise StaleVersion(
            Told(
                "You saw version {version}; version {current} is there now.",
                version=answer.version,
                current=approval.version,
            ),
            version=approval.version,
            digest=approval.digest,
            document=sights.question(approval, approval.content, sight),
            base=base and sights.question(approval, base, sight),
        )


def _base(approval: Approval, version: int) -> Json:
    """What the answer was made from, for a three-way difference."""
    found = (
        Revision.objects.filter(approval=approval, version=version).values_list("document", flat=True).first()
    )
    return canonical.loads(found) if found else None


def _check_text(answer: Answer) -> None:
    canonical.check(
        {"comment": answer.comment, "messages": [decision.message for decision in answer.decisions]}
    )


def check_words(comment: str) -> None:
    canonical.check({"comment": comment})
    if len(comment) > rules.MAX_COMMENT:
        raise Unprocessable(
            Told("A comment has at most {max_comment:,} characters.", max_comment=rules.MAX_COMMENT)
        )


def _check_first_word(
    actor: Actor, approval: Approval, votes: Sequence[Vote], judged: Judged, seat: Seat
) -> None:
    """One vote a person and version, whoever gave it. An edit makes a version of its own."""
    if judged.edited:
        return
    counting = [vote for vote in votes if vote.version == approval.version]
    mine = next((vote for vote in counting if vote.user_id == actor.user.pk), None)
    if mine is not None:
        raise AlreadyVoted(
            Told(
                "You have said {outcome} about version {version}.",
                outcome=mine.outcome,
                version=approval.version,
            ),
            vote=mine.outcome,
        )
    other = next((vote for vote in counting if seat.user.pk in (vote.in_place_of_id, vote.user_id)), None)
    if other is not None:
        raise AlreadyVoted(
            Told(
                "{user} has said {outcome} about version {version}, and counts for {seat}.",
                user=other.user,
                outcome=other.outcome,
                version=approval.version,
                seat=seat.user,
            ),
            vote=other.outcome,
        )


def _options(approval: Approval) -> ApprovalOptions:
    """The rules as they were when it was asked, with those who were asked since."""
    options = ApprovalOptions.of(approval.options)
    return replace(options, stages=options.asked_at(approval.level), reviewers=(), quorum=1)


def _that_count(approval: Approval, votes: Sequence[Vote]) -> list[VoteFact]:
    return [
        VoteFact(vote.user.username, vote.signature, vote.outcome, vote.stage)
        for vote in votes
        if vote.user and vote.version == approval.version
    ]


def _editors(approval: Approval) -> list[str]:
    asked = [approval.pk] if approval.version > 1 else []
    while approval.previous is not None and approval.previous.closed_reason == EDITED:
        approval = approval.previous  # what is asked now came out of that person's edit
        asked.append(approval.pk)
    if not asked:
        return []
    authors = Revision.objects.filter(approval__in=asked, author__isnull=False).order_by("version")
    return list(authors.values_list("author__username", flat=True))


def _revised(approval: Approval, args: Mapping[str, Json]) -> dict[str, Json]:
    document = approval.content
    keys = [action["key"] for action in document["actions"]]
    unknown = [key for key in args if key not in keys]
    if unknown or not args:
        raise BadRequest(
            Told("Arguments are given by action; the actions are {choices}.", choices=", ".join(keys)),
            unknown=unknown,
        )
    for action in document["actions"]:
        if action["key"] in args:
            problems = rules.edit_problems(action, args[action["key"]])
            if problems:
                raise Unprocessable(
                    Told("The arguments of {key!r} cannot be taken.", key=action["key"]), errors=problems
                )
            action["args"] = args[action["key"]]
    return document


# ---- rows


def _save_version(approval: Approval, document: dict[str, Json], actor: Actor, comment: str) -> None:
    approval.version += 1
    approval.document = canonical.dumps(document)
    approval.digest = canonical.digest(document)
    store.write(approval, "version", "document", "digest")
    store.insert(
        Revision(
            approval=approval,
            version=approval.version,
            document=approval.document,
            digest=approval.digest,
            author=actor.user,
            comment=comment,
        )
    )


def _vote(
    approval: Approval,
    actor: Actor | None,
    outcome: str,
    signature: str,
    decisions: Sequence[Json],
    comment: str,
    request_digest: str,
    *,
    decisive: bool,
    results: Sequence[Mapping[str, Json]],
    edited: bool = False,
    in_place_of: User | None = None,
) -> None:
    store.insert(
        Vote(
            approval=approval,
            version=approval.version,
            stage=approval.stage,
            in_place_of=in_place_of,
            user=actor.user if actor else None,
            outcome=outcome,
            signature=signature,
            decisions=canonical.dumps(list(decisions)),
            comment=comment,
            edited=edited,
            decisive=decisive,
            digest=approval.digest,
            request_digest=request_digest,
            approved_digest=rules.approved_digest(results) if decisive else "",
            method=actor.method if actor else "system",
            ip=actor.address if actor else "",
        )
    )


def _close(approval: Approval, status: ApprovalStatus, outcome: str, moment: datetime) -> None:
    approval.status, approval.outcome, approval.closed_at = status.value, outcome, moment
    store.write(approval, "status", "outcome", "closed_at")


def _decision(
    approval: Approval,
    outcome: str,
    by: dict[str, Json],
    reason: str,
    comment: str,
    moment: datetime,
    results: Sequence[dict[str, Json]],
) -> dict[str, Json]:
    shown = Shown(str(approval.pk), approval.version, approval.digest)
    return decision_of(shown, outcome, by=by, reason=reason, comment=comment, at=moment, results=results)


# ---- what is damaged


def _ask_anew(run_id: uuid.UUID, changed: PayloadChanged) -> None:
    """The stored action is not the one that was shown: close the approval, and let its node ask again."""
    with transaction.atomic(durable=True):
        run = store.lock_run(run_id)
        approval = Approval.objects.select_for_update(no_key=True).get(pk=changed.facts["approval"])
        if approval.status != ApprovalStatus.OPEN:
            return
        facts = aggregate(run)
        transition = machine.reopen(facts, _step(facts, approval), reason=PayloadChanged.code)
        commit(run, transition, actor=SYSTEM)


def fail_unreadable(*, run_id: uuid.UUID, error: CheckpointUnreadable) -> None:
    """A run whose head cannot be read fails, naming the checkpoint; the others can still be chosen for a rewind."""
    with transaction.atomic(durable=True):
        run = store.lock_run(run_id)
        if run.is_terminal:
            return
        commit(run, machine.give_up(run.status, error), actor=SYSTEM)


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
