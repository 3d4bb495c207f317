"""By which values a run is found: its labels from the start, marked fields of its state as of its last rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import BaseModel

from runs import operations, runlists, workflows
from runs.engine import Action, Searchable, Sensitive, Workflow
from runs.models import Run, RunTerm
from runs.runlists import RunFilter
from tests.integration.core.conftest import House, open_approval


class Sale(BaseModel):
    order: Annotated[str, Searchable]
    customer: Annotated[str, Searchable] = ""
    note: str = ""


def sale(state: type[BaseModel] = Sale, *, version: int = 1) -> Workflow:
    """look_up -> ask -> book: two steps write what is searched for, with a rest between them."""
    flow = Workflow("sale", version=version, state=state)
    flow.node(name="look_up")(lambda state, ctx: {"customer": "Ada"})
    flow.approval(name="ask", reviewers=["finance"])(lambda state, ctx: Action("sell", {}))
    flow.node(name="book")(lambda state, ctx: {"customer": "Ada Lovelace"})
    flow.edge("look_up", "ask")
    flow.choose("ask", approve="book")
    return flow


@pytest.fixture
def shop() -> Iterator[None]:
    workflows.register(sale())
    yield
    workflows.unregister("sale")


def told(run: Run) -> dict[str, str]:
    return dict(RunTerm.objects.filter(run=run, kind="state").values_list("name", "value"))


def found(house: House, **which: Any) -> list[Run]:
    return runlists.page(house.olga.project.pk, RunFilter(**which), limit=50).rows


def test_a_run_is_found_by_its_state_as_it_last_came_to_rest(house: House, shop: None) -> None:
    run = house.submit("sale", order="88-1")
    assert told(run) == {"order": "88-1"}
    house.work(run)
    assert told(run) == {"order": "88-1", "customer": "Ada"}
    operations.edit_state(
        actor=house.olga, run_id=run.pk, changes={"customer": ""}, reason="unknown", version=run.version
    )
    assert told(run) == {"order": "88-1"}, "nothing is searched for that is not there"
    house.answer(open_approval(house.work(run)), "approve")
    assert house.work(run).status == "completed"
    assert told(run) == {"order": "88-1", "customer": "Ada Lovelace"}
    assert found(house, state="customer=Ada Lovelace") == found(house, q="ada lovelace") == [run]
    assert found(house, state="customer=ada lovelace") == [], "a named value is meant letter for letter"
    assert found(house, state="order=Ada Lovelace") == found(house, label="Ada Lovelace") == []


def test_a_rewind_is_found_by_what_it_went_back_to(house: House, shop: None) -> None:
    run = house.work(house.submit("sale", order="88-1"))
    operations.rewind(
        actor=house.olga,
        run_id=run.pk,
        checkpoint=0,
        reason="the other one",
        version=run.version,
        changes={"order": "88-2"},
    )
    house.work(run)
    assert told(run) == {"order": "88-2", "customer": "Ada"}
    forked = operations.fork(actor=house.olga, run_id=run.pk, checkpoint=run.head, reason="x").run
    assert told(forked) == told(run)


def test_labels_find_a_run_and_its_forks(house: House, shop: None) -> None:
    run = operations.submit(
        actor=house.shop, workflow="sale", input={"order": "1"}, labels={"Region": "North", "empty": ""}
    ).run
    house.submit("sale", order="2")
    forked = operations.fork(actor=house.olga, run_id=house.work(run).pk, checkpoint=0, reason="x").run
    both = {run.pk, forked.pk}
    for which in (
        {"label": "Region=North"},
        {"label": "north"},
        {"q": "NORTH"},
        {"labels": {"Region": "North"}},
    ):
        assert {one.pk for one in found(house, **which)} == both, which
    assert found(house, label="Region=north") == found(house, label="region=North") == []
    assert found(house, labels={"Region": "North", "empty": "x"}) == []


def test_another_project_is_not_searched(house: House, shop: None) -> None:
    house.submit("sale", order="88-1")
    other = house.olga.project.__class__.objects.create(slug="other", name="Other")
    assert runlists.page(other.pk, RunFilter(q="88-1"), limit=5).rows == []


def test_what_a_later_version_hides_finds_nothing_any_more(house: House, shop: None) -> None:
    class Shy(BaseModel):
        order: Annotated[str, Searchable]
        customer: Annotated[str, Sensitive("operator")] = ""
        note: str = ""

    run = house.work(house.submit("sale", order="88-1"))
    assert found(house, q="Ada") == [run]
    workflows.register(sale(Shy, version=2))
    assert found(house, q="Ada") == found(house, state="customer=Ada") == []
    assert found(house, q="88-1") == [run]
    assert runlists.terms([run]) == {run.pk: {"order": "88-1"}}
    house.answer(open_approval(run), "approve")
    house.work(run)
    assert told(run) == {"order": "88-1"}, "nor is it kept any longer"


def test_erasing_takes_what_a_run_was_found_by(house: House, shop: None) -> None:
    run = operations.submit(actor=house.shop, workflow="sale", input={"order": "1"}, labels={"a": "b"}).run
    operations.cancel(actor=house.olga, run_id=run.pk, reason="x")
    assert RunTerm.objects.filter(run=run).count() == 2
    operations.erase(actor=house.olga, run_id=run.pk, reason="asked to")
    assert not RunTerm.objects.filter(run=run).exists()


def test_a_workflow_that_marks_nothing_pays_nothing(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("plain")
    flow.node(name="only")(lambda state, ctx: None)
    workflows.register(flow)
    with CaptureQueriesContext(connection) as captured:
        house.work(house.submit("plain"))
    assert not [query["sql"] for query in captured if "runterm" in query["sql"]]
