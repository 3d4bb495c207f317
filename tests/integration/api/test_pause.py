"""POST /api/v1/runs/{id}/pause and /resume; what a cancel takes back, before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runs import workflows
from runs.engine import Workflow
from runs.models import Approval, Event
from tests.integration.api.conftest import Api, House, token_of
from tests.integration.core.conftest import pay_flow

Define = Callable[..., Workflow]


def give_back(receipt: Any, amount: int) -> None:
    """What takes a payment back."""


def paying(define: Define) -> None:
    flow = define("pays_twice")

    @flow.node
    def work(state: Any, ctx: Any) -> None:
        ctx.call(str, 5, name="pay", effect="reversible", undo=give_back)
        ctx.call(str, 6, name="write", effect="irreversible")
        ctx.wait_signal("go")

    workflows.register(flow)


def test_a_run_is_paused_with_a_reason_and_goes_on(house: House, define: Define, olga: Api) -> None:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    told = olga.post(f"runs/{run.pk}/pause", {"reason": "the bank is closed", "children": True})
    assert (told.status, told.body["status"]) == (200, "paused")
    paused = told.body["paused"]
    assert (paused["by"], paused["reason"], paused["children"], paused["with_run"]) == (
        "olga",
        "the bank is closed",
        True,
        None,
    )
    assert [one["id"] for one in olga.get("runs?status=paused").body["items"]] == [str(run.pk)]
    assert olga.post(f"runs/{run.pk}/pause").body["paused"] == paused, "again changes nothing"
    assert Approval.objects.get(pk=approval.pk).status == "open"
    resumed = olga.post(f"runs/{run.pk}/resume", {"reason": "it has opened"})
    assert (resumed.status, resumed.body["status"], resumed.body["paused"]) == (202, "waiting", None)
    assert list(
        Event.objects.filter(run=run, kind__in=["run_paused", "run_resumed"]).values_list("kind", flat=True)
    ) == ["run_paused", "run_resumed"]


def test_only_operators_pause_and_it_takes_a_scope(
    house: House, define: Define, shop: Api, vera: Api
) -> None:
    pay_flow(define("pays"))
    run, _ = house.parked("pays", x=1)
    for verb in ("pause", "resume"):
        assert shop.post(f"runs/{run.pk}/{verb}").code in ("forbidden", "missing_scope")
        assert vera.post(f"runs/{run.pk}/{verb}").code in ("forbidden", "missing_scope")
        reads = Api(token_of(house.olga, ["runs:read"]))
        assert reads.post(f"runs/{run.pk}/{verb}").body["scope"] == "runs:operate"


def test_what_makes_no_sense_is_refused(house: House, define: Define, olga: Api) -> None:
    pay_flow(define("pays"))
    run, _ = house.parked("pays", x=1)
    assert olga.post(f"runs/{run.pk}/pause", {"why": "x"}).code == "unknown_field"
    assert olga.post(f"runs/{run.pk}/pause", {"children": "yes"}).status == 400
    assert olga.post(f"runs/{run.pk}/resume", {"children": True}).code == "unknown_field"
    olga.post(f"runs/{run.pk}/cancel")
    for verb in ("pause", "resume"):
        assert olga.post(f"runs/{run.pk}/{verb}").code == "already_terminal"


def test_a_cancel_is_looked_at_and_takes_back_what_it_said(house: House, define: Define, olga: Api) -> None:
    paying(define)
    run = house.work(house.submit("pays_twice"))
    preview = olga.get(f"runs/{run.pk}/cancel/preview").body
    assert [call["name"] for call in preview["taken_back"]] == ["pay"]
    assert [call["name"] for call in preview["stays"]] == ["write"]
    told = olga.post(f"runs/{run.pk}/cancel", {"reason": "no"}).body
    assert (told["status"], told["ending"]) == (
        "cancelling",
        {"status": "cancelled", "reason": "no", "calls": 1},
    )
    assert olga.post(f"runs/{run.pk}/pause").code == "compensating"
    assert olga.post(f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x"}).code == "compensating"
    house.work(run)
    work, undo = olga.get(f"runs/{run.pk}/steps").body["items"]
    assert [(call["name"], call["taken_back"]) for call in work["calls"]] == [
        ("pay", "completed"),
        ("write", None),
    ]
    assert undo["undoes"] == {"branch": 1, "address": work["address"], "name": "pay", "occurrence": "0"}
    assert (work["undoes"], undo["status"], undo["node"]) == (None, "completed", "work")
    assert olga.get(f"runs/{run.pk}").body["ending"] is None


def test_a_cancel_may_leave_everything_as_it_is(house: House, define: Define, olga: Api) -> None:
    paying(define)
    run = house.work(house.submit("pays_twice"))
    assert olga.post(f"runs/{run.pk}/cancel", {"compensate": False}).body["status"] == "cancelled"


def test_many_runs_are_paused_and_go_on(house: House, define: Define, olga: Api) -> None:
    pay_flow(define("pays"))
    runs = [house.parked("pays", x=n)[0] for n in range(3)]
    olga.post(f"runs/{runs[0].pk}/pause")
    told = {"verb": "pause", "filter": {"workflow": "pays"}}
    look = olga.post("runs/bulk", told).body
    assert sorted(item["code"] or "" for item in look["items"]) == ["", "", "event_not_allowed"]
    done = olga.post("runs/bulk", {**told, "dry_run": False, "reason": "closed"}).body
    assert (done["done"], {item["status"] for item in done["items"]}) == (2, {"paused"})
    again = olga.post("runs/bulk", {**told, "verb": "resume", "dry_run": False}).body
    assert (again["done"], {item["status"] for item in again["items"]}) == (3, {"waiting"})
