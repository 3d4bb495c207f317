"""What commands that work on the data have in common: trouble is said in a sentence, not in a traceback."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError

from runs.errors import HitlError


class DataCommand(BaseCommand):
    """A command whose `run` may raise what operations raise, and may find the database away or empty."""

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.run(*args, **options)
        except HitlError as error:
            lines = [error.detail, *(f"  {problem.path}: {problem.message}" for problem in error.errors)]
            raise CommandError("\n".join(lines)) from error
        except OperationalError as error:
            said = str(error).strip().splitlines()[0]
            raise CommandError(
                f"The database does not answer; `make up` starts one. It said: {said}"
            ) from error
        except ProgrammingError as error:
            said = str(error).strip().splitlines()[0]
            raise CommandError(
                f"The database lacks tables; `manage.py migrate` makes them. It said: {said}"
            ) from error

    def run(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError
