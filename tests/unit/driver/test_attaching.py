"""`ctx.attach`: journalled like a call."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from runs.driver import Completed, Context, Failed, secrets
from runs.engine.files import LIMIT
from runs.errors import AttachmentNotStored, TooManyAttachments
from tests.unit.driver.journal import Journal, run


def told(body: Any, journal: Journal, **how: Any) -> Any:
    outcome = run(body, journal, **how)
    assert isinstance(outcome, Completed), outcome
    return outcome.update


def refused(body: Any, journal: Journal) -> Any:
    outcome = run(body, journal)
    assert isinstance(outcome, Failed), outcome
    return outcome.facts["code"]


def test_a_replay_attaches_nothing_twice_even_if_the_content_comes_out_otherwise() -> None:
    journal, made = Journal(), iter(range(9))

    def body(state: Any, ctx: Context) -> Any:
        return [ctx.attach("a.txt", f"{next(made)}".encode()) for _ in range(2)]

    first, again = told(body, journal), told(body, journal)
    assert first == again
    assert first[0]["$attachment"] != first[1]["$attachment"]
    assert [file.body for file in journal.files] == [b"0", b"1"]


def test_the_id_stays_over_a_crash_before_the_commit() -> None:
    def body(state: Any, ctx: Context) -> Any:
        return ctx.attach("a.txt", b"a")

    assert told(body, Journal()) == told(body, Journal())


def test_another_name_at_its_place_is_a_mismatch() -> None:
    journal = Journal()
    told(lambda state, ctx: ctx.attach("a.txt", b"a"), journal)
    assert refused(lambda state, ctx: ctx.attach("b.txt", b"a"), journal) == "journal_mismatch"


def test_a_file_is_read_from_where_it_stands_and_an_async_node_attaches_too() -> None:
    journal, file = Journal(), io.BytesIO(b"head body")
    file.seek(5)

    async def body(state: Any, ctx: Context) -> Any:
        return ctx.attach("a.bin", file)["size"]

    assert told(body, journal) == 4
    assert journal.files[0].body == b"body"


@pytest.mark.parametrize(
    "content",
    [bytes(LIMIT + 1), io.BytesIO(bytes(LIMIT + 1)), io.StringIO("text"), "text", bytearray(b"a"), None],
    ids=["bytes", "file", "text file", "text", "bytearray", "nothing"],
)
def test_what_cannot_be_kept_is_refused_and_nothing_of_it_is_kept(content: Any) -> None:
    journal = Journal()
    assert refused(lambda state, ctx: ctx.attach("a", content), journal) == "invalid_call"
    assert (journal.files, journal.committed) == ([], [])


@pytest.mark.parametrize("error", [AttachmentNotStored(), TooManyAttachments()])
def test_a_storage_that_refuses_fails_the_call_and_the_node_may_do_without(error: Exception) -> None:
    journal = Journal(refuses_files=error)

    def body(state: Any, ctx: Context) -> Any:
        try:
            ctx.attach("a", b"a")
        except type(error):
            return "without"

    assert told(body, journal) == "without"


def test_no_secret_stands_in_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HITL_SECRET_BANK", "s3cret-value")
    journal = Journal()
    reference = told(lambda state, ctx: ctx.attach(f"{ctx.secret('bank')}.txt", b""), journal)
    secrets.forget()
    assert "s3cret" not in f"{reference}{journal.committed}"
