"""python -m bench.data: fill a database as years of use would, and measure lists and steps in it.

Rows come by COPY, sorted by run as they would not be in life: that makes filling fast and changes no plan. Their histories have
the right shape and size, but no chain that verifies: nothing here reads them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from bench.cluster import Cluster
from bench.figures import Rounds, Row, median, p95, table, within, write
from bench.rows import raw

BATCH: Final = 2_000  # runs a COPY
WAITING: Final = 100  # one run of so many waits for people
FAILED: Final = 50
TABLES: Final = {
    "runs_run": "id, project_id, workflow, workflow_version, fingerprint, status, waiting_for, requester_id, labels, input,"
    " error, version, epoch, branch, head, checkpoint_no, seq, head_hash, prev_hash, snapshot_no, patch_weight, snapshot_size,"
    " created_at, started_at, updated_at, finished_at",
    "runs_branch": "run_id, no, epoch, calls, generation, reason",
    "runs_event": "run_id, seq, kind, branch, epoch, checkpoint, node, address, actor, at, payload, salt, payload_hash, hash",
    "runs_checkpoint": "run_id, no, branch, parent, kind, node, address, epoch, snapshot_no, patch, snapshot, reason, created_at",
    "runs_step": "run_id, branch, address, lane, node, visit, status, epoch, failures, crashes, entries, checkpoint, ended_at",
    "runs_approval": "id, project_id, run_id, branch, address, node, epoch, status, version, title, document, digest, risk,"
    " teams, users, quorum, options, opened_at, outcome, closed_reason",
}
PATCH: Final = json.dumps(
    [
        {"op": "replace", "path": "/commits", "value": 7},
        {"op": "replace", "path": "/root/base/left", "value": 93},
        {"op": "replace", "path": "/root/lanes/0/step", "value": "0" * 32},
        {"op": "replace", "path": "/root/lanes/0/visit", "value": 8},
        {"op": "replace", "path": "/visits/again", "value": 8},
    ]
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each there is to be."""

    runs: int
    events: int
    checkpoints: int


def fill(connection: Any, plan: Plan, project: str, user: int) -> None:
    """Foreign keys and triggers rest meanwhile: every row is made together with what it names."""
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET synchronous_commit = off")
    ids = sorted(uuid.UUID(int=random.getrandbits(128), version=4) for _ in range(plan.runs))
    begun = time.monotonic()
    for start in range(0, plan.runs, BATCH):
        batch = [(start + offset, run) for offset, run in enumerate(ids[start : start + BATCH])]
        for name, columns in TABLES.items():
            with connection.cursor().copy(cast(Any, f"COPY {name} ({columns}) FROM STDIN")) as copy:
                for number, run in batch:
                    copy.write("".join(_ROWS[name](number, str(run), plan, project, user)))
        done = start + len(batch)
        if done % (BATCH * 25) == 0 or done == plan.runs:
            speed = done / (time.monotonic() - begun)
            print(f"{done:,} of {plan.runs:,} runs, {speed:,.0f}/s", file=sys.stderr, flush=True)
    connection.execute("SET session_replication_role = origin")
    connection.execute("VACUUM ANALYZE")
    connection.execute("CHECKPOINT")


