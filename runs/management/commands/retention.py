"""`manage.py retention show | set | run`: how long things are kept, what a round would remove, and a round by hand."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandError

from runs import keeping, operations, watching
from runs.engine import canonical
from runs.keeping import Rule, sizes
from runs.keeping.sizes import Size
from runs.management.base import DataCommand, project_named
from runs.models import LegalHold, Project
from runs.models.keeping import DAYS
from runs.policies import Actor

MEASURED: Final = 1_000  # runs of which a dry run works out what compacting would take
UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class Command(DataCommand):
    help = "How long runs and what belongs to them are kept. Says first, removes later: try run --dry-run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="show|set|run")
        show = what.add_parser("show", help="what holds, and who says so")
        show.add_argument("--json", action="store_true", help="as JSON")
        change = what.add_parser("set", help="change what holds for a project or one workflow of it")
        change.add_argument(
            "days",
            nargs="+",
            metavar="NAME=DAYS",
            help=f"{', '.join(name.removesuffix('_days') for name in DAYS)}; a number of days, never, or default",
        )
        change.add_argument("--project", default="demo", help="slug of the project (default: demo)")
        change.add_argument("--workflow", default="", help="one workflow (default: all of the project)")
        change.add_argument(
            "--user",
            default="",
            help="the admin whom the audit names (default: only that a command did it)",
        )
        run = what.add_parser("run", help="one round now, as the beat starts every ten minutes")
        run.add_argument("--dry-run", action="store_true", help="remove nothing: say how much would go")
        run.add_argument("--until-done", action="store_true", help="rounds until nothing is due")
        run.add_argument("--json", action="store_true", help="as JSON")

    def run(self, *args: Any, **options: Any) -> None:
        match options["what"]:
            case "show":
                self._show(as_json=options["json"])
            case "set":
                self._set(options)
            case _ if options["dry_run"]:
                self._measure(as_json=options["json"])
            case _:
                self._round(until_done=options["until_done"], as_json=options["json"])

    # ---- show

    def _show(self, *, as_json: bool) -> None:
        rules = keeping.rules()
        last = watching.look(watching.HOUSEKEEPING).at
        told = {
            "on": settings.HITL_RETENTION,
            "last_round": last.isoformat() if last else None,
            "holds": LegalHold.objects.count(),
            "rules": [
                {"project": rule.project, "workflow": rule.workflow, "days": rule.days, "from": rule.said_by}
                for rule in rules
            ],
        }
        if as_json:
            self.stdout.write(canonical.dumps(told, indent=2))
            return
        self.table(
            ("project", "workflow", *(name.removesuffix("_days") for name in DAYS)),
            [
                (rule.project or "(default)", rule.workflow or "*", *(_days(rule, name) for name in DAYS))
                for rule in rules
            ],
        )
        self.stdout.write("")
        self.stdout.write("Days; * says it differently from the wider rule. never: kept for ever.")
        self.stdout.write(f"Legal holds: {told['holds']}. Last round: {told['last_round'] or 'none yet'}.")
        if not settings.HITL_RETENTION:
            self.stdout.write("HITL_RETENTION is off: nothing is removed by itself.")

    # ---- set

    def _set(self, options: dict[str, Any]) -> None:
        project = project_named(options["project"])
        days = dict(_said(text) for text in options["days"])
        operations.set_policy(
            project=project,
            workflow=options["workflow"],
            days=days,
            actor=_admin(project, options["user"]) if options["user"] else None,
        )
        self._show(as_json=False)

    # ---- run

    def _round(self, *, until_done: bool, as_json: bool) -> None:
        total = last = operations.keep_house()
        while until_done and last.did_something:
            last = operations.keep_house()
            total = total.plus(last)
        if as_json:
            self.stdout.write(canonical.dumps(dict(total.as_dict()), indent=2))
            return
        rows = [(name, f"{count:,}") for name, count in total.as_dict().items() if count]
        self.table(("what", "how many"), rows)
        if not rows:
            self.stdout.write("Nothing was due.")

    def _measure(self, *, as_json: bool) -> None:
        found = [*sizes.of_removal(), *sizes.of_compaction(limit=MEASURED), *sizes.of_chores()]
        if as_json:
            self.stdout.write(canonical.dumps([_as_dict(size) for size in found], indent=2))
            return
        self.table(
            ("what", "project", "workflow", "table", "rows", "bytes"),
            [
                (
                    size.what,
                    size.project or "-",
                    size.workflow or "-",
                    size.table,
                    f"{size.rows:,}",
                    _size(size.size),
                )
                for size in found
            ],
        )
        rows, weight = sum(size.rows for size in found), sum(size.size for size in found)
        self.stdout.write("")
        self.stdout.write(f"{rows:,} rows, {_size(weight)} would go. Nothing was removed.")


def _days(rule: Rule, name: str) -> str:
    days = rule.days[name] or "never"
    mine = rule.said_by[name] == ("workflow" if rule.workflow else "project")
    return f"{days}*" if mine else str(days)


def _size(size: int) -> str:
    amount = float(size)
    for unit in UNITS:
        if amount < 1_000 or unit == UNITS[-1]:
            break
        amount /= 1_000
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"


def _as_dict(size: Size) -> dict[str, Any]:
    return {
        "what": size.what,
        "project": size.project,
        "workflow": size.workflow,
        "table": size.table,
        "rows": size.rows,
        "bytes": size.size,
    }


def _said(text: str) -> tuple[str, int | None]:
    """`completed=30`, `failed=never`, `compact=default`."""
    name, equals, value = text.partition("=")
    known = {name.removesuffix("_days"): name for name in DAYS}
    if not equals or name not in known:
        raise CommandError(f"{text!r} is not NAME=DAYS; there are: {', '.join(known)}.")
    if value == "default":
        return known[name], None
    if value == "never":
        return known[name], 0
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise CommandError(f"{text!r}: a whole number of days, never, or default.")
    return known[name], int(value)


def _admin(project: Project, username: str) -> Actor:
    member = project.members.select_related("user").filter(user__username=username).first()
    if member is None:
        raise CommandError(f"The project {project.slug!r} has no member {username!r}.")
    return Actor(member.user, project, "command")
