"""Several approvals at once: decided with one word, or claimed, released and snoozed.

Decided are those that ask the same, and risk little. All are looked at before one is stored: if any cannot be decided
so, none is. Then each is decided in a transaction of its own, with the version and digest that were on the screen;
whoever was faster with one of them is named in its result.
Who works on what decides nothing, so there each is done by itself at once, and what is refused holds up no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from runs import policies, store
from runs.engine import canonical
from runs.engine.approval import ActionDecision
from runs.engine.canonical import Json
from runs.engine.status import ApprovalEvent
from runs.errors import BadRequest, HitlError, NotAlike, NotFound, NothingDecided, RiskTooHigh, Told
from runs.models import Approval
from runs.operations import attending, deciding
from runs.operations.deciding import Answer
from runs.operations.door import as_uuid
from runs.policies import Actor

AT_ONCE: Final = 100
WORDS: Final = ("approve", "reject")
WORKING: Final = ("assign", "unassign", "snooze")


@dataclass(frozen=True, slots=True)
class Chosen:
    """An approval as it was on the screen."""

    approval_id: uuid.UUID | str
    version: int | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came, or would come, of one approval. error: why not. decided: the quorum is reached, the run goes on."""

    approval_id: str
    approval: Approval | None = None
    decided: bool = False
    error: HitlError | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """A result for each, in the order in which they were given. dry: nothing was stored."""

    items: list[Result]
    dry: bool

    @property
    def refused(self) -> list[Result]:
        return [item for item in self.items if item.error is not None]


def shape_of(approval: Approval) -> str:
    """What approvals have in common that may be decided together: what they ask, with whatever arguments; of whom."""
    drawn: list[Json] = [
        {name: action[name] for name in ("key", "tool", "schema", "allowed", "effect", "risk")}
        for action in approval.content["actions"]
    ]
    told: dict[str, Json] = {
        "workflow": approval.run.workflow,
        "version": approval.run.workflow_version,
        "node": approval.node,
        "stage": approval.stage,
        "teams": list(approval.teams),
        "users": list(approval.users),
        "actions": drawn,
    }
    return canonical.digest(told)


def is_low_risk(approval: Approval) -> bool:
    """Whether its author has said of every action that it risks little, and each can be undone."""
    actions = approval.content["actions"]
    return all(action["risk"] == "low" and action["effect"] != "irreversible" for action in actions)


def decide_together(
    *, actor: Actor, chosen: Sequence[Chosen], word: str, comment: str = "", dry: bool = False
) -> Together:
    """Approve or reject several approvals of one shape and low risk. dry: only say what would come of it.

    Raises `NothingDecided` with the refusal of each if not all of them can be decided so; per approval `RiskTooHigh`,
    `NotAlike` and whatever `decide` raises. After that a result per item: somebody may have been faster with some of them.
    """
    _check(chosen, word)
    found = _found(actor, chosen)
    looked = [_would(actor, one, found, word=word, comment=comment) for one in chosen]
    if dry:
        return Together(looked, dry=True)
    refused = [item for item in looked if item.error is not None]
    if refused:
        raise NothingDecided(
            Told(
                "{count} of {every} cannot be decided so; nothing was stored.",
                count=len(refused),
                every=len(chosen),
            ),
            items=[refusal_of(item) for item in refused],
        )
    return Together([_do(actor, one, found, word=word, comment=comment) for one in chosen], dry=False)


def attend_together(
    *, actor: Actor, approval_ids: Sequence[uuid.UUID | str], do: str, until: datetime | None = None
) -> Together:
    """Claim (assign), release (unassign) or snooze several approvals, each in a transaction of its own: a result per item.

    until: when what is snoozed is shown again; None shows it now. Each is refused as `assign`, `unassign` and `snooze` do.
    """
    if do not in WORKING:
        raise BadRequest(
            Told(
                "Several approvals at once: {choices}; not {word!r:.50}.", choices=", ".join(WORKING), word=do
            )
        )
    _check_number(approval_ids)
    verbs: dict[str, Callable[..., Approval]] = {
        "assign": attending.assign,
        "unassign": attending.unassign,
        "snooze": partial(attending.snooze, until=until),
    }
    return Together([_attend(actor, one, verbs[do]) for one in approval_ids], dry=False)


