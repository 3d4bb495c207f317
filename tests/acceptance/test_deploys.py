"""Workers asked to end while they work, as a deploy does it: nothing waits, nothing runs twice, nothing counts as a crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from tests.acceptance.faults import kill_child
from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import PATIENCE, Site, fresh_name
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


def deploy(site: Site, code: str, *names: str) -> None:
    """Exchange these processes for ones that have this code (tests/kit/flows/deployed.py)."""
    site.stack.env["DEPLOYED"] = code
    for name in names:
        if name in site.stack.children:
            site.stack.end(name, grace=60)
        if name == "sweeper":
            site.stack.start_sweeper()
        else:
            site.stack.start_worker(name)
    until(
        lambda: _workers_with(site, code) >= len(set(names) - {"sweeper"}),
        seconds=PATIENCE,
        what=f"workers with {code} are there",
    )


def _workers_with(site: Site, code: str) -> int:
    version = [["deployed", code.rstrip("x-")]]
    rows = site.sql("SELECT code FROM runs_workerchild WHERE gone_at IS NULL AND leaving_at IS NULL")
    return sum(
        1 for row in rows if [found[:2] for found in row["code"]["has"] if found[0] == "deployed"] == version
    )


def reasons(site: Site, run_id: str) -> list[str]:
    return [one["kind"] for one in site.run(run_id)["waiting_for"]]


REFUSED = "SELECT refused FROM runs_workflowversion WHERE name = 'deployed' AND version = '1'"


@pytest.fixture
def at_version_1(site: Site) -> Iterator[Site]:
    """The shared site, which is given back as it was."""
    yield site
    deploy(site, "1", "sweeper", "w1", "w2")
    del site.stack.env["DEPLOYED"]


def test_c80_c82_two_versions_are_deployed_one_after_the_other_over_parked_runs(at_version_1: Site) -> None:
    """Rolling: w2 is new while w1 is old; then all are; then the new code lacks a migration; then the old code is back."""
    site = at_version_1
    left, moved, stuck = (site.start("deployed", note=note) for note in ("left", "moved", "stuck"))
    for run_id in (left, moved, stuck):
        site.approval(run_id)
    deploy(site, "2", "w2")
    site.approve(left)
    assert site.wait(left)["state"]["log"] == ["begin 1", "last 1"], "w2 left it to w1"
    deploy(site, "2", "w1", "sweeper")
    asked = site.approve(moved)
    ended = site.wait(moved)
    assert (ended["workflow_version"], ended["state"]["log"]) == ("2", ["begin 1", "last 2"])
    assert site.kinds(moved).count("state_migrated") == 1
    assert site.one("SELECT count(*) FROM runs_approval WHERE run_id = %s", moved) == 1
    assert site.one("SELECT status FROM runs_approval WHERE id = %s", asked["id"]) == "decided"
    deploy(site, "2-", "w1", "w2", "sweeper")
    until(
        lambda: reasons(site, stuck) == ["approval", "needs_migration"],
        seconds=PATIENCE,
        what="the sweeper has found it",
    )
    assert site.run(stuck)["waiting_for"][1]["code"] == "migration_missing"
    assert not any(step["crashes"] or step["failures"] for step in site.steps(stuck))
    deploy(site, "1", "w1")
    until(lambda: reasons(site, stuck) == ["approval"], seconds=PATIENCE, what="its code is back")
    site.approve(stuck)
    assert site.wait(stuck)["workflow_version"] == "1"
    assert_invariants(site, left, moved, stuck)


def test_c82_a_worker_whose_graph_changed_without_a_version_does_not_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = site.start("deployed")
    site.approval(run_id)
    site.stack.end("w2", grace=60)
    monkeypatch.setitem(site.stack.env, "DEPLOYED", "1x")
    refused = site.stack.start_worker("w2")
    assert refused.wait(60)
    assert refused.status not in (0, None)
    assert "node ask is now confirm (renamed?)" in site.stack.log("w2")
    site.approve(run_id)
    assert site.wait(run_id)["state"]["log"] == ["begin 1", "last 1"]
    site.stack.children.pop("w2")
    told = site.one(REFUSED)
    assert "edge begin -> confirm is new" in told["changes"]
    monkeypatch.undo()
    site.stack.start_worker("w2")
    until(
        lambda: site.one(REFUSED) is None, what="the code that is registered is back, and nothing is refused"
    )
