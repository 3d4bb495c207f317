"""The list of runs: what narrows it, where it goes on, what is done to many, and what it exports."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from django.test import Client
from pydantic import BaseModel

from runs import operations, runlists, workflows
from runs.engine import Action, Searchable, Sensitive, Workflow
from runs.errors import StepError
from runs.models import Run, SavedView, Step
from runs.policies import Actor
from runs.runlists import RunFilter
from tests.integration.core.conftest import House

ClientOf = Callable[[Actor], Client]


class Sale(BaseModel):
    order: Annotated[str, Searchable] = ""
    iban: Annotated[str, Sensitive("operator")] = "DE99"
    fails: bool = False


class NoStock(StepError):
    """There is none left."""

    code = "no_stock"


@pytest.fixture(autouse=True)
def sale() -> Iterator[Workflow]:
    """ask; whoever says so fails before it."""
    flow = Workflow("sale", version=1, state=Sale)

    @flow.node
    def check(state: Any, ctx: Any) -> None:
        if state.fails:
            raise NoStock("=HYPERLINK(1)")

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("sell", {})

    flow.edge("check", "ask")
    workflows.register(flow)
    yield flow
    workflows.unregister("sale")


def submit(house: House, *, labels: dict[str, str] | None = None, work: bool = True, **input: Any) -> Run:
    run = operations.submit(actor=house.shop, workflow="sale", input=input, labels=labels).run
    return house.work(run) if work else run


def rows(answer: Any) -> list[str]:
    """Ids of the runs that a page shows, in its order."""
    assert answer.status_code == 200, answer
    return re.findall(r'id="row-([0-9a-f-]{36})"', answer.content.decode())


def links(answer: Any) -> dict[str, str]:
    """Addresses by the words of their links."""
    found = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>(.*?)</a>', answer.content.decode(), re.DOTALL)
    return {re.sub(r"<[^>]+>", "", word).strip(): html.unescape(address) for address, word in found}


def test_every_part_of_the_filter_narrows_the_list_and_is_a_chip_that_takes_it_off(
    house: House, client_of: ClientOf
) -> None:
    waiting = submit(house, order="88-1", labels={"shop": "berlin"})
    failed = submit(house, order="88-2", fails=True)
    queued = submit(house, work=False)
    olga = client_of(house.olga)
    wanted = {
        "": [queued, failed, waiting],
        "status=waiting": [waiting],
        "status=failed": [failed],
        "status=retrying": [],
        "status=stalled": [],
        "waiting_for=approval": [waiting],
        "waiting_for=timer": [],
        "workflow=sale": [queued, failed, waiting],
        "workflow=sale&version=2": [],
        "queue=runs": [queued, failed, waiting],
        "limit_key=x": [],
        "label=shop%3Dberlin": [waiting],
        "state=order%3D88-2": [failed],
        "q=88-2": [failed],
        "q=order%3D88-2": [failed],
        f"q=R-{failed.pk.hex[:8]}": [failed],
        f"q={failed.pk}": [failed],
        "requester=shop": [queued, failed, waiting],
        "requester=olga": [],
        "error=no_stock": [failed],
        "started=hour": [queued, failed, waiting],
        "created_from=2020-01-01": [queued, failed, waiting],
        "created_until=2020-01-01": [],
        "status=failed&label=shop%3Dberlin": [],
    }
    for query, expected in wanted.items():
        answer = olga.get(f"/runs/?{query}")
        assert rows(answer) == [str(run.pk) for run in expected], query
        for name in query.split("&") if query else ():
            off = [
                address
                for address in links(answer).values()
                if address.startswith("/runs/") and name not in address
            ]
            assert off, f"no way without {name}"


@pytest.mark.parametrize(
    "name", ["dashboard/?workflow=%00", "runs/{run}/history/?node=%00", "teams/?after=a%00"]
)
def test_a_text_that_nothing_has_is_not_looked_for(house: House, client_of: ClientOf, name: str) -> None:
    """C01: U+0000 in an address."""
    run = submit(house)
    assert client_of(house.olga).get(f"/{name.format(run=run.pk)}").status_code == 200


@pytest.mark.parametrize("address", ["/members/%00/", "/workflows/a%00b/", "/workflows/a%00b/start/"])
def test_a_name_that_nothing_has_leads_nowhere(house: House, client_of: ClientOf, address: str) -> None:
    """C01"""
    assert client_of(house.olga).get(address).status_code == 404


def test_what_an_address_cannot_mean_asks_for_nothing(house: House, client_of: ClientOf) -> None:
    run = submit(house)
    olga = client_of(house.olga)
    for query in (
        "status=sleeping",
        "created_from=yesterday",
        "created_from=0000-00-00",
        "created_from=0001-01-01",
        "created_until=9999-12-31",
        "older_than=x",
        f"older_than=2020-01-01T00:00:00.{run.pk.hex}",
        f"older_than=0001-01-01T00:00:00%2B14:00.{run.pk.hex}",
        "q=%00",
        "label=" + "x" * 500,
        "nonsense=1",
    ):
        assert rows(olga.get(f"/runs/?{query}")) == [str(run.pk)], query


def test_the_list_goes_on_both_ways(
    house: House, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.web.runs.ROWS", 2)
    made = [str(submit(house, work=False).pk) for _ in range(5)][::-1]
    Run.objects.update(created_at=Run.objects.latest("created_at").created_at)
    made.sort(reverse=True)  # at one moment the ids give the order
    olga = client_of(house.olga)
    first = olga.get("/runs/?status=queued")
    second = olga.get(links(first)["Older"])
    third = olga.get(links(second)["Older"])
    assert [*rows(first), *rows(second), *rows(third)] == made
    assert "Older" not in links(third)
    assert "Newer" not in links(first)
    back = olga.get(links(third)["Newer"])
    assert rows(back) == rows(second)
    assert rows(olga.get(links(back)["Newer"])) == rows(first)
    assert rows(olga.get(links(third)["Newest"])) == rows(first)
    assert "status=queued" in links(third)["Newest"]


def test_how_many_match_is_counted_no_further_than_a_thousand(
    house: House, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.web.runs.ROWS", 2)
    monkeypatch.setattr("runs.runlists.COUNTED", 3)
    olga = client_of(house.olga)
    said = []
    for _ in range(5):
        submit(house, work=False)
        said.append(re.search(r'data-said="count">([^<]*)<', olga.get("/runs/").content.decode())[1])  # type: ignore[index]
    assert said == ["1", "2", "3", "3+", "3+"]


def test_an_open_page_hears_of_what_it_shows_and_of_nothing_else(house: House, client_of: ClientOf) -> None:
    olga = client_of(house.olga)
    run, other = submit(house, labels={"shop": "berlin"}, work=False), submit(house, work=False)

    def mark() -> str:
        return str(olga.get("/live/state/runs?label=shop%3Dberlin").json()["mark"])

    before = mark()
    assert f'data-after="{before}"' in olga.get("/runs/?label=shop%3Dberlin").content.decode()
    house.work(other)
    assert mark() == before
    house.work(run)
    assert mark() != before


def test_a_worker_that_is_silent_stalls_its_run(house: House) -> None:
    run = submit(house, work=False)
    Step.objects.filter(run=run).update(
        status="executing",
        token=run.pk,
        worker=1,
        lease_until="2020-01-01T00:00:00Z",
        entered_at=run.created_at,
    )
    Run.objects.filter(pk=run.pk).update(status="running")
    found = runlists.page(run.project_id, RunFilter(status="stalled"), limit=5)
    assert [one.pk for one in found.rows] == [run.pk]


def test_a_filter_is_kept_as_a_view_and_opens_again(house: House, client_of: ClientOf) -> None:
    waiting = str(submit(house).pk)
    failed = submit(house, fails=True)
    olga = client_of(house.olga)
    narrowed = olga.get("/runs/?status=failed&started=week")
    saving = links(narrowed)["Save"]
    assert olga.post(saving, {"page": "runs", "name": "Failed this week"}).status_code == 303
    again = olga.get(links(olga.get("/runs/"))["Failed this week"])
    assert rows(again) == [str(failed.pk)]
    view = SavedView.objects.get()
    for address, ids in (
        (f"saved={view.pk}", [str(failed.pk)]),
        (f"saved={view.pk}&status=waiting", [waiting]),
    ):
        found = olga.get(f"/api/v1/runs?{address}").json()["items"]
        assert [one["id"] for one in found] == ids
    assert olga.get(f"/api/v1/runs?saved={failed.pk}").status_code == 404
    unknown = olga.post("/views/?page=runs&stauts=failed", {"page": "runs", "name": "x"})
    assert (unknown.status_code, "stauts" in unknown.content.decode()) == (422, True)


def test_a_verb_is_for_those_that_are_chosen_or_for_all_that_match(house: House, client_of: ClientOf) -> None:
    berlin = [submit(house, labels={"shop": "berlin"}) for _ in range(2)]
    submit(house)
    olga = client_of(house.olga)

    def would(query: str) -> set[str]:
        page = olga.get(f"/runs/bulk/?verb=pause&{query}").content.decode()
        return set(re.findall(r'name="run" value="([^"]+)"', page))

    assert would("label=shop%3Dberlin") == {str(run.pk) for run in berlin}
    assert would(f"label=shop%3Dberlin&run={berlin[0].pk}") == {str(berlin[0].pk)}
    assert len(would("")) == 3
    sent = {"verb": "pause", "run": [str(berlin[0].pk)], "label": "shop=berlin"}
    done = olga.post("/runs/bulk/", sent)
    assert "Pause: 1 done, 0 refused" in re.sub(r"\s+", " ", done.content.decode())
    assert links(done)["Runs"] == "/runs/?label=shop%3Dberlin"
    assert set(Run.objects.filter(status="paused")) == {berlin[0]}


# ---- exports


def test_the_list_is_exported_as_it_is_narrowed(house: House, client_of: ClientOf) -> None:
    failed = submit(house, order="+49 30", fails=True, labels={"note": "@SUM(A1)"})
    submit(house)
    vera = client_of(house.vera)
    page = vera.get("/runs/?status=failed")
    table = vera.get(links(page)["As CSV"])
    assert table["Content-Disposition"] == 'attachment; filename="runs.csv"'
    text = table.getvalue().decode("utf-8-sig")
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["id"], row["status"], row["error_code"]) == (str(failed.pk), "failed", "no_stock")
    assert row["labels"] == "note=@SUM(A1)"
    assert row["searchable"] == "order=+49 30"
    assert "DE99" not in text
    document = json.loads(vera.get(links(page)["As JSON"]).getvalue())
    assert document["next"] is None
    [item] = document["items"]
    assert (item["id"], item["searchable"]) == (str(failed.pk), {"order": "+49 30"})


def test_nothing_in_an_export_is_computed_by_a_spreadsheet(house: House, client_of: ClientOf) -> None:
    submit(house, fails=True)
    answer = client_of(house.olga).get("/api/v1/runs/export?format=csv")
    [row] = csv.DictReader(io.StringIO(answer.getvalue().decode("utf-8-sig")))
    assert row["error_message"] == "'=HYPERLINK(1)"
    assert not [value for value in row.values() if value.startswith(("=", "+", "-", "@", "\t", "\r"))]
