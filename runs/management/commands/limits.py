"""`manage.py limits show | set`: what is in use of limits, who stands in line, and how much a project may do at once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from runs import operations, queries, store
from runs.engine import canonical
from runs.management.base import DataCommand, project_named
from runs.models import Project


class Command(DataCommand):
    help = "What is in use of limits and who stands in line, by project; and how many runs of one may be at work at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="show|set")
        show = what.add_parser("show", help="limits in use, and runs in line")
        show.add_argument("--json", action="store_true", help="as JSON")
        change = what.add_parser("set", help="say how many runs of a project may be at work at once")
        change.add_argument("--project", required=True, help="slug of the project")
        change.add_argument(
            "--max-concurrent-runs", required=True, metavar="NUMBER", help="a whole number, or any"
        )

    def run(self, *args: Any, **options: Any) -> None:
        if options["what"] == "set":
            operations.limit_project(
                project=project_named(options["project"]), most=_most(options["max_concurrent_runs"])
            )
        self._show(as_json=options.get("json", False))

    def _show(self, *, as_json: bool) -> None:
        projects = Project.objects.order_by("slug")
        told = [
            {
                "project": project.slug,
                "max_concurrent_runs": project.max_concurrent_runs,
                "in_line": queries.in_line(project.pk),
                "in_use": [
                    {
                        "workflow": use.workflow,
                        "limit": use.name,
                        "key": use.key,
                        "taken": use.taken,
                        "of": use.most,
                    }
                    for use in store.taken(project.pk)
                ],
            }
            for project in projects
        ]
        if as_json:
            self.stdout.write(canonical.dumps(told, indent=2))
            return
        self.table(
            ("project", "at once", "in line", "workflow", "limit", "key", "in use"),
            [row for project in told for row in _rows(project)],
        )


def _rows(project: dict[str, Any]) -> list[tuple[str, ...]]:
    most = project["max_concurrent_runs"]
    first = (project["project"], "any" if most is None else str(most), str(project["in_line"]))
    used = [
        (use["workflow"] or "*", use["limit"], use["key"] or "-", f"{use['taken']} of {use['of']}")
        for use in project["in_use"]
    ]
    blank = ("", "", "")
    return [(*(blank if place else first), *row) for place, row in enumerate(used or [("-", "-", "-", "-")])]


def _most(text: str) -> int | None:
    if text == "any":
        return None
    if not text.isascii() or not text.isdigit():
        raise CommandError(f"{text!r} is no whole number; or say any.")
    return int(text)
