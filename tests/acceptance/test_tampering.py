"""What you saw is what runs: one byte changed in the database, before and after the decision."""

from __future__ import annotations

import pytest

from tests.acceptance.faults import held
from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name

pytestmark = pytest.mark.acceptance


def gated(site: Site, value: int) -> tuple[str, str]:
    name = fresh_name()
    site.ledger.open(name)
    return name, site.start("gated", name=name, value=value)


@pytest.mark.parametrize("where", ["document", "digest that was seen"])
def test_a_byte_changed_between_view_and_decision(site: Site, where: str) -> None:
    """C62, 5b."""
    name, run_id = gated(site, 7)
    seen = site.approval(run_id)
    if where == "document":
        site.sql(
            """UPDATE runs_approval SET document = replace(document, '"value":7', '"value":8') WHERE id = %s""",
            seen["id"],
        )
        answer = site.decide(seen)
        assert (answer.status_code, answer.json()["code"]) == (409, "payload_changed"), answer.text
        fresh = site.approval(run_id)
        assert fresh["id"] != seen["id"]
        assert fresh["actions"][0]["args"] == {"value": 7}
    else:
        digest = ("0" if seen["digest"][0] != "0" else "1") + seen["digest"][1:]
        answer = site.decide({**seen, "digest": digest})
        assert (answer.status_code, answer.json()["code"]) == (409, "stale_version")
        assert answer.json()["digest"] == seen["digest"]
    assert site.one("SELECT count(*) FROM runs_vote WHERE approval_id = %s", seen["id"]) == 0
    assert site.ledger.count(name=name, step="last") == 0
    site.approve(run_id)
    assert site.wait(run_id)["state"]["value"] == 7
    assert_invariants(site, run_id)


def test_a_byte_changed_between_decision_and_execution(site: Site) -> None:
    """C62: the worker compares what it would use with what the vote recorded, and asks anew."""
    name, run_id = gated(site, 7)
    seen = site.approval(run_id)
    with held(site, "runs_step", "NEW.node = 'last' AND NEW.status = 'executing'", verb="UPDATE") as hold:
        assert site.decide(seen).status_code == 200
        hold.reached()  # a worker is taking the step, and has not read what was decided
        changed = site.sql(
            """UPDATE runs_checkpoint SET
                 patch = convert_to(replace(convert_from(patch, 'UTF8'), '"value":7', '"value":9'), 'UTF8'),
                 snapshot = convert_to(replace(convert_from(snapshot, 'UTF8'), '"value":7', '"value":9'), 'UTF8')
               WHERE run_id = %s AND kind = 'answer' RETURNING no""",
            run_id,
        )
        assert changed
        hold.release()
    fresh = site.approval(run_id)
    assert fresh["id"] != seen["id"]
    assert "approval_superseded" in site.kinds(run_id)
    assert site.ledger.count(name=name, step="last") == 1  # it noted that it began, and got no further
    assert site.run(run_id)["state"]["done"] == ["first", "second"]
    site.approve(run_id, by="felix")
    site.wait(run_id)
    assert_invariants(site, run_id)


def test_an_approval_revised_after_it_was_seen_is_not_decided_by_an_old_answer(site: Site) -> None:
    name, run_id = gated(site, 7)
    seen = site.approval(run_id)
    revised = site.as_("felix").post(
        f"/approvals/{seen['id']}/revise", json={"version": 1, "args": {"write": {"value": 70}}}
    )
    assert revised.status_code == 200, revised.text
    answer = site.decide(seen)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_version")
    site.approve(run_id)
    assert site.wait(run_id)["state"]["value"] == 70
    assert site.ledger.count(name=name, step="last") == 1
    assert_invariants(site, run_id)


def test_a_rewritten_history_is_found(site: Site) -> None:
    _, run_id = gated(site, 7)
    site.approve(run_id)
    site.wait(run_id)
    assert "hold" in site.stack.manage("verify_history", run_id).stdout
    site.sql("ALTER TABLE runs_event DISABLE TRIGGER USER")
    kept = site.sql("SELECT payload FROM runs_event WHERE run_id = %s AND seq = 2", run_id)[0]["payload"]
    site.sql("UPDATE runs_event SET payload = '{\"visit\":2}' WHERE run_id = %s AND seq = 2", run_id)
    found = site.stack.manage("verify_history", run_id, check=False)
    assert found.returncode == 1
    assert "event 2" in found.stdout
    site.sql("UPDATE runs_event SET payload = %s WHERE run_id = %s AND seq = 2", kept, run_id)
    site.sql("ALTER TABLE runs_event ENABLE TRIGGER USER")
    assert_invariants(site, run_id)
