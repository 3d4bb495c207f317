"""Limits with real workers: whatever dies, a slot is never lost, and nobody has one too many (C37)."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from tests.acceptance.faults import freeze_child, held, kill, kill_child
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.flows.limited import KS
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance

KILLED = (*CONNECTION, "WorkerLostError")


def in_use(site: Site) -> int:
    return int(site.one("SELECT count(*) FROM runs_slot WHERE taken_at IS NOT NULL"))


def status(site: Site, run_id: str) -> str:
    assert in_use(site) <= 1
    return str(site.one("SELECT status FROM runs_run WHERE id = %s", run_id))


def ends(site: Site, *run_ids: str) -> None:
    for run_id in run_ids:
        until(partial(_has_completed, site, run_id), seconds=60, what=f"{run_id} completed")


def _has_completed(site: Site, run_id: str) -> bool:
    return status(site, run_id) == "completed"


def times(site: Site, run_id: str) -> dict[str, Any]:
    (row,) = site.sql(
        "SELECT run.finished_at, min(step.started_at) AS began FROM runs_run run JOIN runs_step step"
        " ON step.run_id = run.id WHERE run.id = %s GROUP BY run.finished_at",
        run_id,
    )
    return row


def came_one_after_the_other(site: Site, *run_ids: str) -> None:
    told = [times(site, run_id) for run_id in run_ids]
    for first, second in itertools.pairwise(told):
        assert first["finished_at"] <= second["began"]


def killed_between_two_steps(site: Site, name: str) -> tuple[str, list[str], str]:
    """R1's k2 is committed, and its worker dies before anybody hears of it; R2 and R3 stand behind it."""
    with held(site, "runs_checkpoint", "NEW.node = 'k2'", at_commit=True) as hold:
        first = site.start("single", name=name)
        others = [site.start("single", name=f"{name}-{number}") for number in (2, 3)]
        hold.reached()
        child = site.holding(first)
        worker = site.worker_of(child)
        freeze_child(child)
        hold.release()
        until(lambda: site.kinds(first).count("step_completed") == 2, what="k2 has landed")
        kill(site, worker)
    return first, others, worker


def test_a_run_that_lost_its_worker_between_two_steps_blocks_nobody(site: Site) -> None:
    """C37."""
    name = fresh_name()
    first, others, worker = killed_between_two_steps(site, name)
    killed_at = site.one("SELECT clock_timestamp()")
    site.stack.start_worker(worker)
    told = site.run(others[1])
    assert told["status"] == "queued"
    assert [wait["kind"] for wait in told["waiting_for"]] == ["slot"]
    assert told["line"]["before"] == 1
    assert [(use["name"], use["taken"], use["limit"]) for use in told["line"]["limits"]] == [
        ("max_concurrent_runs", 1, 1)
    ]
    ends(site, first, *others)
    entered = site.one("SELECT entered_at FROM runs_step WHERE run_id = %s AND node = 'k3'", first)
    assert (entered - killed_at).total_seconds() < 8
    assert {step: site.ledger.count(name=name, step=step) for step in KS} == {"k1": 1, "k2": 1, "k3": 1}
    came_one_after_the_other(site, first, *others)
    assert in_use(site) == 0
    assert_invariants(site, first, *others, expected=KILLED)


def test_a_run_cancelled_in_that_window_frees_its_slot_though_redis_forgot_everything(site: Site) -> None:
    """C37, variation."""
    name = fresh_name()
    first, others, worker = killed_between_two_steps(site, name)
    site.stack.flush_redis()
    answer = site.as_("olga").post(f"/runs/{first}/cancel", json={})
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    let_in = until(
        lambda: site.one("SELECT admitted_at FROM runs_run WHERE id = %s", others[0]),
        what="the next is let in",
    )
    site.stack.start_worker(worker)
    ended = site.one("SELECT finished_at FROM runs_run WHERE id = %s", first)
    ends(site, *others)
    assert (let_in - ended).total_seconds() < 3
    assert site.ledger.count(name=name, step="k3") == 0
    came_one_after_the_other(site, first, *others)
    assert in_use(site) == 0
    assert_invariants(site, first, *others, expected=KILLED)


def test_whoever_dies_before_it_can_let_in_the_next_holds_up_nobody(site: Site) -> None:
    """The end of a run is committed, and its worker dies at that moment: the sweeper sees that there is room."""
    name = fresh_name()
    with held(site, "runs_run", "NEW.status = 'completed'", verb="UPDATE", at_commit=True) as hold:
        first = site.start("single", name=name)
        second = site.start("single", name=f"{name}-2")
        hold.reached()
        child = site.holding(first)
        freeze_child(child)
        hold.release()
        until(lambda: status(site, first) == "completed", what="the end has landed")
        kill_child(child)
    ends(site, second)
    came_one_after_the_other(site, first, second)
    assert in_use(site) == 0
    assert_invariants(site, first, second, expected=KILLED)


def test_one_customers_runs_wait_and_anothers_do_not(site: Site) -> None:
    acme, zeta = fresh_name(), fresh_name()
    first = site.start("by_name", name=f"{acme}-1", stops=["k1"])
    site.at_gate(f"{acme}-1-k1")
    behind = [site.start("by_name", name=f"{acme}-{number}") for number in (2, 3)]
    other = site.start("by_name", name=f"{zeta}-1")
    site.wait(other)
    assert [site.run(run_id)["status"] for run_id in behind] == ["queued", "queued"]
    site.ledger.open(f"{acme}-1-k1")
    for run_id in (first, *behind):
        site.wait(run_id)
    came_one_after_the_other(site, first, *behind)
    assert_invariants(site, first, other, *behind)


def test_work_of_a_queue_is_done_by_the_pool_that_listens_to_it(site: Site) -> None:
    for worker in site.workers():
        kill(site, worker)
    site.stack.start_worker("w3", queues="runs")
    heavy = site.start("on_card", name=fresh_name())
    site.wait(site.start("echo"))
    assert site.run(heavy)["status"] == "queued"
    site.stack.start_worker("w4", queues="gpu")
    site.wait(heavy)
    pids = {
        row["pid"]
        for row in site.sql(
            "SELECT child.pid FROM runs_event event JOIN runs_step step USING (run_id) JOIN runs_workerchild child"
            " ON child.id = step.worker WHERE run_id = %s",
            heavy,
        )
    }
    assert {site.worker_of(pid) for pid in pids} == {"w4"}
    for worker in ("w3", "w4"):
        kill(site, worker)
    assert_invariants(site, heavy, consume=False)
