"""The SQL change on the real engine, with its database beside; the test is the worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from pytest_django import Settings

from examples.sql_change import statement, target
from runs import operations, store
from runs.errors import ReasonRequired, Unprocessable
from runs.management.commands.demo_data import found_project, found_service
from runs.models import Approval, Run, Step, User, Vote, Wait
from runs.operations import ActionDecision, Answer
from runs.policies import Actor
from tests.kit.airports import Airports

SWEDEN = "UPDATE airports SET elevation = NULL WHERE elevation = 0 AND country = 'SE'"
ONE = "UPDATE airports SET city = 'Frankfurt' WHERE icao = 'EDDF'"


class Desk:
    """The demo's people, and the verbs of a change."""

    def __init__(self) -> None:
        self.project = found_project()
        self.shop = Actor(found_service(self.project), self.project, "token")

    def person(self, username: str) -> Actor:
        return Actor(User.objects.get(username=username), self.project, "session")

    def submit(self, statement: str, **input: str) -> Run:
        given = {"statement": statement, **input}
        return operations.submit(actor=self.shop, workflow="sql_change", input=given).run

    def work(self, run: Run) -> Run:
        """Be the worker, and the clock of retries, until the run waits for people or has ended."""
        while True:
            for step in Step.objects.filter(run=run, status="ready"):
                operations.advance(run_id=run.pk, branch=step.branch, address=step.address)
            if not Wait.objects.filter(run=run, kind="retry", closed_at=None).update(due_at=store.now()):
                break
            with store.own_connection() as lock:
                operations.sweep(lock)
        run.refresh_from_db()
        return run

    def ended(self, statement: str) -> dict[str, Any]:
        return output(self.work(self.submit(statement)))

    def parked(self, statement: str, **input: str) -> Approval:
        return self.asked(self.work(self.submit(statement, **input)))

    def asked(self, run: Run) -> Approval:
        return Approval.objects.get(run=run, status="open")

    def answer(
        self, approval: Approval, kind: str, *, edit: str = "", message: str = "", by: str = "frida"
    ) -> Run:
        """The answer alone; nobody works on it yet."""
        args = {**arguments(approval), "statement": edit} if edit else None
        answer = Answer(
            approval.pk,
            approval.version,
            approval.digest,
            [ActionDecision("apply_change", kind, args, message)],
        )
        (decided,) = operations.decide(actor=self.person(by), answers=[answer])
        assert decided.run is not None
        return decided.run

    def decide(self, approval: Approval, kind: str, **more: str) -> Run:
        return self.work(self.answer(approval, kind, **more))


@pytest.fixture
def desk(database: None, airports: Airports, settings: Settings) -> Iterator[Desk]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # nobody signs in here
    yield Desk()
    operations.leave()


def output(run: Run) -> dict[str, Any]:
    assert run.status == "completed", run.error
    return dict(json.loads(run.output or "null"))


def arguments(approval: Approval) -> dict[str, Any]:
    return dict(approval.content["actions"][0]["args"])


def facts(approval: Approval) -> dict[str, Any]:
    return {fact["label"]: fact["value"] for fact in approval.content["facts"]}


def unknown_in_sweden(airports: Airports) -> int:
    return int(airports.one("SELECT count(*) FROM demo.airports WHERE country = 'SE' AND elevation IS NULL"))


def ledger(airports: Airports) -> int:
    return int(airports.one("SELECT count(*) FROM ledger.applied"))


# ---- asking


def test_finance_sees_what_the_dry_run_counted(desk: Desk, airports: Airports) -> None:
    approval = desk.parked(
        f"{SWEDEN} -- 0 is unknown", why="Nobody lies at 0.", agent_note="Approve, it is safe."
    )
    shown = approval.content
    assert shown["title"] == "Update 58 airports: elevation"
    assert shown["agent_note"] == "Approve, it is safe."
    (action,) = shown["actions"]
    assert (action["tool"], action["effect"], action["risk"]) == ("apply_change", "irreversible", "low")
    assert action["editable"] == ["/statement"]
    assert action["allowed"] == ["approve", "edit", "reject"]
    assert action["args"]["statement"] == statement.read(SWEDEN).text
    assert action["args"]["rows"] == 58
    told = facts(approval)
    assert told["Rows"] == "58 of 28,298"
    assert told["Comments, not executed"] == "-- 0 is unknown"
    assert told["What for"] == "Nobody lies at 0."
    assert told["Query plan"].startswith("Update on airports")
    assert told["Rows locked for"].endswith(" ms")
    sample = told["Before and after, 5 of 58 rows"]
    assert sample["columns"] == ["icao", "name", "elevation before", "elevation after"]
    assert [row[2:] for row in sample["rows"]] == [[0.0, None]] * 5
    key, name, *_ = sample["rows"][0]
    assert airports.one("SELECT name FROM demo.airports WHERE icao = %s", key) == name


