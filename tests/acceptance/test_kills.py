"""A worker is killed: at every boundary of a step, another process goes on where the commits ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.acceptance.faults import end_backends, freeze_child, held, kill, kill_child
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

ROUNDS = size("kills")
KILLED = (*CONNECTION, "WorkerLostError")  # how Celery tells that a pool child was killed


def counts(site: Site, name: str) -> dict[str, int]:
    steps = ("work", "charge", "mail", "settle", "send")
    return {step: site.ledger.count(name=name, step=step) for step in steps}


def keys(site: Site, name: str) -> set[str]:
    return {stamp["key"] for stamp in site.ledger.stamps(name=name, step="charge")}


# ---- where it is killed. Each gets the site and the run, and returns once the process that had the step is gone.


def before_the_commit_of_a_call(site: Site, name: str, submit: Callable[..., str]) -> str:
    """The transaction goes with the process, as on a lost machine."""
    with held(site, "runs_journalentry", "NEW.name = 'charge'") as hold:
        run_id = submit()
        backends = hold.reached()
        kill_child(site.holding(run_id))
        end_backends(site, backends)
    return run_id


def at_the_commit_of_a_call(site: Site, name: str, submit: Callable[..., str]) -> str:
    """The commit lands, and nobody hears of it."""
    with held(site, "runs_journalentry", "NEW.name = 'charge'") as hold:
        run_id = submit()
        hold.reached()
        child = site.holding(run_id)
        freeze_child(child)
        hold.release()
        until(lambda: site.sql("SELECT 1 FROM runs_journalentry WHERE run_id = %s", run_id), what="landed")
        kill_child(child)
    return run_id


def between_two_calls(site: Site, name: str, submit: Callable[..., str]) -> str:
    return _at_gate(site, name, submit, "charged")


def after_the_last_call(site: Site, name: str, submit: Callable[..., str]) -> str:
    return _at_gate(site, name, submit, "mailed")


def before_the_commit_of_the_step(site: Site, name: str, submit: Callable[..., str]) -> str:
    with held(site, "runs_checkpoint", "NEW.node = 'work'") as hold:
        run_id = submit()
        backends = hold.reached()
        kill_child(site.holding(run_id))
        end_backends(site, backends)
    return run_id


def at_the_commit_of_the_step(site: Site, name: str, submit: Callable[..., str]) -> str:
    """The checkpoint is there, with the next step already claimed by a worker that never hears of it."""
    with held(site, "runs_checkpoint", "NEW.node = 'work'", at_commit=True) as hold:
        run_id = submit()
        hold.reached()
        child = site.holding(run_id)
        freeze_child(child)
        hold.release()
        until(lambda: "step_completed" in site.kinds(run_id), what="landed")
        kill_child(child)
    return run_id


def in_the_next_step(site: Site, name: str, submit: Callable[..., str]) -> str:
    return _at_gate(site, name, submit, "settling")


def before_the_commit_of_the_approval(site: Site, name: str, submit: Callable[..., str]) -> str:
    with held(site, "runs_approval", "NEW.node = 'confirm'") as hold:
        run_id = submit()
        backends = hold.reached()
        kill_child(site.holding(run_id))
        end_backends(site, backends)
    return run_id


def at_the_commit_of_the_approval(site: Site, name: str, submit: Callable[..., str]) -> str:
    with held(site, "runs_approval", "NEW.node = 'confirm'", at_commit=True) as hold:
        run_id = submit()
        hold.reached()
        child = site.holding(run_id)
        freeze_child(child)
        hold.release()
        until(lambda: "approval_opened" in site.kinds(run_id), what="landed")
        kill_child(child)
    return run_id


def _at_gate(site: Site, name: str, submit: Callable[..., str], point: str) -> str:
    run_id = submit(stops=[point])
    site.at_gate(f"{name}-{point}")
    kill_child(site.holding(run_id))
    site.ledger.open(f"{name}-{point}")
    return run_id


@dataclass(frozen=True)
class Boundary:
    """Where, and how often each thing ran in the end. taken_over: whether there was anything to take over."""

    kill: Callable[..., str]
    work: int = 2
    charge: int = 1
    mail: int = 1
    settle: int = 1
    taken_over: bool = True


BOUNDARIES = [
    Boundary(before_the_commit_of_a_call, charge=2),
    Boundary(at_the_commit_of_a_call),
    Boundary(between_two_calls),
    Boundary(after_the_last_call),
    Boundary(before_the_commit_of_the_step),
    Boundary(at_the_commit_of_the_step, work=1),
    Boundary(in_the_next_step, work=1, settle=2),
    Boundary(before_the_commit_of_the_approval, work=1),
    Boundary(at_the_commit_of_the_approval, work=1, taken_over=False),
]


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda boundary: boundary.kill.__name__)
def test_killed(site: Site, boundary: Boundary) -> None:
    """C32."""
    for _ in range(ROUNDS):
        _kill_and_see(site, boundary)


def _kill_and_see(site: Site, boundary: Boundary) -> None:
    name = fresh_name()
    run_id = boundary.kill(site, name, lambda **more: site.start("pair", name=name, **more))
    site.approval(run_id)
    seen = counts(site, name)
    wanted = {
        "work": boundary.work,
        "charge": boundary.charge,
        "mail": boundary.mail,
        "settle": boundary.settle,
        "send": 0,
    }
    assert seen == wanted, site.story(run_id)
    assert len(keys(site, name)) == 1, "the second attempt asks with the first one's key"
    taken = site.sql("SELECT payload FROM runs_event WHERE run_id = %s AND kind = 'step_taken_over'", run_id)
    assert len(taken) == int(boundary.taken_over), site.story(run_id)
    assert all("worker_gone" in row["payload"] for row in taken), "found by its lock, not by its lease"
    site.approve(run_id)
    assert site.wait(run_id)["state"]["done"] == ["work", "settle", "send"]
    assert counts(site, name)["send"] == 1
    assert site.kinds(run_id).count("step_completed") == 3
    assert_invariants(site, run_id, expected=KILLED)


def test_a_killed_workers_run_is_taken_over_within_about_two_seconds(site: Site) -> None:
    """By the lock that its backend let go; the time is the database's, and generous for a busy machine."""
    name = fresh_name()
    run_id = site.start("pair", name=name, stops=["charged"])
    site.at_gate(f"{name}-charged")
    worker = site.holder(run_id)
    killed_at = site.one("SELECT clock_timestamp()")
    kill(site, worker)
    site.at_gate(f"{name}-charged", visits=2)
    took = site.one("SELECT entered_at FROM runs_step WHERE run_id = %s AND status = 'executing'", run_id)
    assert (took - killed_at).total_seconds() < 8
    site.ledger.open(f"{name}-charged")
    site.approve(run_id)
    site.wait(run_id)
    assert_invariants(site, run_id)


