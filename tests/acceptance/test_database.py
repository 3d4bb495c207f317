"""Postgres backends ended under web, workers and sweeper: everything goes on, nothing happens twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.acceptance.faults import end_backends, held, in_background
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance


def stamps(site: Site, name: str) -> list[int]:
    return [site.ledger.count(name=name, step=step) for step in ("before", "start", "end", "after")]


def test_backends_ended_under_a_long_step_cost_nothing(site: Site) -> None:
    """C38: web, workers, keepers and sweeper lose their connections; the step commits, the next request is answered."""
    names = [fresh_name() for _ in range(2)]
    run_ids = [site.start("patient", name=name, stops=["middle"]) for name in names]
    for name in names:
        site.at_gate(f"{name}-middle")
    assert site.stack.cut_postgres() >= 4
    assert site.as_("olga").get(f"/runs/{run_ids[0]}").status_code == 200
    assert site.as_("shop").post("/runs", json={"workflow": "echo", "input": {}}).status_code == 201
    # Rounds enough for the sweeper to have taken over what it believes dead.
    _rounds(site, 4)
    for name in names:
        site.ledger.open(f"{name}-middle")
    for run_id, name in zip(run_ids, names, strict=True):
        site.wait(run_id)
        assert stamps(site, name) == [1, 1, 1, 1]
        assert "step_taken_over" not in site.kinds(run_id)
        assert {step["entries"] for step in site.steps(run_id)} == {1}
    assert_invariants(site, *run_ids, expected=CONNECTION)


@pytest.mark.parametrize(
    ("table", "when"),
    [
        ("runs_journalentry", "NEW.occurrence = 'after'"),
        ("runs_checkpoint", "NEW.node = 'endure'"),
        ("runs_checkpoint", "NEW.node = 'rest'"),
    ],
    ids=["a call", "a step", "the end"],
)
def test_a_commit_whose_backend_is_ended_is_made_again(site: Site, table: str, when: str) -> None:
    name = fresh_name()
    with held(site, table, when) as hold:
        run_id = site.start("patient", name=name)
        first = hold.reached()
        end_backends(site, first)
        assert hold.reached() != first
        hold.release()
    site.wait(run_id)
    assert stamps(site, name) == [1, 1, 1, 1]
    assert {step["crashes"] for step in site.steps(run_id)} == {0}
    assert_invariants(site, run_id, expected=CONNECTION)


def test_a_worker_keeps_its_connection_from_task_to_task(site: Site) -> None:
    """Connecting takes longer than the work of a short run, and what was prepared would go with the connection."""

    def backends() -> set[int]:
        rows = site.stack.sql(
            "SELECT activity.pid FROM pg_stat_activity activity JOIN runs_workerchild child"
            " ON activity.application_name LIKE '%% ' || child.pid WHERE child.gone_at IS NULL"
        )
        return {row["pid"] for row in rows}

    site.wait(site.start("echo"))
    working = backends()
    assert working
    for _ in range(4):
        site.wait(site.start("echo"))
    assert working <= backends()


def test_an_approval_whose_backend_is_ended_is_opened_once(site: Site) -> None:
    name = fresh_name()
    with held(site, "runs_approval", "NEW.node = 'confirm'") as hold:
        run_id = site.start("pair", name=name)
        end_backends(site, hold.reached())
        hold.reached()
        hold.release()
    site.approve(run_id)
    site.wait(run_id)
    assert site.one("SELECT count(*) FROM runs_approval WHERE run_id = %s", run_id) == 1
    assert site.notes(run_id, "late_result_discarded") == []
    assert_invariants(site, run_id, expected=CONNECTION)


def test_a_decision_whose_backend_is_ended_is_refused_and_can_be_made_again(site: Site) -> None:
    run_id = site.start("pair", name=fresh_name())
    approval = site.approval(run_id)
    with (
        held(site, "runs_vote", "NEW.outcome = 'approve'") as hold,
        in_background(lambda: site.decide(approval)) as answer,
    ):
        end_backends(site, hold.reached())
        assert (answer().status_code, answer().json()["code"]) == (503, "database_error")
    assert site.approval(run_id)["id"] == approval["id"]
    site.approve(run_id)
    site.wait(run_id)
    assert_invariants(site, run_id, expected=CONNECTION, faults=["database_error"])


def _rounds(site: Site, number: int) -> None:
    """Waits until the sweeper has done so many more rounds."""

    def last() -> Any:
        return site.one("SELECT at FROM runs_servicebeat WHERE name = 'sweeper'")

    for _ in range(number):
        before = last()
        until(partial(_differs, last, before), seconds=30, what="another round of the sweeper")


def _differs(look: Callable[[], Any], before: Any) -> bool:
    return bool(look() != before)
