"""An approval and what was said of it, as whoever decides reads them: by queries that are kept."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.db.models import QuerySet

from runs.models import Approval, Run, User, Vote
from runs.store.kept import Given, Part, answers, instances

_APPROVAL: Final = Part(Approval, without=("words",))
_VOTE: Final = Part(Vote)
_VOTER: Final = Part(User, "user")
_AWAY: Final = Part(User, "in_place_of")


def lock_approval(run: Run, approval_id: uuid.UUID) -> Approval:
    """An approval of a run that is locked, locked as well. Raises `Approval.DoesNotExist`."""
    rows = answers("locked approval", _approval, run=run.pk, approval=approval_id)
    if not rows:
        raise Approval.DoesNotExist
    [approval] = instances(rows[0], _APPROVAL)
    approval.run = run
    found: Approval = approval
    return found


def votes_on(approval_id: uuid.UUID) -> list[Vote]:
    """All that were given on an approval, those on earlier versions too, the oldest first, with who gave them. One query."""
    votes = []
    for row in answers("votes on", _votes, approval=approval_id):
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