def test_a_worker_killed_after_the_decision_pays_once(site: Site) -> None:
    """C62, variation 4."""
    name = fresh_name()
    run_id = site.start("pair", name=name, stops=["sending"])
    site.approve(run_id)
    site.at_gate(f"{name}-sending")
    kill_child(site.holding(run_id))
    site.ledger.open(f"{name}-sending")
    site.wait(run_id)
    assert site.kinds(run_id).count("approval_decided") == 1
    assert (
        site.one(
            "SELECT count(*) FROM runs_vote JOIN runs_approval a ON a.id = approval_id WHERE run_id = %s",
            run_id,
        )
        == 1
    )
    assert_invariants(site, run_id, expected=KILLED)


def test_both_workers_killed_and_started_anew_go_on_with_everything(site: Site) -> None:
    names = [fresh_name() for _ in range(4)]
    run_ids = [site.start("pair", name=name, stops=["charged"]) for name in names]
    until(lambda: sum(site.ledger.waiting(f"{name}-charged") for name in names) >= 2)
    for worker in site.workers():
        kill(site, worker)
    for name in names:
        site.ledger.open(f"{name}-charged")
    for worker in ("w1", "w2"):
        site.stack.start_worker(worker)
    for run_id in run_ids:
        site.approval(run_id)
    for name in names:
        assert counts(site, name)["charge"] == 1
    assert_invariants(site, *run_ids)
