"""Runs that are stopped, with real workers: bodies are told, calls are taken back, trees end as they grow, pauses hold."""

from __future__ import annotations

import pytest

from tests.acceptance.faults import kill_child
from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import PATIENCE, Site, fresh_name
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

CHILDREN = size("children")


def begun(site: Site, name: str) -> None:
    until(lambda: site.ledger.count(name=name, step="begun"), seconds=PATIENCE, what=f"{name} has begun")


def test_a_body_is_told_that_its_run_was_cancelled_or_rewound_and_stops(site: Site) -> None:
    """C48, C76 (c): a system call, a socket, an event loop. What comes after is not done, and its worker takes the next run."""
    for how, verb in (("sleeps", "cancel"), ("reads a socket", "rewind"), ("awaits", "cancel")):
        name = fresh_name()
        run_id = site.start("blocked", name=name, how=how)
        begun(site, name)
        if verb == "rewind":
            assert site.rewind(run_id, 0).status_code == 202
        else:
            assert site.as_("olga").post(f"/runs/{run_id}/cancel").json()["status"] == "cancelled"
        until(
            lambda name=name: site.ledger.count(name=name, step="told"),  # type: ignore[misc]
            seconds=PATIENCE,
            what=f"the body that {how} is told",
        )
        if verb == "rewind":
            until(lambda name=name: site.ledger.count(name=name, step="begun") == 2, what="it runs again")  # type: ignore[misc]
            assert site.as_("olga").post(f"/runs/{run_id}/cancel").status_code == 200
        until(lambda run_id=run_id: site.notes(run_id, "late_result_discarded"), what="it has let go")  # type: ignore[misc]
        assert site.ledger.count(name=name, step="went on") == 0
        assert_invariants(site, run_id, consume=False)
    assert_invariants(site)


def test_a_kill_in_the_middle_of_taking_back_goes_on_where_it_was(site: Site) -> None:
    """The hotel is given back twice under one key: it was under way when the process was killed. The others once."""
    name = fresh_name()
    run_id = site.start("trip", name=name)
    site.wait(run_id, "waiting")
    assert site.as_("olga").post(f"/runs/{run_id}/cancel").json()["status"] == "cancelling"
    site.at_gate(f"{name}-unbook")
    kill_child(site.holding(run_id))
    site.ledger.open(f"{name}-unbook")
    site.wait(run_id, "cancelled")
    stamps = site.ledger.stamps(name=name, step="unbook")
    assert [one["what"] for one in stamps] == ["car", "hotel", "hotel", "flight"]
    assert len({one["key"] for one in stamps}) == 3
    assert site.kinds(run_id)[-6:] == [
        "run_cancelling", "call_undone", "step_taken_over", "call_undone", "call_undone", "run_cancelled",
    ]  # fmt: skip
    assert_invariants(site, run_id, expected=["WorkerLostError"])


def test_a_tree_ends_while_it_grows_and_nothing_starts_below_it_any_more(site: Site) -> None:
    """C77: a wide tree, each child with children of its own, paused and then cancelled in the middle of that."""
    name = fresh_name()
    run_id = site.start("tree", name=name, many=CHILDREN)
    below = "SELECT count(*) FROM runs_run WHERE root_id = %s"
    until(lambda: site.one(below, run_id) >= 10, seconds=PATIENCE, what="the tree grows")
    paused = site.as_("olga").post(f"/runs/{run_id}/pause", json={"children": True, "reason": "look"})
    assert paused.json()["status"] == "paused"
    at_work = (
        "SELECT count(*) FROM runs_run WHERE root_id = %s AND status IN ('queued', 'running', 'waiting')"
    )
    until(lambda: site.one(at_work, run_id) == 0, seconds=PATIENCE, what="all of it is paused")
    held = site.one(below, run_id)
    assert site.as_("olga").post(f"/runs/{run_id}/resume").status_code == 202
    until(lambda: site.one(below, run_id) > held, seconds=PATIENCE, what="it grows again")
    assert site.as_("olga").post(f"/runs/{run_id}/cancel").json()["status"] == "cancelled"
    left = "SELECT count(*) FROM runs_run WHERE root_id = %s AND finished_at IS NULL"
    until(lambda: site.one(left, run_id) == 0, seconds=PATIENCE, what="all of it has ended")
    later = (
        "SELECT count(*) FROM runs_run child, runs_run top WHERE top.id = %s AND child.root_id = top.id"
        " AND child.created_at > top.finished_at + interval '1 second'"
    )
    assert site.one(later, run_id) == 0
    assert held < site.one(below, run_id) < 3 * CHILDREN
    some = site.sql("SELECT id FROM runs_run WHERE root_id = %s ORDER BY created_at DESC LIMIT 3", run_id)
    assert_invariants(site, run_id, *(str(row["id"]) for row in some))