def test_the_dry_run_leaves_no_trace(desk: Desk, airports: Airports) -> None:
    desk.parked(SWEDEN)
    assert (unknown_in_sweden(airports), ledger(airports)) == (0, 0)
    assert airports.rows("SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
                         " WHERE d.datname = current_database() AND l.pid <> pg_backend_pid()") == []  # fmt: skip


@pytest.mark.parametrize(
    ("text", "risk"),
    [
        (ONE, "low"),
        ("UPDATE airports SET tz = 'Europe/Kyiv' WHERE country = 'SE'", "medium"),
        ("DELETE FROM airports WHERE icao = 'ESSI'", "medium"),
        ("DELETE FROM airports WHERE icao IN ('ESSI', 'ESUL')", "high"),
        ("UPDATE airports SET subd = upper(subd) WHERE country = 'BR'", "high"),
        ("UPDATE metro_airports SET city_name = upper(city_name)", "critical"),
        ("UPDATE metro_airports SET city_name = upper(city_name) WHERE country <> 'GB'", "critical"),
        ("INSERT INTO airports (icao, name) VALUES ('ZZZZ', 'New')", "low"),
    ],
)
def test_risk_comes_from_rows_share_and_kind(desk: Desk, airports: Airports, text: str, risk: str) -> None:
    approval = desk.parked(text)
    assert approval.content["actions"][0]["risk"] == risk
    assert facts(approval)["Risk"]


# ---- refused: an outcome with a reason, and nobody is asked


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("DROP TABLE airports", "DROP is none of INSERT, UPDATE and DELETE"),
        (
            "UPDATE airports SET name = pg_read_file('/etc/passwd')",
            "the function pg_read_file is not let through",
        ),
        ("DELETE FROM airports WHERE country = 'US'", "more than 5,000 airports"),
        ("DELETE FROM airports WHERE iata = 'LHR'", "foreign key violation"),
        ("INSERT INTO airports (icao) VALUES ('EDDF')", "unique violation"),
        ("UPDATE airports SET city = 'x' WHERE icao = 'none'", "no row"),
        ("UPDATE airports SET city = 'x' WHERE city_code = 'LON'", 'column "city_code" does not exist'),
        ("UPDATE airports SET lat = 91 WHERE icao = 'EDDF'", "check violation"),
    ],
)
def test_a_refused_statement_is_reported_and_nobody_is_asked(
    desk: Desk, airports: Airports, text: str, why: str
) -> None:
    result = desk.ended(text)
    assert result["outcome"] == "refused"
    assert why in result["report"]
    assert not Approval.objects.exists()
    assert ledger(airports) == 0


def test_an_input_that_is_too_long_is_refused_at_the_door(desk: Desk) -> None:
    with pytest.raises(Unprocessable) as caught:
        desk.submit("x" * 10_001)
    assert {problem.path for problem in caught.value.errors} == {"/statement"}


# ---- deciding


def test_an_approved_change_is_applied_verified_and_reported(desk: Desk, airports: Airports) -> None:
    run = desk.decide(desk.parked(SWEDEN), "approve")
    result = output(run)
    assert (result["outcome"], result["receipt"]["rows"], result["receipt"]["repeated"]) == (
        "applied",
        58,
        False,
    )
    assert result["checked"] == {"rows": 58, "as_promised": True}
    assert "Updated 58 airports of demo.airports" in result["report"]
    assert (unknown_in_sweden(airports), ledger(airports)) == (58, 1)
    assert airports.one("SELECT key FROM ledger.applied") == result["receipt"]["key"]
    call_command("verify_history", str(run.pk))


@pytest.mark.parametrize(
    ("text", "query", "before", "after"),
    [
        ("DELETE FROM airports WHERE icao = 'ESSI'", "SELECT count(*) FROM demo.airports WHERE icao = 'ESSI'", 1, 0),
        (
            "INSERT INTO airports (icao, name, lat) VALUES ('ZZZZ', 'Zürich ''X''', 0.1)",
            "SELECT count(*) FROM demo.airports WHERE icao = 'ZZZZ' AND name = 'Zürich ''X''' AND lat = 0.1", 0, 1,
        ),
        (
            "INSERT INTO metro_airports (iata, city_name) SELECT iata, city FROM airports WHERE icao = 'EDDM'",
            "SELECT count(*) FROM demo.metro_airports WHERE iata = 'MUC'", 0, 1,
        ),
    ],
)  # fmt: skip
def test_deletes_and_inserts_too(
    desk: Desk, airports: Airports, text: str, query: str, before: int, after: int
) -> None:
    approval = desk.parked(text)
    assert airports.one(query) == before
    result = output(desk.decide(approval, "approve"))
    assert (result["outcome"], result["checked"]["as_promised"]) == ("applied", True)
    assert airports.one(query) == after


