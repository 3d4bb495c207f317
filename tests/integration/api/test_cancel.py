"""POST /api/v1/runs/{id}/cancel."""

from __future__ import annotations

from collections.abc import Callable

from runs.engine import Workflow
from runs.models import Event
from tests.integration.api.conftest import Api, House, denials, pay_flow, token_of


def test_a_cancelled_run_closes_what_it_asked(
    house: House, olga: Api, define: Callable[..., Workflow]
) -> None:
    """K14."""
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    reply = olga.post(f"runs/{run.pk}/cancel", {"reason": "not needed"})
    assert (reply.status, reply.body["status"], reply.body["waiting_for"]) == (200, "cancelled", [])
    assert reply.body["pending_approvals"] == []
    assert olga.get(f"approvals/{approval.pk}").body["status"] == "cancelled"
    assert Event.objects.filter(run=run, kind="run_cancelled").count() == 1


def test_cancelling_again_changes_nothing(house: House, olga: Api) -> None:
    run = house.submit("echo")
    replies = [olga.post(f"runs/{run.pk}/cancel") for _ in range(2)]
    assert [reply.status for reply in replies] == [200, 200]
    assert replies[0].body["version"] == replies[1].body["version"]


def test_a_completed_run_is_not_cancelled(house: House, olga: Api) -> None:
    run = house.work(house.submit("echo"))
    reply = olga.post(f"runs/{run.pk}/cancel")
    assert (reply.status, reply.code, reply.body["current_status"]) == (409, "already_terminal", "completed")


def test_the_requester_may_cancel_and_a_viewer_may_not(house: House, shop: Api, vera: Api) -> None:
    run = house.submit("echo")
    assert vera.post(f"runs/{run.pk}/cancel").code == "forbidden"
    assert denials() == [("vera", "cancel", "denied: forbidden")]
    assert shop.post(f"runs/{run.pk}/cancel").status == 200


def test_cancelling_takes_a_scope(house: House) -> None:
    run = house.submit("echo")
    assert (
        Api(token_of(house.olga, ["runs:read"])).post(f"runs/{run.pk}/cancel").body["scope"] == "runs:operate"
    )
    assert (
        Api(token_of(house.shop, ["runs:read"])).post(f"runs/{run.pk}/cancel").body["scope"] == "runs:submit"
    )


def test_a_body_that_says_something_else_is_refused(house: House, olga: Api) -> None:
    run = house.submit("echo")
    assert olga.post(f"runs/{run.pk}/cancel", {"why": "x"}).code == "unknown_field"
    assert olga.post(f"runs/{run.pk}/cancel", {"reason": 5}).status == 400
    assert olga.ask("POST", f"runs/{run.pk}/cancel", raw=r'{"reason": "\u0000"}').codes == ["nul_character"]
    run.refresh_from_db()
    assert run.status == "queued"
