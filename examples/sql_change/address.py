"""Where the database is that is changed, and as whom.

Told by SQL_CHANGE_DATABASE_URL. Without it, it is a database beside hitl's own, on the same server, with the names
that `manage.py sql_change_setup` gives; the password of its role follows from the secret key, so that every process
knows it and no file holds it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

VARIABLE: Final = "SQL_CHANGE_DATABASE_URL"
FORM: Final = "postgresql://role:password@host:5432/database"
LONGEST_NAME: Final = 63  # Postgres cuts longer ones, and two could become one


class BadAddress(ValueError):
    """The address of the database is not usable."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the set-up makes."""

    database: str
    role: str


def connection() -> dict[str, Any]:
    """What psycopg connects with. Raises BadAddress, naming the variable and the accepted form."""
    return told() or beside()


def told() -> dict[str, Any] | None:
    url = os.environ.get(VARIABLE)
    if not url:
        return None
    try:
        found = conninfo_to_dict(url) if urlsplit(url).scheme in ("postgres", "postgresql") else {}
    except (ProgrammingError, ValueError):
        found = {}
    if not (found.get("dbname") and found.get("user")):
        raise BadAddress(f"{VARIABLE} is not an address of Postgres with a role and a database: {FORM}")
    return dict(found)


def beside() -> dict[str, Any]:
    """The database that the set-up makes on the server of hitl's own."""
    own, made = settings.DATABASES["default"], names()
    place = {"host": own["HOST"], "port": own["PORT"], **own.get("OPTIONS", {})}
    return {
        **{
            name: value for name, value in place.items() if name in ("host", "port", "sslmode", "sslrootcert")
        },
        "dbname": made.database,
        "user": made.role,
        "password": password(),
    }


def names() -> Names:
    database = f"{settings.DATABASES['default']['NAME']}_airports"
    role = f"{database}_writer"
    if len(role.encode()) > LONGEST_NAME:
        raise BadAddress(f"{role} is longer than a name of Postgres; say the place by {VARIABLE}")
    return Names(database, role)


def password() -> str:
    key, purpose = settings.SECRET_KEY.encode(), f"role {names().role} of the SQL change example"
    return hmac.new(key, purpose.encode(), hashlib.sha256).hexdigest()
