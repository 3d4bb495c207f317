"""Logs of one JSON object a line, with the ids of run, step and request.

Ids come from two places: what the process is busy with (`working`, a context variable), and what a single
message says by `extra={"run": …, "step": …}`; the message wins. Nothing below `hitl` has to import this
module.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")  # all but the tab
IDS = ("request", "run", "branch", "step")

_context: ContextVar[dict[str, str]] = ContextVar("hitl_log", default={})  # noqa: B039  # never changed in place

redactors: list[
    Callable[[str], str]
] = []  # each gets the finished line and gives it back without what is secret


def current() -> dict[str, str]:
    return _context.get()


@contextmanager
def working(**ids: str) -> Iterator[None]:
    """Every message inside carries these ids."""
    token = _context.set({**_context.get(), **ids})
    try:
        yield
    finally:
        _context.reset(token)


def begin(**ids: str) -> None:
    """Like `working` where begin and end are two callbacks; the next `begin` replaces it."""
    _context.set(ids)


def _ids(record: logging.LogRecord) -> dict[str, str]:
    said = {
        name: str(getattr(record, name)) for name in IDS if isinstance(getattr(record, name, None), str | int)
    }
    return {**current(), **said}


def _said_by_node(record: logging.LogRecord) -> dict[str, Any]:
    """What `ctx.log` adds: the node, and its facts (JSON text, already without secrets)."""
    facts = getattr(record, "facts", None)
    if not isinstance(facts, str):
        return {}
    return {"node": str(getattr(record, "node", "")), "facts": json.loads(facts)}


def _utc(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, tz=UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _clean(line: str) -> str:
    for redact in redactors:
        line = redact(line)
    return line


def _one_line(text: str) -> str:
    """Text in which nothing ends the line or steers a terminal; JSON stays the same JSON."""
    return CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(record),
        }
        line |= _said_by_node(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _one_line(_clean(json.dumps(line, ensure_ascii=False)))


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        record.message = _one_line(
            _clean(record.message)
        )  # an address or a model's words could forge the next one
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in _ids(record).items())
        said = _said_by_node(record)
        facts = f" {json.dumps(said['facts'], ensure_ascii=False)}" if said.get("facts") else ""
        return _clean(f"{super().format(record)}{facts}{' · ' + ids if ids else ''}")


def config(style: str) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {"()": "hitl.logging.JsonFormatter"},
            "text": {"()": "hitl.logging.TextFormatter"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": style}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "django": {"level": "INFO", "handlers": [], "propagate": True},
            "django.server": {"level": "INFO", "handlers": [], "propagate": True},
            "uvicorn": {"level": "WARNING", "handlers": [], "propagate": True},
            "uvicorn.access": {"level": "WARNING", "handlers": [], "propagate": True},
            "celery": {"level": "INFO"},
            "celery.beat": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},  # a hint that came or went is no news
            "celery.app.trace": {"level": "WARNING"},
        },
    }
