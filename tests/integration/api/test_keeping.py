"""POST and DELETE /api/v1/runs/{id}/hold, POST /api/v1/runs/{id}/erase, and what is answered of what has gone."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from runs import operations
from runs.engine import Workflow
from runs.models import Approval, LegalHold, Run
from tests.integration.api.conftest import Api, House, pay_flow
from tests.integration.store.conftest import chain_of

Define = Callable[..., Workflow]


@pytest.fixture
def ended(house: House, define: Define) -> Run:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    house.answer(approval, "approve")
    return house.work(run)


def test_a_run_is_held_and_released(ended: Run, olga: Api) -> None:
    held = olga.post(f"runs/{ended.pk}/hold", {"reason": "a lawsuit"})
    assert (held.status, held.body["hold"]["reason"]) == (200, "a lawsuit")
    assert held.body["hold"]["author"]["username"] == "olga"
    assert olga.get(f"runs/{ended.pk}").body["hold"] == held.body["hold"]
    refused = olga.post(f"runs/{ended.pk}/erase", {"reason": "asked"})
    assert (refused.status, refused.code) == (409, "on_hold")
    assert (refused.body["reason"], refused.body["author"]) == ("a lawsuit", "olga")
    again = olga.post(f"runs/{ended.pk}/hold", {"reason": "two lawsuits"})
    assert again.body["hold"]["reason"] == "two lawsuits"
    freed = olga.ask("DELETE", f"runs/{ended.pk}/hold?reason=settled")
    assert (freed.status, freed.body["hold"]) == (200, None)
    assert olga.ask("DELETE", f"runs/{ended.pk}/hold").body["version"] == freed.body["version"]
    assert not LegalHold.objects.exists()


def test_an_erased_run_is_answered_with_what_is_left(ended: Run, olga: Api, vera: Api) -> None:
    run = f"runs/{ended.pk}"
    before = olga.get(run)
    erased = olga.post(f"{run}/erase", {"reason": "asked by the person"})
    assert (erased.status, erased.body["erasure"]["reason"]) == (200, "asked by the person")
    assert erased.body["erased_at"] is not None
    assert [erased.body[name] for name in ("input", "state", "output")] == [None, None, None]
    assert erased.headers["ETag"] != before.headers["ETag"]
    assert vera.get(run).body == erased.body
    assert {event["payload"] for event in vera.get(f"{run}/history").body["items"]} == {None}
    assert len(vera.get(f"{run}/checkpoints").body["items"]) == 4
    assert vera.get(f"{run}/steps").status == 200
    assert vera.get("runs").body["items"][0]["erased_at"] is not None
    gone = vera.get(f"{run}/checkpoints/1")
    assert (gone.status, gone.code) == (410, "erased")
    for path, body in (("rewind", {"checkpoint": 0, "reason": "r"}), ("rewind/preview", {"checkpoint": 0})):
        refused = olga.post(f"{run}/{path}", body)
        assert (refused.status, refused.code) == (410, "erased")
    approval = vera.get(f"approvals/{Approval.objects.get(run=ended).pk}")
    assert (approval.status, approval.body["title"], approval.body["actions"]) == (200, "Erased", [])
    assert approval.body["votes"][0]["decisions"] == []


def test_a_removed_run_and_its_approvals_are_gone(ended: Run, olga: Api, outsider: Api) -> None:
    """C66, C101: 410 to who could have seen it, 404 to everybody else."""
    approval = Approval.objects.get(run=ended)
    Run.objects.filter(pk=ended.pk).update(finished_at="2001-01-01T00:00:00Z")
    operations.keep_house()
    for reply in (
        olga.get(f"runs/{ended.pk}"),
        olga.get(f"runs/{ended.pk}/history"),
        olga.get(f"approvals/{approval.pk}"),
        olga.post(f"runs/{ended.pk}/rewind", {"checkpoint": 0, "reason": "r"}),
        olga.post(f"runs/{ended.pk}/hold", {"reason": "r"}),
        olga.post(f"approvals/{approval.pk}/decide", {"version": 1, "type": "approve"}),
    ):
        assert (reply.status, reply.code, reply.body["run"]) == (410, "gone", str(ended.pk))
        assert reply.body["head_hash"] == bytes(ended.head_hash).hex()
    for path in (f"runs/{ended.pk}", f"approvals/{approval.pk}"):
        assert outsider.get(path).code == "not_found"
        assert outsider.get(path).text == outsider.get(f"runs/{uuid.uuid4()}").text


def test_a_removed_checkpoint_is_gone_and_the_others_are_named(
    house: House, define: Define, olga: Api
) -> None:
    chain_of(define("links"))
    run = house.work(house.submit("links"))
    Run.objects.filter(pk=run.pk).update(finished_at=run.created_at.replace(year=run.created_at.year - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.HITL_RETENTION_COMPLETED_DAYS", 0)
        operations.keep_house()
    reply = olga.get(f"runs/{run.pk}/checkpoints/2")
    assert (reply.status, reply.code, reply.body["kept"]) == (410, "checkpoint_removed", [0, 5])
    assert olga.get(f"runs/{run.pk}/checkpoints/5").body["parent"] == 0
    assert olga.get(f"runs/{run.pk}").body["compacted_at"] is not None


def test_who_may_not_hold_or_erase_is_refused(ended: Run, frida: Api, vera: Api, outsider: Api) -> None:
    for api in (frida, vera):
        for path in ("hold", "erase"):
            assert api.post(f"runs/{ended.pk}/{path}", {"reason": "r"}).code in ("forbidden", "missing_scope")
    for path in ("hold", "erase"):
        assert outsider.post(f"runs/{ended.pk}/{path}", {"reason": "r"}).code == "not_found"
    assert not LegalHold.objects.exists()


def test_a_reason_is_needed(ended: Run, olga: Api) -> None:
    for path in ("hold", "erase"):
        assert olga.post(f"runs/{ended.pk}/{path}", {"reason": "  "}).code == "reason_required"
        assert olga.post(f"runs/{ended.pk}/{path}").status in (400, 422)
