"""`manage.py retention` and `manage.py erase`."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F

from runs import operations
from runs.engine import Workflow, canonical
from runs.models import AuditEntry, Checkpoint, Member, RetentionPolicy, Run
from tests.integration.core.conftest import House, database, define, house, pay_flow, without_flush
from tests.integration.core.test_retention import aged, completed

Define = Callable[..., Workflow]
__all__ = ["database", "define", "house", "without_flush"]


def said(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.fixture
def admin(house: House) -> str:
    Member.objects.filter(user=house.olga.user).update(roles=["operator", "admin"])
    return "olga"


@pytest.fixture
def ended(house: House, define: Define) -> Run:
    pay_flow(define("pay"))
    return completed(house)


def row_of(text: str, *starts: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[: len(starts)] == [*starts])


def test_show_says_what_holds_and_who_says_so(house: House, admin: str) -> None:
    text = said("retention", "show")
    assert row_of(text, "(default)") == ["(default)", "*", "90", "180", "90", "30", "90", "30", "730"]
    said("retention", "set", "completed=30", "failed=never")
    said("retention", "set", "completed=7", "--workflow", "pay", "--user", "olga")
    text = said("retention", "show")
    assert row_of(text, "demo", "*") == ["demo", "*", "30*", "never*", "90", "30", "90", "30", "730"]
    assert row_of(text, "demo", "pay") == ["demo", "pay", "7*", "never", "90", "30", "90", "30", "730"]
    told = canonical.loads(said("retention", "show", "--json"))
    assert told["on"] is True
    assert told["rules"][2]["from"]["completed_days"] == "workflow"
    assert told["rules"][2]["from"]["failed_days"] == "project"
    told = AuditEntry.objects.filter(verb="set_retention", method="command", outcome="done").order_by("id")
    assert list(told.values_list("user_name", "target", "reason")) == [
        ("", "*", '{"completed_days":30,"failed_days":0}'),
        ("olga", "pay", '{"completed_days":7}'),
    ]


def test_what_is_set_back_to_default_is_forgotten(house: House, admin: str) -> None:
    said("retention", "set", "completed=30")
    said("retention", "set", "completed=default")
    assert not RetentionPolicy.objects.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["completed=soon"], "a whole number of days, never, or default"),
        (["completed=0"], "a whole number of days, never, or default"),
        (["completed=99999"], "from 1 to 36500"),
        (["pigs=3"], "completed, failed, cancelled, compact, notes, waits, audit"),
        (["audit=3", "--workflow", "pay"], "belong to no workflow"),
        (["completed=3", "--project", "other"], "There are: demo"),
        (["completed=3", "--user", "frida"], "takes the role admin"),
        (["completed=3", "--user", "nobody"], "no member 'nobody'"),
    ],
)
def test_set_says_what_would_be_right(house: House, admin: str, words: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        said("retention", "set", *words)
    assert not RetentionPolicy.objects.exists()


def test_a_dry_run_says_rows_and_bytes_and_removes_nothing(house: House, ended: Run) -> None:
    """The dry run measures what is due only, and is right about it: the round then removes as many rows."""
    aged(ended)
    told = canonical.loads(said("retention", "run", "--dry-run", "--json"))
    mine = [size for size in told if size["what"] == "remove"]
    assert {(size["project"], size["workflow"]) for size in mine} == {("demo", "pay")}
    assert {size["table"]: size["rows"] for size in mine}["runs_event"] == ended.seq
    assert all(size["bytes"] > 28 * size["rows"] for size in mine)
    text = said("retention", "run", "--dry-run")
    assert row_of(text, "remove", "demo", "pay", "runs_run")[4] == "1"
    assert "Nothing was removed." in text
    assert Run.objects.filter(pk=ended.pk).exists()
    done = canonical.loads(said("retention", "run", "--json"))
    assert done["runs"] == 1
    assert done["rows"] == sum(size["rows"] for size in mine)
    assert said("retention", "run").endswith("Nothing was due.\n")


def test_a_dry_run_tells_what_compacting_would_take(house: House, ended: Run) -> None:
    aged(ended, 40)
    told = canonical.loads(said("retention", "run", "--dry-run", "--json"))
    [size] = [size for size in told if size["what"] == "compact"]
    done = canonical.loads(said("retention", "run", "--json"))
    assert size["rows"] == done["checkpoints"]


def test_a_dry_run_unpacks_no_document(house: House, ended: Run) -> None:
    """Sizes are as they lie on the disk: a megabyte that compresses well counts for what it takes."""
    aged(ended)
    long = canonical.dumps({"x": "x" * 1_000_000})
    Checkpoint.objects.filter(no=1).update(snapshot=long, patch=None, snapshot_no=F("no"))
    told = canonical.loads(said("retention", "run", "--dry-run", "--json"))
    size = next(size for size in told if size["table"] == "runs_checkpoint" and size["what"] == "remove")
    assert size["bytes"] < 100_000


def test_rounds_until_done(house: House, define: Define, settings: Any) -> None:
    pay_flow(define("pay"))
    for _ in range(3):
        aged(completed(house))
    settings.HITL_RETENTION_BATCH = 1
    assert canonical.loads(said("retention", "run", "--until-done", "--json"))["runs"] == 3


def test_erase_by_command(house: House, ended: Run) -> None:
    text = said("erase", str(ended.pk), "--user", "olga", "--reason", "asked by the person")
    assert text == f"{ended.pk}  erased; {ended.seq} events still verify\n"
    ended.refresh_from_db()
    assert ended.erased_at is not None
    assert said("verify_history").startswith("1 histories")
    entry = AuditEntry.objects.get(verb="erase")
    assert (entry.method, entry.user_name, entry.reason) == ("command", "olga", "asked by the person")


def test_erase_by_command_is_refused_as_everywhere(house: House, ended: Run) -> None:
    with pytest.raises(CommandError, match="takes the role"):
        said("erase", str(ended.pk), "--user", "frida", "--reason", "r")
    with pytest.raises(CommandError, match="no member 'nobody'"):
        said("erase", str(ended.pk), "--user", "nobody", "--reason", "r")
    operations.hold(actor=house.olga, run_id=ended.pk, reason="a lawsuit")
    with pytest.raises(CommandError, match="legal hold"):
        said("erase", str(ended.pk), "--user", "olga", "--reason", "r")
    assert connection.in_atomic_block is False
