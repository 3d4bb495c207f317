"""`manage.py create_project north --name "The north" --admin ada`: founds a project."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from runs import operations
from runs.management.base import DataCommand
from runs.models import User


class Command(DataCommand):
    help = "Found a project. Its admin, if one is named, has an account already; create_user makes one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="small letters, digits and dashes; it never changes")
        parser.add_argument("--name", help="what people read (default: the slug)")
        parser.add_argument("--admin", help="name of the account that administers it")

    def run(self, *args: Any, **options: Any) -> None:
        admin = None
        if options["admin"]:
            admin = User.objects.filter(username=options["admin"]).first()
            if admin is None:
                raise CommandError(f"There is no account {options['admin']!r}; create_user makes one.")
        project = operations.create_project(
            slug=options["slug"], name=options["name"] or options["slug"], admin=admin
        )
        self.stdout.write(f"founded {project.slug}" + (f"; {admin.username} administers it" if admin else ""))