def test_a_rejected_change_is_not_made_and_the_report_says_why(desk: Desk, airports: Airports) -> None:
    approval = desk.parked(SWEDEN)
    with pytest.raises(ReasonRequired):
        desk.decide(approval, "reject")
    result = output(desk.decide(approval, "reject", message="Ask the Swedes first."))
    assert result["outcome"] == "rejected"
    assert "Ask the Swedes first" in result["report"]
    assert (unknown_in_sweden(airports), ledger(airports)) == (0, 0)


def test_nobody_in_time_counts_as_rejected(desk: Desk, airports: Airports) -> None:
    approval = desk.parked(SWEDEN)
    Approval.objects.filter(pk=approval.pk).update(due_at=store.now())
    Wait.objects.filter(run=approval.run, kind="approval").update(due_at=store.now())
    with store.own_connection() as lock:
        operations.sweep(lock)
    result = output(desk.work(approval.run))
    assert result["outcome"] == "rejected"
    assert "nobody decided in time" in result["report"]
    assert ledger(airports) == 0


# ---- a reviewer's edit


def test_an_edited_statement_is_tried_anew_and_asked_again_with_the_difference(
    desk: Desk, airports: Airports
) -> None:
    first = desk.parked(SWEDEN)
    narrower = arguments(first)["statement"] + " AND iata IS NOT NULL"
    run = desk.decide(first, "edit", edit=narrower)
    assert not Vote.objects.exists()
    again = desk.asked(run)
    assert again.previous_id == first.pk
    assert again.content["reason"].startswith("Asked again, the statement was edited")
    assert arguments(again)["rows"] == airports.one(
        "SELECT count(*) FROM demo.airports WHERE elevation = 0 AND country = 'SE' AND iata IS NOT NULL"
    )
    assert arguments(again)["rows"] < 58
    difference = facts(again)["Difference to the last statement"]
    assert "+  elevation = 0 AND country = 'SE' AND iata IS NOT NULL" in difference
    result = output(desk.decide(again, "approve"))
    assert result["outcome"] == "applied"
    assert result["statement"] == arguments(again)["statement"]
    assert unknown_in_sweden(airports) == arguments(again)["rows"]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("DELETE FROM airports; DROP TABLE airports", "it holds several statements"),
        ("UPDATE airports SET name = pg_sleep(9)::text", "the function pg_sleep"),
        ("DELETE FROM airports WHERE country = 'US'", "more than 5,000 airports"),
        ("DELETE FROM airports WHERE icao = 'none'", "no row"),
    ],
)
def test_an_edit_that_is_not_let_through_leaves_the_statement_as_it_was(
    desk: Desk, airports: Airports, edit: str, why: str
) -> None:
    first = desk.parked(SWEDEN)
    again = desk.asked(desk.decide(first, "edit", edit=edit))
    assert why in again.content["reason"]
    assert arguments(again) == arguments(first)
    assert "Difference to the last statement" not in facts(again)
    assert output(desk.decide(again, "approve"))["receipt"]["rows"] == 58


def test_only_the_statement_may_be_edited(desk: Desk) -> None:
    approval = desk.parked(ONE)
    args = {**arguments(approval), "rows": 2}
    answer = Answer(
        approval.pk, approval.version, approval.digest, [ActionDecision("apply_change", "edit", args)]
    )
    with pytest.raises(Unprocessable) as caught:
        operations.decide(actor=desk.person("frida"), answers=[answer])
    assert [problem.path for problem in caught.value.errors] == ["/rows"]


# ---- the data changes in between


@pytest.mark.parametrize(
    ("meanwhile", "rows"),
    [
        ("UPDATE demo.airports SET name = 'Other' WHERE icao = 'ESSI'", 58),
        ("UPDATE demo.airports SET elevation = 12 WHERE icao = 'ESSI'", 57),
        ("UPDATE demo.airports SET elevation = 0 WHERE icao = 'ESSA'", 59),
        ("DELETE FROM demo.airports WHERE icao = 'ESSI'", 57),
    ],
)
def test_other_rows_than_those_shown_are_asked_about_again(
    desk: Desk, airports: Airports, meanwhile: str, rows: int
) -> None:
    first = desk.parked(SWEDEN)
    run = desk.answer(first, "approve")
    airports.admin.execute(meanwhile.encode())
    again = desk.asked(desk.work(run))
    assert again.pk != first.pk
    assert "the data has changed since the approval" in again.content["reason"]
    assert arguments(again)["rows"] == rows
    assert (unknown_in_sweden(airports), ledger(airports)) == (0, 0)
    assert output(desk.decide(again, "approve", by="felix"))["receipt"]["rows"] == rows
    assert (unknown_in_sweden(airports), ledger(airports)) == (rows, 1)


