"""The SQL change with real processes, by REST: approved, edited, overtaken by other data, and killed at the worst moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.acceptance.invariants import assert_invariants
from tests.acceptance.site import Site
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance

SWEDEN = "UPDATE airports SET elevation = NULL WHERE elevation = 0 AND country = 'SE'"


class Target:
    """The database that is changed, as a superuser sees it."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self.name = f"{parts.path[1:]}_airports"
        self.url = urlunsplit(parts._replace(path=f"/{self.name}"))
        self.server_url = database_url

    def one(self, query: str) -> Any:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None

    def do(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    @contextmanager
    def holding(self, icao: str) -> Iterator[None]:
        """Somebody else holds the row of an airport."""
        with psycopg.connect(self.url) as other:
            other.execute("SELECT 1 FROM demo.airports WHERE icao = %s FOR UPDATE", [icao])
            yield

    def writers_waiting(self) -> int:
        return int(
            self.one(
                "SELECT count(*) FROM pg_stat_activity"
                f" WHERE usename = '{self.name}_writer' AND wait_event_type = 'Lock'"
            )
        )

    def drop(self) -> None:
        with closing(psycopg.connect(self.server_url, autocommit=True)) as server:
            server.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)'.encode())
            server.execute(f'DROP ROLE "{self.name}_writer"'.encode())


@pytest.fixture(scope="module")
def target(shared: Site) -> Iterator[Target]:
    shared.stack.manage("set_up")
    made = Target(shared.stack.database_url)
    made.do(
        "CREATE SCHEMA kept; CREATE TABLE kept.airports AS TABLE demo.airports;"
        "CREATE TABLE kept.metro_airports AS TABLE demo.metro_airports"
    )
    yield made
    made.drop()


@pytest.fixture
def desk(site: Site, target: Target) -> tuple[Site, Target]:
    """With the database as its set-up makes it."""
    target.do(
        "TRUNCATE demo.metro_airports, demo.airports, ledger.applied;"
        "INSERT INTO demo.airports TABLE kept.airports; INSERT INTO demo.metro_airports TABLE kept.metro_airports"
    )
    return site, target


def unknown_in_sweden(target: Target) -> int:
    return int(target.one("SELECT count(*) FROM demo.airports WHERE country = 'SE' AND elevation IS NULL"))


def document(site: Site, approval: dict[str, Any]) -> dict[str, Any]:
    answer = site.as_("frida").get(f"/approvals/{approval['id']}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def args_of(shown: dict[str, Any]) -> dict[str, Any]:
    return dict(shown["actions"][0]["args"])


def test_a_change_from_submit_over_an_edit_to_the_report(desk: tuple[Site, Target]) -> None:
    site, target = desk
    run = site.start("sql_change", statement=SWEDEN, why="0 means unknown")
    first = document(site, site.approval(run))
    edited = {**args_of(first), "statement": f"{SWEDEN} AND iata IS NOT NULL"}
    answer = site.decide(first, "edit", args=edited, comment="only those with a code")
    assert answer.status_code == 200, answer.text
    until(lambda: site.approval(run)["id"] != first["id"], what="asked again")
    again = document(site, site.approval(run))
    assert 0 < args_of(again)["rows"] < args_of(first)["rows"] == 58
    assert unknown_in_sweden(target) == 0
    assert site.decide(again).status_code == 200
    output = site.wait(run)["output"]
    assert (output["outcome"], output["checked"]["as_promised"]) == ("applied", True)
    assert unknown_in_sweden(target) == args_of(again)["rows"]
    assert_invariants(site, run)


def test_a_statement_that_is_not_let_through_ends_with_a_report(desk: tuple[Site, Target]) -> None:
    site, _ = desk
    run = site.start("sql_change", statement="COPY airports TO PROGRAM 'id'")
    output = site.wait(run)["output"]
    assert output["outcome"] == "refused"
    assert "COPY is none of INSERT, UPDATE and DELETE" in output["report"]
    assert site.one("SELECT count(*) FROM runs_approval WHERE run_id = %s", run) == 0


def test_data_that_changes_after_the_approval_is_asked_about_again(desk: tuple[Site, Target]) -> None:
    site, target = desk
    run = site.start("sql_change", statement=SWEDEN)
    first = site.approval(run)
    for worker in site.workers():
        site.stack.kill(worker)
    assert site.decide(first).status_code == 200
    target.do("UPDATE demo.airports SET elevation = 12 WHERE icao = 'ESSI'")
    site.stack.start_worker("w1")
    until(lambda: site.run(run)["status"] == "waiting" and site.approval(run)["id"] != first["id"], seconds=60,
          what="asked again")  # fmt: skip
    again = document(site, site.approval(run))
    assert "the data has changed since the approval" in again["reason"]
    assert args_of(again)["rows"] == 57
    assert target.one("SELECT count(*) FROM ledger.applied") == 0
    assert site.decide(again, by="felix").status_code == 200
    assert site.wait(run)["output"]["receipt"]["rows"] == 57
    assert target.one("SELECT elevation FROM demo.airports WHERE icao = 'ESSI'") == 12


def test_a_worker_killed_between_execution_and_checkpoint_applies_once(desk: tuple[Site, Target]) -> None:
    """The change is committed in its database, and hitl does not know it yet: the worst moment there is."""
    site, target = desk
    site.stack.end("w2")
    run = site.start(
        "sql_change", statement="UPDATE airports SET elevation = elevation + 1 WHERE icao = 'EDDF'"
    )
    before = target.one("SELECT elevation FROM demo.airports WHERE icao = 'EDDF'")
    approval = site.approval(run)
    # 1. The worker gets as far as the row that is changed.
    with target.holding("EDDF"):
        assert site.decide(approval).status_code == 200
        until(target.writers_waiting, what="the change waits for its row")
        # 2. From now on the worker cannot write down that it was done.
        journal = psycopg.connect(site.stack.database_url)
        journal.execute("LOCK TABLE runs_journalentry IN SHARE ROW EXCLUSIVE MODE")
    with closing(journal):
        until(lambda: target.one("SELECT count(*) FROM ledger.applied") == 1, what="the change is committed")
        site.stack.kill("w1")
        # Its last statement still stands in the queue for the lock, and would be executed without it.
        site.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE datname = current_database() AND wait_event_type = 'Lock'")  # fmt: skip
    # 3. Another worker takes over, and finds it done.
    site.stack.start_worker("w2")
    output = site.wait(run, seconds=90)["output"]
    assert (output["outcome"], output["receipt"]["repeated"]) == ("applied", True)
    assert output["checked"]["as_promised"] is True
    assert target.one("SELECT elevation FROM demo.airports WHERE icao = 'EDDF'") == before + 1
    assert target.one("SELECT count(*) FROM ledger.applied") == 1
    assert "hold" in site.stack.manage("verify_history", run).stdout
