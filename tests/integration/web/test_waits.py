"""The run page of a run that waits: what for, a form for the signal, and links to its relatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from pydantic import BaseModel

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Run, Signal
from runs.policies import Actor
from tests.integration.core.conftest import House, open_approval, state_of

ClientOf = Callable[[Actor], Client]


class State(BaseModel):
    x: Any = None


@pytest.fixture
def flows() -> Iterator[None]:
    outer, inner = Workflow("outer", state=State), Workflow("inner", state=State)
    outer.node(name="only")(lambda state, ctx: ctx.run_child("inner"))
    inner.node(name="wait")(lambda state, ctx: {"x": ctx.wait_signal("paid").payload})
    for flow in (outer, inner):
        workflows.register(flow)
    yield
    for flow in (outer, inner):
        workflows.unregister(flow.name)


def test_who_may_send_a_signal_does_it_on_the_page(house: House, flows: None, client_of: ClientOf) -> None:
    run = house.work(house.submit("inner"))
    page = client_of(house.olga).get(f"/runs/{run.pk}/").content.decode()
    assert "Waiting for the signal paid" in page
    assert f"/runs/{run.pk}/signal/" in page
    assert "/signal/" not in client_of(house.vera).get(f"/runs/{run.pk}/").content.decode()
    client = client_of(house.olga)
    wrong = client.post(f"/runs/{run.pk}/signal/", {"name": "paid", "payload": '{"a": NaN}'})
    assert wrong.status_code == 400
    assert "non" in wrong.content.decode()
    assert "{&quot;a&quot;: NaN}" in wrong.content.decode()
    assert not Signal.objects.exists()
    sent = client.post(f"/runs/{run.pk}/signal/", {"name": "paid", "payload": '{"a": 1}'})
    assert (sent.status_code, sent.headers["Location"]) == (303, f"/runs/{run.pk}/")
    house.work(run)
    assert state_of(run)["x"] == {"a": 1}
    late = client.post(f"/runs/{run.pk}/signal/", {"name": "paid"})
    assert late.status_code == 409
    assert "nothing waits for a signal" in late.content.decode()


def test_parent_and_child_lead_to_each_other(house: House, flows: None, client_of: ClientOf) -> None:
    run = house.work(house.submit("outer"))
    child = house.work(Run.objects.get(parent=run))
    client = client_of(house.vera)
    page = client.get(f"/runs/{run.pk}/others/").content.decode()
    assert "Waiting for the child run of inner" in page
    assert f'href="/runs/{child.pk}/"' in page
    assert f'href="/runs/{run.pk}/"' in client.get(f"/runs/{child.pk}/").content.decode()
    assert "Waiting" in client.get("/runs/").content.decode()


def test_a_question_in_the_middle_of_code_has_the_same_card(
    house: House, client_of: ClientOf, flows: None
) -> None:
    """It says nothing of where a reject leads: only the code knows."""
    flow = Workflow("asker", state=State)
    action = Action("pay", {"amount": 5}, editable=["amount"])
    flow.node(name="only")(lambda state, ctx: {"x": ctx.ask(action, reviewers=["finance"], due="1h").args})
    workflows.register(flow)
    run = house.work(house.submit("asker"))
    approval, client = open_approval(run), client_of(house.frida)
    for path in ("/inbox/", f"/inbox/{approval.pk}/", f"/inbox/{approval.pk}/edit/", f"/runs/{run.pk}/"):
        answer = client.get(path)
        assert answer.status_code == 200, path
    card = client.get(f"/inbox/{approval.pk}/").content.decode()
    assert "Runs nothing of this" in card
    assert "ends as failed" not in card
    house.answer(approval, "approve")
    house.work(run)
    assert state_of(run)["x"] == {"amount": 5}
    assert client.get(f"/inbox/{approval.pk}/").status_code == 200
    assert client.get(f"/runs/{run.pk}/").status_code == 200
    workflows.unregister("asker")
