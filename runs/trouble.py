"""What is said of something that is tried again and again."""

from __future__ import annotations

import logging
import time
from typing import Final

EVERY: Final = 60.0  # seconds between two lines about the same trouble


class Trouble:
    """Says once that something is away, once a minute that it still is, and that it is back: whoever tries four times a second
    would fill the log with what one line tells.

    doing: what somebody does meanwhile, as the log has it ("the sweeper waits for the database").
    """

    def __init__(self, logger: logging.Logger, doing: str) -> None:
        self.logger, self.doing = logger, doing
        self.since: float | None = None
        self.said_at = 0.0

    def note(self, error: object) -> None:
        """It did not answer, once more."""
        now = time.monotonic()
        if self.since is None:
            self.since = now
        elif now < self.said_at + EVERY:
            return
        self.said_at = now
        self.logger.warning("%s: %s", self.doing, error)

    def end(self) -> None:
        """It has answered."""
        if self.since is not None:
            self.logger.info("%s no longer, after %.1f s", self.doing, time.monotonic() - self.since)
            self.since = None
