"""The inbox over the API: the same lists as on the page, and saved views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Approval
from tests.integration.api.conftest import Api, House, api_of, pay_flow, person


@pytest.fixture
def kept(house: House, define: Callable[..., Workflow]) -> dict[str, Approval]:
    """One of high risk that finance is asked, and one of low risk that is for anybody."""
    pay_flow(define("pays"))
    tags = define("tags")

    @tags.approval(due="1h")
    def ask(state: Any, ctx: Any) -> Action:
        return Action("tag", {"x": state.x}, risk="high")

    workflows.register(tags)
    return {name: house.parked(name, x=name)[1] for name in ("pays", "tags")}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["pays", "tags"]),
        ("q=tag", ["tags"]),
        ("risk=medium", ["tags"]),
        ("tool=pay", ["pays"]),
        ("due=day", ["tags"]),
        ("due=none&workflow=pays", ["pays"]),
        ("team=finance", ["pays"]),
        ("requester=shop&view=teams", ["pays"]),
        ("sort=due", ["tags", "pays"]),
        ("view=mine&sort=risk", ["tags", "pays"]),
        ("label=a%3Db", []),
        ("view=decided", []),
    ],
)
def test_approvals_are_filtered_searched_and_sorted(
    frida: Api, kept: dict[str, Approval], query: str, expected: list[str]
) -> None:
    found = [one["id"] for one in frida.get(f"approvals?{query}").body["items"]]
    assert found == [str(kept[name].pk) for name in expected]


def test_a_page_of_another_order_is_refused(frida: Api, kept: dict[str, Approval]) -> None:
    first = frida.get("approvals?sort=risk&limit=1").body
    again = frida.get(f"approvals?sort=risk&limit=1&cursor={first['next']}").body
    assert [first["items"][0]["risk"], again["items"][0]["risk"], again["next"]] == ["high", "", None]
    refused = frida.get(f"approvals?sort=due&cursor={first['next']}")
    assert (refused.status, refused.paths) == (400, ["/cursor"])


def test_a_view_is_saved_shared_used_and_deleted(house: House, frida: Api, kept: dict[str, Approval]) -> None:
    body = {"page": "inbox", "name": "Risky", "query": {"view": "open", "risk": "high"}}
    made = frida.post("views", body)
    assert (made.status, made.body["team"], made.body["query"]) == (201, None, body["query"])
    assert frida.post("views", body).code == "name_taken"
    address = f"views/{made.body['id']}"
    felix = api_of(house.felix)
    assert felix.get("views").body == {"items": []}
    assert felix.ask("PATCH", address, {"name": "x"}).status == 404
    assert frida.ask("PATCH", address, {"team": "finance"}).body["team"] == "finance"
    assert [one["name"] for one in felix.get("views?page=inbox").body["items"]] == ["Risky"]
    found = felix.get(f"approvals?saved={made.body['id']}").body["items"]
    assert [one["id"] for one in found] == [str(kept["tags"].pk)]
    assert felix.get(f"approvals?saved={made.body['id']}&risk=low").body["items"][0]["risk"] == "high"
    assert felix.ask("DELETE", address, None).code == "forbidden"
    assert frida.ask("DELETE", address, None).body == {"done": True}
    assert felix.get(f"approvals?saved={made.body['id']}").status == 404


def test_a_view_of_what_nobody_knows_is_refused_where_it_is_wrong(frida: Api) -> None:
    refused = frida.post("views", {"page": "inbox", "name": "x", "query": {"risk": "huge", "colour": "red"}})
    assert (refused.status, sorted(refused.paths)) == (422, ["/query/colour", "/query/risk"])


def test_an_admin_sees_what_is_shared_and_nothing_else(house: House, frida: Api) -> None:
    for name, team in (("mine", None), ("ours", "finance")):
        frida.post("views", {"page": "runs", "name": name, "query": {"status": "failed"}, "team": team})
    ada = api_of(person(house.project, "ada", "admin"))
    assert [one["name"] for one in ada.get("views").body["items"]] == ["ours"]
