"""Starting a run from the browser: a form from the input's schema, or JSON; once, whatever is clicked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from django.test import Client
from pydantic import BaseModel, Field

from runs import workflows
from runs.engine import Workflow
from runs.engine.canonical import loads
from runs.models import Run
from runs.policies import Actor
from tests.integration.core.conftest import House

ClientOf = Callable[[Actor], Client]
PAGE = "/workflows/order/start/"


class Line(BaseModel):
    article: str
    count: int = Field(1, ge=1)


class Order(BaseModel):
    customer: str = Field(min_length=2)
    size: Literal["small", "large"] = "small"
    lines: list[Line] = []
    cents: int | None = None


@pytest.fixture(autouse=True)
def order() -> Iterator[None]:
    flow = Workflow("order", version=1, state=Order)
    flow.node(name="take")(lambda state, ctx: None)
    workflows.register(flow)
    yield
    workflows.unregister("order")


@pytest.fixture
def shop(house: House, client_of: ClientOf) -> Client:
    return client_of(house.shop)


def hidden(answer: Any) -> dict[str, str]:
    """What the form carries along without anybody typing it."""
    text = answer.content.decode()
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text)
    return {name: value for name, value in found if name != "csrfmiddlewaretoken"}


def test_the_workflows_lead_to_a_form_that_asks_for_the_input(
    house: House, shop: Client, client_of: ClientOf
) -> None:
    house.submit("order", customer="Ada")  # from then on it is known to have been here
    assert PAGE in shop.get("/workflows/").content.decode()
    page = shop.get(PAGE).content.decode()
    for name in ("customer", "size", "lines", "cents"):
        assert f'name="arg:0:/{name}' in page, name
    assert "POST /api/v1/runs" in page
    for actor in (house.vera, house.frida):
        client = client_of(actor)
        assert PAGE not in client.get("/workflows/").content.decode()
        assert client.get(PAGE).status_code == client.post(PAGE, {"json": "{}"}).status_code == 403
    assert shop.get("/workflows/nothing/start/").status_code == 404
    assert shop.get(f"{PAGE}?version=9").status_code == 404


def test_what_is_filled_in_is_the_input_exactly(shop: Client) -> None:
    told = hidden(shop.get(PAGE))
    cents = "123456789012345678901234567890"
    told |= {"arg:0:/customer": "  Ada\r\nLovelace", "arg:0:/cents:set": "yes", "arg:0:/cents": cents}
    told |= {"labels": "shop=berlin\nnote = a=b", "deadline": "2h", "priority": "-5", "version": "1"}
    answer = shop.post(PAGE, told)
    run = Run.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/runs/{run.pk}/")
    assert loads(run.input) == {"customer": "  Ada\nLovelace", "cents": int(cents)}
    assert (run.labels, run.deadline, run.priority) == ({"shop": "berlin", "note": "a=b"}, 7200.0, -5)
    assert (run.requester.username, run.submitted_by) == ("shop", None)


def test_rows_of_a_list_are_added_and_taken_away_without_script(shop: Client) -> None:
    told = hidden(shop.get(PAGE))
    told |= {"arg:0:/customer": "Ada", "arg:0:/lines:set": "yes"}
    page = shop.post(PAGE, {**told, "draw": "0:/lines"})
    told |= hidden(page)
    page = shop.post(PAGE, {**told, "grow": "0:/lines"})
    assert Run.objects.count() == 0
    told |= hidden(page)
    assert 'value="Ada"' in page.content.decode()
    told |= {"arg:0:/lines/0/article": "tea"}
    assert shop.post(PAGE, told).status_code == 303
    assert loads(Run.objects.get().input)["lines"] == [{"article": "tea"}]


def test_json_is_taken_as_it_is_typed(shop: Client) -> None:
    page = shop.post(PAGE, {**hidden(shop.get(PAGE)), "arg:0:/customer": "Ada", "show": "json"})
    assert "&quot;customer&quot;: &quot;Ada&quot;" in page.content.decode()
    told = {**hidden(page), "json": '{"customer": "Ada", "cents": 1}'}
    form = shop.post(PAGE, {**told, "show": "form"}).content.decode()
    assert 'value="Ada"' in form
    assert shop.post(PAGE, told).status_code == 303
    assert loads(Run.objects.get().input) == {"customer": "Ada", "cents": 1}


@pytest.mark.parametrize(
    ("told", "status", "said"),
    [
        ({"arg:0:/customer": "A"}, 422, "at least 2 characters"),
        ({"arg:0:/customer": "Ada", "arg:0:/cents:set": "yes", "arg:0:/cents": "ten"}, 400, "whole number"),
        ({"mode": "json", "json": '{"customer": "Ada", "customer": "Bo"}'}, 400, "customer"),
        ({"mode": "json", "json": '{"customer": '}, 400, "line 1"),
        ({"mode": "json", "json": '{"customer": "Ada", "colour": "red"}'}, 422, "colour"),
        ({"mode": "json", "json": "[]"}, 422, "input"),
        ({"mode": "json", "json": '{"customer": "a\\u0000b"}'}, 400, "U+0000"),
        ({"arg:0:/customer": "Ada", "deadline": "soon"}, 400, "soon"),
        ({"arg:0:/customer": "Ada", "priority": "101"}, 400, "from -100 to 100"),
        ({"arg:0:/customer": "Ada", "priority": "high"}, 400, "whole number"),
        ({"arg:0:/customer": "Ada", "labels": "berlin"}, 400, "name=value"),
    ],
)
def test_what_is_wrong_stands_in_its_place_and_nothing_typed_is_lost(
    shop: Client, told: dict[str, str], status: int, said: str
) -> None:
    page = shop.post(PAGE, {**hidden(shop.get(PAGE)), **told})
    text = page.content.decode()
    assert page.status_code == status, text
    assert said in text
    assert Run.objects.count() == 0
    for name in ("deadline", "priority"):
        if name in told:
            assert f'value="{told[name]}"' in text
            assert "wrong-because" in text
    # The form that comes back starts a run as soon as it is put right.
    right = {**hidden(page), "mode": "json", "json": '{"customer": "Ada"}'}
    assert shop.post(PAGE, right).status_code == 303


def test_a_version_that_went_meanwhile_costs_nothing_that_was_typed(shop: Client) -> None:
    told = {**hidden(shop.get(PAGE)), "arg:0:/customer": "Ada", "labels": "shop=berlin", "version": "0"}
    page = shop.post(PAGE, told)
    text = page.content.decode()
    assert (page.status_code, Run.objects.count()) == (409, 0)
    assert "Version 0 is here no more" in text
    assert 'value="Ada"' in text
    assert "shop=berlin" in text
    assert shop.post(PAGE, {**told, **hidden(page), "version": "1"}).status_code == 303


def test_sent_twice_it_starts_one_run(shop: Client) -> None:
    told = {**hidden(shop.get(PAGE)), "arg:0:/customer": "Ada"}
    first, second = shop.post(PAGE, told), shop.post(PAGE, told)
    assert first.headers["Location"] == second.headers["Location"]
    assert Run.objects.count() == 1
    other = shop.post(PAGE, {**told, "arg:0:/customer": "Bo"})  # back in the browser, and something else
    assert (other.status_code, Run.objects.count()) == (422, 1)
    assert "sent before" in other.content.decode()
    assert shop.post(PAGE, {**hidden(other), "arg:0:/customer": "Bo"}).status_code == 303