def _attend(actor: Actor, approval_id: uuid.UUID | str, verb: Callable[..., Approval]) -> Result:
    try:
        return Result(str(approval_id), verb(actor=actor, approval_id=approval_id))
    except HitlError as error:
        known = Approval.objects.select_related("run", "assignee").filter(
            project=actor.project, pk=as_uuid(approval_id)
        )
        return Result(str(approval_id), known.first() if actor.roles else None, error=error)


def refusal_of(item: Result) -> dict[str, Json]:
    assert item.error is not None
    return {"approval": item.approval_id, "code": item.error.code, "detail": item.error.detail}


def _check(chosen: Sequence[Chosen], word: str) -> None:
    if word not in WORDS:
        raise BadRequest(
            Told(
                "Several approvals are answered with {choices}; not with {word!r:.50}.",
                choices=" or ".join(WORDS),
                word=word,
            )
        )
    _check_number([one.approval_id for one in chosen])


def _check_number(ids: Sequence[uuid.UUID | str]) -> None:
    if not 1 <= len(ids) <= AT_ONCE:
        raise BadRequest(Told("Choose from 1 to {at_once} approvals.", at_once=AT_ONCE))
    if len({str(one) for one in ids}) != len(ids):
        raise BadRequest("An approval is named twice.")


def _found(actor: Actor, chosen: Sequence[Chosen]) -> dict[uuid.UUID, Approval]:
    """Those that are there, in the order in which they were given: the first says what the others have to be like."""
    ids = [as_uuid(one.approval_id) for one in chosen]
    rows = Approval.objects.select_related("run", "assignee").filter(project=actor.project, pk__in=ids)
    by_id = {row.pk: row for row in rows} if actor.roles else {}
    return {pk: by_id[pk] for pk in ids if pk in by_id}


def _would(actor: Actor, one: Chosen, found: dict[uuid.UUID, Approval], *, word: str, comment: str) -> Result:
    """What `decide` would say about one, without its locks."""
    approval = found.get(as_uuid(one.approval_id))
    try:
        if approval is None:
            raise NotFound()
        answer = _answer(one, approval, word, comment)
        _check_one(actor, approval, answer, first=next(iter(found.values())))
    except HitlError as error:
        return Result(str(one.approval_id), approval, error=error)
    return Result(str(one.approval_id), approval)


def _check_one(actor: Actor, approval: Approval, answer: Answer, *, first: Approval) -> None:
    moment = store.now()
    seat = policies.check_decide(actor, approval.run, approval)
    deciding.check_open(approval, moment, ApprovalEvent.VOTED)
    if not is_low_risk(approval):
        raise RiskTooHigh()
    if shape_of(approval) != shape_of(first):
        raise NotAlike()
    votes = store.votes_on(approval.pk)
    deciding.check_answer(actor, approval.run, approval, answer, seat, votes, moment)


def _do(actor: Actor, one: Chosen, found: dict[uuid.UUID, Approval], *, word: str, comment: str) -> Result:
    answer = _answer(one, found[as_uuid(one.approval_id)], word, comment)
    try:
        [decided] = deciding.decide(actor=actor, answers=[answer])
    except HitlError as error:
        return Result(str(one.approval_id), found[as_uuid(one.approval_id)], error=error)
    approval = decided.approval
    return Result(str(one.approval_id), approval, decided=approval is not None and approval.status != "open")


def _answer(one: Chosen, approval: Approval, word: str, comment: str) -> Answer:
    keys = [action["key"] for action in approval.content["actions"]]
    message = comment if word == "reject" else ""
    decisions = [ActionDecision(key, word, None, message) for key in keys]
    return Answer(one.approval_id, one.version, one.digest, decisions, comment)
