"""`manage.py sql_change_setup`: the database of the SQL change example and its role. May be run again."""

from __future__ import annotations

from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from examples.sql_change import address, setup


class Command(BaseCommand):
    help = "Make the database that the SQL change example changes, and the role that may change it."

    def handle(self, *args: Any, **options: Any) -> None:
        if address.told() is not None:
            self.stdout.write(f"nothing to set up: {address.VARIABLE} names a database")
            return
        try:
            said = setup.run(own(), address.names(), password=address.password())
        except (setup.CannotSetUp, address.BadAddress) as error:
            raise CommandError(str(error)) from error
        except psycopg.OperationalError as error:
            raise CommandError(
                f"The database does not answer. It said: {str(error).splitlines()[0]}"
            ) from error
        self.stdout.write("\n".join(said))


def own() -> dict[str, Any]:
    """hitl's own database, as psycopg connects to it."""
    own = settings.DATABASES["default"]
    named = {"host": own["HOST"], "port": own["PORT"], "user": own["USER"], "password": own["PASSWORD"]}
    return {**own.get("OPTIONS", {}), **{k: v for k, v in named.items() if v}, "dbname": own["NAME"]}
