"""The main job over HTTP, with real processes."""

from __future__ import annotations

import pytest

from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name

pytestmark = pytest.mark.acceptance


def test_submit_park_edit_complete_rewind_and_again(site: Site) -> None:
    """C42: after a rewind to before the approval it is asked again; the old decision is history."""
    name = fresh_name()
    site.ledger.open(name)
    run_id = site.start("gated", name=name, value=100)
    first = site.approval(run_id)
    assert site.ledger.count(name=name, step="last") == 0
    answer = site.decide(first, "edit", args={"value": 70}, comment="too much")
    assert answer.status_code == 200, answer.text
    done = site.wait(run_id)
    assert done["state"]["value"] == 70
    assert done["state"]["done"] == ["first", "second", "last"]

    rewound = site.rewind(run_id, 1)
    assert rewound.status_code == 202, rewound.text
    fresh = site.approval(run_id)
    assert fresh["id"] != first["id"]
    assert (fresh["version"], fresh["votes"]) == (1, [])
    assert fresh["actions"][0]["args"] == {"value": 100}
    assert site.ledger.count(name=name, step="last") == 1
    late = site.decide(first, "approve", by="felix")
    assert (late.status_code, late.json()["code"]) == (409, "already_decided")
    assert site.decide(fresh, by="felix").status_code == 200
    done = site.wait(run_id)
    assert (done["state"]["value"], done["branch"], done["epoch"]) == (100, 2, 2)
    assert site.ledger.count(name=name, step="last") == 2
    assert site.ledger.count(name=name, step="call") == 1  # reused from the branch left behind
    assert "hold" in site.stack.manage("verify_history", run_id).stdout
    assert_invariants(site, run_id)


@pytest.mark.parametrize("back", [0, 2])
def test_rewinding_to_the_input_or_to_the_parked_checkpoint_asks_again(site: Site, back: int) -> None:
    """C42."""
    name = fresh_name()
    site.ledger.open(name)
    run_id = site.start("gated", name=name, value=1)
    first = site.approve(run_id)
    site.wait(run_id)
    assert site.rewind(run_id, back).status_code == 202
    fresh = site.approve(run_id, by="felix")
    assert fresh["id"] != first["id"]
    site.wait(run_id)
    assert site.ledger.count(name=name, step="first") == (2 if back == 0 else 1)
    assert_invariants(site, run_id)


def test_a_reject_leads_where_reject_leads(site: Site) -> None:
    name = fresh_name()
    site.ledger.open(name)
    run_id = site.start("gated", name=name, value=1)
    assert site.decide(site.approval(run_id), "reject", comment="no").status_code == 200
    assert site.wait(run_id)["state"]["done"] == ["first", "second", "refused"]
    assert site.ledger.count(name=name, step="last") == 0
    assert_invariants(site, run_id)


def test_a_rewind_while_a_step_executes_discards_its_result(site: Site) -> None:
    name = fresh_name()
    run_id = site.start("gated", name=name, value=1)
    site.at_gate(name)
    assert site.rewind(run_id, 0, state={"value": 2}).status_code == 202
    site.at_gate(name, visits=2)
    site.ledger.open(name)
    assert site.approval(run_id)["actions"][0]["args"] == {"value": 2}
    assert site.kinds(run_id).count("step_completed") == 3  # first, and on the new branch first and second
    site.approve(run_id)
    site.wait(run_id)
    assert len(site.notes(run_id, "late_result_discarded")) == 1
    assert_invariants(site, run_id)


def test_a_run_cancelled_in_mid_step_stays_cancelled(site: Site) -> None:
    name = fresh_name()
    run_id = site.start("gated", name=name, value=1)
    site.at_gate(name)
    assert site.as_("olga").post(f"/runs/{run_id}/cancel", json={"reason": "enough"}).status_code == 200
    site.ledger.open(name)
    assert_invariants(site, run_id)
    run = site.run(run_id)
    assert (run["status"], run["state"]["done"]) == ("cancelled", ["first"])


@pytest.mark.parametrize("meanwhile", ["nothing happens", "everything is replaced"])
def test_an_answer_goes_on_at_the_pause_and_not_from_the_beginning(site: Site, meanwhile: str) -> None:
    """C40: what came before the question runs once, whatever became of workers and Redis while it was open."""
    name = fresh_name()
    run_id = site.start("pair", name=name)
    parked = site.approval(run_id)
    if meanwhile == "everything is replaced":
        site.stack.flush_redis()
        for worker in site.workers():
            assert site.stack.end(worker) == 0
            site.stack.start_worker(worker)
    site.approve(run_id)
    assert site.wait(run_id)["state"]["done"] == ["work", "settle", "send"]
    steps = ("work", "charge", "mail", "settle", "send")
    assert [site.ledger.count(name=name, step=step) for step in steps] == [1] * 5
    asked = site.sql("SELECT id FROM runs_approval WHERE run_id = %s", run_id)
    assert [str(row["id"]) for row in asked] == [parked["id"]]
    resumed = site.one("SELECT parent FROM runs_checkpoint WHERE run_id = %s AND kind = 'answer'", run_id)
    assert resumed == site.one(
        "SELECT max(no) FROM runs_checkpoint WHERE run_id = %s AND node = 'settle'", run_id
    )
