"""`manage.py verify_history [RUN …]`: recomputes the hash chain of every run's history. Exit status 1 if one is broken."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any, Final

from django.core.management.base import CommandError

from runs.engine import chain
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
    yield from found.only("pk", "seq", "head_hash").order_by("created_at", "pk").iterator(chunk_size=200)


def _fault(run: Run) -> chain.Broken | None:
    events = Event.objects.filter(run=run, seq__lte=run.seq).order_by("seq")
    return chain.check(events.iterator(chunk_size=EVENTS_AT_ONCE), head=bytes(run.head_hash), seq=run.seq)
