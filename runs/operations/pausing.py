"""Pause a run and let it go on, alone or with everything below it."""

from __future__ import annotations

import uuid

from django.db import transaction

from runs import policies, store
from runs.engine import canonical, pausing
from runs.errors import AlreadyTerminal, Compensating, PausedAbove, Told
from runs.models import Run
from runs.operations.door import MAX_REASON, commit, locked_run, verb
from runs.policies import SYSTEM, Actor


def pause(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "", children: bool = False) -> Run:
    """Hold a run: steps that execute are finished and committed, nothing new begins until `resume`.

    People may decide, and signals arrive, meanwhile; what falls due becomes ready, and the run's deadline does not run.
    children: with every run below it, also those that begin later; the sweeper does it. Again changes nothing, but with
    `children` for one that was paused without.
    """
    with verb(actor, "pause", run_id):
        run = locked_run(run_id)
        check_pause(actor, run)
        canonical.check(reason)
        if run.paused is not None and (run.paused["children"] or not children):
            return run
        transition = pausing.pause(
            run.status, reason=reason[:MAX_REASON], children=children, by=actor.user.username
        )
        commit(run, transition, actor=actor.as_dict(), reason=reason)
        run.refresh_from_db()
        return run


def resume(*, actor: Actor, run_id: uuid.UUID | str, reason: str = "") -> Run:
    """Let a paused run go on from where it stands, and what was paused with it. One that is not paused stays as it is."""
    with verb(actor, "resume", run_id):
        run = locked_run(run_id)
        check_resume(actor, run)
        canonical.check(reason)
        if run.paused is None:
            return run
        _let_go_on(run, reason=reason[:MAX_REASON], actor=actor.as_dict())
        run.refresh_from_db()
        return run


def check_pause(actor: Actor, run: Run) -> None:
    policies.check_pause(actor, run)
    if run.is_terminal:
        raise AlreadyTerminal(Told("The run is {status}.", status=run.status), status=run.status)
    if run.status == "cancelling":
        raise Compensating()


def check_resume(actor: Actor, run: Run) -> None:
    policies.check_pause(actor, run)
    if run.is_terminal:
        raise AlreadyTerminal(Told("The run is {status}.", status=run.status), status=run.status)
    above = _held_with(run)
    if above is not None:
        raise PausedAbove(
            Told("The run is paused with {above}; resume that.", above=above.pk), run=str(above.pk)
        )


def follow(run: Run) -> bool:
    """The sweeper's part: a run is paused, or goes on, as the one above it does."""
    with transaction.atomic(durable=True):
        run = store.lock_run(run.pk)
        above = _held_with(run)
        if run.is_terminal or run.status == "cancelling":
            return False
        if above is not None and run.paused is None:
            transition = pausing.pause(
                run.status,
                reason=str((above.paused or {}).get("reason", "")),
                children=True,
                through=str(above.pk),
                by=(above.paused or {}).get("by"),
            )
            commit(run, transition, actor=SYSTEM)
            return True
        if above is None and run.paused is not None and "with" in run.paused:
            _let_go_on(run, reason="", actor=SYSTEM)
            return True
        return False


def _held_with(run: Run) -> Run | None:
    """The run above that holds this one too."""
    if run.parent_id is None:
        return None
    return Run.objects.filter(pk=run.parent_id, status="paused", paused__children=True).first()


def _let_go_on(run: Run, *, reason: str, actor: object) -> None:
    transition = pausing.resume(
        run.status, store.live_steps(run), reason=reason, ending=run.ending is not None
    )
    commit(run, transition, actor=actor, reason=reason)
