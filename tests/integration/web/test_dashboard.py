"""The dashboard and the page of a workflow: numbers as pictures with a table each, of this project alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from runs import operations
from runs.engine import Workflow
from runs.models import Statistic
from runs.policies import Actor
from runs.store import counting
from tests.integration.core.conftest import House, define, make_house, pay_flow
from tests.integration.web.test_queries import count
from tests.kit import month

__all__ = ["define"]

PAGES = ("/dashboard/", "/dashboard/?range=30d", "/workflows/pay/")
ClientOf = Callable[[Actor], Client]


@pytest.fixture
def counted(house: House, define: Callable[..., Workflow], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs have ended, one of them badly, and one waits for people."""
    monkeypatch.setattr(counting, "MARGIN", timedelta(0))

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.usage(model="m-1", model_tokens_in=1_200, model_tokens_out=300, cost="0.25")
        if state.x == 2:
            raise ValueError("no")
        return {}

    pay_flow(define("pay"), body)
    for x in (1, 2):
        run, approval = house.parked("pay", x=x)
        house.answer(approval, "approve")
        house.work(run)
    house.parked("pay", x=3)
    operations.count()


def read(client: Client, path: str, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer
    return re.sub(r"\s+", " ", answer.content.decode())


def test_it_shows_what_went_through(house: House, counted: None, client_of: ClientOf) -> None:
    page = read(client_of(house.vera), "/dashboard/")
    assert "1 open now" in page
    assert "3 begun; 0 ended in the 24 h before" in page
    assert "50.0% of what ended" in page
    assert "1,200 tokens in" not in page
    assert "2,400 tokens in, 600 out, 0.5 USD" in page
    assert "status=failed&amp;workflow=pay&amp;error=node_error" in page


def test_each_picture_has_its_numbers_under_it(house: House, counted: None, client_of: ClientOf) -> None:
    page = read(client_of(house.vera), "/dashboard/?range=7d")
    pictures = re.findall(r'<section class="chart".*?</section>', page)
    assert len(pictures) == 6
    assert all("<table" in picture or 'class="none"' in picture for picture in pictures)
    assert "style=" not in page


@pytest.mark.parametrize(("name", "bars"), [("24h", 24), ("7d", 28), ("30d", 30), ("nonsense", 24)])
def test_a_range_has_its_bars(house: House, counted: None, client_of: ClientOf, name: str, bars: int) -> None:
    page = read(client_of(house.vera), f"/dashboard/?range={name}")
    assert page.count('class="hit"') == 2 * bars
    assert "3 begun" in page


def test_nothing_yet_is_said(house: House, client_of: ClientOf) -> None:
    page = read(client_of(house.vera), "/dashboard/")
    assert "Nothing is counted yet" in page
    assert "No run failed in this range." in page


def test_another_project_is_not_in_it(house: House, counted: None, client_of: ClientOf) -> None:
    page = read(client_of(make_house("other").olga), "/dashboard/?workflow=pay")
    assert "0 begun" in page
    assert "node_error" not in page


def test_names_are_drawn_and_not_obeyed(house: House, counted: None, client_of: ClientOf) -> None:
    Statistic.objects.filter(kind__in=["team", "failed"]).update(name="<b>x\u202e", workflow="<i>y")
    page = read(client_of(house.vera), "/dashboard/")
    assert "<b>x" not in page
    assert "<i>y" not in page
    assert "\u202e" not in page


def test_it_hears_of_changes(house: House, counted: None, client_of: ClientOf) -> None:
    client = client_of(house.frida)
    first = client.get("/live/state/dashboard").json()["mark"]
    assert f'data-after="{first}"' in read(client, "/dashboard/")
    assert client.get("/live/state/dashboard").json()["mark"] == first
    house.parked("pay", x=4)
    assert client.get("/live/state/dashboard").json()["mark"] != first
    fragment = read(client, "/dashboard/", **{"HX-Request": "true", "HX-Target": "live"})
    assert "2 open now" in fragment
    assert "<html" not in fragment


def test_a_workflow_has_its_own_page(house: House, counted: None, client_of: ClientOf) -> None:
    client = client_of(house.vera)
    page = read(client, "/workflows/pay/")
    assert 'aria-label="Workflow picture"' in page
    assert re.search(r'<th scope="row" class="mono">ask</th><td class="num">2</td>', page)
    assert re.search(r'<th scope="row">the whole run</th><td class="num">2</td>', page)
    assert "/runs/?workflow=pay&amp;status=failed" in page
    assert '/workflows/pay/"' in read(client, "/workflows/")


def test_a_workflow_that_never_was_is_not_there(house: House, client_of: ClientOf) -> None:
    assert client_of(house.vera).get("/workflows/nothing/").status_code == 404


def test_it_makes_the_same_few_queries_however_much_there_is(
    house: House, counted: None, client_of: ClientOf
) -> None:
    client = client_of(house.frida)
    few = [count(client, path) for path in PAGES]
    names = {**month.NAMES, "first": "pay"}
    with connection.cursor() as cursor:
        cursor.execute(month.MONTH, names)
    house.parked("pay", x=5)
    assert [count(client, path) for path in PAGES] == few
    assert few == [13, 13, 16]
