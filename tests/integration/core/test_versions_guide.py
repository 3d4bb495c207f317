"""docs/versions.md: its code blocks run, and come to what the text says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from runs import operations, workflows
from runs.models import WorkerChild
from tests.integration.core.conftest import House, kinds_of, open_approval, state_of

GUIDE = Path(__file__).parents[3] / "docs" / "versions.md"


@pytest.fixture
def guide() -> Iterator[dict[str, Any]]:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(blocks), str(GUIDE), "exec", dont_inherit=True), names)
    yield names
    workflows.unregister("guided_letters")


def deploy(*flows: Any) -> None:
    operations.leave()
    workflows.unregister("guided_letters")
    for flow in flows:
        workflows.register(flow)


def test_the_guide_migrates_by_hand_and_by_itself(house: House, guide: dict[str, Any]) -> None:
    deploy(guide["letters"])
    by_hand = house.work(house.submit("guided_letters", to="all"))
    by_itself = house.work(house.submit("guided_letters", to="you"))
    deploy(guide["letters"], guide["letters_2"])
    guide["migrate_example"](operations, house.olga, by_hand)
    house.answer(open_approval(by_hand), "approve")
    assert house.work(by_hand).status == "completed"
    deploy(guide["letters_3"])
    WorkerChild.objects.all().delete()
    out = StringIO()
    call_command("preflight", stdout=out, stderr=StringIO())
    assert "migrates to version 3" in out.getvalue()
    (shown,) = re.findall(r"```text\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert out.getvalue().splitlines()[0].split() == shown.splitlines()[0].split()
    house.answer(open_approval(by_itself), "approve")
    assert house.work(by_itself).status == "completed"
    assert state_of(by_itself)["to"] == "YOU"
    assert kinds_of(by_itself).count("state_migrated") == 1
