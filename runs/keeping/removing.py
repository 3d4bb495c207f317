"""How a run goes: whole, with every row of its own, and with a note of what it was."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cache
from typing import Final

from django.db import connection, models
from django.db.models import Model

from runs.keeping.keys import keys_to, pk_column
from runs.models import Removed, Run


@cache
def owned() -> list[tuple[str, str]]:
    """Every table whose rows go with a run, and the condition that finds them; the farthest from the run come first."""
    found: dict[str, str] = {}
    _collect(Run, "= ANY(%(runs)s)", found)
    return list(reversed(found.items()))


def _collect(model: type[Model], condition: str, found: dict[str, str]) -> None:
    for key in keys_to(model):
        table = key.model._meta.db_table
        if key.remote_field.on_delete is not models.CASCADE or table in found:
            continue
        found[table] = f"{key.column} {condition}"
        if keys_to(key.model):
            _collect(
                key.model, f"IN (SELECT {pk_column(key.model)} FROM {table} WHERE {found[table]})", found
            )


def _let_go() -> list[str]:
    """Statements that take rows of other runs off what is about to go."""
    statements = []
    for key in keys_to(Run):
        if key.remote_field.on_delete is models.SET_NULL:
            table, column = key.model._meta.db_table, key.column
            statements.append(f"UPDATE {table} SET {column} = NULL WHERE {column} = ANY(%(runs)s)")
    return statements


_TOMBSTONES: Final = """
    INSERT INTO runs_removed (id, project_id, kind, run, workflow, status, finished_at, seq, head_hash)
    SELECT id, project_id, 'run', id, workflow, status, finished_at, seq, head_hash FROM runs_run WHERE id = ANY(%(runs)s)
    UNION ALL
    SELECT asked.id, run.project_id, 'approval', run.id, run.workflow, run.status, run.finished_at, run.seq, run.head_hash
    FROM runs_approval asked JOIN runs_run run ON run.id = asked.run_id WHERE run.id = ANY(%(runs)s)
    ON CONFLICT (id) DO NOTHING
"""


def remove(runs: Sequence[uuid.UUID]) -> int:
    """Delete locked runs with every row of theirs, in the caller's transaction; returns how many rows went.

    A row that nobody thought of keeps its run: the foreign key refuses at commit, and all of it is as before.
    """
    parameters = {"runs": list(runs)}
    gone: int = 0
    with connection.cursor() as cursor:
        say_retention()
        cursor.execute(_TOMBSTONES, parameters)
        for statement in _let_go():
            cursor.execute(statement, parameters)
        for table, condition in owned():
            cursor.execute(f"DELETE FROM {table} WHERE {condition}", parameters)
            gone += cursor.rowcount
        cursor.execute("DELETE FROM runs_run WHERE id = ANY(%(runs)s)", parameters)
        gone += cursor.rowcount
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is wrong is wrong now, not at commit
    return gone


def say_retention() -> None:
    """The history's trigger lets this transaction through."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL hitl.retention = 'on'")


def was_removed(project_id: uuid.UUID, target: object) -> Removed | None:
    """What is left of a run or an approval that retention removed from a project."""
    try:
        wanted = uuid.UUID(str(target))
    except ValueError:
        return None
    return Removed.objects.filter(pk=wanted, project=project_id).first()
