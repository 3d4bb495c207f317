"""Redis emptied, cut and stopped: it delays, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.acceptance.faults import held, in_background
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.flows.night import CHAIN
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance

FOUND = "nobody was told about"  # how a worker says that it looked for itself
BROKER = (*CONNECTION, "Connection closed by server", "redis.exceptions", "kombu.exceptions")


@pytest.fixture
def all_busy(site: Site) -> Iterator[list[str]]:
    """Every worker stands at a gate until the test opens it: what is submitted now stays queued. The gates' names."""
    names = [fresh_name() for _ in site.workers()]
    run_ids = [site.start("patient", name=name, stops=["middle"]) for name in names]
    for name in names:
        site.at_gate(f"{name}-middle")
    yield [f"{name}-middle" for name in names]
    for name in names:
        site.ledger.open(f"{name}-middle")
    for run_id in run_ids:
        site.wait(run_id)


@contextmanager
def broker_stopped(site: Site) -> Iterator[None]:
    site.stack.stop_redis()
    try:
        yield
    finally:
        site.stack.start_redis()


def test_redis_flushed_while_runs_are_queued(site: Site, all_busy: list[str]) -> None:
    run_ids = [site.start("echo") for _ in range(3)]
    until(lambda: site.stack.redis.llen("runs") >= 3, what="the hints are in the queue")
    site.stack.flush_redis()
    for gate in all_busy:
        site.ledger.open(gate)
    for run_id in run_ids:
        site.wait(run_id)
    assert_invariants(site, *run_ids)


def test_cut_connections_are_made_again(site: Site) -> None:
    name = fresh_name()
    run_id = site.start("patient", name=name, stops=["middle"])
    site.at_gate(f"{name}-middle")
    site.stack.cut_redis()
    others = [site.start("echo") for _ in range(2)]
    site.ledger.open(f"{name}-middle")
    for each in (run_id, *others):
        site.wait(each)
    assert site.ledger.count(name=name, step="start") == 1
    assert_invariants(site, run_id, *others, expected=BROKER)


def test_every_worker_takes_tasks_again_after_its_connections_were_cut(site: Site) -> None:
    """C29: cut again and again, then gone, with a step under way. That a worker finds steps in Postgres too must not hide that it
    is deaf: both wait at the queue, and both are told.
    """
    name = fresh_name()
    run_id = site.start("patient", name=name, stops=["middle"])
    site.at_gate(f"{name}-middle")
    for _ in range(5):
        site.stack.cut_redis()
    with broker_stopped(site):
        pass
    site.ledger.open(f"{name}-middle")
    site.wait(run_id)
    until(lambda: _listening(site) >= 2, seconds=60, what="both workers wait at the queue")
    site.log_marks.update({path.name: path.stat().st_size for path in site.stack.logs.glob("*.log")})
    names = [fresh_name() for _ in range(2)]
    others = [site.start("patient", name=other, stops=["middle"]) for other in names]
    for other in names:
        site.at_gate(f"{other}-middle")
    assert {site.holder(other) for other in others} == set(site.workers())
    assert not [worker for worker in site.workers() if FOUND in _said_since(site, worker)]
    for other in names:
        site.ledger.open(f"{other}-middle")
    for each in others:
        site.wait(each)
    assert [site.ledger.count(name=each, step="start") for each in (name, *names)] == [1, 1, 1]
    assert_invariants(site, run_id, *others, expected=BROKER)


def _listening(site: Site) -> int:
    return sum(client["cmd"] == "brpop" for client in site.stack.redis.client_list())


def _said_since(site: Site, worker: str) -> str:
    log = site.stack.logs / f"{worker}.log"
    return log.read_bytes()[site.log_marks[log.name] :].decode(errors="replace")


def test_a_decision_made_while_redis_is_away_continues_the_run(site: Site) -> None:
    """C65: three questions in a row, Redis stopped around each answer; a stale tab; a field of another product."""
    run_id = site.start("thrice", name=fresh_name())
    first = site.approval(run_id)
    with broker_stopped(site):
        assert site.decide(first, "edit", args={"number": 1}).status_code == 200
        # Nobody can be told, and yet somebody looks.
        second = site.approval(run_id)
    stale = site.decide(first, "edit", args={"number": 2}, by="felix")
    assert (stale.status_code, stale.json()["code"]) == (409, "already_decided")
    assert second["node"] == "ask2"
    with broker_stopped(site):
        assert site.decide(second, "edit", args={"number": 2}).status_code == 200
    third = site.approval(run_id)
    assert third["node"] == "ask3"
    unknown = site.as_("frida").post(
        f"/approvals/{third['id']}/decide", json={"version": 1, "type": "approve", "data": {"number": 3}}
    )
    assert (unknown.status_code, unknown.json()["code"]) == (400, "unknown_field")
    assert site.decide(third, "edit", args={"number": 3}).status_code == 200
    assert site.wait(run_id)["state"]["done"] == ["1", "2", "3"]
    assert site.one("SELECT count(*) FROM runs_approval WHERE run_id = %s", run_id) == 3
    assert_invariants(site, run_id, expected=BROKER)