def test_values_that_come_from_other_rows_are_part_of_the_promise(desk: Desk, airports: Airports) -> None:
    """The rows that are written are the same, and so is the statement: only what it would write is not."""
    first = desk.parked(
        "UPDATE airports SET elevation = (SELECT max(elevation) FROM airports WHERE country = 'DE') WHERE icao = 'ESSI'"
    )
    run = desk.answer(first, "approve")
    airports.admin.execute("UPDATE demo.airports SET elevation = 9999 WHERE icao = 'EDDF'")
    again = desk.asked(desk.work(run))
    assert "would get other values" in again.content["reason"]
    assert facts(again)["Before and after, every row"]["rows"][0][-1] == 9999


def test_a_key_that_was_taken_meanwhile_is_reported(desk: Desk, airports: Airports) -> None:
    run = desk.answer(desk.parked("INSERT INTO airports (icao) VALUES ('ZZZZ')"), "approve")
    airports.admin.execute("INSERT INTO demo.airports (icao, name) VALUES ('ZZZZ', 'first')")
    result = output(desk.work(run))
    assert result["outcome"] == "given_up"
    assert "unique violation" in result["report"]
    assert airports.one("SELECT name FROM demo.airports WHERE icao = 'ZZZZ'") == "first"


def test_data_that_never_stands_still_is_given_up(desk: Desk, airports: Airports) -> None:
    run = desk.work(desk.submit(SWEDEN))
    for number in range(20):
        if run.status == "completed":
            break
        run = desk.answer(desk.asked(run), "approve")
        airports.admin.execute("UPDATE demo.airports SET name = %s WHERE icao = 'ESSI'", [f"Name {number}"])
        run = desk.work(run)
    result = output(run)
    assert result["outcome"] == "given_up"
    assert "the data has changed since the approval" in result["report"]
    assert (unknown_in_sweden(airports), ledger(airports)) == (0, 0)


# ---- once


def applied_by_hand(approval: Approval, key: str) -> dict[str, Any]:
    return target.apply(**arguments(approval), idempotency_key=key)


def test_what_was_applied_is_found_by_its_key_and_not_applied_twice(desk: Desk, airports: Airports) -> None:
    approval = desk.parked("UPDATE airports SET elevation = elevation + 1 WHERE icao = 'EDDF'")
    first, second = (applied_by_hand(approval, "one") for _ in range(2))
    assert (first["repeated"], second["repeated"]) == (False, True)
    assert first["applied_at"] == second["applied_at"]
    assert airports.one("SELECT elevation FROM demo.airports WHERE icao = 'EDDF'") == airports.one(
        "SELECT elevation + 1 FROM kept.airports WHERE icao = 'EDDF'"
    )


def test_another_change_under_the_same_key_is_refused(desk: Desk, airports: Airports) -> None:
    approval = desk.parked(ONE)
    applied_by_hand(approval, "one")
    with pytest.raises(target.AppliedAlready, match="calls: again"):
        target.apply(**{**arguments(approval), "rows": 2}, idempotency_key="one")


def test_a_text_that_is_not_what_was_written_anew_is_not_executed(desk: Desk, airports: Airports) -> None:
    approval = desk.parked(ONE)
    for other in (ONE, "DELETE FROM demo.airports"):
        with pytest.raises((target.Unfit, target.DataChanged)):
            target.apply(**{**arguments(approval), "statement": other}, idempotency_key="one")
    with pytest.raises(statement.Refused):
        target.apply(
            **{**arguments(approval), "statement": "DROP TABLE demo.airports"}, idempotency_key="one"
        )
    assert ledger(airports) == 0


def test_rows_that_somebody_holds_are_waited_for_with_patience(desk: Desk, airports: Airports) -> None:
    run = desk.answer(desk.parked(ONE), "approve")
    with psycopg.connect(airports.admin.info.dsn, password=airports.admin.info.password) as other:
        other.execute("SELECT 1 FROM demo.airports WHERE icao = 'EDDF' FOR UPDATE")
        step = Step.objects.get(run=run, status="ready")
        operations.advance(run_id=run.pk, branch=step.branch, address=step.address)
        step.refresh_from_db()
        assert step.failures == 1
        other.rollback()
    assert output(desk.work(run))["outcome"] == "applied"


# ---- rewind


def test_after_a_rewind_the_change_is_found_done(desk: Desk, airports: Airports) -> None:
    run = desk.decide(desk.parked(ONE), "approve")
    before = operations.preview_rewind(actor=desk.person("olga"), run_id=run.pk, checkpoint=3)
    assert [call.name for call in before.effects] == ["apply"]
    run = desk.work(
        operations.rewind(actor=desk.person("olga"), run_id=run.pk, checkpoint=3, reason="look again")
    )
    result = output(desk.decide(desk.asked(run), "approve"))
    assert result["outcome"] == "applied"
    assert ledger(airports) == 1
