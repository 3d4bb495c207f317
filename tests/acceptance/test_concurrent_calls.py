"""Calls made at once, and a worker killed among them: what was journalled is found again by its place."""

from __future__ import annotations

from functools import partial

import pytest

from tests.acceptance.faults import kill_child
from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("late", ["a", "c", "y"])
def test_calls_started_together_recover_whichever_is_missing(site: Site, late: str) -> None:
    """C25: two of three are in the journal when the worker is killed; also three of one name with other arguments."""
    for _ in range(size("kills")):
        name = fresh_name()
        run_id = site.start("crew", name=name, stops=[late])
        until(
            partial(_has_journalled, site, run_id, 5 if late == "y" else 2), what="the others are journalled"
        )
        site.at_gate(f"{name}-{late}")
        kill_child(site.holding(run_id))
        site.ledger.open(f"{name}-{late}")
        told = site.wait(run_id)
        assert told["state"]["value"] == ["A", "B", "C", "X", "Y", "Z"]
        counts = {what: site.ledger.count(name=name, step=what) for what in ("a", "b", "c", "x", "y", "z")}
        assert counts.pop(late) == 2
        assert set(counts.values()) == {1}
        assert_invariants(site, run_id, expected=["WorkerLostError"])


def _has_journalled(site: Site, run_id: str, calls: int) -> bool:
    return bool(site.one("SELECT count(*) = %s FROM runs_journalentry WHERE run_id = %s", calls, run_id))
