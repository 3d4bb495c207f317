"""A page makes the same few queries, however much there is to show. The numbers are pinned: a new one is a decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs import workflows
from runs.engine import Workflow
from runs.models import Run
from runs.policies import Actor
from tests.browser.flows.workflows import asking
from tests.integration.core.conftest import House, open_approval


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
    assert (count(client, "/inbox/"), few) == (11, 11)


def test_the_card(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.frida)
    runs = parked(3)
    house.answer(open_approval(runs[0]), "approve", by=house.felix)
    counts = {count(client, f"/inbox/{open_approval(run).pk}/") for run in runs}
    assert counts == {16}


def test_the_list_of_runs(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.olga)
    parked(2)
    few = count(client, "/runs/")
    parked(6)
    assert (count(client, "/runs/"), few) == (14, 14)


def test_the_page_of_a_run(house: House, parked: Callable[[int], list[Run]], client_of: ClientOf) -> None:
    client = client_of(house.olga)
    [run] = parked(1)
    before = count(client, f"/runs/{run.pk}/")
    house.answer(open_approval(run), "approve")
    house.answer(open_approval(run), "approve", by=house.felix)
    house.work(run)
    # At the end there is no open approval whose votes are read; how long the run is kept is asked instead.
    assert (count(client, f"/runs/{run.pk}/"), before) == (28, 28)


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
    assert count(client, f"/inbox/{open_approval(run).pk}/?seen=1-0", **live) <= count(client, "/inbox/") + 2
