"""`manage.py verify_history [RUN …]`: recomputes the hash chain of every run's history. Exit status 1 if one is broken."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any, Final

from django.core.management.base import CommandError

from runs import store
from runs.engine import canonical, chain
from runs.errors import CheckpointUnreadable, UnknownCheckpoint
from runs.management.base import DataCommand
from runs.models import Event, Run

EVENTS_AT_ONCE: Final = 2_000


class Command(DataCommand):
    help = "Check that the history of runs is the one that was written: no event changed, missing or added."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", nargs="*", type=uuid.UUID, help="ids of runs (default: all)")

    def run(self, *args: Any, **options: Any) -> None:
        runs, events, broken = 0, 0, 0
        for run in _runs(options["run"]):
            runs, events = runs + 1, events + run.seq
            fault = _fault(run)
            if fault:
                broken += 1
                self.stdout.write(f"{run.pk}  event {fault.seq}: {fault.reason}")
        if broken:
            raise CommandError(f"{broken} of {runs} histories are not the ones that were written.")
        self.stdout.write(f"{runs} histories with {events} events hold")


def _runs(wanted: list[uuid.UUID]) -> Iterator[Run]:
    """The head of each run as it is now; what is appended later is not looked at."""
    found = Run.objects.filter(pk__in=wanted) if wanted else Run.objects.all()
    missing = set(wanted) - set(found.values_list("pk", flat=True)) if wanted else set()
    if missing:
        raise CommandError(f"There is no run {', '.join(sorted(map(str, missing)))}.")
    columns = ("pk", "seq", "head_hash", "forked_from_id", "forked_checkpoint")
    yield from found.only(*columns).order_by("created_at", "pk").iterator(chunk_size=200)


def _fault(run: Run) -> chain.Broken | None:
    events = Event.objects.filter(run=run, seq__lte=run.seq).order_by("seq")
    fault = chain.check(events.iterator(chunk_size=EVENTS_AT_ONCE), head=bytes(run.head_hash), seq=run.seq)
    return fault or (_fault_of_fork(run) if run.forked_checkpoint is not None else None)


def _fault_of_fork(run: Run) -> chain.Broken | None:
    """Whether a fork's first checkpoint is the one that its history says. Of an erased one, and of one that is older than this
    check, it says nothing."""
    first = Event.objects.filter(run=run, seq=1).values_list("payload", flat=True).first()
    digest = canonical.loads(first).get("digest") if first else None
    if digest is None:
        return None
    try:
        whole = canonical.digest(store.read_position(run.pk, 0)) == digest
    except (CheckpointUnreadable, UnknownCheckpoint):
        whole = False
    return None if whole else chain.Broken(1, "the first checkpoint is not the one with which the fork began")
