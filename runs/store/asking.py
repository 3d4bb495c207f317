"""Named statements over Django's connection of this thread, counted and translated like any query of it; values come in
binary, since a document written out in hex is twice as long."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from psycopg.pq import Format

from runs.sql import statement


def ask(name: str, parameters: Mapping[str, Any]) -> list[Any]:
    """The rows that a named statement gives; none of one that only writes."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    if settings.HITL_PREPARE and raw.prepare_threshold is None:
        raw.prepare_threshold = (
            0  # Django turns it off; to plan some of these takes longer than to execute them
        )
    text, plain = statement(name), psycopg.Cursor(raw)
    plain.format = Format.BINARY
    with connection.wrap_database_errors, plain, _logged(plain, text, parameters):
        plain.execute(text.encode(), parameters)
        return plain.fetchall() if plain.description else []


def _logged(cursor: Any, text: str, parameters: Mapping[str, Any]) -> AbstractContextManager[None]:
    """For whoever counts or looks at queries: of a prepared one the driver does not know what it came to."""
    if not connection.queries_logged:
        return nullcontext()
    whole = psycopg.ClientCursor(cursor.connection).mogrify(text.encode(), parameters)
    logged: AbstractContextManager[None] = connection.make_debug_cursor(cursor).debug_sql(whole)
    return logged
