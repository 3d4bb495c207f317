"""The commit lands, its answer does not: the worker connects again, and recognises its own work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from runs.engine import Workflow
from runs.models import Approval, OperationalNote, Run
from runs.operations.working import Slice
from tests.integration.core.conftest import House, open_approval, pay_flow


@pytest.fixture
def answers_lost(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The answer to the first try of every commit is lost."""
    lost: list[str] = []
    store = Slice._store

    def losing(self: Slice, *args: Any) -> None:
        store(self, *args)
        if self.held.step.address not in lost:
            lost.append(self.held.step.address)
            raise OperationalError("the connection is lost")

    monkeypatch.setattr(Slice, "_store", losing)
    return lost


def test_what_landed_is_not_called_late(
    house: House, define: Callable[..., Workflow], answers_lost: list[str]
) -> None:
    pay_flow(define("pay"))
    run, _ = house.parked("pay", x=1)
    house.answer(open_approval(run), "approve")
    house.work(run)
    assert len(answers_lost) == 2  # of the approval, and of the end
    assert Run.objects.get(pk=run.pk).status == "completed"
    assert Approval.objects.filter(run=run).count() == 1
    assert not OperationalNote.objects.filter(run=run).exists()
