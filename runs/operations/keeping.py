"""How long things are kept: the round that clears up, and what people say against it or beyond it.

A round does a bounded amount of work, each piece in a short transaction of its own; what it does not get to, the next one
does. Several may run at once: each takes only what the others do not hold.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import Error, transaction
from django.db.models import F, QuerySet

from runs import dispatch, keeping, policies, store, watching
from runs.engine import canonical
from runs.errors import (
    BadRequest,
    CheckpointUnreadable,
    OnHold,
    RunNotEnded,
    StillNeeded,
    Told,
)
from runs.models import LegalHold, OperationalNote, Project, RetentionPolicy, Run
from runs.models.keeping import DAYS
from runs.operations.door import audit_command, check_reason, check_version, locked_run, verb
from runs.operations.finding import put_missing_words
from runs.policies import Actor

CANDIDATES: Final = 50  # runs looked for at a time
BATCHES: Final = 50  # of each kind, in one round: some ten seconds of one worker
MAX_DAYS: Final = 36_500
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Kept:
    """What one round did."""

    runs: int = 0
    rows: int = 0
    compacted: int = 0
    checkpoints: int = 0
    calls: int = 0
    notes: int = 0
    waits: int = 0
    audit: int = 0
    messages: int = 0
    endpoints: int = 0
    keys: int = 0
    workers: int = 0
    removed: int = 0
    statistics: int = 0
    sessions: int = 0
    words: int = 0
    files: int = 0
    failed: int = 0

    @property
    def did_something(self) -> bool:
        """Whether rows went or were changed: then another round may find more."""
        return any(count for name, count in self.as_dict().items() if name != "failed")

    def plus(self, other: Kept) -> Kept:
        return Kept(**{name: count + getattr(other, name) for name, count in self.as_dict().items()})

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


# ---- the round


def keep_house(*, batches: int = BATCHES, removing: bool = True) -> Kept:
    """One round: remove runs whose time is over, compact old ones, clear what is not a run. At most `batches` of each.

    removing: without it nothing goes; only approvals get the words by which they are found, where these are missing.
    """
    kept = Kept()
    if removing:
        _remove(kept, batches)
    kept.words = _put_words(batches)
    store.beat(watching.HOUSEKEEPING.beat, dict(kept.as_dict()))
    return kept


def _remove(kept: Kept, batches: int) -> None:
    _over_runs(keeping.to_remove, _remove_some, kept, batches)
    _over_runs(keeping.to_compact, _compact_one, kept, batches)
    for chore in keeping.CHORES:
        for _ in range(batches):
            cleared = _clear(chore, kept)
            setattr(kept, chore.name, getattr(kept, chore.name) + cleared)
            if cleared < settings.HITL_RETENTION_BATCH:
                break
    kept.files = clear_files(batches)


def _put_words(batches: int) -> int:
    """Approvals that have no words, or none any more since a version hides something else, are found from now on."""
    done = 0
    for _ in range(batches):
        with transaction.atomic(durable=True):
            some = put_missing_words()
        done += some
        if not some:
            break
    return done


def clear_files(most: int = BATCHES) -> int:
    """Delete files that nobody refers to; returns how many. What a storage does not let go of is left for the next round."""
    done = 0
    try:
        while done < most and store.clear_content():
            done += 1
    except Exception as error:  # each storage has errors of its own
        if not store.is_connected():
            raise
        logger.warning("files were left for the next round: %s", error, exc_info=True)
    return done


Piece = Callable[[list[uuid.UUID], Kept], int]


def _over_runs(due: Callable[[], QuerySet[Run]], piece: Piece, kept: Kept, batches: int) -> None:
    """Hand over runs that are due until there are none, or enough was done; each at most once a round."""
    done = 0
    for ids in _in_turns(due):
        while ids and done < batches:
            handled = max(1, _safely(piece, ids, kept))
            ids, done = ids[handled:], done + 1
        if done >= batches:
            return


def _in_turns(due: Callable[[], QuerySet[Run]]) -> Iterator[list[uuid.UUID]]:
    """Ids of runs that are due, some at a time, going on behind the last one: what is left over blocks nobody."""
    after: tuple[Any, uuid.UUID] | None = None
    while True:
        rows = due()
        if after:
            moment, last = after
            rows = rows.filter(finished_at__gte=moment).exclude(finished_at=moment, id__lte=last)
        found = list(rows.values_list("finished_at", "id")[:CANDIDATES])
        if not found:
            return
        after = found[-1]
        yield [run_id for _, run_id in found]


def _safely(piece: Piece, ids: list[uuid.UUID], kept: Kept) -> int:
    """One piece of work. If it fails, the first run is tried alone: one that cannot go must not keep its batch here."""
    try:
        return piece(ids, kept)
    except Error as error:
        if not store.is_connected():
            raise  # nothing else will work either; the next round does
        if len(ids) > 1:
            return _safely(piece, ids[:1], kept)
        kept.failed += 1
        logger.warning("retention left a run: %s", error, exc_info=True, extra={"run": str(ids[0])})
        return 1


def _remove_some(ids: list[uuid.UUID], kept: Kept) -> int:
    """Remove as many of these runs as fit a batch; returns how many of the ids were dealt with."""
    with transaction.atomic(durable=True):
        chosen = keeping.lock_due(keeping.to_remove(), ids, rows=settings.HITL_RETENTION_BATCH)
        if not chosen:
            return len(ids)
        rows = keeping.remove(chosen)
    kept.runs += len(chosen)
    kept.rows += rows
    return ids.index(chosen[-1]) + 1


def _compact_one(ids: list[uuid.UUID], kept: Kept) -> int:
    run_id = ids[0]
    try:
        with transaction.atomic(durable=True):
            if not keeping.lock_due(keeping.to_compact(), [run_id], rows=1):
                return 1
            done = keeping.compact(Run.objects.get(pk=run_id))
    except CheckpointUnreadable as unreadable:
        _set_aside(run_id, unreadable)
        return 1
    kept.compacted += 1
    kept.checkpoints += done.checkpoints
    kept.calls += done.calls
    return 1


def _set_aside(run_id: uuid.UUID, unreadable: CheckpointUnreadable) -> None:
    """A damaged run stays as it is, and is not tried again at each round."""
    with transaction.atomic(durable=True):
        if not keeping.lock_due(keeping.to_compact(), [run_id], rows=1):
            return
        OperationalNote.objects.create(
            run_id=run_id, kind="compaction_refused", facts={"why": unreadable.detail}
        )
        Run.objects.filter(pk=run_id).update(compacted_at=store.now())
    logger.warning("a run was not compacted: %s", unreadable.detail, extra={"run": str(run_id)})


def _clear(chore: keeping.Chore, kept: Kept) -> int:
    try:
        with transaction.atomic(durable=True):
            return keeping.clear(chore, limit=settings.HITL_RETENTION_BATCH)
    except Error as error:
        if not store.is_connected():
            raise
        kept.failed += 1
        logger.warning("%s were left for the next round: %s", chore.name, error, exc_info=True)
        return 0


# ---- what people say


def hold(*, actor: Actor, run_id: uuid.UUID | str, reason: str) -> Run:
    """Put a run under a legal hold: nothing of it is removed until it is lifted. Again, it only gets the new reason."""
    check_reason(reason)
    with verb(actor, "hold", run_id, reason=reason):
        run = locked_run(run_id)
        policies.check_keep(actor, run)
        LegalHold.objects.update_or_create(run=run, defaults={"author": actor.user, "reason": reason})
        return _changed(run)


def release(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "") -> Run:
    """Lift a legal hold; where there is none, nothing changes."""
    if reason:
        check_reason(reason)
    with verb(actor, "release", run_id, reason=reason):
        run = locked_run(run_id)
        policies.check_keep(actor, run)
        lifted, _ = LegalHold.objects.filter(run=run).delete()
        return _changed(run) if lifted else run


def erase(*, actor: Actor, run_id: uuid.UUID | str, reason: str, version: int | None = None) -> Run:
    """Take the content out of an ended run for good; its history still holds. Again changes nothing.

    Raises `RunNotEnded`, `OnHold`, `StillNeeded`.
    """
    check_reason(reason)
    with verb(actor, "erase", run_id, reason=reason):
        run = locked_run(run_id)
        policies.check_keep(actor, run)
        if run.erased_at is not None:
            return run
        if version is not None:
            check_version(run, version)
        _check_erasable(run)
        keeping.erase(run, by=actor.as_dict(), reason=reason)
        transaction.on_commit(clear_files)  # its own are among them
        dispatch.announce(run.project_id, run.pk)
        run.refresh_from_db()
        return run


def _check_erasable(run: Run) -> None:
    if not run.is_terminal:
        raise RunNotEnded(status=run.status)
    held = LegalHold.objects.filter(run=run).select_related("author").first()
    if held:
        raise OnHold(since=held.created_at.isoformat(), reason=held.reason, author=str(held.author))
    why = keeping.why_spared(run, keeping.SPARED)
    if why:
        raise StillNeeded(Told("The run cannot be erased now: {why}.", why=why))


def _changed(run: Run) -> Run:
    """Whoever has the page of this run open sees it anew."""
    Run.objects.filter(pk=run.pk).update(version=F("version") + 1)
    dispatch.announce(run.project_id, run.pk)
    return Run.objects.select_related("requester", "hold__author").get(pk=run.pk)


def set_policy(
    *, project: Project, workflow: str = "", days: Mapping[str, int | None], actor: Actor | None = None
) -> RetentionPolicy | None:
    """Say how long a project, or one workflow of it, keeps things. 0: for ever; None: as without.

    actor: an admin of the project, or None for whoever has the command line of the machine. A policy that says nothing any
    more goes; None is returned then.
    """
    told = canonical.dumps(dict(days))
    if actor is None:
        with transaction.atomic(durable=True):
            audit_command(project, "set_retention", workflow or "*", reason=told)
            return write_policy(project=project, workflow=workflow, days=days)
    with verb(actor, "set_retention", workflow or "*", reason=told):
        policies.check_policy(actor, project)
        return write_policy(project=project, workflow=workflow, days=days)


def write_policy(
    *, project: Project, workflow: str, days: Mapping[str, int | None]
) -> RetentionPolicy | None:
    """The row of a policy, in the caller's transaction."""
    for name, value in days.items():
        _check_days(name, value, workflow)
    policy, _ = RetentionPolicy.objects.get_or_create(project=project, workflow=workflow)
    for name, value in days.items():
        setattr(policy, name, value)
    if all(getattr(policy, name) is None for name in DAYS):
        policy.delete()
        return None
    policy.updated_at = store.now()
    policy.save()
    return policy


def _check_days(name: str, value: int | None, workflow: str) -> None:
    if name not in DAYS:
        raise BadRequest(
            Told("{name!r} is not kept by days. There are: {choices}.", name=name, choices=", ".join(DAYS))
        )
    if value is not None and not 0 <= value <= MAX_DAYS:
        raise BadRequest(
            Told(
                "{name} is a whole number of days from 1 to {max_days}, or 0 for ever.",
                name=name,
                max_days=MAX_DAYS,
            )
        )
    if name == "audit_days" and workflow:
        raise BadRequest("Audit entries belong to no workflow; say how long the project keeps them.")
