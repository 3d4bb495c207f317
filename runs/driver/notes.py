"""What a body says about itself while it runs: lines of a log, and how far it is. Bounded, and without secrets."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runs.driver import secrets
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.state import storable
from runs.errors import InvalidCall, StepError

MAX_MESSAGE: Final = 2_000
MAX_FACTS: Final = 4_000
MAX_LINES: Final = 200  # of one attempt; the process's own log has all of them
PROGRESS_EVERY: Final = 0.25  # seconds between two that are written
MAX_NOTE: Final = 200

logger = logging.getLogger("runs.node")


@dataclass(slots=True)
class Progress:
    """How far a step is: the newest of what it said, and whether that has been written."""

    pending: Json = None
    written_at: float = -math.inf

    def say(self, progress: Json, *, now: float, last: bool) -> bool:
        """Take it; whether it is to be written now: not so soon after another one, unless it is the last."""
        self.pending = progress
        return last or now - self.written_at >= PROGRESS_EVERY

    def take(self, now: float) -> Json:
        """What is to be written, if anything."""
        progress, self.pending = self.pending, None
        if progress is not None:
            self.written_at = now
        return progress


def progress_of(done: float, total: float | None, note: str) -> dict[str, Json]:
    """Check what `ctx.progress` was told. Raises `InvalidCall`."""
    for name, number in (("done", done), ("total", total)):
        if name == "total" and number is None:
            continue
        if type(number) not in (int, float) or not 0 <= (number or 0) <= 2**53:
            raise InvalidCall(f"progress: {name}={number!r:.100} is not a number from 0 to 2^53.")
    return {"done": done, "total": total, "note": message_of(note)[:MAX_NOTE]}


def message_of(message: object) -> str:
    return canonical.visible(secrets.redact(_drawn(message, str)))[:MAX_MESSAGE]


def _drawn(value: object, draw: Callable[[object], str]) -> str:
    """What a line says must not fail the node that says it."""
    try:
        return draw(value)
    except Exception:  # noqa: BLE001  # an author's object may fail to say what it is
        return f"<{type(value).__name__}>"


def facts_of(facts: Mapping[str, Any]) -> str:
    """Facts as JSON text. What cannot be stored is drawn as its repr; what is too long is left out, and said to be."""
    kept: dict[str, Json] = {}
    for name, value in facts.items():
        try:
            kept[name] = secrets.redacted(storable(value))
        except StepError:
            kept[name] = canonical.visible(secrets.redact(_drawn(value, repr)))[:MAX_MESSAGE]
    text = canonical.dumps(kept)
    if len(text) <= MAX_FACTS:
        return text
    return canonical.dumps({"left_out": f"{len(text)} characters of facts", "names": sorted(kept)[:50]})
