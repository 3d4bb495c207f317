"""POST /api/v1/runs/{id}/rewind and /rewind/preview."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Approval, Branch, Run
from tests.integration.api.conftest import (
    Api,
    House,
    api_of,
    denials,
    every_row,
    open_approval,
    pay_flow,
    token_of,
)


@pytest.fixture
def parked(house: House, define: Callable[..., Workflow]) -> Approval:
    pay_flow(define("pays"))
    _, approval = house.parked("pays", x=1)
    return approval


def rewind(api: Api, run: Any, **body: Any) -> Any:
    return api.post(f"runs/{run}/rewind", body)


def test_a_rewind_starts_a_branch_that_goes_on_by_itself(house: House, olga: Api, parked: Approval) -> None:
    reply = rewind(olga, parked.run_id, checkpoint=0, reason="wrong amount", state={"x": 5})
    assert reply.status == 202
    assert (reply.body["branch"], reply.body["epoch"], reply.body["status"]) == (2, 2, "queued")
    assert reply.body["state"]["x"] == 5
    run = house.work(Run.objects.get(pk=parked.run_id))
    again = open_approval(run)
    assert again.pk != parked.pk
    assert again.content["actions"][0]["args"] == {"amount": 5}
    branch = Branch.objects.get(run=run, no=2)
    assert (branch.parent_checkpoint, branch.reason) == (0, "wrong amount")


def test_the_preview_tells_what_would_happen_again(
    house: House, olga: Api, define: Callable[..., Workflow]
) -> None:
    flow = define("calls")

    @flow.node
    def first(state: Any, ctx: Any) -> dict[str, Any]:
        return {"x": ctx.call(dict, kwargs={"receipt": 2**65}, name="pay", effect="irreversible")}

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("write", {})

    flow.edge(first, ask)
    workflows.register(flow)
    run, approval = house.parked("calls")
    before = every_row()
    for calls, reused in (("reuse", True), ("again", False)):
        told = olga.post(f"runs/{run.pk}/rewind/preview", {"checkpoint": 0, "calls": calls}).body
        assert told["next"] == ["first"]
        assert {step["node"] for step in told["steps"]} == {"first", "ask"}
        assert [(call["name"], call["effect"], call["result"], call["reused"]) for call in told["made"]] == [
            ("pay", "irreversible", {"receipt": 2**65}, reused)
        ]
        assert [one["id"] for one in told["approvals"]] == [str(approval.pk)]
    assert every_row() == before


def test_a_rewind_with_state_that_breaks_the_schema_is_refused(house: House, olga: Api) -> None:
    run = house.submit("echo")
    reply = rewind(olga, run.pk, checkpoint=0, reason="x", state={"done": [7], "nope": 1})
    assert (reply.status, reply.code) == (422, "schema_violation")
    assert {fault["in"] for fault in reply.body["errors"]} == {"state"}
    assert Branch.objects.count() == 1


def test_a_run_that_had_ended_there_cannot_be_rewound_to_it(house: House, olga: Api) -> None:
    run = house.work(house.submit("echo"))
    for path in ("rewind/preview", "rewind"):
        body = {"checkpoint": run.head} | ({"reason": "x"} if path == "rewind" else {})
        assert (olga.post(f"runs/{run.pk}/{path}", body)).code == "nothing_to_run"


@pytest.mark.parametrize("path", ["rewind", "rewind/preview"])
def test_an_unknown_checkpoint_is_named(house: House, olga: Api, path: str) -> None:
    run = house.submit("echo")
    body: dict[str, Any] = {"checkpoint": 7} | ({"reason": "x"} if path == "rewind" else {})
    reply = olga.post(f"runs/{run.pk}/{path}", body)
    assert (reply.status, reply.code, reply.body["checkpoint"]) == (404, "unknown_checkpoint", 7)


def test_a_completed_run_goes_on_after_a_rewind(house: House, olga: Api) -> None:
    run = house.work(house.submit("echo"))
    assert rewind(olga, run.pk, checkpoint=0, reason="again").status == 202
    assert house.work(run).status == "completed"
    assert run.branch == 2


def test_a_rewind_may_say_which_version_was_seen(house: House, olga: Api) -> None:
    run = house.submit("echo")
    stale = rewind(olga, run.pk, checkpoint=0, reason="x", version=run.version + 1)
    assert (stale.status, stale.code, stale.body["version"]) == (409, "stale_version", run.version)
    by_header = olga.post(f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x"}, If_Match='"999"')
    assert by_header.status == 412
    seen = olga.get(f"runs/{run.pk}").headers["ETag"]
    assert olga.post(f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x"}, If_Match=seen).status == 202


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"checkpoint": 0}, 400),
        ({"checkpoint": 0, "reason": " "}, 422),
        ({"checkpoint": "0", "reason": "x"}, 400),
        ({"checkpoint": -1, "reason": "x"}, 400),
        ({"checkpoint": 2**70, "reason": "x"}, 404),
        ({"checkpoint": 0, "reason": "x", "calls": "never"}, 400),
        ({"checkpoint": 0, "reason": "x", "state": []}, 400),
        ({"checkpoint": 0, "reason": "x", "changes": {}}, 400),
        ({"reason": "x"}, 400),
    ],
)
def test_a_body_that_says_something_else_is_refused(house: House, olga: Api, body: Any, status: int) -> None:
    run = house.submit("echo")
    assert olga.post(f"runs/{run.pk}/rewind", body).status == status
    assert Branch.objects.count() == 1


def test_who_is_asked_may_rewind_and_others_may_not(
    house: House, frida: Api, vera: Api, shop: Api, parked: Approval
) -> None:
    for api, code in ((vera, "forbidden"), (shop, "forbidden")):
        for path in ("rewind", "rewind/preview"):
            body = {"checkpoint": 0} | ({"reason": "x"} if path == "rewind" else {})
            reply = api.post(f"runs/{parked.run_id}/{path}", body)
            assert (reply.status, reply.code) == (403, code)
    assert len(denials()) == 4
    assert Branch.objects.count() == 1
    assert rewind(frida, parked.run_id, checkpoint=0, reason="x").status == 202


def test_rewinding_takes_its_scope(house: House) -> None:
    run = house.submit("echo")
    api = Api(token_of(house.olga, ["runs:read", "runs:submit"]))
    assert rewind(api, run.pk, checkpoint=0, reason="x").body["scope"] == "runs:operate"
    assert rewind(api_of(house.olga), run.pk, checkpoint=0, reason="x").status == 202
