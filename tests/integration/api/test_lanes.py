"""What a run with several lanes answers, and how a request names one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from pytest_django import DjangoAssertNumQueries

from runs import workflows
from runs.engine import START, Action, Workflow, append
from runs.models import Approval, Run
from tests.integration.api.conftest import Api, House, pay_flow, token_of

Define = Callable[..., Workflow]


class Trace(BaseModel):
    trace: Annotated[list[str], append] = []
    x: Any = None
    found: list[Any] = []


def note(flow: Workflow, *names: str) -> None:
    for name in names:
        flow.node(name=name)(lambda state, ctx: {"trace": [ctx.node]})


def forked(define: Define) -> Workflow:
    """start and J; what lies between is the caller's."""
    flow = define("forked", state=Trace)
    note(flow, "start", "J")
    return flow


def joined(flow: Workflow, *lanes: str) -> None:
    for lane in lanes:
        flow.edge("start", lane)
        flow.edge(lane, "J")
    workflows.register(flow)


@pytest.fixture
def asking(house: House, define: Define) -> Run:
    """Two lanes that ask, and one that has arrived."""
    flow = forked(define)
    for name in ("left", "right"):
        flow.approval(name=name)(lambda state, ctx: Action("do", {"at": ctx.node, "x": state.x}))
    note(flow, "quick")
    joined(flow, "left", "right", "quick")
    return house.work(house.submit("forked"))


def lanes(api: Api, run: Run) -> dict[str, dict[str, Any]]:
    return {lane["node"]: lane for lane in api.get(f"runs/{run.pk}").body["lanes"]}


def test_a_run_tells_where_each_lane_stands(shop: Api, asking: Run) -> None:
    told = shop.get(f"runs/{asking.pk}").body
    rows = [(one["node"], one["status"], one["waits_at"], one["state"]["trace"]) for one in told["lanes"]]
    assert rows == [
        ("left", "live", None, ["start"]),
        ("right", "live", None, ["start"]),
        ("quick", "arrived", "J", ["start", "quick"]),
    ]
    assert told["state"]["trace"] == ["start", "quick"]
    assert told["conflicts"] == []
    asked = {approval["id"]: approval["node"] for approval in told["pending_approvals"]}
    assert [[asked[one] for one in lane["approvals"]] for lane in told["lanes"]] == [["left"], ["right"], []]
    head = shop.get(f"runs/{asking.pk}/checkpoints/{told['head_checkpoint']}").body
    assert [lane["lane"] for lane in head["lanes"]] == [lane["lane"] for lane in told["lanes"]]


def test_a_run_with_one_lane_tells_one_and_an_ended_run_none(house: House, shop: Api, define: Define) -> None:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    (lane,) = shop.get(f"runs/{run.pk}").body["lanes"]
    assert (lane["lane"], lane["node"], lane["approvals"]) == ("0", "ask", [str(approval.pk)])
    house.answer(approval, "approve")
    house.work(run)
    assert shop.get(f"runs/{run.pk}").body["lanes"] == []


