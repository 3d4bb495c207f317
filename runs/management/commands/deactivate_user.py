"""`manage.py deactivate_user frida`: closes an account in all its projects, at once; `--again` opens it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from runs import operations
from runs.management.base import DataCommand


class Command(DataCommand):
    help = "Close an account: its sessions, tokens and open pages end, and nothing is asked of it any more."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--again", action="store_true", help="open it again")

    def run(self, *args: Any, **options: Any) -> None:
        user = operations.switch_account(username=options["username"], active=options["again"])
        self.stdout.write(f"{user.username} is {'active again' if user.is_active else 'deactivated'}")
