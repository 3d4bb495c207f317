"""The filter of the list of runs as fields of a form, and as chips that take a part of it off again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from runs import workflows
from runs.runlists import LONGEST, STATUSES, RunFilter
from runs.tongue import Words
from runs.web import signs
from runs.web.narrowing import Chip, FilterField

WAITS: Final[Mapping[str, str]] = Words(
    {
        "approval": "people",
        "timer": "time",
        "signal": "a signal",
        "child": "a child run",
        "retry": "a retry",
        "needs_migration": "a migration",
        "slot": "its turn in line",
    }
)
STARTED: Final[Mapping[str, str]] = Words(
    {
        "hour": "the last hour",
        "day": "the last 24 h",
        "week": "the last 7 days",
        "month": "the last 30 days",
    }
)
WORDS: Final[Mapping[str, str]] = Words(
    {
        "q": "Search",
        "status": "Status",
        "waiting_for": "Waiting for",
        "workflow": "Workflow",
        "version": "Version",
        "label": "Label",
        "state": "State",
        "requester": "Asked by",
        "error": "Failed with",
        "queue": "Queue",
        "limit_key": "Limit key",
        "started": "Started within",
        "created_from": "Started from",
        "created_until": "Started until",
    }
)
HINTS: Final[Mapping[str, str]] = Words(
    {"label": "name=value", "state": "name=value", "limit_key": "name=key", "error": "code"}
)
SHOWN: Final = tuple(name for name in WORDS if name != "q")  # in the form; the search has a field of its own
DAYS: Final = ("created_from", "created_until")


def fields(which: RunFilter) -> list[FilterField]:
    told = which.as_dict()
    every = list(workflows.every_version())
    flows = tuple(sorted({flow.name for flow in every}))
    state = tuple(sorted({f"{name}=" for flow in every for name in flow.schema.searchable}))
    choices = {
        "status": {status: signs.RUN[status].word for status in STATUSES},
        "waiting_for": WAITS,
        "started": STARTED,
    }
    names = {"workflow": flows, "queue": tuple(sorted({flow.queue for flow in every})), "state": state}
    return [
        FilterField(
            name,
            WORDS[name],
            told.get(name, ""),
            HINTS.get(name, ""),
            "date" if name in DAYS and "T" not in told.get(name, "") else "text",
            choices.get(name, {}),
            names.get(name, ()),
            longest=2 * LONGEST,
        )
        for name in SHOWN
    ]


def chips(which: RunFilter, *, url: Callable[[str], str]) -> list[Chip]:
    """url(name): where the list is without that part."""
    return [Chip(WORDS[name], _said(name, value), url(name)) for name, value in which.as_dict().items()]


def said(which: RunFilter) -> str:
    """In a sentence: "Workflow refund, Status Failed"; nothing for all runs."""
    return ", ".join(f"{WORDS[name].lower()} {_said(name, value)}" for name, value in which.as_dict().items())


def nothing(name: str) -> Any:
    return None if name in DAYS else ""


def _said(name: str, value: str) -> str:
    if name == "status":
        return signs.RUN[value].word
    return {"waiting_for": WAITS, "started": STARTED}.get(name, {}).get(value, value)
