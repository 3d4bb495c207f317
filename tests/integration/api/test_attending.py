"""Who works on an approval, several decided together, who is away, when teams work: over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from runs import operations, store, workflows
from runs.engine import Action, Workflow
from runs.models import Approval
from tests.integration.api.conftest import Api, House, api_of, pay_flow

Define = Callable[..., Workflow]


@pytest.fixture
def parked(house: House, define: Define) -> Approval:
    pay_flow(define("pays"), due="1h")
    return house.parked("pays", x=1)[1]


def test_an_approval_is_claimed_taken_over_given_and_released(house: House, parked: Approval) -> None:
    frida, felix, olga = (api_of(who) for who in (house.frida, house.felix, house.olga))
    claimed = frida.post(f"approvals/{parked.pk}/assign", {})
    assert (claimed.status, claimed.body["assignee"]["username"]) == (200, "frida")
    refused = felix.post(f"approvals/{parked.pk}/assign", {})
    assert (refused.status, refused.code, refused.body["assignee"]) == (409, "already_assigned", "frida")
    answer = felix.post(f"approvals/{parked.pk}/decide", {"version": 1, "type": "approve"})
    assert (answer.status, answer.code) == (409, "already_assigned")
    assert felix.post(f"approvals/{parked.pk}/assign", {"reason": "she left"}).status == 200
    given = olga.post(f"approvals/{parked.pk}/assign", {"to": "frida", "reason": "yours"})
    assert given.body["assignee"]["username"] == "frida"
    assert olga.post(f"approvals/{parked.pk}/unassign", {}).code == "reason_required"
    assert frida.post(f"approvals/{parked.pk}/unassign", {}).body["assignee"] is None


def test_time_is_extended_and_an_approval_snoozed(house: House, parked: Approval) -> None:
    frida = api_of(house.frida)
    later = (store.now() + timedelta(days=1)).isoformat()
    extended = frida.post(f"approvals/{parked.pk}/extend", {"due_at": later, "reason": "the bank"})
    assert (extended.status, extended.body["due_at"]) == (200, later)
    assert frida.post(f"approvals/{parked.pk}/extend", {"due_at": "2026-12-01", "reason": "x"}).status == 400
    assert frida.post(f"approvals/{parked.pk}/snooze", {"until": later}).status == 200
    assert frida.post(f"approvals/{parked.pk}/snooze", {"until": None}).status == 200
    assert frida.post(f"approvals/{parked.pk}/snooze", {}).status == 400


def test_several_are_decided_together(house: House, define: Define) -> None:
    workflow = define("tags")

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("tag", {"x": state.x}, effect="reversible", risk="low")

    workflows.register(workflow)
    rows = [house.parked("tags", x=n)[1] for n in range(2)]
    body: dict[str, Any] = {
        "word": "approve",
        "approvals": [{"id": str(row.pk), "version": 1} for row in rows],
    }
    frida = api_of(house.frida)
    odd = {**body, "approvals": [{**body["approvals"][0], "colour": "red"}]}
    unread = frida.post("approvals/decide", odd)
    assert unread.paths == ["/approvals/0/colour"]
    assert unread.body["errors"][0]["message"] == "known here: id, version, digest"
    looked = frida.post("approvals/decide", {**body, "dry": True})
    assert [item["status"] for item in looked.body["items"]] == ["possible", "possible"]
    stale = {**body, "approvals": [body["approvals"][0], {"id": str(rows[1].pk), "version": 3}]}
    refused = frida.post("approvals/decide", stale)
    assert (refused.status, refused.code) == (409, "nothing_decided")
    assert [item["code"] for item in refused.body["items"]] == ["stale_version"]
    done = frida.post("approvals/decide", body)
    assert [item["status"] for item in done.body["items"]] == ["decided", "decided"]
    outsider = api_of(house.vera).post("approvals/decide", body)
    assert outsider.status in (403, 409)


def test_several_are_claimed_and_what_is_refused_holds_up_no_other(house: House, define: Define) -> None:
    pay_flow(define("pays"))
    ids = [str(house.parked("pays", x=n)[1].pk) for n in range(3)]
    frida, felix = api_of(house.frida), api_of(house.felix)
    assert frida.post("approvals/attend", {"do": "assign", "approvals": ids[:1]}).status == 200
    partly = felix.post("approvals/attend", {"do": "assign", "approvals": [*ids[:2], str(uuid4())]})
    assert [(item["status"], item["code"]) for item in partly.body["items"]] == [
        ("refused", "already_assigned"),
        ("done", ""),
        ("refused", "not_found"),
    ]
    later = (store.now() + timedelta(days=1)).isoformat()
    snoozed = frida.post("approvals/attend", {"do": "snooze", "approvals": ids[:1], "until": later})
    assert [item["status"] for item in snoozed.body["items"]] == ["done"]
    assert frida.post("approvals/attend", {"do": "assign", "approvals": ids[:1] * 2}).status == 400
    assert frida.post("approvals/attend", {"do": "assign", "approvals": []}).status == 400
    viewer = api_of(house.vera).post("approvals/attend", {"do": "unassign", "approvals": ids})
    assert [item["code"] for item in viewer.body["items"]] == ["forbidden"] * 3


def test_people_are_away_and_come_back(house: House) -> None:
    frida = api_of(house.frida)
    now = store.now()
    body = {
        "substitute": "felix",
        "starts_at": now.isoformat(),
        "ends_at": (now + timedelta(days=7)).isoformat(),
    }
    made = frida.post("absences", body)
    assert (made.status, made.body["substitute"]["username"]) == (201, "felix")
    assert frida.post("absences", body).codes == ["overlaps"]
    assert [row["id"] for row in frida.get("absences").body["items"]] == [made.body["id"]]
    assert api_of(house.felix).post(f"absences/{made.body['id']}/end", {}).status == 403
    assert frida.post(f"absences/{made.body['id']}/end", {}).body["ended_at"]
    assert frida.get("absences").body["items"] == []


def test_a_team_has_working_hours(house: House, ada: Api) -> None:
    assert ada.get("teams/finance/hours").body["standard"] is True
    told = {"zone": "Europe/Berlin", "week": {"mon": ["09:00", "17:00"]}, "holidays": ["2026-12-25"]}
    reply = ada.ask("PUT", "teams/finance/hours", told)
    assert (reply.status, reply.body["zone"], reply.body["standard"]) == (200, "Europe/Berlin", False)
    wrong = ada.ask("PUT", "teams/finance/hours", {**told, "zone": "Mars"})
    assert (wrong.status, wrong.paths) == (422, ["/zone"])
    assert ada.get("teams/nowhere/hours").status == 404
    assert api_of(house.frida).ask("PUT", "teams/finance/hours", told).status == 403


def test_the_project_has_working_hours_for_teams_that_say_nothing(house: House, ada: Api) -> None:
    told = {"zone": "Europe/Berlin", "week": {"mon": ["09:00", "17:00"]}, "holidays": ["2026-12-25"]}
    assert ada.get("project/hours").body["standard"] is True
    assert ada.ask("PUT", "project/hours", told).body == {**told, "standard": False}
    there = ada.get("teams/finance/hours").body
    assert (there["zone"], there["standard"]) == ("Europe/Berlin", True)
    ada.ask("PUT", "teams/finance/hours", {**told, "zone": "Asia/Tokyo"})
    assert ada.ask("DELETE", "teams/finance/hours").body["zone"] == "Europe/Berlin"
    assert ada.ask("DELETE", "teams/nowhere/hours").status == 404
    assert ada.ask("DELETE", "project/hours").body["zone"] == "UTC"
    olga = api_of(house.olga)
    assert {olga.ask(*one).code for one in (("PUT", "project/hours", told), ("DELETE", "project/hours"))} == {
        "forbidden"
    }
    assert olga.get("project/hours").status == 200


def test_people_and_projects_say_what_is_told(house: House, ada: Api) -> None:
    frida, path = api_of(house.frida), "notification-preferences"
    everything = {
        "app": ["asked", "decided", "ended", "failed"],
        "mail": ["asked", "failed"],
        "digest": False,
        "hour": 7,
    }
    assert frida.get(path).body == {**everything, "standard": True}
    of_all = {"app": ["asked"], "mail": ["ended"], "digest": True, "hour": 18}
    assert ada.ask("PUT", f"project/{path}", of_all).body == {**of_all, "standard": False}
    assert frida.get(path).body == {**of_all, "standard": True}
    mine = {"app": ["failed"], "mail": [], "digest": False, "hour": 0}
    assert frida.ask("PUT", path, mine).body == {**mine, "standard": False}
    assert api_of(house.felix).get(path).body == {**of_all, "standard": True}
    assert frida.ask("DELETE", path).body == {**of_all, "standard": True}
    assert frida.ask("PUT", path, {**mine, "app": ["gossip"]}).status == 400
    assert frida.ask("PUT", path, {**mine, "hour": 24}).status in (400, 422)
    assert frida.ask("PUT", f"project/{path}", mine).code == "forbidden"
    assert frida.get(f"project/{path}").body == {**of_all, "standard": False}
    reads = api_of(house.frida, ["approvals:read"])
    assert {reads.ask(*one).code for one in (("PUT", path, mine), ("DELETE", path))} == {"missing_scope"}
    assert Api().get(path).status == 401


def test_a_service_submits_for_somebody_else(house: House, define: Define) -> None:
    pay_flow(define("pays"))
    body = {"workflow": "pays", "input": {"x": 1}, "on_behalf_of": "frida"}
    assert api_of(house.shop, ["runs:submit"]).post("runs", body).code == "missing_scope"
    able = api_of(house.shop, ["runs:submit", "runs:submit_for_others", "runs:read"])
    made = able.post("runs", body)
    assert (made.status, made.body["requester"]["username"]) == (201, "frida")
    assert able.post("runs", {**body, "on_behalf_of": "nobody"}).codes == ["unknown_person"]


def test_an_operation_that_is_refused_changes_nothing(house: House, parked: Approval) -> None:
    vera = api_of(house.vera)
    for verb, told in (
        ("assign", {}),
        ("unassign", {}),
        ("snooze", {"until": None}),
        ("extend", {"due_at": "2030-01-01T00:00:00Z", "reason": "x"}),
    ):
        assert vera.post(f"approvals/{parked.pk}/{verb}", told).status == 403
    parked.refresh_from_db()
    assert parked.assignee is None
    operations.leave()