def test_runs_submitted_while_redis_is_away_run(site: Site) -> None:
    with broker_stopped(site):
        begun = site.one("SELECT clock_timestamp()")
        run_ids = [site.start("chain", name=fresh_name()) for _ in range(3)]
        took = (site.one("SELECT clock_timestamp()") - begun).total_seconds()
        assert took < 15, "a request does not wait on the broker"
        site.wait(run_ids[0])
    for run_id in run_ids:
        assert len(site.wait(run_id)["state"]["done"]) == CHAIN
    assert_invariants(site, *run_ids, expected=BROKER)


def test_workers_look_for_what_nobody_tells_them(site: Site, all_busy: list[str]) -> None:
    """Redis emptied, and no sweeper to send the hints again."""
    run_ids = [site.start("echo") for _ in range(3)]
    site.stack.kill("sweeper")
    site.stack.flush_redis()
    for gate in all_busy:
        site.ledger.open(gate)
    for run_id in run_ids:
        site.wait(run_id)
    site.stack.start_sweeper()
    assert_invariants(site, *run_ids)


def test_a_worker_started_while_redis_is_away_works(site: Site) -> None:
    site.stack.kill("w1")
    site.stack.kill("w2")
    with broker_stopped(site):
        site.stack.start_worker("w1")
        run_id = site.start("chain", name=fresh_name())
        site.wait(run_id)
    site.stack.start_worker("w2")
    assert_invariants(site, run_id, expected=BROKER)


# ---- C35: messages and transactions


def test_no_message_is_sent_before_its_transaction_has_committed(site: Site) -> None:
    """Both a submission and a decision: while the commit is held up, nothing is in the broker and nothing runs."""
    name = fresh_name()
    run_id = site.start("pair", name=name)
    approval = site.approval(run_id)
    until(lambda: _message_count(site) == 0, what="what was sent before has arrived")
    with held(site, "runs_vote", "NEW.outcome = 'approve'", at_commit=True) as hold:
        with in_background(lambda: site.decide(approval)) as answer:
            hold.reached()
            assert _message_count(site) == 0
            assert site.ledger.count(name=name, step="send") == 0
            hold.release()
        assert answer().status_code == 200
    site.wait(run_id)
    other = fresh_name()
    with held(site, "runs_run", "NEW.workflow = 'chain'", at_commit=True) as hold:
        with in_background(lambda: site.start("chain", name=other)) as started:
            hold.reached()
            assert _message_count(site) == 0
            hold.release()
        second = started()
    site.wait(second)
    for each in (run_id, second):
        assert {step["entries"] for step in site.steps(each)} <= {
            1,
            2,
        }  # an approval is entered, and ended by people
        assert "step_taken_over" not in site.kinds(each)
    for log in ("w1", "w2", "web"):
        assert "does not exist" not in (site.stack.logs / f"{log}.log").read_text()
    assert_invariants(site, run_id, second)


def test_no_message_is_sent_for_a_transaction_that_fails(site: Site, all_busy: list[str]) -> None:
    """The database refuses at the very commit, after the product has asked for the message."""
    runs_before = site.one("SELECT count(*) FROM runs_run")
    until(lambda: _message_count(site) == 0, what="what was sent before has arrived")
    name = fresh_name()
    with _refused_at_commit(site, "runs_run", f"position('{name}' in NEW.input) > 0"):
        answer = site.as_("shop").post("/runs", json={"workflow": "pair", "input": {"name": name}})
    assert (answer.status_code, answer.json()["code"]) == (503, "database_error"), answer.text
    assert site.one("SELECT count(*) FROM runs_run") == runs_before
    assert _message_count(site) == 0
    assert site.ledger.count(name=name) == 0
    site.faults.clear()
    assert_invariants(site, consume=False, expected=["the test refuses this"])


def _message_count(site: Site) -> int:
    return int(site.stack.redis.llen("runs")) + int(site.stack.redis.hlen("unacked"))


@contextmanager
def _refused_at_commit(site: Site, table: str, when: str) -> Iterator[None]:
    site.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'the test refuses this'; END $$"
    )
    site.sql(
        f"CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED"
        f" FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse()"
    )
    try:
        yield
    finally:
        site.sql("DROP FUNCTION refuse() CASCADE")
