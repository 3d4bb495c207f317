"""A page makes the same few queries, however much there is to show. The numbers are pinned: a new one is a decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Approval, Run
from runs.policies import Actor
from tests.browser.flows.workflows import asking
from tests.integration.core.conftest import House, define, open_approval

__all__ = ["define"]


PARTS: Final = {
    "timeline/": 11,
    "checkpoints/": 11,
    "branches/": 10,
    "approvals/": 10,
    "effects/": 9,
    "others/": 10,
    "data/": 9,
    "log/": 9,
    "history/": 10,
    "evidence/": 8,
}


@pytest.fixture
def flow() -> Iterator[Workflow]:
    made = asking("asked", quorum=2)
    workflows.register(made)
    yield made
    workflows.unregister("asked")


@pytest.fixture
def parked(house: House, flow: Workflow) -> Callable[[int], list[Run]]:
    def park(count: int) -> list[Run]:
        return [house.parked("asked", args={"n": n}, title=f"Ask {n}")[0] for n in range(count)]

    return park


def count(client: Client, path: str, **headers: str) -> int:
    client.get(path)  # content types and the like are cached by the first request
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path, headers=headers)
    assert answer.status_code in (200, 204), answer
    return len(captured)


ClientOf = Callable[[Actor], Client]


def test_the_inbox(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.frida)
    parked(2)
    few = count(client, "/inbox/")
    parked(6)
    assert (count(client, "/inbox/"), few) == (9, 9)


def test_the_card(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.frida)
    runs = parked(3)
    house.answer(open_approval(runs[0]), "approve", by=house.felix)
    counts = {count(client, f"/inbox/{open_approval(run).pk}/") for run in runs}
    assert counts == {16}  # the last one is what the steps before have used of paid models


def test_the_list_of_runs(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.olga)
    parked(2)
    few = count(client, "/runs/")
    parked(6)
    assert (count(client, "/runs/"), few) == (11, 11)


@pytest.mark.parametrize("path", ["/runs/", "/inbox/"])
def test_a_list_of_versions_that_are_not_registered_here_asks_once_for_all(
    house: House, parked: Callable[[int], list[Run]], client_of: ClientOf, path: str
) -> None:
    client = client_of(house.olga if path == "/runs/" else house.frida)
    runs = parked(4)
    here = count(client, path)
    for number, run in enumerate(runs):
        Run.objects.filter(pk=run.pk).update(workflow_version=f"old {number}")
    assert count(client, path) == here + 1


def test_the_page_of_a_run(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.olga)
    [run] = parked(1)
    before = count(client, f"/runs/{run.pk}/")
    house.answer(open_approval(run), "approve")
    house.answer(open_approval(run), "approve", by=house.felix)
    house.work(run)
    assert (count(client, f"/runs/{run.pk}/"), before) == (10, 10)


@pytest.mark.parametrize(("part", "queries"), PARTS.items())
def test_a_part_of_the_page_of_a_run(
    house: House, parked: Callable[[int], list[Run]], client_of: ClientOf, part: str, queries: int
) -> None:
    """C97: none asks more than twelve; one more on a branch that left another, and two where it stands in line."""
    [run] = parked(1)
    assert count(client_of(house.olga), f"/runs/{run.pk}/{part}") == queries


def test_what_a_page_asks_for_after_a_change_costs_no_more_than_the_page(
    house: House, parked: Callable[[int], list[Run]], client_of: ClientOf
) -> None:
    client = client_of(house.frida)
    [run, *_] = parked(3)
    run.refresh_from_db()
    live = {"HX-Request": "true", "HX-Target": "live"}
    heard = f"/runs/{run.pk}/?seen={run.seq}&from=1"
    assert count(client, heard, **live) <= count(client, f"/runs/{run.pk}/")
    assert count(client, "/runs/", **live) <= count(client, "/runs/")
    assert count(client, f"/inbox/{open_approval(run).pk}/?seen=1-0-", **live) <= count(client, "/inbox/") + 2


def test_what_a_stream_asks_for(
    house: House, parked: Callable[[int], list[Run]], client_of: ClientOf
) -> None:
    client = client_of(house.frida)
    parked(2)
    counts = [count(client, f"/live/state/{page}") for page in ("notices", "runs", "inbox")]
    assert counts == [4, 5, 5]


def lanes(define: Callable[..., Workflow], name: str, count: int) -> None:
    """start, so many lanes that each ask and then write one key, and a join that cannot take that."""
    flow = define(name)
    flow.node(name="start")(lambda state, ctx: None)
    flow.node(name="join")(lambda state, ctx: None)
    for number in range(count):
        flow.approval(name=f"ask{number}")(lambda state, ctx: Action("do", {"n": ctx.node}))
        flow.node(name=f"write{number}")(lambda state, ctx: {"x": ctx.node})
        flow.edge("start", f"ask{number}")
        flow.edge(f"ask{number}", f"write{number}")
        flow.edge(f"write{number}", "join")
    workflows.register(flow)


def answer_all(house: House, run: Run) -> None:
    for approval in Approval.objects.filter(run=run, status="open"):
        house.answer(approval, "approve")
    house.work(run)


def test_the_page_of_a_run_with_lanes(
    house: House, define: Callable[..., Workflow], client_of: ClientOf
) -> None:
    client = client_of(house.olga)
    lanes(define, "two", 2)
    lanes(define, "nine", 9)
    two, nine = (house.work(house.submit(name)) for name in ("two", "nine"))
    assert {count(client, f"/runs/{run.pk}/") for run in (two, nine)} == {10}
    edit = {count(client, f"/runs/{run.pk}/edit-state/") for run in (two, nine)}
    assert len(edit) == 1
    for run in (two, nine):
        answer_all(house, run)
        assert run.status == "failed"
    # What has failed is asked too.
    assert {count(client, f"/runs/{run.pk}/") for run in (two, nine)} == {11}
    assert len({count(client, f"/runs/{run.pk}/retry/") for run in (two, nine)}) == 1