def _moment(number: int, plan: Plan) -> datetime:
    """Runs come evenly over a year."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=330) * (number / plan.runs)


def _status(number: int) -> str:
    if number % WAITING == 0:
        return "waiting"
    return "failed" if number % FAILED == 1 else "completed"


def _address(number: int, place: int) -> str:
    return f"{number:016x}{place:016x}"


def _hash() -> str:
    return "\\\\x" + os.urandom(32).hex()


def _line(*values: object) -> str:
    return "\t".join("\\N" if value is None else str(value) for value in values) + "\n"


def _run(number: int, run: str, plan: Plan, project: str, user: int) -> Iterator[str]:
    at, status = _moment(number, plan), _status(number)
    events, points = plan.events // plan.runs, plan.checkpoints // plan.runs
    error = json.dumps({"code": "step_failed", "message": "no"}) if status == "failed" else None
    finished = None if status == "waiting" else at + timedelta(minutes=5)
    yield _line(
        run, project, f"flow_{number % 20}", "1", "0" * 16, status, "[]", user, "{}", '{"left":100}', error, 2, 1, 1,
        points - 1, points - 1, events, _hash(), _hash(), 0, 300, 400, at, at, at, finished,
    )  # fmt: skip


def _branch(number: int, run: str, plan: Plan, project: str, user: int) -> Iterator[str]:
    yield _line(run, 1, 1, "reuse", 0, "")


def _events(number: int, run: str, plan: Plan, project: str, user: int) -> Iterator[str]:
    at, salt, digest = _moment(number, plan), "\\\\x" + os.urandom(16).hex(), _hash()
    for seq in range(1, plan.events // plan.runs + 1):
        payload = json.dumps({"visit": seq})
        yield _line(
            run,
            seq,
            "step_completed",
            1,
            1,
            seq - 1,
            "again",
            _address(number, seq),
            "",
            at,
            payload,
            salt,
            digest,
            digest,
        )


def _checkpoints(number: int, run: str, plan: Plan, project: str, user: int) -> Iterator[str]:
    at = _moment(number, plan)
    snapshot = json.dumps(
        {"root": {"base": {"left": 100}, "lanes": {}, "order": []}, "visits": {}, "commits": 0}
    )
    yield _line(run, 0, 1, None, "input", "", "", 1, 0, None, snapshot, "", at)
    for no in range(1, plan.checkpoints // plan.runs):
        yield _line(run, no, 1, no - 1, "step", "again", _address(number, no), 1, 0, PATCH, None, "", at)


def _steps(number: int, run: str, plan: Plan, project: str, user: int) -> Iterator[str]:
    at = _moment(number, plan)
    for no in range(1, plan.checkpoints // plan.runs):
        yield _line(run, 1, _address(number, no), "0", "again", no, "completed", 1, 0, 0, 1, no, at)


def _approval(number: int, run: str, plan: Plan, project: str, user: int) -> Iterator[str]:
    if _status(number) == "waiting":
        teams = "{bench}" if number % (WAITING * 2) == 0 else "{others}"
        yield _line(
            uuid.uuid4(), project, run, 1, _address(number, 1), "confirm", 1, "open", 1, "Pay", '{"actions":[]}', "0" * 64,
            "high", teams, "{}", 1, "{}", _moment(number, plan), "", "",
        )  # fmt: skip


_ROWS: Final = {
    "runs_run": _run,
    "runs_branch": _branch,
    "runs_event": _events,
    "runs_checkpoint": _checkpoints,
    "runs_step": _steps,
    "runs_approval": _approval,
}


def at_size(cluster: Cluster, plan: Plan, rounds: int) -> list[Row]:
    """Lists in the full database, and steps in it beside steps in an empty one."""
    big = cluster.contender("big", "bench.ours", cluster.env(cluster.postgres.url("big")))
    empty = cluster.contender("empty", "bench.ours", cluster.env(cluster.ours("empty")))
    with cluster.connect() as connection:
        before = raw(connection, 100)
        pages = big.ask("listed", times=rounds * 10)
        floor = median([*before, *raw(connection, 100)])
    rows = []
    for name, took in pages.items():
        row = Row(f"{name} at {plan.runs:,} runs", "ms", median(took), p95(took), median(took) / floor)
        rows.append(within(row, "20 (p95)", p95(took) <= 20))
    found = Rounds()
    for contender in (big, empty):
        contender.ask("steps", count=50)
    for _ in range(rounds):
        found.add("big", big.ask("steps", count=100))
        found.add("empty", empty.ask("steps", count=100))
    row = Row(
        f"a step with {plan.checkpoints:,} checkpoints against an empty table",
        "x",
        found.ratio("big", "empty"),
    )
    rows.append(within(row, "1.2", (row.value or 9) <= 1.2))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.data", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--checkpoints", type=int, default=10_000_000)
    parser.add_argument(
        "--folder", type=Path, default=Path(".bench-data"), help="kept, so that filling is done once"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, default=Path("bench/results-at-size.json"))
    told = parser.parse_args()
    plan = Plan(told.runs, told.events, told.checkpoints)
    cluster = Cluster(told.folder.absolute())
    try:
        _filled(cluster, plan)
        rows = at_size(cluster, plan, told.rounds)
    finally:
        cluster.stop()
    print(table(rows))
    write(rows, told.output)
    return 0


def _filled(cluster: Cluster, plan: Plan) -> None:
    """Fill the database, unless it holds just so much already."""
    with cluster.connect("postgres") as admin:
        known = admin.execute("SELECT 1 FROM pg_database WHERE datname = 'big'").fetchone()
    if known:
        with cluster.connect("big") as connection:
            row = connection.execute("SELECT reltuples FROM pg_class WHERE relname = 'runs_event'").fetchone()
            if row is not None and abs(row[0] - plan.events) < plan.events * 0.05:
                return
    address = cluster.ours("big")
    with cluster.contender("first", "bench.ours", cluster.env(address)) as ours:
        ours.ask("token")  # answers once its project and member are there
    with cluster.connect("big") as connection:
        row = connection.execute(
            "SELECT project.id, member.user_id FROM runs_project project"
            " JOIN runs_member member ON member.project_id = project.id"
        ).fetchone()
        assert row is not None
        fill(connection, plan, str(row[0]), int(row[1]))
        size = connection.execute("SELECT pg_size_pretty(pg_database_size('big'))").fetchone()
        print(f"the database has {size and size[0]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
