"""Steps that take too long in real workers: they end, whatever they do, and their attempt counts as timed out."""

from __future__ import annotations

import pytest

from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ("sleeps", False),
        ("catches every Exception", False),
        ("catches everything", True),
        ("computes in C", True),
    ],
)
def test_an_attempt_that_hangs_is_ended_and_the_next_one_completes(site: Site, how: str, ends: bool) -> None:
    """`ends`: only the end of its process helped. The poison guard counts none of them."""
    name = fresh_name()
    run_id = site.start("tardy", name=name, value=how)
    site.wait(run_id)
    (step,) = site.steps(run_id)
    assert (step["failures"], step["crashes"], step["entries"]) == (1, 0, 2)
    assert site.kinds(run_id) == [
        "run_submitted", "step_retry_scheduled", "step_completed", "run_completed",
    ]  # fmt: skip
    error = site.one(
        "SELECT payload FROM runs_event WHERE run_id = %s AND kind = 'step_retry_scheduled'", run_id
    )
    assert '"code":"step_timeout"' in error
    assert ('"process_ended":true' in error) == ends
    first, second = site.ledger.stamps(name=name, step="hang")
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert_invariants(site, run_id, expected=["WorkerLostError"] if ends else [])
