"""`manage.py create_user ada --project demo --role admin`: makes an account that can sign in."""

from __future__ import annotations

import getpass
import secrets
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from runs import operations
from runs.management.base import DataCommand
from runs.models import Project
from runs.models.people import ROLES


class Command(DataCommand):
    help = "Make an account with a password, as a member of a project: the way in for the first admin."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--project", default="demo", help="slug of the project (default: demo)")
        parser.add_argument(
            "--role",
            action="append",
            choices=ROLES,
            required=True,
            help="what they may do; may be given several times",
        )
        parser.add_argument("--name", default="", help="their name, as others see it")
        parser.add_argument("--email", default="")
        parser.add_argument(
            "--random-password", action="store_true", help="make a password and print it, instead of asking"
        )

    def run(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project {options['project']!r}; create_project founds one.")
        password = secrets.token_urlsafe(12) if options["random_password"] else _asked()
        member = operations.add_person(
            project=project,
            username=options["username"],
            name=options["name"],
            email=options["email"],
            roles=options["role"],
            password=password,
        )
        self.stderr.write(f"{member.user.username} is {', '.join(member.roles)} in {project.slug}")
        if options["random_password"]:
            self.stdout.write(password)


def _asked() -> str:
    """The password, typed twice; of a pipe its first line. It is never an argument: those are seen by all processes."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass()
    if getpass.getpass("Again: ") != password:
        raise CommandError("The two are not the same.")
    return password
