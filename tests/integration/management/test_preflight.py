"""`manage.py preflight`: what the code would do with every live run, with nothing written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.utils import InternalError, OperationalError

from runs import operations, store
from tests.integration.core.conftest import House, by_sql, database, house, without_flush
from tests.integration.core.test_versions import rows_of
from tests.kit.letters import NAME, First, deploy, forgotten, letters, parked, second

__all__ = ["database", "house", "without_flush"]


@pytest.fixture(autouse=True)
def only_here(house: House) -> Iterator[None]:
    with forgotten():
        yield


def told(*words: str) -> tuple[int, str, str]:
    """Exit status, and what was said on both channels."""
    out, err = StringIO(), StringIO()
    try:
        call_command("preflight", *words, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_code_that_has_every_version_is_fine(house: House) -> None:
    parked(house)
    deploy(letters(1, First), second())
    status, out, _ = told()
    assert status == 0
    assert "runs on" in out
    assert "Every live run can go on." in out


def test_without_live_runs_any_code_will_do(house: House) -> None:
    assert told()[:2] == (0, "No run is live: any code will do.\n")


def test_runs_that_would_be_migrated_are_tried_and_nothing_is_written(house: House) -> None:
    run, _ = parked(house)
    deploy(second())
    before = rows_of(run)
    status, out, _ = told("--json")
    found = json.loads(out)
    assert (status, found["fine"], found["runs"]) == (0, True, 1)
    [line] = found["lines"]
    assert (line["workflow"], line["version"], line["verdict"], line["detail"]) == (
        NAME,
        "1",
        "migrates",
        "to version 2",
    )
    assert line["examples"] == [str(run.pk)]
    assert rows_of(run) == before


@pytest.mark.parametrize(
    ("verdict", "flow"),
    [
        ("migration_missing", second(leads=False)),
        ("migration_failed", second(ask="confirm")),
        ("graph_changed_without_version", letters(1, First, ask="confirm")),
    ],
)
def test_what_would_stand_still_is_told_with_examples(house: House, verdict: str, flow: Any) -> None:
    run, _ = parked(house)
    deploy(flow)
    status, out, _ = told()
    assert status == 1
    assert verdict in out
    assert str(run.pk) in out
    assert "Something would stand still." in out


def test_a_deployment_that_goes_back_is_noticed(house: House) -> None:
    parked(house)
    by_sql("UPDATE runs_run SET workflow_version = '9'")
    deploy(second())
    assert "schema_newer_than_code" in told()[1]


def test_an_approval_that_was_tampered_with_is_told(house: House) -> None:
    parked(house)
    by_sql("UPDATE runs_approval SET document = replace(document, 'all', 'one')")
    deploy(second())
    status, out, _ = told()
    assert (status, "checkpoint_unreadable" in out) == (1, True)


def test_usage_and_trouble_have_a_status_of_their_own(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError):  # from the shell: status 2, by argparse
        call_command("preflight", "--nonsense")

    def away(**_: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(operations, "preflight", away)
    with pytest.raises(CommandError, match="does not answer") as caught:
        call_command("preflight")
    assert caught.value.returncode == 2


def test_the_server_itself_keeps_it_from_writing(house: House) -> None:
    def write() -> None:
        with transaction.atomic():
            store.refuse_to_write()
            by_sql("UPDATE runs_run SET status = 'queued'")

    with pytest.raises(InternalError, match="read-only transaction"):
        write()


def test_thousands_of_runs_are_looked_at_in_batches(house: House) -> None:
    """Rows are multiplied by SQL: what is tried is how many are read, not how they came to be."""
    run, _ = parked(house)
    with connection.cursor() as cursor:
        for table, key in (("runs_run", "id"), ("runs_checkpoint", "run_id")):
            cursor.execute(
                "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns"
                " WHERE table_name = %s AND column_name <> %s AND is_generated = 'NEVER'",
                [table, key],
            )
            columns = cursor.fetchone()[0]
            cursor.execute(
                f"INSERT INTO {table} ({key}, {columns})"
                f" SELECT md5('copy ' || n)::uuid, {columns} FROM {table}, generate_series(1, 3000) n WHERE {key} = %s",
                [run.pk],
            )
    deploy(second())
    status, out, err = told("--json")
    found = json.loads(out)
    assert (status, found["runs"], found["lines"][0]["runs"]) == (0, 3001, 3001)
    assert len(found["lines"][0]["examples"]) == 3
    batches = [line for line in err.splitlines() if line]
    assert batches[-1] == "3,001 live runs looked at"
    assert len(batches) == 16
