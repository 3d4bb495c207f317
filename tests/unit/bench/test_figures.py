"""The benchmark's own arithmetic, and what it promises to write."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from bench.figures import Rounds, Row, p95, table, within, write
from bench.protocol import gaps
from hitl.env import root

FIELDS = ["name", "unit", "value", "p95", "ratio_to_raw", "peers", "limit", "ok"]


def rounds() -> Rounds:
    """Three rounds; in the second, the machine was ten times as slow."""
    found = Rounds()
    for slow in (1, 10, 1):
        found.add("raw", [1.0 * slow, 1.2 * slow, 9.0 * slow])
        found.add("ours", [2.0 * slow, 2.4 * slow, 2.6 * slow])
        found.add("peer", [4.8 * slow])
    return found


def test_a_ratio_is_taken_within_a_round() -> None:
    found = rounds()
    assert found.ratio("ours", "raw") == pytest.approx(2.0)
    assert found.ratio("ours", "peer") == pytest.approx(0.5)
    assert found.value("ours") == 2.4


def test_a_row_names_its_peers_and_not_the_raw_commit() -> None:
    row = rounds().row("step", of="ours")
    assert (row.peers, row.p95) == ({"peer": 4.8}, 26.0)
    assert row.ratio_to_raw == pytest.approx(2.0)


def test_the_95th_percentile_leaves_out_the_slowest_twentieth() -> None:
    assert p95(list(range(100))) == 95
    assert p95([7.0]) == 7.0


def test_gaps_are_milliseconds_without_the_first_ones() -> None:
    assert gaps([0.0, 1.0, 2.0, 3.0, 3.5, 3.75]) == [500.0, 250.0]


@pytest.mark.parametrize(("holds", "ok"), [((True, True), True), ((True, False), False)])
def test_a_limit_holds_only_as_a_whole(holds: tuple[bool, ...], ok: bool) -> None:
    row = within(Row("step", "ms", 1.0), "2 raw; below the peer", *holds)
    assert (row.limit, row.ok) == ("2 raw; below the peer", ok)
    assert ("ok" if ok else "MISSED") in table([row])


def test_results_are_a_list_of_rows_with_these_fields(tmp_path: Path) -> None:
    write([rounds().row("step", of="ours"), Row("odd", "x", None)], tmp_path / "results.json")
    told = json.loads((tmp_path / "results.json").read_text())
    assert [list(row) for row in told] == [FIELDS, FIELDS]
    assert told[0]["peers"] == {"peer": 4.8}
    assert (told[1]["value"], told[1]["ok"]) == (None, None)


# ---- the peers' venv

PIN = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


def pins(path: str) -> dict[str, str]:
    return dict(PIN.findall((root() / path).read_text()))


def test_both_locks_agree_about_what_they_share() -> None:
    """What is measured is what is shipped."""
    ours, theirs = pins("requirements.lock"), pins("bench/requirements.lock")
    differing = {
        name: (ours[name], theirs[name]) for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]
    }
    assert differing == {}


def test_what_we_need_and_every_peer_is_locked_with_a_hash_and_without_an_address() -> None:
    text = (root() / "bench/requirements.lock").read_text()
    project = tomllib.loads((root() / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["bench"]]
    assert {re.split(r"[>=\[]", name)[0] for name in needed} <= pins("bench/requirements.lock").keys()
    assert "://" not in text
    assert text.count("--hash=sha256:") >= len(pins("bench/requirements.lock"))
