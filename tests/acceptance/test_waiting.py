"""Bodies that wait, with real processes: for time, a signal that came first, a child run, and people."""

from __future__ import annotations

import pytest

from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance


def test_a_body_waits_for_everything_and_calls_once(site: Site) -> None:
    """C70, C71: the signal is sent before any worker has the run; the child's end wakes its parent."""
    name = fresh_name()
    run_id = site.start("waiter", name=name)
    sent = site.as_("shop").post(f"/runs/{run_id}/signals", json={"name": "paid", "id": "e1", "payload": 7})
    assert sent.status_code == 202, sent.text

    def is_asked() -> bool:
        return bool(site.run(run_id)["pending_approvals"])

    until(is_asked, seconds=60, what="people are asked")
    told = site.run(run_id)
    (child,) = told["children"]
    assert site.run(child["id"])["parent"]["id"] == run_id
    assert site.decide(told["pending_approvals"][0]).status_code == 200
    done = site.wait(run_id)
    assert done["state"]["done"] == [7, "child", "only", "approve"]
    assert [site.ledger.count(name=name, step=step) for step in ("before", "after")] == [1, 1]
    assert site.wait(child["id"])["status"] == "completed"
    assert "hold" in site.stack.manage("verify_history", run_id).stdout
    assert_invariants(site, run_id)
