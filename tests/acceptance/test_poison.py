"""A step that ends its process is set aside, and holds up nobody."""

from __future__ import annotations

import pytest

from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name

pytestmark = pytest.mark.acceptance

DEAD = ["WorkerLostError"]


def test_a_step_that_always_ends_its_process_is_set_aside_with_its_story(site: Site) -> None:
    name = fresh_name()
    run_id = site.start("deadly", name=name, deaths=99)
    others = [site.start("chain", name=fresh_name()) for _ in range(3)]
    for other in others:
        site.wait(other)
    failed = site.wait(run_id, "failed")
    assert failed["error"]["code"] == "poisoned"
    assert (failed["error"]["step"], failed["error"]["crashes"]) == ("die", 3)
    assert "3 times" in failed["error"]["message"]
    assert site.kinds(run_id) == [
        "run_submitted", "step_taken_over", "step_taken_over", "step_failed", "run_failed",
    ]  # fmt: skip
    assert [stamp["attempt"] for stamp in site.ledger.stamps(name=name, step="die")] == [1, 2, 3]
    assert_invariants(site, run_id, *others, expected=DEAD)


def test_a_poisoned_run_can_be_rewound_and_completes(site: Site) -> None:
    name = fresh_name()
    run_id = site.start("deadly", name=name, deaths=99)
    site.wait(run_id, "failed")
    assert site.rewind(run_id, 0, state={"deaths": 0}).status_code == 202
    assert site.wait(run_id)["state"]["done"] == ["die"]
    assert_invariants(site, run_id, expected=DEAD)


def test_a_step_that_ends_its_process_once_goes_on(site: Site) -> None:
    name = fresh_name()
    run_id = site.start("deadly", name=name, deaths=1)
    site.wait(run_id)
    assert site.ledger.count(name=name, step="die") == 2
    assert_invariants(site, run_id, expected=DEAD)
