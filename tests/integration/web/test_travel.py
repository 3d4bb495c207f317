"""Pages of time travel, without script: fork, compare, names of branches, single calls of a rewind, many runs at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pydantic import BaseModel

from runs import operations, workflows
from runs.engine import Action, Editable, Workflow
from runs.models import Branch, Run
from runs.policies import Actor
from tests.integration.core.conftest import House, define, open_approval
from tests.kit.run_pages import everything

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]


class Sale(BaseModel):
    x: str = "tea"
    note: Annotated[str, Editable("reviewer")] = ""
    log: list[Any] = []


@pytest.fixture
def sale(house: House, define: Callable[..., Workflow]) -> Run:
    """look -> ask -> buy, done."""
    flow = define("sale", state=Sale)
    flow.node(name="look")(lambda state, ctx: {"log": [ctx.call(str, state.x, name="look")]})
    flow.approval(name="ask", reviewers=["finance"])(lambda state, ctx: Action("buy", {"what": state.x}))

    @flow.node
    def buy(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [*state.log, ctx.call(str, "R-<1>", name="buy", effect="irreversible")]}

    flow.edge("look", "ask")
    flow.edge("ask", "buy")
    workflows.register(flow)
    run, approval = house.parked("sale")
    house.answer(approval, "approve", comment="fine")
    return house.work(run)


def text_of(answer: Any) -> str:
    """What a reader sees of a page."""
    return seen(answer.content.decode())


def seen(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def queries_of(client: Client, path: str) -> int:
    client.get(path)
    with CaptureQueriesContext(connection) as caught:
        assert client.get(path).status_code == 200
    return len(caught)


def test_a_fork_is_shown_made_and_linked_from_both_sides(
    house: House, sale: Run, client_of: ClientOf
) -> None:
    olga = client_of(house.olga)
    path = f"/runs/{sale.pk}/fork/2/"
    assert path in olga.get(f"/runs/{sale.pk}/checkpoints/2/").content.decode()
    page = text_of(olga.get(path))
    assert "ask is asked anew at once" in page
    assert "Would be done once more 1 effect" in page
    refused = olga.post(path, {"reason": " "})
    assert (refused.status_code, Run.objects.count()) == (422, 1)
    state = '{"x": "gin", "note": "", "log": ["tea"]}'
    made = olga.post(path, {"reason": "what if", "state": state, "form_token": ""})
    copy = Run.objects.exclude(pk=sale.pk).get()
    assert (made.status_code, made.headers["Location"]) == (303, f"/runs/{copy.pk}/")
    house.work(copy)
    assert open_approval(copy).content["actions"][0]["args"] == {"what": "gin"}
    assert "Origin" in text_of(olga.get(f"/runs/{copy.pk}/others/"))
    assert f"/runs/{copy.pk}/" in olga.get(f"/runs/{sale.pk}/others/").content.decode()


def test_forking_is_not_offered_to_those_who_may_not(house: House, sale: Run, client_of: ClientOf) -> None:
    frida = client_of(house.frida)
    assert "/fork/" not in everything(frida, sale)
    assert frida.get(f"/runs/{sale.pk}/fork/2/").status_code == 403
    assert frida.post(f"/runs/{sale.pk}/fork/2/", {"reason": "x"}).status_code == 403
    assert client_of(house.olga).get(f"/runs/{sale.pk}/fork/{sale.head}/").status_code == 409


def test_single_calls_are_set_apart_on_the_page(house: House, sale: Run, client_of: ClientOf) -> None:
    olga = client_of(house.olga)
    path = f"/runs/{sale.pk}/rewind/0/"
    page = olga.get(path).content.decode()
    names = [
        name.replace("&quot;", '"') for name in re.findall(r'<select class="input" name="([^"]+)"', page)
    ]
    assert [name.split('"')[3] for name in names] == ["buy", "look"], "effects come first"
    answer = olga.post(
        path, {"reason": "x", "calls": "reuse", "version": sale.version, names[1]: "again", names[0]: "reuse"}
    )
    assert answer.status_code == 303
    branch = Branch.objects.get(run=sale, no=2)
    assert [place[1] for place in branch.exceptions] == ["look"]
    assert olga.post(path, {"reason": "x", "call:nonsense": "again"}).status_code == 400
    assert "1 call made again" in text_of(olga.get(f"/runs/{sale.pk}/branches/"))


def test_a_branch_is_named_on_the_page(house: House, sale: Run, client_of: ClientOf) -> None:
    olga = client_of(house.olga)
    path = f"/runs/{sale.pk}/branches/1/"
    assert path in olga.get(f"/runs/{sale.pk}/branches/").content.decode()
    assert olga.get(path).status_code == 200
    assert olga.post(path, {"label": "<b>first</b>"}).status_code == 303
    assert "&lt;b&gt;first&lt;/b&gt;" in olga.get(f"/runs/{sale.pk}/branches/").content.decode()
    assert olga.post(path, {"label": "x" * 200}).status_code == 400
    assert client_of(house.vera).post(path, {"label": "x"}).status_code == 403


def test_two_branches_are_held_side_by_side(house: House, sale: Run, client_of: ClientOf) -> None:
    operations.rewind(actor=house.olga, run_id=sale.pk, checkpoint=0, reason="gin", changes={"x": "gin"})
    house.work(sale)
    house.answer(open_approval(sale), "approve", by=house.felix)
    house.work(sale)
    vera = client_of(house.vera)
    assert "compare/?branch=1&amp;other_branch=2" in vera.get(f"/runs/{sale.pk}/branches/").content.decode()
    page = text_of(vera.get(f"/runs/{sale.pk}/compare/?branch=1&other_branch=2"))
    assert "Approved by frida" in page
    assert "Approved by felix" in page
    assert "2 differences" in page
    other = operations.fork(actor=house.olga, run_id=sale.pk, checkpoint=1, reason="x").run
    page = text_of(vera.get(f"/runs/{sale.pk}/compare/?checkpoint=3&other_run={other.pk}"))
    assert "Steps on this side alone" in page
    for query, status in (
        ("checkpoint=99", 404),
        ("branch=9", 404),
        ("other_run=nonsense", 400),
        (f"other_run={sale.pk}", 200),
        ("", 200),
    ):
        assert vera.get(f"/runs/{sale.pk}/compare/?{query}").status_code == status, query
    path = f"/runs/{sale.pk}/compare/?checkpoint=1&other_checkpoint=3"
    assert queries_of(vera, path) == 17
    operations.rewind(actor=house.olga, run_id=sale.pk, checkpoint=0, reason="once more")
    assert queries_of(vera, path) == 18  # the run goes on, and the page says with what


def test_a_comparison_says_what_came_of_each_side_and_who_decided_what(
    house: House, sale: Run, client_of: ClientOf
) -> None:
    operations.rewind(actor=house.olga, run_id=sale.pk, checkpoint=0, reason="gin", changes={"x": "gin"})
    house.work(sale)
    vera, path = client_of(house.vera), f"/runs/{sale.pk}/compare/?branch=1&other_branch=2"
    page = text_of(vera.get(path))
    assert "Outcome left behind: the run is on branch 2" in page
    assert re.search(r"Outcome Waiting for finance \(?[^D]*Decided nothing", page)
    assert re.search(r"ask Approved by frida, buy : fine not asked differs", page)
    house.answer(open_approval(sale), "approve", comment="fine")
    house.work(sale)
    page = text_of(vera.get(path))
    assert re.search(r"Outcome Completed[^D]*Decided 1 approval, see below", page)
    assert re.search(r"ask (Approved by frida, buy : fine ){2}same", page)


def test_many_runs_are_looked_at_and_then_done(house: House, sale: Run, client_of: ClientOf) -> None:
    parked = [house.parked("sale")[0] for _ in range(3)]
    olga = client_of(house.olga)
    form = re.search(
        r'<form[^>]*action="/runs/bulk/".*?</form>',
        olga.get("/runs/?status=waiting").content.decode(),
        re.DOTALL,
    )
    assert form is not None
    for told in (
        'name="status" value="waiting"',
        'name="verb" value="cancel"',
        f'name="run" value="{parked[0].pk}"',
    ):
        assert told in form[0], told
    page = olga.get("/runs/bulk/?verb=cancel&workflow=sale")
    assert "3 would be done and 1 refused" in text_of(page)
    chosen = re.findall(r'name="run" value="([^"]+)"', page.content.decode())
    assert set(chosen) == {str(run.pk) for run in parked}
    done = olga.post("/runs/bulk/", {"verb": "cancel", "run": chosen, "reason": "enough"})
    assert "Cancel: 3 done, 0 refused" in text_of(done)
    assert sorted(Run.objects.values_list("status", flat=True)) == ["cancelled"] * 3 + ["completed"]
    again = olga.post("/runs/bulk/", {"verb": "cancel", "run": chosen})
    assert "0 done, 3 refused" in text_of(again)


def test_many_runs_are_rewound_to_a_node(house: House, sale: Run, client_of: ClientOf) -> None:
    olga = client_of(house.olga)
    assert "Say above where to rewind to" in text_of(olga.get("/runs/bulk/?verb=rewind"))
    assert "1 would be done" in text_of(olga.get("/runs/bulk/?verb=rewind&node=ask"))
    told = {"verb": "rewind", "node": "ask", "run": [str(sale.pk)]}
    refused = olga.post("/runs/bulk/", told)
    assert (refused.status_code, Branch.objects.count()) == (422, 1)
    assert olga.post("/runs/bulk/", {**told, "reason": "asked wrongly"}).status_code == 200
    assert Branch.objects.get(run=sale, no=2).parent_checkpoint == 1
    for bad in ({"verb": "erase"}, {"verb": "cancel"}, {"verb": "cancel", "run": ["x"]}):
        assert olga.post("/runs/bulk/", bad).status_code == 400


def test_the_page_says_which_fields_are_a_readers_to_change(
    house: House, sale: Run, client_of: ClientOf
) -> None:
    run, _ = house.parked("sale")
    frida = client_of(house.frida)
    assert "You may change note ; not x and log" in text_of(frida.get(f"/runs/{run.pk}/edit-state/"))
    state = '{"x": "gin", "note": "", "log": ["tea"]}'
    told = {"state": state, "reason": "x", "version": run.version}
    refused = frida.post(f"/runs/{run.pk}/edit-state/", told)
    assert (refused.status_code, "it takes the role operator" in text_of(refused)) == (403, True)
    assert "You may change" not in text_of(client_of(house.olga).get(f"/runs/{run.pk}/edit-state/"))


def test_a_conflict_of_lanes_is_told_once(
    house: House, define: Callable[..., Workflow], client_of: ClientOf
) -> None:
    flow = define("clash")
    for name in ("start", "left", "right", "meet"):
        flow.node(name=name)(lambda state, ctx: {"x": ctx.node} if ctx.node in ("left", "right") else None)
    for lane in ("left", "right"):
        flow.edge("start", lane)
        flow.edge(lane, "meet")
    workflows.register(flow)
    page = text_of(client_of(house.olga).get(f"/runs/{house.work(house.submit('clash')).pk}/"))
    assert "Failed at meet: two lanes have written x" in page
    assert (
        page.count("have written x") == 2
    )  # that it failed, and with what, in the sentence; then the values
    assert "What went wrong" not in page
    assert "Give the key a reducer" not in page
