"""Pages of runs in line: what they wait for, and who goes first; without script."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import operations, workflows
from runs.engine import Concurrency, Rate, Workflow
from runs.models import Run
from runs.policies import Actor
from tests.integration.core.conftest import House, define

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]


@pytest.fixture
def films(house: House, define: Callable[..., Workflow]) -> list[Run]:
    """One is let in, two stand behind it."""
    flow = define("films", queue="gpu", limits=[Concurrency(1, key=lambda film: film.x)])
    flow.node(name="frames")(lambda state, ctx: None)
    workflows.register(flow)
    runs = [house.submit("films", x="<acme>") for _ in range(3)]
    operations.let_in(queue="gpu")
    return runs


def text_of(answer: Any) -> str:
    plain = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return re.sub(r"\s+", " ", plain)


def test_a_run_in_line_says_so(house: House, client_of: ClientOf, films: list[Run]) -> None:
    vera = client_of(house.vera)
    said = text_of(vera.get(f"/runs/{films[2].pk}/"))
    assert "In line for a slot of the limit concurrency for &lt;acme&gt;: 1 of 1 in use, since" in said
    assert "; 1 before it" in said
    assert "queue gpu" in said
    assert text_of(vera.get("/runs/")).count("in line since") == 2
    assert "Queued since" in text_of(vera.get(f"/runs/{films[0].pk}/"))


def test_a_run_that_waits_for_a_rate_says_when(
    house: House, client_of: ClientOf, define: Callable[..., Workflow]
) -> None:
    flow = define("rated", limits=[Rate(1, per="1h")])
    flow.node(name="a")(lambda state, ctx: None)
    workflows.register(flow)
    _, second = house.submit("rated"), house.submit("rated")
    operations.let_in(queue="runs")
    said = text_of(client_of(house.vera).get(f"/runs/{second.pk}/"))
    assert "In line for the limit rate: 1 of 1 started within 1 h, the next in" in said


def test_an_operator_sets_a_priority(house: House, client_of: ClientOf, films: list[Run]) -> None:
    olga, address = client_of(house.olga), f"/runs/{films[2].pk}/priority/"
    assert address in olga.get(f"/runs/{films[2].pk}/").content.decode()
    form = olga.get(address)
    assert 'name="priority" type="number"' in form.content.decode()
    assert 'required value="0"' in form.content.decode()
    done = olga.post(address, {"priority": "7", "reason": "a customer calls"})
    assert (done.status_code, done["Location"]) == (303, f"/runs/{films[2].pk}/")
    assert [Run.objects.get(pk=run.pk).priority for run in films] == [0, 0, 7]
    said = text_of(olga.get(f"/runs/{films[2].pk}/"))
    assert "priority 7" in said
    assert "; 0 before it" in said
    assert "priority changed" in text_of(olga.get(f"/runs/{films[2].pk}/history/"))
    assert olga.post(address, {"priority": "-3"}).status_code == 303
    assert Run.objects.get(pk=films[2].pk).priority == -3


@pytest.mark.parametrize("typed", ["", "x", "1.5", "101", "--5"])
def test_what_is_no_priority_is_told_and_kept(
    house: House, client_of: ClientOf, films: list[Run], typed: str
) -> None:
    answer = client_of(house.olga).post(
        f"/runs/{films[2].pk}/priority/", {"priority": typed, "reason": "kept"}
    )
    assert answer.status_code == 400
    assert "whole number" in text_of(answer)
    assert "kept" in answer.content.decode()
    assert Run.objects.get(pk=films[2].pk).priority == 0


def test_others_are_not_offered_it(house: House, client_of: ClientOf, films: list[Run]) -> None:
    for actor in (house.vera, house.frida, house.shop):
        client = client_of(actor)
        assert client.get(f"/runs/{films[2].pk}/priority/").status_code == 403
        assert client.post(f"/runs/{films[2].pk}/priority/", {"priority": "7"}).status_code == 403
    assert Run.objects.get(pk=films[2].pk).priority == 0
