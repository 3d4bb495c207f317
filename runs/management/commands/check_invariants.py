"""manage.py check_invariants: whether what must hold does, for a scheduler."""

from __future__ import annotations

import argparse
from typing import Any

from runs import invariants
from runs.engine import canonical
from runs.invariants import Look, Violation
from runs.management.base import DataCommand, project_named
from runs.models import Member, Project
from runs.policies import DECIDERS, Actor


class Command(DataCommand):
    help = (
        "Look at every row for what must hold. Changes nothing. "
        "Ends with 0 if all of it does, 1 if something does not, 2 if it was called wrongly or could not look."
    )
    trouble = 2

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--project", default="", help="slug of one project (default: all)")
        parser.add_argument("--json", action="store_true", help="as JSON")

    def run(self, *args: Any, **options: Any) -> None:
        project = project_named(options["project"]) if options["project"] else None
        found = invariants.violations(Look(project.pk if project else None, limit=None))
        inboxes = [line for one in _projects(project) for line in _inboxes(one)]
        if options["json"]:
            told = {
                "holds": not found and not inboxes,
                "violations": [_as_dict(one) for one in found],
                "inboxes": inboxes,
            }
            self.stdout.write(canonical.dumps(told, indent=2))
        else:
            self._say(found, inboxes)
        if found or inboxes:
            raise SystemExit(1)

    def _say(self, found: list[Violation], inboxes: list[str]) -> None:
        for one in found:
            self.stdout.write(f"{one.run.pk}  {one.rule.key}  {one.rule.says}: not so. {one.rule.repair}")
        for line in inboxes:
            self.stdout.write(line)
        if not found and not inboxes:
            self.stdout.write(f"{len(invariants.RULES) + 1} rules hold.")


def _projects(project: Project | None) -> list[Project]:
    return [project] if project else list(Project.objects.order_by("slug"))


def _inboxes(project: Project) -> list[str]:
    """What a person's badge, list and rights do not agree about."""
    found = []
    members = Member.objects.filter(project=project, roles__overlap=sorted(DECIDERS), user__is_active=True)
    for member in members.select_related("user").order_by("user__username"):
        actor = Actor(member.user, project, "command", member=member)
        inbox = invariants.inbox_of(actor)
        if not inbox.agrees:
            found.append(
                f"{project.slug}  inbox of {member.user.username}: badge {inbox.badge}, list {inbox.listed}, "
                f"may decide {inbox.may_decide}"
            )
    return found


def _as_dict(one: Violation) -> dict[str, Any]:
    return {
        "rule": one.rule.key,
        "says": one.rule.says,
        "project": str(one.run.project_id),
        "run": str(one.run.pk),
        "target": str(one.target),
        "what": one.what,
        "repair": one.rule.repair,
    }
