"""A played run that goes on under another version of its workflow: the rules are the engine's, as for Postgres."""

from __future__ import annotations

from pathlib import Path

import pytest

from runs.errors import MigrationFailed, MigrationMissing
from runs.testing import PlayError, play
from tests.kit.plain_letters import first, second


def test_a_parked_run_goes_on_under_the_next_version() -> None:
    played = play(first(), {"note": "hello"})
    [asked] = played.approvals
    played.migrate(second())
    assert (played.status, played.state["remark"]) == ("waiting", "hello")
    assert [one.id for one in played.approvals] == [asked.id]
    played.decide("ask", "approve")
    assert (played.status, played.output["log"]) == ("completed", ["begin 1", "last 2"])
    assert played.kinds.count("state_migrated") == 1
    assert [point.kind for point in played.checkpoints] == ["input", "step", "migration", "answer", "step"]
    played.verify()


def test_a_rewind_to_what_is_stored_as_the_old_version_migrates_it_again() -> None:
    played = play(first(), {"note": "hello"}).migrate(second())
    old = played.checkpoint(0).document
    played.rewind(0, {"remark": "edited"})
    assert played.checkpoint(0).document == old
    assert (played.state["remark"], played.state["log"]) == ("edited", ["begin 2"])
    assert played.kinds.count("state_migrated") == 2
    played.decide("ask", "approve")
    assert played.status == "completed"


def test_a_renamed_node_is_found_under_its_new_name() -> None:
    played = play(first(), {"note": "hello"}).migrate(second(ask="confirm", renamed=True))
    assert played.approvals[0].node == "confirm"
    played.decide("confirm", "approve")
    assert played.status == "completed"


def test_what_cannot_be_migrated_stays_as_it_is() -> None:
    played = play(first(), {"note": "hello"})
    with pytest.raises(MigrationFailed, match="stands at 'ask'"):
        played.migrate(second(ask="confirm"))
    with pytest.raises(MigrationMissing):
        played.migrate(second(leads=False))
    played.decide("ask", "approve")
    assert played.output["log"] == ["begin 1", "last 1"]


def test_a_file_is_opened_with_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    play(first(), {"note": "hello"}, path=path).close()
    with pytest.raises(PlayError, match="another graph or schema"):
        play.open(path, second(leads=False))
    with play.open(path, second(), decisions={"ask": "approve"}) as played:
        assert (played.status, played.state["remark"]) == ("completed", "hello")
