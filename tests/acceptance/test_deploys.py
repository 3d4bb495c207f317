"""Workers asked to end while they work, as a deploy does it: nothing waits, nothing runs twice, nothing counts as a crash."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from tests.acceptance.faults import kill_child
from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.flows.night import CHAIN
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance


def assert_clean(site: Site, run_id: str) -> None:
    """Every link once, and nobody had to take anything over."""
    assert site.wait(run_id)["state"]["done"] == [f"link{number}" for number in range(CHAIN)]
    assert {(step["crashes"], step["entries"]) for step in site.steps(run_id)} == {(0, 1)}
    assert "step_taken_over" not in site.kinds(run_id)


@pytest.mark.parametrize("to", ["the worker", "its whole group"])
def test_a_worker_asked_to_end_hands_its_lane_over(site: Site, to: str) -> None:
    """It finishes the step, not the slice. A service manager may signal every process of the group."""
    name = fresh_name()
    run_id = site.start("chain", name=name, stops=["link3"])
    site.at_gate(f"{name}-link3")
    worker, child = site.holder(run_id), site.holding(run_id)
    asked = site.stack.children.pop(worker)
    if to == "the worker":
        asked.ask()
    else:
        os.killpg(asked.pid, signal.SIGTERM)
    until(partial(_is_leaving, site, child), what=f"{worker} has told its child")
    site.ledger.open(f"{name}-link3")
    assert asked.wait(60)
    assert asked.status == 0
    site.stack.start_worker(worker)
    assert_clean(site, run_id)
    pids = {
        step["node"]: site.one("SELECT pid FROM runs_workerchild WHERE id = %s", step["worker"])
        for step in site.steps(run_id)
    }
    assert pids["link3"] == child
    assert child not in {pids["link4"], pids["link9"]}, "the next step went to somebody else"
    assert_invariants(site, run_id)


def test_rolling_restarts_under_load_lose_and_repeat_nothing(site: Site) -> None:
    """C30: one worker after the other is exchanged while runs are under way."""
    run_ids = [site.start("chain", name=fresh_name()) for _ in range(size("runs in a rolling restart"))]
    for round_number in range(size("rolling restarts")):
        worker = ("w1", "w2")[round_number % 2]
        assert site.stack.end(worker, grace=60) == 0
        site.stack.start_worker(worker)
        run_ids += [site.start("chain", name=fresh_name()) for _ in range(5)]
    for run_id in run_ids:
        assert_clean(site, run_id)
    assert_invariants(site, *run_ids[:3])
    broker = site.stack.redis
    until(
        lambda: not broker.llen("runs") and not broker.hlen("unacked"), what="nothing is left in the broker"
    )


def test_a_worker_that_had_to_be_killed_while_it_ended_loses_nothing(site: Site) -> None:
    """C30, second round: asked to end, and killed before its step was done."""
    name = fresh_name()
    run_id = site.start("pair", name=name, stops=["charged"])
    site.at_gate(f"{name}-charged")
    worker = site.holder(run_id)
    assert site.stack.end(worker, grace=0.5) is None
    site.ledger.open(f"{name}-charged")
    site.approve(run_id)
    site.stack.start_worker(worker)
    site.wait(run_id)
    assert site.ledger.count(name=name, step="charge") == 1
    assert_invariants(site, run_id)


def _is_leaving(site: Site, child: int) -> bool:
    rows = site.sql("SELECT leaving_at FROM runs_workerchild WHERE pid = %s AND gone_at IS NULL", child)
    return any(row["leaving_at"] for row in rows)


def test_deploys_within_one_long_step_do_not_poison_it(site: Site) -> None:
    """One more than kills would be forgiven: each worker is asked to end, does not within its time, and is killed."""
    name = fresh_name()
    run_id = site.start("patient", name=name, stops=["middle"])
    for deploy in range(1, 5):
        site.at_gate(f"{name}-middle", visits=deploy)
        worker, child = site.holder(run_id), site.holding(run_id)
        site.stack.children[worker].ask()
        until(partial(_is_leaving, site, child), what=f"{worker} has said that it leaves")
        site.stack.kill(worker)
        site.stack.start_worker(worker)
    site.ledger.open(f"{name}-middle")
    site.wait(run_id)
    step = site.steps(run_id)[0]
    assert (step["crashes"], step["failures"], step["entries"]) == (0, 0, 5)
    assert site.kinds(run_id).count("step_handed_over") == 4
    assert "step_taken_over" not in site.kinds(run_id)
    assert site.ledger.count(name=name, step="before") == 1
    assert_invariants(site, run_id)


def test_a_sweeper_killed_is_replaced_by_another_one(site: Site) -> None:
    """Two sweepers, one lock: the second works from the moment the first is gone."""
    site.stack.start_sweeper("sweeper2")
    name = fresh_name()
    run_id = site.start("pair", name=name, stops=["charged"])
    site.at_gate(f"{name}-charged")
    site.stack.kill("sweeper")
    kill_child(site.holding(run_id))
    site.ledger.open(f"{name}-charged")
    site.approve(run_id)
    site.wait(run_id)
    site.stack.start_sweeper()
    assert site.stack.end("sweeper2") == 0
    assert_invariants(site, run_id, expected=["WorkerLostError"])
