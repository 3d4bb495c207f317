"""What is away is told once, and once that it is back."""

from __future__ import annotations

import logging
import time

import pytest

from runs.trouble import Trouble

logger = logging.getLogger("runs.test")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_it_is_said_once_then_once_a_minute_and_that_it_is_over(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    away = Trouble(logger, "the sweeper waits")
    away.end()
    for _ in range(241):  # a minute, four times a second
        away.note("refused")
        clock[0] += 0.25
    away.end()
    away.end()
    away.note("again")
    assert [record.getMessage() for record in caplog.records] == [
        "the sweeper waits: refused",
        "the sweeper waits: refused",
        "the sweeper waits no longer, after 60.2 s",
        "the sweeper waits: again",
    ]
