"""Leases that run out under a process that is not dead, and steps that outlast what the broker believes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.faults import freeze, freeze_child, held, kill_child, thaw, thaw_child
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.flows.apps import VISIBILITY
from tests.kit.servers import Servers
from tests.kit.stack import Stack
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance

VISIBLE = 4  # seconds


@pytest.fixture(scope="module")
def shared(servers: Servers) -> Iterator[Site]:
    """Short leases, and a broker that soon gives a message to somebody else."""
    stack = Stack(servers, env={"HITL_LEASE_SECONDS": "3", VISIBILITY: str(VISIBLE)})
    try:
        site = Site(stack)
        stack.start()
        yield site
        site.close()
    finally:
        stack.stop()


def test_a_frozen_workers_late_result_is_discarded(site: Site) -> None:
    """C33: frozen past its lease, taken over, thawed after the run has parked."""
    name = fresh_name()
    run_id = site.start("rivals", name=name)
    site.at_gate(f"{name}-1")
    zombie = site.holder(run_id)
    freeze(site, zombie)
    site.at_gate(f"{name}-2")
    site.ledger.open(f"{name}-2")
    approval = site.approval(run_id)
    assert approval["actions"][0]["args"] == {"value": 2}
    site.ledger.open(f"{name}-1")
    thaw(site, zombie)
    until(lambda: site.notes(run_id, "late_result_discarded"), what="the late result is noted")
    (note,) = site.notes(run_id, "late_result_discarded")
    assert {"worker", "epoch", "token"} <= set(note["facts"])
    assert site.ledger.count(name=name, step="afterwards", attempt=1) == 0, "it made no more calls"
    assert site.approval(run_id)["id"] == approval["id"]
    assert "lease_expired" in site.one(
        "SELECT payload FROM runs_event WHERE run_id = %s AND kind = 'step_taken_over'", run_id
    )
    site.approve(run_id)
    assert site.wait(run_id)["state"] == {
        "name": name, "stops": [], "deaths": 0, "value": 2, "done": ["contested", "next_one", "take"],
    }  # fmt: skip
    assert site.ledger.count(name=name, step="take", value=2) == 1
    assert_invariants(site, run_id)


def test_a_worker_thawed_while_the_other_works_disturbs_nothing(site: Site) -> None:
    """C33, variation: it comes back inside the second attempt, and is told to end while it does."""
    name = fresh_name()
    run_id = site.start("rivals", name=name)
    site.at_gate(f"{name}-1")
    zombie, child = site.holder(run_id), site.holding(run_id)
    freeze_child(child)
    site.at_gate(f"{name}-2")
    second = site.sql("SELECT token FROM runs_step WHERE run_id = %s AND status = 'executing'", run_id)
    site.ledger.open(f"{name}-1")
    thaw_child(child)
    ended = site.stack.children.pop(zombie)
    ended.ask()
    until(lambda: site.notes(run_id, "late_result_discarded"), what="the late result is noted")
    assert (
        site.sql("SELECT token FROM runs_step WHERE run_id = %s AND status = 'executing'", run_id) == second
    )
    site.ledger.open(f"{name}-2")
    site.approve(run_id)
    assert site.wait(run_id)["state"]["value"] == 2
    assert ended.wait(60)
    assert ended.status == 0
    site.stack.start_worker(zombie)
    assert_invariants(site, run_id)


def test_a_step_longer_than_the_visibility_timeout_runs_once(site: Site) -> None:
    """C26: with all workers busy, so that other messages lie in the broker for as long. It outlasts its lease, too."""
    names = [fresh_name() for _ in range(3)]
    run_ids = [site.start("patient", name=name, stops=["middle"]) for name in names]
    until(
        lambda: sum(site.ledger.waiting(f"{name}-middle") for name in names) == 2,
        what="both are busy",
        seconds=60,
    )
    for run_id in run_ids[:1]:
        _wait_out(site, run_id, seconds=2 * VISIBLE)
    for name in names:
        site.ledger.open(f"{name}-middle")
    for run_id in run_ids:
        site.wait(run_id)
    for name in names:
        assert [site.ledger.count(name=name, step=step) for step in ("before", "start", "end", "after")] == [
            1
        ] * 4
    for run_id in run_ids:
        assert {step["entries"] for step in site.steps(run_id)} == {1}
        assert "step_taken_over" not in site.kinds(run_id)
    assert_invariants(site, *run_ids)
    broker = site.stack.redis
    until(
        lambda: not broker.llen("runs") and not broker.hlen("unacked"), what="nothing is left in the broker"
    )


def test_a_process_frozen_inside_a_transaction_does_not_hold_its_run_for_ever(site: Site) -> None:
    """The server ends its backend, and with it the lock on the run; thawed, it finds that it is late."""
    name = fresh_name()
    with held(site, "runs_approval", "NEW.node = 'confirm'") as hold:
        run_id = site.start("pair", name=name)
        hold.reached()
        child = site.holding(run_id)
        freeze_child(child)
        hold.release()
    approval = site.approval(run_id)
    assert site.kinds(run_id).count("step_taken_over") == 1
    thaw_child(child)
    until(lambda: site.notes(run_id, "late_result_discarded"), what="the late result is noted", seconds=60)
    assert site.approval(run_id)["id"] == approval["id"]
    site.approve(run_id)
    site.wait(run_id)
    assert_invariants(site, run_id, expected=CONNECTION)


def test_a_child_killed_while_its_lease_is_fresh_is_not_waited_for(site: Site) -> None:
    """The lock tells, not the lease: C32 with the shortest way to notice."""
    name = fresh_name()
    run_id = site.start("patient", name=name, stops=["middle"])
    site.at_gate(f"{name}-middle")
    kill_child(site.holding(run_id))
    site.ledger.open(f"{name}-middle")
    site.wait(run_id)
    assert site.ledger.count(name=name, step="before") == 1
    assert_invariants(site, run_id, expected=["WorkerLostError"])


def _wait_out(site: Site, run_id: str, *, seconds: float) -> None:
    """Until so much of the database's time has passed since the step began; this is about time, not about a race."""
    until(
        lambda: site.one(
            "SELECT count(*) FROM runs_step WHERE run_id = %s AND entered_at < now() - make_interval(secs => %s)",
            run_id,
            seconds,
        ),
        seconds=60,
        what=f"{seconds} s of the step have passed",
    )