def test_lanes_cost_no_query(
    shop: Api, asking: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    # As a run with one lane, and for deciding who may: the teams once, whatever is asked.
    with django_assert_num_queries(7):
        shop.get(f"runs/{asking.pk}")


def test_the_version_of_a_lane_is_raised_by_itself_alone(
    house: House, frida: Api, shop: Api, define: Define
) -> None:
    flow = forked(define)
    for name in ("left", "right"):
        flow.approval(name=name)(lambda state, ctx: Action("do", {"at": ctx.node}))
        flow.approval(name=f"{name}2")(lambda state, ctx: Action("do", {"at": ctx.node}))
        flow.edge("start", name)
        flow.edge(name, f"{name}2")
        flow.edge(f"{name}2", "J")
    workflows.register(flow)
    run = house.work(house.submit("forked"))
    before = lanes(shop, run)
    frida.post(f"runs/{run.pk}/decide", {"lane": before["left"]["lane"], "version": 1, "type": "approve"})
    house.work(run)
    after = lanes(shop, run)
    assert after["left2"]["version"] > before["left"]["version"]
    assert after["right"] == before["right"]


# ---- which one is meant


def test_an_answer_to_a_run_that_asks_twice_is_refused_with_what_it_asks(frida: Api, asking: Run) -> None:
    """C19 a to c, over the API: nothing is guessed, nothing is changed."""
    open_ones = list(Approval.objects.filter(run=asking).order_by("node"))
    body = {"version": 1, "type": "approve"}
    refused = frida.post(f"runs/{asking.pk}/decide", body)
    assert (refused.status, refused.code) == (409, "ambiguous_target")
    assert refused.body["approvals"] == [str(one.pk) for one in open_ones]
    assert set(refused.body["lanes"]) == {lanes(frida, asking)[node]["lane"] for node in ("left", "right")}
    unknown = "00000000-0000-4000-8000-000000000000"
    assert frida.post(f"runs/{asking.pk}/decide", {**body, "approval": unknown}).status == 404
    assert frida.post(f"runs/{asking.pk}/decide", {**body, "lane": "nowhere"}).status == 404
    assert frida.post(f"approvals/{unknown}/decide", body).status == 404
    seq, version = asking.seq, asking.version
    asking.refresh_from_db()
    assert (asking.seq, asking.version) == (seq, version)


def test_an_approval_of_another_run_is_not_found_under_this_one(
    house: House, frida: Api, asking: Run
) -> None:
    """C19 c."""
    other = Approval.objects.filter(run=house.work(house.submit("forked"))).first()
    assert other is not None
    body = {"version": 1, "type": "approve", "approval": str(other.pk)}
    reply = frida.post(f"runs/{asking.pk}/decide", body)
    assert (reply.status, reply.code) == (404, "not_found")
    assert "candidates" not in reply.body


def test_a_lane_is_answered_by_its_name(house: House, frida: Api, asking: Run) -> None:
    left = lanes(frida, asking)["left"]
    reply = frida.post(f"runs/{asking.pk}/decide", {"lane": left["lane"], "version": 1, "type": "approve"})
    assert (reply.status, reply.body["approval"]["node"]) == (200, "left")
    house.work(asking)
    reply = frida.post(f"runs/{asking.pk}/decide", {"version": 1, "type": "approve"})
    assert (reply.status, reply.body["approval"]["node"]) == (200, "right")
    house.work(asking)
    nothing = frida.post(f"runs/{asking.pk}/decide", {"version": 1, "type": "approve"})
    assert (nothing.status, nothing.code) == (404, "not_found")
    assert frida.get(f"runs/{asking.pk}").body["output"]["trace"] == ["start", "quick", "J"]


def test_a_run_is_answered_by_those_who_may(house: House, vera: Api, outsider: Api, asking: Run) -> None:
    body = {"version": 1, "type": "approve"}
    assert outsider.post(f"runs/{asking.pk}/decide", body).status == 404
    without = Api(token_of(house.frida, ["runs:read"]))
    assert without.post(f"runs/{asking.pk}/decide", body).code == "missing_scope"
    approval = str(Approval.objects.filter(run=asking).values_list("pk", flat=True)[0])
    assert vera.post(f"runs/{asking.pk}/decide", {**body, "approval": approval}).code == "forbidden"


# ---- editing one lane


def test_an_edit_names_its_lane(house: House, olga: Api, asking: Run) -> None:
    edit = {"version": asking.version, "changes": {"x": 1}, "reason": "r"}
    refused = olga.patch(f"runs/{asking.pk}/state", edit)
    told = olga.get(f"runs/{asking.pk}").body["lanes"]
    assert (refused.status, refused.code) == (409, "ambiguous_target")
    assert refused.body["lanes"] == [lane["lane"] for lane in told]
    wrong = olga.patch(f"runs/{asking.pk}/state", {**edit, "lane": "nowhere"})
    assert (wrong.status, wrong.code, wrong.body["lanes"]) == (409, "unknown_lane", refused.body["lanes"])
    left = told[0]
    edited = olga.patch(f"runs/{asking.pk}/state", {**edit, "lane": left["lane"]})
    assert edited.status == 200
    states = {lane["node"]: lane["state"]["x"] for lane in edited.body["lanes"]}
    assert states == {"left": 1, "right": None, "quick": None}
    assert edited.body["lanes"][0]["version"] > left["version"]
    house.work(asking)
    asked = Approval.objects.get(run=asking, node="left", status="open")
    assert asked.content["actions"][0]["args"]["x"] == 1


def test_a_sibling_that_moves_on_does_not_make_an_edit_stale(
    house: House, frida: Api, olga: Api, asking: Run
) -> None:
    """C57: a lane that finishes between open and save."""
    seen = lanes(olga, asking)
    frida.post(f"runs/{asking.pk}/decide", {"lane": seen["left"]["lane"], "version": 1, "type": "approve"})
    house.work(asking)
    edit = {"changes": {"x": 2}, "reason": "r", "lane": seen["right"]["lane"]}
    by_run = olga.patch(f"runs/{asking.pk}/state", {**edit, "version": asking.version - 1})
    assert (by_run.status, by_run.code) == (409, "stale_version")
    by_lane = olga.patch(f"runs/{asking.pk}/state", {**edit, "lane_version": seen["right"]["version"]})
    assert by_lane.status == 200
    again = olga.patch(f"runs/{asking.pk}/state", {**edit, "lane_version": seen["right"]["version"]})
    assert (again.status, again.code, again.body["lane"]) == (409, "stale_version", seen["right"]["lane"])
    assert again.body["version"] == lanes(olga, asking)["right"]["version"]
    nameless = olga.patch(f"runs/{asking.pk}/state", {"changes": {"x": 2}, "reason": "r", "lane_version": 1})
    assert (nameless.status, nameless.code) == (428, "version_required")


def test_a_rewind_that_edits_names_its_lane(olga: Api, asking: Run) -> None:
    body = {"checkpoint": asking.head, "reason": "r", "state": {"x": 5}}
    refused = olga.post(f"runs/{asking.pk}/rewind", body)
    assert (refused.status, refused.code) == (409, "ambiguous_target")
    lane = lanes(olga, asking)["right"]["lane"]
    rewound = olga.post(f"runs/{asking.pk}/rewind", {**body, "lane": lane})
    assert rewound.status == 202
    assert {one["node"]: one["state"]["x"] for one in rewound.body["lanes"]}["right"] == 5


# ---- conflicts, retry


@pytest.fixture
def conflicting(house: House, define: Define) -> Run:
    flow = forked(define)
    for name, value in (("one", 1), ("two", 2)):
        flow.node(name=name)(lambda state, ctx, value=value: {"x": value})
    joined(flow, "one", "two")
    return house.work(house.submit("forked"))


def test_a_conflict_is_told_with_both_sides_and_resolved_by_an_edit_and_a_retry(
    house: House, olga: Api, conflicting: Run
) -> None:
    told = olga.get(f"runs/{conflicting.pk}").body
    assert (told["status"], told["error"]["code"], told["state"]["x"]) == ("failed", "merge_conflict", None)
    (conflict,) = told["conflicts"]
    sides = [(side["node"], side["value"]) for side in conflict["steps"]]
    assert (conflict["key"], sides) == ("x", [("one", 1), ("two", 2)])
    edit = {"version": told["version"], "changes": {"x": 2}, "reason": "two wins"}
    edited = olga.patch(f"runs/{conflicting.pk}/state", edit)
    assert (edited.status, edited.body["conflicts"], edited.body["state"]["x"]) == (200, [], 2)
    retried = olga.post(f"runs/{conflicting.pk}/retry", {"reason": "two wins"})
    assert (retried.status, retried.body["status"], retried.body["error"]) == (202, "queued", None)
    house.work(conflicting)
    assert olga.get(f"runs/{conflicting.pk}").body["output"]["x"] == 2


def test_items_and_nested_workflows_are_told_too(house: House, shop: Api, define: Define) -> None:
    inner = Workflow("inner", state=Trace)
    inner.approval(name="ask")(lambda state, ctx: Action("do", {}))
    flow = define("outer", state=Trace)
    flow.subflow("nested", inner)
    flow.fan_out("each", lambda state, ctx, item: item, items=lambda state: ["a", "b"], into="found")
    flow.edge(START, "each")
    flow.edge("each", "nested")
    workflows.register(flow)
    run = house.work(house.submit("outer"))
    told = shop.get(f"runs/{run.pk}").body
    assert [(lane["node"], len(lane["approvals"])) for lane in told["lanes"]] == [
        ("nested", 0),
        ("nested/ask", 1),
    ]
    steps = shop.get(f"runs/{run.pk}/steps").body["items"]
    assert {(step["node"], step["lane"].partition("#")[2]) for step in steps} == {
        ("each", ""),
        ("each", "0"),
        ("each", "1"),
        ("nested", ""),
        ("nested/ask", ""),
    }
    told = next(one for one in shop.get("workflows").body["items"] if one["name"] == "outer")
    assert {node["name"]: node["kind"] for node in told["nodes"]} == {"nested": "subflow", "each": "fan_out"}
