"""python -m bench.data: fill a database as years of use would, and measure lists, pages and steps in it.

Rows are made by the database itself, of one table of runs and by two connections at once, sorted by run as they would not be in
life: that makes filling fast and changes no plan. Their histories have the right shape and size, but no chain that verifies:
nothing here reads them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from bench.cluster import Cluster
from bench.figures import Rounds, Row, median, p95, table, within, write
from bench.rows import raw

PAGES: Final = {"inbox": 50, "runs": 50, "run": 80}  # milliseconds that 95 of 100 may take
BATCH: Final = 5_000  # runs a transaction
FILLERS: Final = 2  # connections
ROWS: Final = (Path(__file__).parent / "data.sql").read_text()


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of each there is to be."""

    runs: int
    events: int
    checkpoints: int


def fill(cluster: Cluster, plan: Plan) -> None:
    """Fill the migrated database `big`, and bring it into the state in which it would be some time later."""
    with cluster.connect("big") as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(
            "CREATE UNLOGGED TABLE filling AS SELECT row_number() OVER (ORDER BY id) - 1 AS number, id"
            " FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %s)) made",
            [plan.runs],
        )
        connection.execute("ALTER TABLE filling ADD PRIMARY KEY (number)")
        batches = iter(range(0, plan.runs, BATCH))
        with ThreadPoolExecutor(FILLERS) as fillers:
            list(fillers.map(lambda _: _fill(cluster, plan, batches), range(FILLERS)))
        connection.execute("DROP TABLE filling")
        connection.execute("ALTER SYSTEM RESET autovacuum")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _fill(cluster: Cluster, plan: Plan, batches: Iterator[int]) -> None:
    """Take batches until there are none. Foreign keys and triggers rest: every row is made together with what it names."""
    with cluster.connect("big") as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        begun = time.monotonic()
        for done in count(1):
            first = next(batches, None)
            if first is None:
                return
            told = {
                "first": first,
                "last": first + BATCH - 1,
                "runs": plan.runs,
                "events": plan.events // plan.runs,
                "checkpoints": plan.checkpoints // plan.runs,
            }
            with connection.transaction():
                for statement in ROWS.split(";\n"):
                    connection.execute(cast(Any, statement), told)
            if done % 10 == 0:
                speed = done * BATCH / (time.monotonic() - begun)
                print(
                    f"{first:,} of {plan.runs:,} runs, {speed:,.0f}/s a filler", file=sys.stderr, flush=True
                )


def at_size(cluster: Cluster, plan: Plan, rounds: int) -> list[Row]:
    """Lists and pages in the full database, and steps in it beside steps in an empty one."""
    big = cluster.contender("big", "bench.ours", cluster.env(cluster.postgres.url("big")))
    empty = cluster.contender("empty", "bench.ours", cluster.env(cluster.ours("empty")))
    with cluster.connect() as connection:
        before = raw(connection, 100)
        lists = big.ask("listed", times=rounds * 10)
        pages = big.ask("pages", times=rounds * 10)
        floor = median([*before, *raw(connection, 100)])
    rows = []
    for name, took in lists.items():
        row = Row(f"{name} at {plan.runs:,} runs", "ms", median(took), p95(took), median(took) / floor)
        rows.append(within(row, "20 (p95)", p95(took) <= 20))
    for name, took in pages.items():
        row = Row(
            f"page of {name} at {plan.runs:,} runs", "ms", median(took), p95(took), median(took) / floor
        )
        rows.append(within(row, f"{PAGES[name]} (p95)", p95(took) <= PAGES[name]))
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
    begun = time.monotonic()
    fill(cluster, plan)
    with cluster.connect("big") as connection:
        size = connection.execute("SELECT pg_size_pretty(pg_database_size('big'))").fetchone()
        took = time.monotonic() - begun
        print(f"the database has {size and size[0]}, filled in {took:,.0f} s", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
