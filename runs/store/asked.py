"""An approval and what was said of it, as whoever decides reads them: by queries that are kept."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet

from runs.models import Approval, Run, User, Vote
from runs.store.kept import Given, Part, answers, instances, kept
from runs.store.reading import lock_run_with

_APPROVAL: Final = Part(Approval, without=("words",))
_VOTE: Final = Part(Vote)
_VOTER: Final = Part(User, "user")
_AWAY: Final = Part(User, "in_place_of")


class Question(NamedTuple):
    """What a decision is about: the locked run and its locked approval, what was said of it, and the moment."""

    run: Run
    approval: Approval
    votes: list[Vote]
    moment: datetime


def lock_question(run_id: uuid.UUID, approval_id: uuid.UUID) -> Question:
    """A run and an approval of it, locked, in one round trip. Raises as `lock_run` and `lock_approval` do."""
    run, rows, said, [(moment,)] = lock_run_with(
        run_id,
        kept("locked approval", _approval, run=run_id, approval=approval_id),
        kept("votes on", _votes, approval=approval_id),
        ("now", {}),
    )
    return Question(run, _approval_of(run, rows), _read_votes(said), moment)


def lock_next(asked: Question, approval_id: uuid.UUID) -> Question:
    """Another approval of the run."""
    return asked._replace(approval=lock_approval(asked.run, approval_id), votes=votes_on(approval_id))


def lock_approval(run: Run, approval_id: uuid.UUID) -> Approval:
    """An approval of a run that is locked, locked as well. Raises `Approval.DoesNotExist`."""
    return _approval_of(run, answers("locked approval", _approval, run=run.pk, approval=approval_id))


def _approval_of(run: Run, rows: Sequence[Any]) -> Approval:
    if not rows:
        raise Approval.DoesNotExist
    [approval] = instances(rows[0], _APPROVAL)
    approval.run = run
    found: Approval = approval
    return found


def votes_on(approval_id: uuid.UUID) -> list[Vote]:
    """All that were given on an approval, those on earlier versions too, the oldest first, with who gave them. One query."""
    return _read_votes(answers("votes on", _votes, approval=approval_id))


def _read_votes(rows: Sequence[Any]) -> list[Vote]:
    votes = []
    for row in rows:
        vote, vote.user, vote.in_place_of = instances(row, _VOTE, _VOTER, _AWAY)
        votes.append(vote)
    return votes


def tell_votes(approval: Approval, votes: list[Vote]) -> None:
    """Have an approval know its votes, as `prefetch_related` would."""
    rows = approval.votes.all()
    rows._result_cache = votes  # noqa: SLF001
    approval._prefetched_objects_cache = {"votes": rows}  # type: ignore[attr-defined]  # noqa: SLF001


def _approval() -> QuerySet[Approval, Any]:
    mine = Approval.objects.select_for_update(no_key=True).filter(run=Given("run"), pk=Given("approval"))
    return mine.values_list(*_APPROVAL.names)


def _votes() -> QuerySet[Vote, Any]:
    rows = Vote.objects.filter(approval=Given("approval")).order_by("id")
    return rows.values_list(*_VOTE.names, *_VOTER.names, *_AWAY.names)
