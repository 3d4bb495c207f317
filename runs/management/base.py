"""What commands that work on the data have in common: trouble is said in a sentence, not in a traceback."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError

from runs.engine import canonical
from runs.errors import HitlError
from runs.models import Project


class DataCommand(BaseCommand):
    """A command whose `run` may raise what operations raise, and may find the database away or empty.

    trouble: its exit status then.
    """

    trouble: ClassVar[int] = 1

    def handle(self, *args: Any, **options: Any) -> None:
        _check_texts(options.values())
        try:
            self.run(*args, **options)
        except HitlError as error:
            lines = [error.detail, *(f"  {problem.path}: {problem.message}" for problem in error.errors)]
            raise CommandError("\n".join(lines), returncode=self.trouble) from error
        except OperationalError as error:
            said = str(error).strip().splitlines()[0]
            raise CommandError(
                f"The database does not answer; `make up` starts one. It said: {said}",
                returncode=self.trouble,
            ) from error
        except ProgrammingError as error:
            said = str(error).strip().splitlines()[0]
            raise CommandError(
                f"The database lacks tables; `manage.py migrate` makes them. It said: {said}",
                returncode=self.trouble,
            ) from error

    def run(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns as wide as what stands in them; numbers to the right."""
        lines = [list(head), *(list(row) for row in rows)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
        for line in lines:
            cells = [
                text.rjust(width) if text[:1].isdigit() else text.ljust(width)
                for text, width in zip(line, widths, strict=True)
            ]
            self.stdout.write("  ".join(cells).rstrip())


def _check_texts(given: Iterable[Any]) -> None:
    """What a terminal of another encoding sends becomes lone surrogates, which nothing that is kept has (K1)."""
    for one in given:
        if isinstance(one, list):
            _check_texts(one)
        elif isinstance(one, str) and canonical.visible(one) != one:
            raise CommandError(f"{canonical.visible(one)!r:.200} is not UTF-8.")


def seconds(text: str) -> float:
    """`type=` of an argument: how long to rest between two looks. Without a rest the database would be asked all the time."""
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise ArgumentTypeError(f"{text} is not a number of seconds from 0.05 to 3600")
    return value


def project_named(slug: str) -> Project:
    found = Project.objects.filter(slug=slug).first()
    if found is None:
        slugs = ", ".join(Project.objects.order_by("slug").values_list("slug", flat=True)[:20]) or "none"
        raise CommandError(f"There is no project {slug!r}. There are: {slugs}.")
    return found
