"""Texts in the language of who reads. What is stored, and what programs read, is English."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from string import Formatter
from typing import Any, Final

from django.utils.translation import gettext, pgettext

from runs.errors import HitlError, Problem, Told


class Words(Mapping[str, str]):
    """A table of texts by their codes. Each is translated when it is read, so the table may stand in a module."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    def __getitem__(self, code: str) -> str:
        return gettext(self._texts[code])

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def number(value: float, places: int = 0) -> str:
    """A number as it is written there: "1,284", "12.5"."""
    return _marked(f"{value:,.{places}f}")


def exact_number(value: Decimal) -> str:
    """With all its decimals, as money has them: "1,200.0042"."""
    return _marked(f"{value.normalize():,f}")


def _marked(text: str) -> str:
    marks: dict[str, str | int | None] = {
        ",": pgettext("between thousands", ","),
        ".": pgettext("before decimals", "."),
    }
    return text.translate(str.maketrans(marks))


def said(text: str) -> str:
    """What an error says. One that has values in it is translated first, and filled after."""
    if not isinstance(text, Told):
        return gettext(text)
    values = {name: _value(name, value) for name, value in text.values.items()}
    return _FILL.vformat(gettext(text.template), (), values)


def speak(error: HitlError) -> None:
    """Give an error the words of whoever reads the page."""
    error.detail = said(error.detail)
    error.errors = [Problem(one.path, one.code, said(one.message)) for one in error.errors]


class _Fill(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return number(value) if format_spec == "," else str(super().format_field(value, format_spec))


# What people answer, as a verb in the middle of a sentence.
ANSWERS: Final = Words(
    {
        "approve": "approve",
        "edit": "edit",
        "reject": "reject",
        "respond": "respond",
        "revise": "revise",
        "answer": "answer",
        "mixed": "mixed",
    }
)
_FILL: Final = _Fill()
_SAID_INSIDE: Final = (
    "message",
    "detail",
    "told",
    "why",
    "known",
    "what",
)  # values that are texts of errors themselves
STATUSES: Final = Words(
    {
        "queued": "queued",
        "running": "running",
        "waiting": "waiting",
        "paused": "paused",
        "completed": "completed",
        "failed": "failed",
        "cancelling": "cancelling",
        "failing": "failing",
        "cancelled": "cancelled",
        "open": "open",
        "decided": "decided",
        "expired": "expired",
        "superseded": "superseded",
    }
)
_TABLES: Final = {"status": STATUSES, "outcome": ANSWERS}


def _value(name: str, value: object) -> object:
    if isinstance(value, Told) or (name in _SAID_INSIDE and isinstance(value, str)):
        return said(value)
    table = _TABLES.get(name)
    return value if table is None else table.get(str(value), value)
