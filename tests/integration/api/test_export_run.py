"""GET /api/v1/runs/{id}/export: one run as one file."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from runs import operations, workflows
from runs.engine import Action, Workflow
from runs.models import Run
from tests.integration.api.conftest import Api, House, api_of, make_house, open_approval, token_of


@pytest.fixture
def sold(house: House, define: Any) -> Run:
    """rate -> ask -> sell, with a file, a signal, a rewind and two decisions."""
    flow: Workflow = define("sold")

    @flow.node
    def rate(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.call(str, state.x, name="rate")]}

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("sell", {"what": state.x})

    @flow.node
    def sell(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [*state.log, ctx.call(str, "sold", name="sell", effect="irreversible")]}

    flow.edge(rate, ask)
    flow.edge(ask, sell)
    workflows.register(flow)
    run, approval = house.parked("sold", x="tea")
    house.answer(approval, "approve", comment="fine")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="once more")
    operations.attach(actor=house.olga, run_id=run.pk, name="a.txt", body=b"x")
    operations.signal(actor=house.olga, run_id=run.pk, name="hello", payload={"n": 2**60})
    house.work(run)
    house.answer(open_approval(run), "reject", comment="no")
    return house.work(run)


def test_a_run_is_one_file_of_what_the_other_addresses_tell(
    house: House, sold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.api.whole.AT_A_TIME", 2)
    vera = api_of(house.vera)
    told = vera.get(f"runs/{sold.pk}/export")
    file = told.body
    assert told.headers["Content-Disposition"].startswith('attachment; filename="R-')
    assert file["run"] == vera.get(f"runs/{sold.pk}").body
    assert file["branches"] == vera.get(f"runs/{sold.pk}/branches").body["items"]
    assert file["steps"] == vera.get(f"runs/{sold.pk}/steps").body["items"]
    assert file["history"] == vera.get(f"runs/{sold.pk}/history").body["items"]
    assert file["signals"] == vera.get(f"runs/{sold.pk}/signals").body["items"]
    assert file["attachments"] == vera.get(f"runs/{sold.pk}/attachments").body
    assert {vote["comment"] for one in file["approvals"] for vote in one["votes"]} == {"no", "fine"}
    for point in file["checkpoints"]:
        whole = vera.get(f"runs/{sold.pk}/checkpoints/{point['no']}").body
        assert point == {**{name: whole[name] for name in point if name != "fault"}, "fault": ""}
    bare = vera.get(f"runs/{sold.pk}/export?states=none").body
    assert {point["state"] for point in bare["checkpoints"]} == {None}
    assert vera.get(f"runs/{sold.pk}/export?states=some").status == 400


def test_what_is_erased_is_said_and_the_rest_is_there(house: House, sold: Run) -> None:
    operations.erase(actor=house.olga, run_id=sold.pk, reason="asked")
    file = api_of(house.vera).get(f"runs/{sold.pk}/export").body
    assert all(point["state"] is None and point["fault"] for point in file["checkpoints"])
    assert [event["seq"] for event in file["history"]] == list(range(1, len(file["history"]) + 1))


def test_outsiders_and_tokens_without_the_scopes_get_none(house: House, sold: Run) -> None:
    assert api_of(make_house("other").olga).get(f"runs/{sold.pk}/export").status == 404
    narrow = Api(token_of(house.vera, scopes=["runs:read"]))
    assert narrow.get(f"runs/{sold.pk}/export").code == "missing_scope"


def test_the_page_of_evidence_leads_to_it(house: House, sold: Run) -> None:
    client = Client()
    client.force_login(house.vera.user)
    address = f"/api/v1/runs/{sold.pk}/export"
    assert address in client.get(f"/runs/{sold.pk}/evidence/").text
    assert client.get(address).getvalue().startswith(b'{\n"format": 1')
