"""docs/notifications.md: the receiver of the guide takes what is really sent, once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.exceptions import WebhookVerificationError

from runs.delivery import Sender, schedule
from runs.engine.telling import TELLINGS
from tests.integration.core.conftest import House, by_sql
from tests.integration.delivery.conftest import Hook, parked, pump
from tests.kit.receiver import Receiver

GUIDE = (Path(__file__).parents[3] / "docs" / "notifications.md").read_text()


def test_the_receiver_of_the_guide(
    house: House,
    define: Callable[..., Any],
    hook: Hook,
    receiver: Receiver,
    sender: Sender,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [block] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "notifications.md", "exec", dont_inherit=True), names)
    run, approval = parked(house, define)
    receiver.say(500)
    pump(sender)
    by_sql("UPDATE runs_delivery SET due_at = now() WHERE status = 'pending'")
    house.answer(approval, "approve")
    pump(sender)
    statuses = [names["receive"](hook.secret, got.headers, got.body) for got in receiver.got]
    assert statuses == [204] * 3
    assert len(names["seen"]) == 2
    assert capsys.readouterr().out == f"{run.pk} approve by frida\n"
    with pytest.raises(WebhookVerificationError):
        names["receive"](hook.secret, receiver.got[0].headers, b"{}")


def test_the_guide_names_every_message_and_the_schedule() -> None:
    for telling in TELLINGS.values():
        assert f"`{telling.type}`" in GUIDE
    assert list(schedule.DELAYS) == [5, 30, 120, 600, 3_600, 21_600, 86_400]
    assert "5 s, 30 s, 2 min, 10 min, 1 h, 6 h, 24 h" in GUIDE
