"""Lanes of one run on several workers, and workers that are killed while a sibling works."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.faults import kill, kill_child
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

ROUNDS = size("kills")
KILLED = (*CONNECTION, "WorkerLostError")  # how Celery tells that a pool child was killed


def holding(site: Site, run_id: str, node: str) -> int:
    """The process id of the pool child that executes this node."""
    rows = until(
        lambda: site.sql(
            "SELECT child.pid FROM runs_step step JOIN runs_workerchild child ON child.id = step.worker"
            " WHERE step.run_id = %s AND step.node = %s AND step.status = 'executing'",
            run_id,
            node,
        ),
        what=f"somebody executes {node} of {run_id}",
    )
    return int(rows[0]["pid"])


def committed(site: Site, run_id: str, node: str) -> None:
    until(
        lambda: site.sql(
            "SELECT 1 FROM runs_step WHERE run_id = %s AND node = %s AND status = 'completed'", run_id, node
        ),
        what=f"{node} of {run_id} is committed",
    )


def stamps(site: Site, name: str, *steps: str) -> dict[str, int]:
    return {step: site.ledger.count(name=name, step=step) for step in steps}


def seen_by(site: Site, name: str, step: str) -> list[Any]:
    """What each execution of a step saw of the trace."""
    return [stamp["saw"] for stamp in site.ledger.stamps(name=name, step=step)]


def test_lanes_of_one_run_work_at_the_same_time(site: Site) -> None:
    """Both bodies are at their gates before either is opened: on two workers."""
    name = fresh_name()
    run_id = site.start("fast_slow", name=name, stops=["F", "S"])
    for node in ("F", "S"):
        site.at_gate(f"{name}-{node}")
    assert holding(site, run_id, "F") != holding(site, run_id, "S")
    for node in ("S", "F"):
        site.ledger.open(f"{name}-{node}")
    assert site.wait(run_id)["output"]["trace"] == ["start", "F", "S", "J"]
    assert_invariants(site, run_id)


@pytest.mark.parametrize("node", ["a", "d", "e", "J", "end"])
def test_a_join_runs_once_wherever_a_worker_is_killed(site: Site, node: str) -> None:
    """C14: one committed result, everything in its input once, the same order in the end."""
    for _ in range(ROUNDS):
        name = fresh_name()
        run_id = site.start("uneven", name=name, stops=[node])
        site.at_gate(f"{name}-{node}")
        kill_child(holding(site, run_id, node))
        site.ledger.open(f"{name}-{node}")
        run = site.wait(run_id)
        assert run["output"]["trace"] == ["start", "a", "b", "c", "d", "e", "J", "end"]
        every = ("start", "a", "b", "c", "d", "e", "J", "end")
        assert stamps(site, name, *every) == {step: 1 + (step == node) for step in every}
        assert seen_by(site, name, "J") == [["start", "a", "b", "c", "d", "e"]] * (1 + (node == "J"))
        assert_invariants(site, run_id, expected=KILLED)


@pytest.mark.parametrize(
    ("workflow", "slow", "trace"),
    [
        ("fast_slow", "S", ["start", "F", "S", "J"]),
        ("fast_slow", "F", ["start", "F", "S", "J"]),
        ("deep", "S", ["start", "F", "middle", "S", "T", "K", "J"]),
        ("two_starts", "S", ["F", "S", "J"]),
    ],
)
def test_a_sibling_that_works_is_waited_for_when_all_workers_are_killed(
    site: Site, workflow: str, slow: str, trace: list[str]
) -> None:
    """C21: what was committed is not done again, and the join waits for the lane that is taken over."""
    name = fresh_name()
    run_id = site.start(workflow, name=name, stops=[slow])
    site.at_gate(f"{name}-{slow}")
    others = [node for node in trace if node not in (slow, "J", "K")]
    for node in others:
        committed(site, run_id, node)
    run = site.run(run_id)
    head = site.as_("olga").get(f"/runs/{run_id}/checkpoints/{run['head_checkpoint']}").json()
    assert head["next"] == run["next"] == [slow]
    for worker in ("w1", "w2"):
        kill(site, worker)
    site.stack.start_worker("w1")
    site.at_gate(f"{name}-{slow}", visits=2)
    assert stamps(site, name, "J", "K") == {"J": 0, "K": 0}
    site.ledger.open(f"{name}-{slow}")
    assert site.wait(run_id)["output"]["trace"] == trace
    expected = {**dict.fromkeys(others, 1), slow: 2, "J": 1}
    assert stamps(site, name, *expected) == expected
    assert seen_by(site, name, "J") == [trace[:-1]]
    assert_invariants(site, run_id, expected=KILLED)


def test_a_handler_runs_once_though_a_sibling_is_killed(site: Site) -> None:
    """C22, first run."""
    name = fresh_name()
    run_id = site.start("rescued", name=name, stops=["C"], failures=1)
    site.at_gate(f"{name}-C")
    committed(site, run_id, "H")
    kill_child(holding(site, run_id, "C"))
    site.ledger.open(f"{name}-C")
    run = site.wait(run_id)
    assert run["output"]["trace"] == ["start", "A", "H", "C", "J"]
    assert stamps(site, name, "A", "B", "H", "C", "J") == {"A": 1, "B": 1, "H": 1, "C": 2, "J": 1}
    told = {step["node"]: step for step in site.as_("olga").get(f"/runs/{run_id}/steps").json()["items"]}
    assert (told["B"]["status"], told["B"]["error"]["message"]) == ("failed", "not yet")
    assert told["H"]["status"] == "completed"
    assert_invariants(site, run_id, expected=KILLED)


def test_retry_runs_only_what_failed(site: Site) -> None:
    """C22, second run: siblings keep their results, attempts are numbered on."""
    name = fresh_name()
    run_id = site.start("brittle", name=name, stops=["B"], failures=3)
    for node in ("A", "C"):
        committed(site, run_id, node)
    site.ledger.open(f"{name}-B")
    run = site.wait(run_id, "failed")
    assert (run["error"]["step"], run["error"]["message"]) == ("B", "not yet")
    refused = site.as_("frida").post(f"/runs/{run_id}/retry", json={})
    assert refused.status_code == 403
    answer = site.as_("olga").post(f"/runs/{run_id}/retry", json={"reason": "the flag is set"})
    assert answer.status_code == 202, answer.text
    run = site.wait(run_id)
    assert run["output"]["trace"] == ["start", "A", "B", "C", "J"]
    attempts = [stamp["attempt"] for stamp in site.ledger.stamps(name=name, step="B")]
    assert attempts == [1, 2, 3, 4]
    assert stamps(site, name, "A", "C", "J") == {"A": 1, "C": 1, "J": 1}
    assert_invariants(site, run_id)
