"""A played run that is kept in one file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runs.engine import END, canonical
from runs.engine.position import state
from runs.errors import Unprocessable
from runs.testing import DecisionMissing, PlayError, edit, play
from tests.unit.testing.flows import paying, single


def test_a_file_is_opened_again_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "run.hitl"
    done: list[Any] = []
    first = play(paying(done), {"x": 7}, path=file)
    seen, at = first.history, first.now
    first.close()
    again = play.open(file, paying(done))
    assert (again.status, again.history, again.now, again.id) == ("waiting", seen, at, first.id)
    assert again.decide("confirm").output["log"][-1] == "paid 5"
    again.verify()
    again.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.hitl"]


KILLED = """
import os, sys
from tests.unit.testing.flows import paying
from runs.testing import play
done = []
flow = paying(done)
body = flow.nodes["pay"].body
def dying(state, ctx):
    action = ctx.approved("confirm")
    ctx.call(lambda: print("paid", ctx.key, flush=True), name="first")
    os._exit(9)
object.__setattr__(flow.nodes["pay"], "body", dying)
play(flow, path=sys.argv[1], decisions={"confirm": ["approve"]})
"""


def test_a_process_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """What was committed stays, a decision that was used is not used again, and the step is taken over."""
    file = tmp_path / "run.hitl"
    died = subprocess.run(
        [sys.executable, "-c", KILLED, str(file)], capture_output=True, text=True, check=False
    )
    assert (died.returncode, died.stdout.startswith("paid")) == (9, True), died.stderr
    flow = paying([])

    def pay(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.call(print, name="first"), ctx.attempt]}

    object.__setattr__(flow.nodes["pay"], "body", pay)
    again = play.open(file, flow, decisions={"confirm": ["approve"]})
    assert again.output["log"][1:] == [None, 2]
    assert (again.kinds.count("step_taken_over"), len(again.approvals)) == (1, 1)
    again.verify()


def test_every_checkpoint_of_a_long_run_reads_the_same_in_file_and_memory(tmp_path: Path) -> None:
    """Patches and snapshots among them."""
    flow = single(lambda state, ctx: {"log": ["x" * 200]}, loop_limit=60)
    flow.choose("only", lambda state: "only" if len(state.log) < 50 else END, to=["only", END])
    kept, fleeting = play(flow, path=tmp_path / "a"), play(flow)
    assert [canonical.dumps(point.document) for point in kept.checkpoints] == [
        canonical.dumps(point.document) for point in fleeting.checkpoints
    ]
    assert [len(state(point.document)["log"]) for point in kept.checkpoints] == list(range(51))
    rows = sqlite_rows(tmp_path / "a", kept)
    assert 1 < sum(snapshot is not None for snapshot in rows) < len(rows) / 2


def sqlite_rows(path: Path, played: Any) -> list[Any]:
    played.close()
    with sqlite3.connect(path) as db:
        return [row[0] for row in db.execute("SELECT snapshot FROM CheckpointRow ORDER BY no")]


def test_a_file_that_is_something_else_or_in_use_or_of_other_code_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run"
    held = play(paying([]), path=file)
    with pytest.raises(PlayError, match="is being played by another process, or was not closed"):
        play.open(file, paying([]))
    held.close()
    with pytest.raises(PlayError, match="holds a run already"):
        play(paying([]), path=file)
    with pytest.raises(PlayError, match="another graph or schema"):
        play.open(file, paying([], quorum=2))
    with pytest.raises(PlayError, match="There is no file"):
        play.open(tmp_path / "none", paying([]))
    (tmp_path / "text").write_text("no database, but long enough to look like one" * 100)
    with pytest.raises(PlayError, match="cannot be used as the file of a run"):
        play.open(tmp_path / "text", paying([]))
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(PlayError, match="holds something else"):
        play.open(tmp_path / "other", paying([]))


def test_a_play_that_lacks_a_decision_can_be_opened_again_with_it(tmp_path: Path) -> None:
    with pytest.raises(DecisionMissing):
        play(paying([]), path=tmp_path / "run", decisions={})
    again = play.open(tmp_path / "run", paying([]), decisions={"confirm": "reject"})
    assert again.output["log"][-1] == "sorry"


def test_an_input_that_is_refused_leaves_no_run_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(Unprocessable):
        play(paying([]), {"no": 1}, path=tmp_path / "run")
    assert play(paying([]), path=tmp_path / "run").decide("confirm", edit(amount=1)).status == "completed"
