"""Errors as data, and when what failed is tried again."""

from __future__ import annotations

from collections.abc import Mapping

from runs.engine import canonical
from runs.engine.authored import origin
from runs.engine.canonical import Json
from runs.engine.retry import Retry
from runs.engine.state import storable
from runs.errors import (
    HitlError,
    StepError,
)

MAX_MESSAGE = 4_000


def error_of(error: BaseException) -> dict[str, Json]:
    """An exception as data: code, message, type, and the facts it carries."""
    error = origin(error)
    if not isinstance(error, HitlError):
        message = canonical.visible(_text_of(error))[:MAX_MESSAGE] or type(error).__name__
        return {"code": "node_error", "message": message, "type": type(error).__qualname__}
    facts: dict[str, Json] = {}
    for key, value in error.facts.items():
        try:
            facts[key] = storable(value)
        except StepError:
            facts[key] = canonical.visible(repr(value))[:MAX_MESSAGE]
    if error.errors:
        facts["errors"] = [problem.as_dict() for problem in error.errors]
        facts.setdefault("path", error.errors[0].path)
    return {**facts, "code": error.code, "message": canonical.visible(error.detail)[:MAX_MESSAGE]}


def brief(error: Mapping[str, Json]) -> dict[str, Json]:
    """What stands in the place of a result where errors are collected."""
    return {name: error[name] for name in ("code", "message", "type") if name in error}


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an author's exception may fail to say what it is
        return ""


def delay_of(
    policy: Retry, error: BaseException, *, attempt: int, failures: int, draw: float
) -> float | None:
    """Seconds until the next attempt, or None if there is none. `failures` counts this one."""
    if attempt >= policy.attempts or not policy.wants(origin(error)):
        return None
    return policy.delay(failures=failures, draw=draw)
