"""People and clients at the same moment: one wins, the others are told, nothing is done twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest

from tests.acceptance.faults import held, in_background
from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

ROUNDS = size("race rounds")
Ask = Callable[[], httpx.Response]


def at_once(*asks: Ask) -> list[httpx.Response]:
    """All from one barrier; the answers in the order of the questions."""
    barrier = threading.Barrier(len(asks))

    def ask(question: Ask) -> httpx.Response:
        barrier.wait(timeout=30)
        return question()

    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(ask, asks))


def votes(site: Site, approval: dict[str, Any]) -> int:
    return int(site.one("SELECT count(*) FROM runs_vote WHERE approval_id = %s", approval["id"]))


def test_two_reviewers_at_once(site: Site) -> None:
    """C55: one approves, the other rejects."""
    run_ids = []
    for number in range(ROUNDS):
        name = fresh_name()
        site.ledger.open(name)
        run_id = site.start("gated", name=name, value=number)
        approval = site.approval(run_id)
        answers = at_once(
            partial(site.decide, approval, "approve", by="frida"),
            partial(site.decide, approval, "reject", by="felix", comment="no"),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        lost = next(answer.json() for answer in answers if answer.status_code == 409)
        approved = answers[0].status_code == 200
        assert lost["code"] == "already_decided"
        assert (lost["winner"], lost["action"]) == (("frida", "approve") if approved else ("felix", "reject"))
        assert lost["decided_at"]
        assert votes(site, approval) == 1
        last = site.wait(run_id)["state"]["done"][-1]
        assert last == ("last" if approved else "refused")
        assert site.ledger.count(name=name, step="last") == int(approved)
        run_ids.append(run_id)
    assert_invariants(site, *run_ids)


def test_the_same_answer_ten_times_at_once(site: Site) -> None:
    """C55, K12, C94: a double click on the way to the server is one decision."""
    run_id = site.start("pair", name=fresh_name())
    approval = site.approval(run_id)
    answers = at_once(*[lambda: site.decide(approval)] * 10)
    assert {answer.status_code for answer in answers} == {200}
    assert votes(site, approval) == 1
    site.wait(run_id)
    assert site.kinds(run_id).count("approval_decided") == 1
    assert_invariants(site, run_id)


@pytest.mark.parametrize("rival", ["edit", "rewind", "cancel"])
def test_an_approval_and_something_else_at_once(site: Site, rival: str) -> None:
    """C55: never both in the old world, never neither."""
    run_ids = []
    for _ in range(ROUNDS):
        name = fresh_name()
        site.ledger.open(name)
        run_id = site.start("gated", name=name, value=1)
        approval = site.approval(run_id)
        rivals: dict[str, Ask] = {
            "edit": partial(site.decide, approval, "edit", by="felix", args={"value": 2}),
            "rewind": partial(site.rewind, run_id, 0),
            "cancel": partial(site.as_("olga").post, f"/runs/{run_id}/cancel", json={}),
        }
        approve, other = at_once(
            partial(site.decide, approval, by="frida"),
            rivals[rival],
        )
        _see(site, run_id, rival, approve=approve, other=other)
        run_ids.append(run_id)
    assert_invariants(site, *run_ids)


def _see(site: Site, run_id: str, rival: str, *, approve: httpx.Response, other: httpx.Response) -> None:
    if rival == "edit":
        assert sorted([approve.status_code, other.status_code]) == [200, 409]
        assert site.wait(run_id)["state"]["value"] == (1 if approve.status_code == 200 else 2)
        return
    assert approve.status_code in {200, 409}, approve.text
    if rival == "rewind":
        assert other.status_code == 202, other.text
        fresh = site.approval(run_id)
        assert fresh["votes"] == []
        site.approve(run_id, by="felix")
        assert site.wait(run_id)["branch"] == 2
        return
    # Cancelled while it was deciding: the run may have ended before the cancel came.
    assert other.status_code == 200 or other.json()["code"] == "already_terminal", other.text
    ended = site.wait(run_id, "cancelled" if other.status_code == 200 else "completed")
    assert ended["pending_approvals"] == []


def test_one_key_in_fifty_requests_at_once_is_one_run(site: Site) -> None:
    """C105."""
    name, count = fresh_name(), size("parallel requests")
    ask = {"workflow": "pair", "input": {"name": name}}
    key = {"Idempotency-Key": f"key-{name}"}
    answers = at_once(*[lambda: site.as_("shop").post("/runs", json=ask, headers=key)] * count)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: count - 1}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert all(
        answer.headers.get("Idempotent-Replayed") == "true" for answer in answers if answer.status_code == 200
    )
    other = site.as_("shop").post("/runs", json={**ask, "labels": {"x": "y"}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    run_id = str(answers[0].json()["id"])
    site.approve(run_id)
    site.wait(run_id)
    assert site.ledger.count(name=name, step="work") == 1
    assert_invariants(site, run_id)


def test_a_key_whose_first_answer_never_came_gives_the_run_that_was_made(site: Site) -> None:
    """C105: the web process is killed between the commit and its answer."""
    name = fresh_name()
    ask = {"workflow": "pair", "input": {"name": name}}
    key = {"Idempotency-Key": f"key-{name}"}

    def lost() -> str:
        try:
            return site.as_("shop").post("/runs", json=ask, headers=key).text
        except httpx.TransportError:
            return "lost"

    with (
        held(site, "runs_run", f"position('{name}' in NEW.input) > 0", at_commit=True) as hold,
        in_background(lost) as answer,
    ):
        hold.reached()
        site.stack.freeze("web")
        hold.release()
        made = until(
            lambda: site.sql("SELECT id FROM runs_run WHERE position(%s in input) > 0", name), what="landed"
        )
        site.stack.kill("web")
        assert answer() == "lost"
    site.stack.start_web()
    site.stack.wait_for_web()
    again = site.as_("shop").post("/runs", json=ask, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, str(made[0]["id"]))
    site.approve(again.json()["id"])
    site.wait(again.json()["id"])
    assert_invariants(site, again.json()["id"])


def test_a_run_of_another_project_is_not_there(site: Site) -> None:
    """C86: every address answers as for an id that does not exist, and nothing of the run changes."""
    run_id = site.start("pair", name=fresh_name())
    approval = site.approval(run_id)
    before = site.sql("SELECT version, epoch, seq, updated_at FROM runs_run WHERE id = %s", run_id)
    nowhere = "00000000-0000-4000-8000-000000000000"
    asks: list[tuple[str, str, dict[str, Any] | None, str]] = [
        ("GET", "/runs/{}", None, "run"),
        ("GET", "/runs/{}/history", None, "run"),
        ("GET", "/runs/{}/checkpoints", None, "run"),
        ("GET", "/runs/{}/checkpoints/1", None, "run"),
        ("GET", "/runs/{}/steps", None, "run"),
        ("POST", "/runs/{}/rewind", {"checkpoint": 0, "reason": "mine"}, "run"),
        ("POST", "/runs/{}/rewind/preview", {"checkpoint": 0}, "run"),
        ("PATCH", "/runs/{}/state", {"version": 1, "changes": {"value": 1}, "reason": "mine"}, "run"),
        ("POST", "/runs/{}/cancel", {}, "run"),
        ("GET", "/approvals/{}", None, "approval"),
        ("POST", "/approvals/{}/decide", {"version": 1, "type": "approve"}, "approval"),
        ("POST", "/approvals/{}/revise", {"version": 1, "args": {"send": {"value": 1}}}, "approval"),
    ]
    for person in ("olga-other", "frida-other"):
        client = site.as_(person)
        for method, path, body, kind in asks:
            real = run_id if kind == "run" else approval["id"]
            answers = [client.request(method, path.format(id_), json=body) for id_ in (real, nowhere)]
            assert [answer.status_code for answer in answers] == [404, 404], (
                person,
                method,
                path,
                answers[0].text,
            )
            assert answers[0].json() == answers[1].json()
    assert site.sql("SELECT version, epoch, seq, updated_at FROM runs_run WHERE id = %s", run_id) == before
    assert votes(site, approval) == 0
    key = {"Idempotency-Key": f"shared-{run_id}"}
    ask = {"workflow": "echo", "input": {}}
    ours = site.as_("shop").post("/runs", json=ask, headers=key)
    theirs = site.as_("shop-other").post("/runs", json=ask, headers=key)
    assert (ours.status_code, theirs.status_code) == (201, 201)
    assert ours.json()["id"] != theirs.json()["id"]
    denied = site.one(
        "SELECT count(*) FROM runs_auditentry WHERE user_name = 'olga-other' AND outcome LIKE %s", "denied%"
    )
    assert denied == 2 * len(asks)
    site.approve(run_id)
    site.wait(run_id)
    assert_invariants(site, run_id)


def test_a_signed_in_stranger_sees_no_page_of_it(site: Site) -> None:
    """C86, the pages: without a session of the project there is nothing to see, and no button works."""
    run_id = site.start("pair", name=fresh_name())
    approval = site.approval(run_id)
    with httpx.Client(base_url=site.stack.url, trust_env=False) as stranger:
        for path in (f"/runs/{run_id}/", f"/inbox/{approval['id']}/", "/inbox/"):
            answer = stranger.get(path)
            assert answer.status_code in {302, 303, 404}, (path, answer.status_code)
        answer = stranger.post(f"/inbox/{approval['id']}/decide/", data={"decision": "approve"})
        assert answer.status_code in {302, 303, 403, 404}
    assert site.approval(run_id)["votes"] == []
    site.approve(run_id)
    site.wait(run_id)
    assert_invariants(site, run_id, consume=False)
