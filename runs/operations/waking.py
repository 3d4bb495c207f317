"""Wakes what waits: for time, for signals, for child runs, for the first of several.

Whatever touches a waiting step first applies what is due for it by the database's clock. A wake-up never depends on a
message: the sweeper finds due times and ended children in Postgres.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction

from runs import store
from runs.engine.status import TERMINAL
from runs.models import Run, Wait
from runs.operations import answering
from runs.operations.deciding import expire_question
from runs.operations.door import aggregate
from runs.policies import SYSTEM


def settle(run: Run, address: str, moment: datetime) -> int:
    """Apply everything that satisfies a waiting step of a locked run by `moment`; returns how many answers that were."""
    answers = 0
    while store.open_waits(run, address).exclude(name="").exists():
        facts = aggregate(run)
        found = answering.first_due(run, facts, address, moment)
        if found is None:
            break
        if found.wait.kind == "approval":
            expire_question(run, found.wait, moment)
        else:
            answering.answer(run, facts, found.wait, answering.given_by(found), SYSTEM)
        answers += 1
    return answers


def wake(wait: Wait) -> bool:
    """A wait is due, or the child it waits for has ended. False if there is nothing to do any more."""
    with transaction.atomic(durable=True):
        run = store.lock_run(wait.run_id)
        if run.branch != wait.branch or run.status in TERMINAL:
            return False
        return settle(run, wait.address, store.now()) > 0


def wake_parent(*, run_id: uuid.UUID) -> None:
    """A child run has ended: let the step go on that waits for it, if any does."""
    for wait in Wait.objects.filter(child=run_id, closed_at=None):
        wake(wait)
