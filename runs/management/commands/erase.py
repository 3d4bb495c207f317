"""`manage.py erase RUN --user NAME --reason TEXT`: takes what an ended run says out of it, for good."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from runs import operations
from runs.management.base import DataCommand
from runs.models import Member, Run
from runs.policies import Actor


class Command(DataCommand):
    help = "Erase the content of ended runs: input, states, output, questions, answers, results. The history still holds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("runs", nargs="+", type=uuid.UUID, metavar="RUN", help="ids of runs")
        parser.add_argument("--user", required=True, help="the operator or admin who does it")
        parser.add_argument(
            "--reason", required=True, help="why; it stays, so nothing that is to be erased belongs in it"
        )

    def run(self, *args: Any, **options: Any) -> None:
        for run_id in options["runs"]:
            run = operations.erase(
                actor=_actor(run_id, options["user"]), run_id=run_id, reason=options["reason"]
            )
            self.stdout.write(f"{run.pk}  erased; {run.seq} events still verify")


def _actor(run_id: uuid.UUID, username: str) -> Actor:
    """The person as a member of the run's project."""
    run = Run.objects.select_related("project").filter(pk=run_id).first()
    if run is None:
        raise CommandError(f"There is no run {run_id}.")
    member = (
        Member.objects.select_related("user").filter(project=run.project, user__username=username).first()
    )
    if member is None:
        raise CommandError(f"The project {run.project.slug!r} has no member {username!r}.")
    return Actor(member.user, run.project, "command")
