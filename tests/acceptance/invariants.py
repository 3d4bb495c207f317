"""What must hold at the end of every case, whatever was done to it: I1 to I7."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from runs.engine import chain
from tests.acceptance.site import TERMINAL, Site, fresh_name
from tests.kit.waiting import until

ENDS = {"run_completed", "run_failed", "run_cancelled"}
AFTER_THE_END = {"run_rewound", "run_retried", "state_edited"}
_LOGGED = re.compile(r"^(?=\d\d:\d\d:\d\d [A-Z])", re.MULTILINE)  # where an entry of a log begins
CONNECTION = (  # how the loss of a connection that the test cut shows in a traceback
    "OperationalError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "AdminShutdown",
)


def assert_invariants(
    site: Site, *run_ids: str, expected: Sequence[str] = (), faults: Sequence[str] = (), consume: bool = True
) -> None:
    """expected: kinds of traceback that the injected fault explains. faults: texts of 5xx answers that it explains."""
    for run_id in run_ids:
        _one_result_a_step(site, run_id)
        _history_is_whole(site, run_id)
        _nothing_after_the_end(site, run_id)
        _one_state(site, run_id)
        _an_ended_run_owns_nothing(site, run_id)
    if consume:
        assert_all_consume(site)
    odd = [fault for fault in site.faults if not any(word in fault for word in faults)]
    assert not odd, odd
    tracebacks = _tracebacks(site, expected)
    assert not tracebacks, tracebacks


def _tracebacks(site: Site, expected: Sequence[str]) -> list[str]:
    """I4: unhandled faults in any log since the test began."""
    return [
        f"{path.stem}: {block}"
        for path in site.stack.logs.glob("*.log")
        for block in _LOGGED.split(_said(path, site.log_marks.get(path.name, 0)))
        if "Traceback (most recent call last)" in block and not any(word in block for word in expected)
    ]


def _said(path: Path, since: int) -> str:
    return path.read_bytes()[since:].decode(errors="replace")


def _one_result_a_step(site: Site, run_id: str) -> None:
    """I1: counted where results are: checkpoints and events, not in the step's own row. A fan-out's or a nested workflow's step
    has one more checkpoint, at its beginning; that is no result."""
    twice = site.sql(
        "SELECT event.branch, event.address, count(*), count(point.no) AS points FROM runs_event event"
        " LEFT JOIN runs_checkpoint point ON point.run_id = event.run_id AND point.no = event.checkpoint"
        " WHERE event.run_id = %s AND event.kind = 'step_completed'"
        " GROUP BY event.branch, event.address HAVING count(*) > 1 OR count(point.no) <> 1",
        run_id,
    )
    assert not twice, f"I1: {run_id}: {twice}"


def _history_is_whole(site: Site, run_id: str) -> None:
    """I2: 1..n without gap, hashes that follow from one another, and what was seen earlier is still the same."""
    with psycopg.connect(site.stack.database_url) as connection:
        # One snapshot: a live run must not move between the two statements.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        row = connection.execute("SELECT seq, head_hash FROM runs_run WHERE id = %s", [run_id]).fetchone()
        assert row is not None
        cursor = connection.cursor(row_factory=psycopg.rows.namedtuple_row)
        events: list[Any] = list(
            cursor.execute("SELECT * FROM runs_event WHERE run_id = %s ORDER BY seq", [run_id])
        )
    seq, head = row
    assert [event.seq for event in events] == list(range(1, seq + 1)), f"I2: {run_id}"
    broken = chain.check(events, head=bytes(head), seq=seq)
    assert broken is None, f"I2: {run_id}: {broken}"
    seen = site.marks.get(run_id)
    if seen is not None:
        assert bytes(events[seen[0] - 1].hash) == seen[1], f"I2: {run_id} was rewritten"
    site.marks[run_id] = (seq, bytes(head))


def _nothing_after_the_end(site: Site, run_id: str) -> None:
    """I3."""
    kinds = site.kinds(run_id)
    for before, after in itertools.pairwise(kinds):
        assert before not in ENDS or after in AFTER_THE_END, f"I3: {run_id}: {before}, then {after}"


def _one_state(site: Site, run_id: str) -> None:
    """I6: what the run says is what its head says. Taken from one moment: a live run moves."""

    def same() -> bool:
        run = site.run(run_id)
        head = site.as_("olga").get(f"/runs/{run_id}/checkpoints/{run['head_checkpoint']}")
        assert head.status_code == 200, head.text
        again = site.run(run_id)
        if again["head_checkpoint"] != run["head_checkpoint"]:
            return False
        assert head.json()["state"] == run["state"], f"I6: {run_id}"
        return True

    until(same, what=f"{run_id} stands still for a moment")


def _an_ended_run_owns_nothing(site: Site, run_id: str) -> None:
    """I7."""
    status = site.one("SELECT status FROM runs_run WHERE id = %s", run_id)
    if status not in TERMINAL:
        return
    owned = site.sql(
        """
        SELECT 'approval' AS what FROM runs_approval WHERE run_id = %(run)s AND status = 'open'
        UNION ALL SELECT 'wait' FROM runs_wait WHERE run_id = %(run)s AND closed_at IS NULL
        UNION ALL SELECT 'step ' || status FROM runs_step WHERE run_id = %(run)s
          AND (status IN ('ready', 'executing', 'waiting') OR token IS NOT NULL OR lease_until IS NOT NULL)
        """.replace("%(run)s", f"'{run_id}'")
    )
    assert not owned, f"I7: {run_id} is {status} and owns {owned}"


def assert_all_consume(site: Site) -> None:
    """I5: every worker takes something."""
    workers = site.workers()
    held = assert_takes_at_once(site, len(workers))
    assert held == set(workers), f"I5: {set(workers) - held} took nothing"


def assert_takes_at_once(site: Site, number: int) -> set[str]:
    """I5: so many runs stand at gates at the same time, each in another pool child. The names of the workers."""
    names = [fresh_name() for _ in range(number)]
    run_ids = [site.start("patient", name=name, stops=["middle"]) for name in names]
    for name in names:
        site.at_gate(f"{name}-middle")
    held = {site.holder(run_id) for run_id in run_ids}
    for name in names:
        site.ledger.open(f"{name}-middle")
    for run_id in run_ids:
        site.wait(run_id)
    return held
