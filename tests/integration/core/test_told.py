"""A body whose run was cancelled or rewound, or whose step is somebody else's, is told so while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from runs import operations, workflows
from runs.driver import StepLost
from runs.engine import Workflow
from runs.models import OperationalNote, Run, Step
from runs.operations import process
from tests.integration.core.conftest import House, by_sql, history_is_whole
from tests.kit.racing import Contender

Define = Callable[..., Workflow]
LONG = 60.0  # what a test would take if nobody was told


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(process, "CHECK_EVERY", 0.02)
    yield
    operations.leave()


def blocking(define: Define, seen: list[str], meanwhile: Callable[[], Any]) -> None:
    """A node that blocks once something has happened to its run meanwhile, in another thread."""
    flow = define("blocks")

    @flow.node
    def work(state: Any, ctx: Any) -> None:
        if seen:
            return
        seen.append("begun")
        try:
            Contender(meanwhile).end()
            time.sleep(LONG)
        except StepLost:
            seen.append(f"told: {ctx.cancelled}")
            raise

    workflows.register(flow)


@pytest.mark.parametrize("how", ["cancel", "rewind", "taken over"])
def test_a_body_is_told_and_stops(house: House, define: Define, how: str) -> None:
    """C48, C76 (c)."""
    seen: list[str] = []

    def meanwhile() -> None:
        run = Run.objects.get()
        if how == "cancel":
            operations.cancel(actor=house.olga, run_id=run.pk)
        elif how == "rewind":
            operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
        else:
            by_sql("UPDATE runs_step SET token = %s", uuid4())

    blocking(define, seen, meanwhile)
    run = house.submit("blocks")
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run).address)
    assert seen == ["begun", "told: True"]
    assert OperationalNote.objects.filter(run=run, kind="late_result_discarded").count() == 1
    run.refresh_from_db()
    assert run.status == {"cancel": "cancelled", "rewind": "queued", "taken over": "running"}[how]
    if how == "rewind":
        assert house.work(run).status == "completed"
    assert history_is_whole(run)


def test_a_body_that_is_still_ours_hears_nothing(house: House, define: Define) -> None:
    flow, looked = define("long"), threading.Event()
    worker = operations.worker()
    held = worker.keeper.held

    def looks(tokens: Any) -> set[Any]:
        found = held(tokens)
        looked.set()
        return found

    worker.keeper.held = looks  # type: ignore[method-assign]

    @flow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        assert looked.wait(LONG)
        return {"x": ctx.cancelled}

    workflows.register(flow)
    run = house.work(house.submit("long"))
    assert run.status == "completed"
