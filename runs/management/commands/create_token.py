"""`manage.py create_token shop`: prints a new API token, and nothing else, on stdout."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import CommandError

from runs import operations, store
from runs.management.base import DataCommand
from runs.models import Member, Project
from runs.models.people import SCOPES
from runs.policies import Actor

READING: Final = ("runs:read", "approvals:read")
BY_ROLE: Final = {
    "viewer": READING,
    "submitter": (*READING, "runs:submit"),
    "reviewer": (*READING, "approvals:decide"),
    "operator": (*READING, "runs:submit", "runs:operate"),
    "admin": READING,
}


class Command(DataCommand):
    help = "Make an API token for a person or a service account. It is printed once; only its digest is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--project", default="demo", help="slug of the project (default: demo)")
        parser.add_argument(
            "--name", default="command line", help="what it is for, as the tokens page shows it"
        )
        parser.add_argument(
            "--scope",
            action="append",
            choices=SCOPES,
            help="may be given several times; default: what the roles of the account give use for",
        )
        parser.add_argument("--days", type=int, help="valid for so many days (default: until it is revoked)")

    def run(self, *args: Any, **options: Any) -> None:
        member = _member(options["project"], options["username"])
        scopes = options["scope"] or _scopes(member.roles)
        if options["days"] is not None and not 0 < options["days"] <= 3650:
            raise CommandError(f"--days {options['days']}: a whole number from 1 to 3650 is needed.")
        expires_at = store.now() + timedelta(days=options["days"]) if options["days"] else None
        actor = Actor(member.user, member.project, "command")
        _, secret = operations.create_token(
            actor=actor, name=options["name"], scopes=scopes, expires_at=expires_at
        )
        self.stderr.write(
            f"{member.user.username} in {member.project.slug}: {', '.join(scopes)}; shown this once"
        )
        self.stdout.write(secret)


def _scopes(roles: list[str]) -> list[str]:
    useful = {scope for role in roles for scope in BY_ROLE[role]}
    return [scope for scope in SCOPES if scope in useful]


def _member(slug: str, username: str) -> Member:
    member = Member.objects.select_related("user", "project").filter(
        project__slug=slug, user__username=username
    )
    if found := member.first():
        return found
    projects = list(Project.objects.order_by("slug").values_list("slug", flat=True))
    if slug not in projects:
        raise CommandError(f"There is no project {slug!r}. There are: {', '.join(projects[:20]) or 'none'}.")
    members = Member.objects.filter(project__slug=slug).order_by("user__username")
    names = ", ".join(members.values_list("user__username", flat=True)[:20]) or "none"
    raise CommandError(f"The project {slug!r} has no member {username!r}. It has: {names}.")
