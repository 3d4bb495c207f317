"""`/healthz`: the process answers. `/readyz`: what it needs is there; a 503 says in words what is not.

`/readyz` is open to everybody, so it names the part and the kind of fault, never an address or a message of
the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from runs import watching


class NotReady(Exception):
    """A part that this process needs is missing."""


@require_safe
def alive(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    parts = {name: _ask(check) for name, check in CHECKS.items()}
    fine = all(part["ok"] for part in parts.values())
    answer = {"status": "ok" if fine else "unavailable", "parts": parts}
    return JsonResponse(answer, status=200 if fine else 503, headers={"Cache-Control": "no-store"})


def _ask(check: Callable[[], str]) -> dict[str, object]:
    try:
        return {"ok": True, "detail": check()}
    except NotReady as fault:
        return {"ok": False, "detail": str(fault)}
    except DatabaseError as fault:
        return {"ok": False, "detail": f"the database does not answer ({type(fault).__name__})"}


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "answers"


def _migrations() -> str:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in missing[:3])
        raise NotReady(f"{len(missing)} not applied ({names}): run `manage.py migrate`")
    return "applied"


@cache
def _broker_client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def _broker() -> str:
    try:
        _broker_client().ping()
    except redis.RedisError as fault:
        raise NotReady(f"Redis does not answer ({type(fault).__name__}); runs go on more slowly") from fault
    return "answers"


def _sweep() -> str:
    seen = watching.look(watching.SWEEPER)
    if seen.at is None:
        raise NotReady("no sweep yet: is the sweeper running?")
    when = seen.at.isoformat(timespec="seconds")
    if not seen.well:
        raise NotReady(f"the last sweep was {seen.ago.total_seconds():.0f} s ago, at {when}")
    return when


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "broker": _broker,
    "last sweep": _sweep,
}
